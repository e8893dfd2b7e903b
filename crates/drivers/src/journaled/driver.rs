//! Accepts orders, performs them one at a time per machine, and keeps the journal.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use forewarn_core::Guid;
use tokio_util::sync::CancellationToken;

use super::job::{self, Hypervisor, Job, POLL_INTERVAL};
use super::journal::{Entry, Journal};
use super::pause_tracker::PauseTracker;
use super::step::Step;
use crate::clock::Clock;
use crate::order::{Action, MachineDriver, Order, OrderId, Outcome, Pending, Refusal};

/// A driver of the machines of one hypervisor.
pub struct JournaledDriver<H> {
    pub(crate) hypervisor: H,
    pub(crate) journal: Journal,
    holds: PauseTracker,
    running: Mutex<HashMap<Guid, Running>>,
    /// The boot of the operating system; None if it is unknown.
    boot: Option<String>,
    /// The clock of the deadlines of given orders. Within the driver, times are on the clock of the journal.
    clock: Clock,
}

/// An order in progress.
struct Running {
    id: OrderId,
    epoch: Option<u64>,
    is_migration: bool,
    signals: Signals,
}

impl Running {
    fn abandon(&self) {
        if self.is_migration {
            // libvirtd would continue the migration, so abort it instead of only abandoning the order.
            self.signals.abort.cancel();
        } else {
            self.signals.abandon.cancel();
        }
    }
}

/// Signals that tell an order in progress to end.
#[derive(Clone, Default)]
struct Signals {
    abort: CancellationToken,
    abandon: CancellationToken,
}

impl<H: Hypervisor> JournaledDriver<H> {
    /// Opens the journal, and creates its directory.
    pub(crate) fn new(hypervisor: H, journal: &Path) -> io::Result<JournaledDriver<H>> {
        JournaledDriver::with_clock(hypervisor, journal, read_boot_id(), Clock::of_program())
    }

