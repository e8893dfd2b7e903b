//! The faults of a server, shared by requests and the management side: a lock around the active faults, and a flag that
//! spares requests the lock while there are none.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forewarn_core::{MachineId, Name, Region, Timestamp};
use tokio::sync::Notify;

use super::active::{ActiveFaults, FaultContext, FaultEffects};
use super::{Fault, FaultEnd, FaultError, FaultId, NewFault};

pub struct Faults {
    /// Whether there are any faults.
    any: AtomicBool,
    active: Mutex<ActiveFaults>,
    changed: Notify,
    begun: Instant,
}

impl Default for Faults {
    fn default() -> Self {
        Faults { any: AtomicBool::new(false), active: Mutex::default(), changed: Notify::new(), begun: Instant::now() }
    }
}

impl Faults {
    pub fn has_any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    pub fn apply_to(&self, context: FaultContext) -> Option<FaultEffects> {
        self.change(|active| active.apply_to(&context))
    }

    /// Real time, for [`FaultContext`].
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// A fault with an ID of its own. It has no effect until it is added.
    pub fn prepare(
        &self,
        new: &NewFault,
        machine: Option<(MachineId, Name)>,
        now: Timestamp,
    ) -> Result<Fault, FaultError> {
        let mut active = self.lock();
        if active.is_full() {
            return Err(FaultError::TooMany);
        }
        Ok(new.begin(active.reserve_id(), machine, now))
    }

    pub fn add(&self, fault: Fault) -> Result<(), FaultError> {
        self.change(|active| active.add(fault))?;
        self.changed.notify_one();
        Ok(())
    }

    /// The active faults, oldest first.
    pub fn list(&self, now: Timestamp) -> Vec<Fault> {
        self.change(|active| {
            active.pass_time(now);
            active.all().cloned().collect()
        })
    }

    pub fn remove(&self, id: FaultId) -> Option<Fault> {
        self.change(|active| active.remove(id))
    }

    /// Ends the faults whose time is over or whose machine is gone, and returns all that ended since the last call.
    pub fn take_ended(&self, region: &Region, now: Timestamp) -> Vec<(Fault, FaultEnd)> {
        self.change(|active| {
            active.pass_time(now);
            active.end_orphans(region);
            active.take_ended()
        })
    }

    /// When the next fault ends by itself.
    pub fn next_end(&self) -> Option<Timestamp> {
        self.lock().next_end()
    }

    /// Waits until a fault is added or ends.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    fn change<T>(&self, change: impl FnOnce(&mut ActiveFaults) -> T) -> T {
        let mut active = self.lock();
        let result = change(&mut active);
        self.any.store(!active.is_empty(), Ordering::Relaxed);
        if active.has_ended() {
            self.changed.notify_one();
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, ActiveFaults> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
