//! The faults of a server, shared by requests and the management side: a lock around the shelf, and a flag that spares
//! requests the lock while there are no faults.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forewarn_core::{MachineId, Name, Region, Timestamp};
use tokio::sync::Notify;

use super::shelf::{Facts, Hit, Shelf};
use super::{Fault, FaultError, FaultId, NewFault, Over};

pub struct Faults {
    /// Whether there are any faults.
    any: AtomicBool,
    shelf: Mutex<Shelf>,
    changed: Notify,
    begun: Instant,
}

impl Default for Faults {
    fn default() -> Self {
        Faults { any: AtomicBool::new(false), shelf: Mutex::default(), changed: Notify::new(), begun: Instant::now() }
    }
}

impl Faults {
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    pub fn meet(&self, facts: Facts) -> Option<Hit> {
        self.change(|shelf| shelf.meet(&facts))
    }

    /// Real time, for [`Facts`].
    pub fn real(&self) -> Duration {
        self.begun.elapsed()
    }

    /// A fault with an ID of its own. It has no effect until it is added.
    pub fn prepare(
        &self,
        new: &NewFault,
        machine: Option<(MachineId, Name)>,
        now: Timestamp,
    ) -> Result<Fault, FaultError> {
        let mut shelf = self.shelf();
        if shelf.is_full() {
            return Err(FaultError::TooMany);
        }
        Ok(new.begin(shelf.number(), machine, now))
    }

    pub fn add(&self, fault: Fault) -> Result<(), FaultError> {
        self.change(|shelf| shelf.add(fault))?;
        self.changed.notify_one();
        Ok(())
    }

    /// The active faults, oldest first.
    pub fn list(&self, now: Timestamp) -> Vec<Fault> {
        self.change(|shelf| {
            shelf.pass_time(now);
            shelf.all().cloned().collect()
        })
    }

    pub fn remove(&self, id: FaultId) -> Option<Fault> {
        self.change(|shelf| shelf.remove(id))
    }

    /// Ends the faults whose time is over or whose machine is gone, and returns all that ended since the last call.
    pub fn take_ended(&self, region: &Region, now: Timestamp) -> Vec<(Fault, Over)> {
        self.change(|shelf| {
            shelf.pass_time(now);
            shelf.look_at(region);
            shelf.take_over()
        })
    }

    /// When the next fault ends by itself.
    pub fn next_end(&self) -> Option<Timestamp> {
        self.shelf().next_end()
    }

    /// Waits until a fault is added or ends.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    fn change<T>(&self, change: impl FnOnce(&mut Shelf) -> T) -> T {
        let mut shelf = self.shelf();
        let result = change(&mut shelf);
        self.any.store(!shelf.is_empty(), Ordering::Relaxed);
        if shelf.has_over() {
            self.changed.notify_one();
        }
        result
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