    /// The same, in this boot of the operating system and with this clock.
    pub(super) fn with_clock(
        hypervisor: H,
        journal: &Path,
        boot: Option<String>,
        clock: Clock,
    ) -> io::Result<JournaledDriver<H>> {
        let journal = Journal::open(journal, boot.as_deref(), clock)?;
        let (holds, running) = (PauseTracker::new(journal.clock()), Mutex::new(HashMap::new()));
        Ok(JournaledDriver { hypervisor, journal, holds, running, boot, clock })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Guid, Running>> {
        self.running.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Ends an order that is no longer wanted, from where it stopped, if it is in the journal.
    async fn withdraw(&self, order: Order) -> Result<Outcome, Refusal> {
        let Some(entry) = self.journal.read(order.id.machine).map_err(Refusal::Journal)? else {
            return Ok(Outcome::Failed("withdrawn before it began".into()));
        };
        if !is_same(&entry.order, &order) {
            return Err(Refusal::Busy(entry.order.id));
        }
        // Its guest gets no more time to shut down than before.
        let deadline = order.deadline.min(entry.order.deadline);
        let (entry, guard) = self.accept(Order { action: entry.order.action, deadline, ..order })?;
        guard.signals.abort.cancel();
        Ok(self.carry_out(entry, &guard.signals).await)
    }

    /// Checks an order and writes it to the journal.
    fn accept(&self, order: Order) -> Result<(Entry, RunningGuard<'_, H>), Refusal> {
        let guard = self.enlist(&order)?;
        let begun = self.journal.read(order.id.machine).map_err(Refusal::Journal)?;
        let is_begun = begun.as_ref().is_some_and(|entry| is_same(&entry.order, &order));
        let order = order.with_deadline(begun.as_ref().map(|entry| entry.order.deadline), self.journal.now());
        let boot = self.boot.clone();
        // After the order is listed as running, so that an epoch that begins now is either read or signaled.
        let epoch = self.journal.epoch().map_err(Refusal::Journal)?;
        let entry = match begun {
            Some(entry) if !is_begun => return Err(Refusal::Busy(entry.order.id)),
            Some(entry) => {
                let is_abandoned = entry.is_abandoned || entry.outcome.is_none() && order.is_of_other_epoch(epoch);
                let term = order.term.max(entry.order.term);
                Entry { order: Order { term, ..order }, boot, is_abandoned, ..entry }
            }
            None => {
                self.check_term(order.term)?;
                if let Some((epoch, current)) = order.epoch.zip(epoch).filter(|_| order.is_of_other_epoch(epoch)) {
                    return Err(Refusal::OtherEpoch { epoch, current });
                }
                Entry { boot, ..Entry::new(order) }
            }
        };
        match self.write_accepted(&entry) {
            // The machine may be paused, and must not wait for a disk that is full.
            Err(error) if is_begun => {
                tracing::error!(order = %entry.order.id, %error, "cannot write the journal; continuing the order in progress");
            }
            other => other.map_err(Refusal::Journal)?,
        }
        Ok((entry, guard))
    }

    /// Refuses a new order of an earlier leader. One that was begun has to end in any case: the current term may be unknown,
    /// because the host has joined again or its copy is damaged.
    fn check_term(&self, term: u64) -> Result<(), Refusal> {
        let highest = self.journal.term().map_err(Refusal::Journal)?;
        if term < highest { Err(Refusal::LowerTerm { term, highest }) } else { Ok(()) }
    }

    fn write_accepted(&self, entry: &Entry) -> io::Result<()> {
        self.journal.raise_term(entry.order.term)?;
        self.journal.write(entry)
    }

    fn enlist(&self, order: &Order) -> Result<RunningGuard<'_, H>, Refusal> {
        let (id, epoch, is_migration) = (order.id, order.epoch, order.is_migration());
        let mut running = self.lock();
        if let Some(other) = running.get(&id.machine) {
            return Err(Refusal::Busy(other.id));
        }
        let signals = Signals::default();
        running.insert(id.machine, Running { id, epoch, is_migration, signals: signals.clone() });
        Ok(RunningGuard { driver: self, machine: id.machine, signals })
    }

    /// Performs an accepted order to its end, through restarts of the hypervisor.
    async fn carry_out(&self, mut entry: Entry, signals: &Signals) -> Outcome {
        let outcome = self.find_outcome(&mut entry, signals).await;
        (self.hypervisor.hook())(Step::Clear);
        while let Err(error) = self.hypervisor.clear(&entry).await {
            self.pause_after(&entry.order, &error).await;
        }
        outcome
    }

    /// The recorded outcome, or performs the order and records its outcome.
    async fn find_outcome(&self, entry: &mut Entry, signals: &Signals) -> Outcome {
        if let Some(outcome) = &entry.outcome {
            return outcome.clone();
        }
        // Kept until the outcome is recorded, through attempts that end because the hypervisor does not answer.
        let mut hold = None;
        let mut latest = self.journal.now();
        if entry.is_abandoned && entry.order.is_migration() {
            signals.abort.cancel();
        }
        let outcome = loop {
            let mut job = Job {
                hypervisor: &self.hypervisor,
                journal: &self.journal,
                holds: &self.holds,
                entry,
                abort: &signals.abort,
                latest: &mut latest,
                hold: &mut hold,
            };
            let is_abandoned = job.entry.is_abandoned;
            // Every step can be repeated, so an attempt can end anywhere.
            let ended = tokio::select! {
                biased;
                () = signals.abandon.cancelled(), if !is_abandoned => {
                    self.note_abandoned(entry);
                    continue;
                }
                ended = job::perform(&mut job) => ended,
            };
            match ended {
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

    fn note_abandoned(&self, entry: &mut Entry) {
        entry.is_abandoned = true;
        if let Err(error) = self.journal.write(entry) {
            tracing::error!(order = %entry.order.id, %error, "cannot write the journal; an abandoned order may go on after a restart");
        }
    }

    /// Abandons an order that waits in the journal.
    fn abandon_waiting(&self, order: OrderId) -> io::Result<()> {
        let entry =
            self.journal.read(order.machine)?.filter(|entry| entry.order.id == order && entry.outcome.is_none());
        if let Some(mut entry) = entry {
            self.note_abandoned(&mut entry);
        }
        Ok(())
    }

    async fn pause_after(&self, order: &Order, error: &H::Error) {
        tracing::warn!(order = %order.id, name = order.name, %error, "the hypervisor does not respond; retrying the order");
        self.hypervisor.forget_connection(order.id.machine, error);
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Marks a machine as busy while an order for it is in progress.
struct RunningGuard<'d, H: Hypervisor> {
    driver: &'d JournaledDriver<H>,
    machine: Guid,
    signals: Signals,
}

impl<H: Hypervisor> Drop for RunningGuard<'_, H> {
    fn drop(&mut self) {
        self.driver.lock().remove(&self.machine);
    }
}

impl<H: Hypervisor> MachineDriver for JournaledDriver<H> {
    fn perform(&self, order: Order) -> Pending<'_, Result<Outcome, Refusal>> {
        Box::pin(async move {
            let order = order.with_clock(self.journal.clock(), self.clock);
            if order.action == Action::Withdraw {
                return self.withdraw(order).await;
            }
            let (entry, guard) = self.accept(order)?;
            Ok(self.carry_out(entry, &guard.signals).await)
        })
    }

    fn abort(&self, order: OrderId) {
        if let Some(running) = self.lock().get(&order.machine).filter(|running| running.id == order) {
            running.signals.abort.cancel();
        }
    }

    fn abandon(&self, order: OrderId) {
        // Locked until the journal is written, so that the order does not begin meanwhile.
        let all = self.lock();
        match all.get(&order.machine) {
            Some(running) if running.id == order => running.abandon(),
            Some(_) => {}
            None => {
                if let Err(error) = self.abandon_waiting(order) {
                    tracing::error!(%order, %error, "cannot read the journal");
                }
            }
        }
    }

    fn set_epoch(&self, epoch: u64) -> Result<(), Refusal> {
        // Locked until the journal is written, so that no order of another epoch begins meanwhile.
        let all = self.lock();
        let written = match self.journal.epoch() {
            Ok(Some(known)) if known == epoch => Ok(()),
            Ok(_) | Err(_) => self.journal.set_epoch(epoch),
        };
        // Abandon them even if the disk is full: in that case, they would resume only after a restart.
        let is_stale = |running: &&Running| running.epoch.is_some_and(|own| own != epoch);
        all.values().filter(is_stale).for_each(Running::abandon);
        written.map_err(Refusal::Journal)
    }

    fn release(&self) -> Pending<'_, ()> {
        Box::pin(self.holds.release())
    }

    fn unfinished(&self) -> Result<Vec<Order>, Refusal> {
        let entries = self.journal.entries().map_err(Refusal::Journal)?;
        Ok(entries.into_iter().map(|entry| entry.order.with_clock(self.clock, self.journal.clock())).collect())
    }

    fn can_continue(&self, order: OrderId) -> bool {
        let entry = self.journal.read(order.machine).ok().flatten().filter(|entry| entry.order.id == order);
        entry.is_none_or(|entry| {
            let is_same_boot = entry.boot.is_some() && entry.boot == self.boot;
            let is_stale = self.journal.epoch().is_ok_and(|epoch| entry.order.is_of_other_epoch(epoch));
            is_same_boot || is_stale || entry.is_abandoned || entry.outcome.is_some()
        })
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

/// Whether an order of the journal is the given one. If the host was fenced in between, they are two.
fn is_same(begun: &Order, order: &Order) -> bool {
    begun.id == order.id && !begun.is_of_other_epoch(order.epoch)
}

/// Identifies the boot of the operating system.
fn read_boot_id() -> Option<String> {
    const PATH: &str = "/proc/sys/kernel/random/boot_id";
    let warn = |error: &io::Error| {
        tracing::warn!(%error, "cannot read {PATH}; orders in progress wait for the server after every restart");
    };
    let id = std::fs::read_to_string(PATH).inspect_err(warn).ok()?;
    Some(id.trim().to_owned())
}
