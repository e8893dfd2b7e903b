//! Accepts orders, performs them one at a time per machine, and keeps the journal.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use forewarn_core::Guid;
use tokio_util::sync::CancellationToken;

use super::holds::PauseTracker;
use super::job::{self, Hypervisor, Job, POLL_INTERVAL};
use super::journal::{Entry, Journal};
use super::step::Step;
use crate::order::{Action, MachineDriver, Order, OrderId, Outcome, Pending, Refusal};

/// A driver of the machines of one hypervisor.
pub struct JournaledDriver<H> {
    pub(crate) hypervisor: H,
    pub(crate) journal: Journal,
    holds: PauseTracker,
    running: Mutex<HashMap<Guid, Running>>,
}

/// An order in progress.
struct Running {
    id: OrderId,
    abort: CancellationToken,
}

impl<H: Hypervisor> JournaledDriver<H> {
    /// Opens the journal, and creates its directory.
    pub(crate) fn new(hypervisor: H, journal: &Path) -> io::Result<JournaledDriver<H>> {
        let journal = Journal::open(journal)?;
        Ok(JournaledDriver { hypervisor, journal, holds: PauseTracker::default(), running: Mutex::new(HashMap::new()) })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Guid, Running>> {
        self.running.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Ends an order that is no longer wanted, from where it stopped, if it is in the journal.
    async fn withdraw(&self, order: Order) -> Result<Outcome, Refusal> {
        let Some(entry) = self.journal.read(order.id.machine).map_err(Refusal::Journal)? else {
            return Ok(Outcome::Failed("withdrawn before it began".into()));
        };
        if entry.order.id != order.id {
            return Err(Refusal::Busy(entry.order.id));
        }
        // Its guest gets no more time to shut down than before.
        let deadline = order.deadline.min(entry.order.deadline);
        let (entry, guard) = self.accept(Order { action: entry.order.action, deadline, ..order })?;
        guard.abort.cancel();
        Ok(self.carry_out(entry, &guard.abort).await)
    }

    /// Checks an order and writes it to the journal.
    fn accept(&self, order: Order) -> Result<(Entry, RunningGuard<'_, H>), Refusal> {
        let highest = self.journal.term().map_err(Refusal::Journal)?;
        if order.term < highest {
            return Err(Refusal::LowerTerm { term: order.term, highest });
        }
        let guard = self.enlist(order.id)?;
        let begun = self.journal.read(order.id.machine).map_err(Refusal::Journal)?;
        let is_begun = begun.is_some();
        let order = order.with_deadline(begun.as_ref().map(|entry| entry.order.deadline), job::now());
        let entry = match begun {
            Some(entry) if entry.order.id != order.id => return Err(Refusal::Busy(entry.order.id)),
            Some(entry) => Entry { order, ..entry },
            None => Entry::new(order),
        };
        match self.write_accepted(&entry, highest) {
            // The machine may be paused, and must not wait for a disk that is full.
            Err(error) if is_begun => {
                tracing::error!(order = %entry.order.id, %error, "cannot write the journal; continuing an order that was begun");
            }
            other => other.map_err(Refusal::Journal)?,
        }
        Ok((entry, guard))
    }

    fn write_accepted(&self, entry: &Entry, highest_term: u64) -> io::Result<()> {
        if entry.order.term > highest_term {
            self.journal.set_term(entry.order.term)?;
        }
        self.journal.write(entry)
    }

    fn enlist(&self, id: OrderId) -> Result<RunningGuard<'_, H>, Refusal> {
        let mut running = self.lock();
        if let Some(other) = running.get(&id.machine) {
            return Err(Refusal::Busy(other.id));
        }
        let abort = CancellationToken::new();
        running.insert(id.machine, Running { id, abort: abort.clone() });
        Ok(RunningGuard { driver: self, machine: id.machine, abort })
    }

    /// Performs an accepted order to its end, through restarts of the hypervisor.
    async fn carry_out(&self, mut entry: Entry, abort: &CancellationToken) -> Outcome {
        let outcome = self.find_outcome(&mut entry, abort).await;
        (self.hypervisor.hook())(Step::Clear);
        while let Err(error) = self.hypervisor.clear(&entry).await {
            self.pause_after(&entry.order, &error).await;
        }
        outcome
    }

    /// The recorded outcome, or performs the order and records its outcome.
    async fn find_outcome(&self, entry: &mut Entry, abort: &CancellationToken) -> Outcome {
        if let Some(outcome) = &entry.outcome {
            return outcome.clone();
        }
        // Kept until the outcome is recorded, through attempts that end because the hypervisor does not answer.
        let mut hold = None;
        let outcome = loop {
            let mut job = Job {
                hypervisor: &self.hypervisor,
                journal: &self.journal,
                holds: &self.holds,
                entry,
                abort,
                hold: &mut hold,
            };
            match job::perform(&mut job).await {
                Ok(outcome) => break outcome,
                Err(error) => self.pause_after(&entry.order, &error).await,
            }
        };
        (self.hypervisor.hook())(Step::RecordOutcome);
        entry.outcome = Some(outcome.clone());
        // Nothing is in progress on the machine any more, so a full disk only delays the report.
        while let Err(error) = self.journal.write(entry) {
            tracing::error!(order = %entry.order.id, %error, "cannot write the journal; the report waits");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        outcome
    }

    async fn pause_after(&self, order: &Order, error: &H::Error) {
        tracing::warn!(order = %order.id, name = order.name, %error, "continuing once the hypervisor answers");
        self.hypervisor.forget_connection(order.id.machine, error);
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Marks a machine as busy while an order for it is in progress.
struct RunningGuard<'d, H: Hypervisor> {
    driver: &'d JournaledDriver<H>,
    machine: Guid,
    abort: CancellationToken,
}

impl<H: Hypervisor> Drop for RunningGuard<'_, H> {
    fn drop(&mut self) {
        self.driver.lock().remove(&self.machine);
    }
}

impl<H: Hypervisor> MachineDriver for JournaledDriver<H> {
    fn perform(&self, order: Order) -> Pending<'_, Result<Outcome, Refusal>> {
        Box::pin(async move {
            if order.action == Action::Withdraw {
                return self.withdraw(order).await;
            }
            let (entry, guard) = self.accept(order)?;
            Ok(self.carry_out(entry, &guard.abort).await)
        })
    }

    fn abort(&self, order: OrderId) {
        if let Some(running) = self.lock().get(&order.machine).filter(|running| running.id == order) {
            running.abort.cancel();
        }
    }

    fn release(&self) -> Pending<'_, ()> {
        Box::pin(self.holds.release())
    }

    fn unfinished(&self) -> Result<Vec<Order>, Refusal> {
        let entries = self.journal.entries().map_err(Refusal::Journal)?;
        Ok(entries.into_iter().map(|entry| entry.order).collect())
    }

    fn confirm(&self, order: OrderId) -> Result<(), Refusal> {
        match self.journal.read(order.machine).map_err(Refusal::Journal)? {
            Some(entry) if entry.order.id == order && entry.outcome.is_some() => {
                self.journal.remove(order.machine).map_err(Refusal::Journal)
            }
            Some(_) | None => Ok(()),
        }
    }
}
