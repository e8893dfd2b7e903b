//! Accepts orders, performs them one at a time per machine, and keeps the journal.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, MutexGuard};

use forewarn_core::Guid;
use forewarn_libvirt::{Error, Uuid};
use tokio_util::sync::CancellationToken;

use super::config::LibvirtConfig;
use super::holds::Holds;
use super::host::{Host, LOOK, is_connection_lost};
use super::inventory::DomainWatch;
use super::journal::{Entry, Journal};
use super::mark::Mark;
use super::step::Step;
use super::steps::{self, Job};
use crate::order::{Action, MachineDriver, Order, OrderId, Outcome, Pending, Refusal};

/// A record in a domain for which there is no order in the journal. It was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stray {
    pub domain: String,
    /// The order that the record names; None if it could not be read.
    pub order: Option<OrderId>,
    /// The host that the machine was to move to.
    pub target: Option<String>,
}

pub struct LibvirtDriver {
    config: LibvirtConfig,
    host: Host,
    journal: Journal,
    holds: Holds,
    running: Mutex<HashMap<Guid, Running>>,
}

/// An order in progress.
struct Running {
    id: OrderId,
    abort: CancellationToken,
}

impl LibvirtDriver {
    /// Opens the journal. Connects to libvirtd only when needed.
    ///
    /// # Errors
    ///
    /// If the directory of the journal cannot be created.
    pub fn open(config: LibvirtConfig) -> io::Result<LibvirtDriver> {
        let journal = Journal::open(&config.journal)?;
        let host = Host::new(config.host.clone(), config.target.clone());
        Ok(LibvirtDriver { config, host, journal, holds: Holds::default(), running: Mutex::new(HashMap::new()) })
    }

    /// Watches the domains of this host, on a connection of its own.
    ///
    /// # Errors
    ///
    /// If libvirtd cannot be reached.
    pub async fn watch(&self) -> Result<DomainWatch, Error> {
        DomainWatch::open(&self.config.target).await
    }

    /// Removes records that are not about an unfinished order of this host: in clones, in reverted snapshots, and in
    /// machines that have arrived from another host.
    ///
    /// # Errors
    ///
    /// If libvirtd or the journal cannot be read. Records may have been removed by then.
    pub async fn remove_strays(&self) -> Result<Vec<Stray>, Error> {
        let mut strays = Vec::new();
        for domain in self.host.connection().await.domains().await? {
            if !self.host.has_element(&domain).await? {
                continue;
            }
            let mark = self.host.mark(&domain).await?;
            if mark.as_ref().is_some_and(|mark| self.is_expected(mark, domain.uuid)) {
                continue;
            }
            self.host.set_mark(&domain, None).await?;
            let (order, target) = (mark.as_ref().map(|mark| mark.id), mark.and_then(|mark| mark.target));
            strays.push(Stray { domain: domain.name, order, target });
        }
        Ok(strays)
    }

    fn is_expected(&self, mark: &Mark, domain: Uuid) -> bool {
        let entry = self.journal.read(mark.id.machine).ok().flatten();
        mark.id.machine.0.to_be_bytes() == domain.0 && entry.is_some_and(|entry| entry.order.id == mark.id)
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
        let (entry, guard) = self.accept(Order { action: entry.order.action, ..order })?;
        guard.abort.cancel();
        Ok(self.carry_out(entry, &guard.abort).await)
    }

    /// Checks an order and writes it to the journal.
    fn accept(&self, order: Order) -> Result<(Entry, RunningGuard<'_>), Refusal> {
        let highest = self.journal.term().map_err(Refusal::Journal)?;
        if order.term < highest {
            return Err(Refusal::LowerTerm { term: order.term, highest });
        }
        let guard = self.enlist(order.id)?;
        let entry = match self.journal.read(order.id.machine).map_err(Refusal::Journal)? {
            Some(entry) if entry.order.id != order.id => return Err(Refusal::Busy(entry.order.id)),
            Some(entry) => Entry { order, ..entry },
            None => Entry::new(order),
        };
        if entry.order.term > highest {
            self.journal.set_term(entry.order.term).map_err(Refusal::Journal)?;
        }
        self.journal.write(&entry).map_err(Refusal::Journal)?;
        Ok((entry, guard))
    }

    fn enlist(&self, id: OrderId) -> Result<RunningGuard<'_>, Refusal> {
        let mut running = self.lock();
        if let Some(other) = running.get(&id.machine) {
            return Err(Refusal::Busy(other.id));
        }
        let abort = CancellationToken::new();
        running.insert(id.machine, Running { id, abort: abort.clone() });
        Ok(RunningGuard { driver: self, machine: id.machine, abort })
    }

    /// Performs an accepted order to its end, through restarts of libvirtd.
    async fn carry_out(&self, mut entry: Entry, abort: &CancellationToken) -> Outcome {
        let outcome = self.find_outcome(&mut entry, abort).await;
        while let Err(error) = self.clear(&entry).await {
            self.pause_after(&entry.order, &error).await;
        }
        outcome
    }

    /// The recorded outcome, or performs the order and records its outcome.
    async fn find_outcome(&self, entry: &mut Entry, abort: &CancellationToken) -> Outcome {
        if let Some(outcome) = &entry.outcome {
            return outcome.clone();
        }
        // Kept until the outcome is recorded, through attempts that end with the connection to libvirtd.
        let mut hold = None;
        let outcome = loop {
            let mut job = Job {
                host: &self.host,
                config: &self.config,
                journal: &self.journal,
                holds: &self.holds,
                entry,
                abort,
                hold: &mut hold,
            };
            match steps::perform(&mut job).await {
                Ok(outcome) => break outcome,
                Err(error) => self.pause_after(&entry.order, &error).await,
            }
        };
        (self.config.hook)(Step::RecordOutcome);
        entry.outcome = Some(outcome.clone());
        // Nothing is in progress on the machine any more, so a full disk only delays the report.
        while let Err(error) = self.journal.write(entry) {
            tracing::error!(order = %entry.order.id, %error, "cannot write the journal; the report waits");
            tokio::time::sleep(LOOK).await;
        }
        outcome
    }

    /// Removes the record from the domain, if the domain is still here and the record is about this order.
    async fn clear(&self, entry: &Entry) -> Result<(), Error> {
        (self.config.hook)(Step::Clear);
        let Some(domain) = self.host.find(entry.order.id.machine).await? else { return Ok(()) };
        match self.host.mark(&domain).await? {
            Some(mark) if mark.id == entry.order.id => self.host.set_mark(&domain, None).await,
            Some(_) | None => Ok(()),
        }
    }

    async fn pause_after(&self, order: &Order, error: &Error) {
        tracing::warn!(order = %order.id, name = order.name, %error, "continuing once libvirtd answers");
        if is_connection_lost(error) {
            self.host.forget_connection();
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Marks a machine as busy while an order for it is in progress.
struct RunningGuard<'d> {
    driver: &'d LibvirtDriver,
    machine: Guid,
    abort: CancellationToken,
}

impl Drop for RunningGuard<'_> {
    fn drop(&mut self) {
        self.driver.lock().remove(&self.machine);
    }
}

impl MachineDriver for LibvirtDriver {
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
