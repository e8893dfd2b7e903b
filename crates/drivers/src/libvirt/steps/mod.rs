//! The sequences of steps. Each is a loop that looks at the machine and its record and takes the next step, so that a
//! crash, a restart of libvirtd and the first attempt are the same case.

mod cycle;
mod hold;
mod migrate;
mod remove;

use std::io;

use forewarn_core::Timestamp;
use forewarn_libvirt::{CreateFlags, Domain, Error, State, StateInfo};
use tokio_util::sync::CancellationToken;

use super::config::LibvirtConfig;
use super::holds::{Hold, Holds};
use super::host::{Host, is_connection_lost, now};
use super::journal::{Entry, Journal};
use super::mark::{Mark, Stage};
use super::step::Step;
use crate::order::{Action, Eviction, Outcome, RebootMode};

/// The reason why a step failed.
enum Trouble {
    /// The connection to libvirtd ended. Perform the order again.
    Lost(Error),
    /// The order fails with this text.
    Failed(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        if is_connection_lost(&error) { Trouble::Lost(error) } else { Trouble::Failed(error.to_string()) }
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Failed(format!("cannot write the journal: {error}"))
    }
}

type Progress<T> = Result<T, Trouble>;

/// An order in progress, and what its steps work with.
pub struct Job<'j> {
    pub host: &'j Host,
    pub config: &'j LibvirtConfig,
    pub journal: &'j Journal,
    pub holds: &'j Holds,
    pub entry: &'j mut Entry,
    pub abort: &'j CancellationToken,
    /// Taken while the order may keep the machine paused.
    pub hold: &'j mut Option<Hold>,
}

/// Performs an order from its recorded stage to its end.
///
/// # Errors
///
/// If the connection to libvirtd ended. The records say how far the order got: perform it again.
pub async fn perform(job: &mut Job<'_>) -> Result<Outcome, Error> {
    let failed = match perform_action(job).await {
        Ok(outcome) => return Ok(outcome),
        Err(Trouble::Lost(error)) => return Err(error),
        Err(Trouble::Failed(reason)) => reason,
    };
    match job.release().await {
        Ok(()) => Ok(Outcome::Failed(failed)),
        Err(Trouble::Lost(error)) => Err(error),
        Err(Trouble::Failed(reason)) => Ok(Outcome::Failed(format!("{failed}; then: {reason}"))),
    }
}

async fn perform_action(job: &mut Job<'_>) -> Progress<Outcome> {
    match job.entry.order.action.clone() {
        Action::Freeze { duration } => hold::freeze(job, duration).await,
        Action::Reboot(RebootMode::Hard) => hold::reset(job).await,
        Action::Reboot(RebootMode::Graceful) => cycle::reboot(job).await,
        Action::Redeploy { to } => cycle::redeploy(job, &to).await,
        Action::Start => cycle::start(job).await,
        Action::Migrate { to } => migrate::migrate(job, &to).await,
        Action::Evict(Eviction::Deallocate) => cycle::deallocate(job).await,
        Action::Evict(Eviction::Delete) => remove::evict(job).await,
        Action::Terminate => remove::terminate(job).await,
        Action::Withdraw => Err(Trouble::Failed("withdrawn".into())),
    }
}

impl Job<'_> {
    /// Called before each step.
    fn reach(&self, step: Step) {
        (self.config.hook)(step);
    }

    async fn look(&self) -> Progress<Option<(Domain, StateInfo)>> {
        Ok(self.host.look(self.entry.order.id.machine).await?)
    }

    /// The record of this order in the domain; None if the order has not begun there.
    async fn mark(&self, domain: &Domain) -> Progress<Option<Mark>> {
        let mark = self.host.mark(domain).await?;
        Ok(mark.filter(|mark| mark.id == self.entry.order.id))
    }

    /// Records a stage in the domain, then in the journal.
    async fn record(&mut self, domain: &Domain, stage: Stage) -> Progress<()> {
        self.reach(match stage {
            Stage::Begun => Step::RecordBegun,
            Stage::Held => Step::RecordHeld,
            Stage::Down => Step::RecordDown,
            Stage::Done => Step::RecordDone,
        });
        let order = &self.entry.order;
        let target = match &order.action {
            Action::Migrate { to } | Action::Redeploy { to } => Some(to.name.clone()),
            Action::Freeze { .. }
            | Action::Reboot(_)
            | Action::Start
            | Action::Evict(_)
            | Action::Terminate
            | Action::Withdraw => None,
        };
        let source = self.host.name.clone();
        let mark = Mark { id: order.id, term: order.term, stage, since: now(), source, target };
        self.host.set_mark(domain, Some(&mark)).await?;
        self.entry.stage = Some(stage);
        self.journal.write(self.entry)?;
        Ok(())
    }

    /// Lets the machine run again if this order has paused it or shut it down.
    async fn release(&self) -> Progress<()> {
        let Some((domain, info)) = self.look().await? else { return Ok(()) };
        if self.mark(&domain).await?.is_none() {
            return Ok(());
        }
        let connection = self.host.connection().await;
        match self.entry.order.action {
            Action::Freeze { .. } | Action::Reboot(RebootMode::Hard) if info.state == State::Paused => {
                connection.resume(&domain).await?;
            }
            Action::Reboot(RebootMode::Graceful) | Action::Redeploy { .. }
                if !info.state.is_active() && !self.entry.was_off =>
            {
                connection.start(&domain, CreateFlags::NONE).await?;
            }
            Action::Freeze { .. }
            | Action::Reboot(_)
            | Action::Redeploy { .. }
            | Action::Migrate { .. }
            | Action::Start
            | Action::Evict(_)
            | Action::Terminate
            | Action::Withdraw => {}
        }
        Ok(())
    }

    fn deadline(&self) -> Timestamp {
        self.entry.order.deadline
    }

    /// Fails if the deadline has passed or the order is to end early.
    fn check_time(&self) -> Progress<()> {
        if self.abort.is_cancelled() {
            return Err(Trouble::Failed("aborted".into()));
        }
        if now() >= self.deadline() {
            return Err(Trouble::Failed("the deadline has passed".into()));
        }
        Ok(())
    }

    /// Waits until a time, but not past the deadline, and not if the order is to end early.
    async fn wait_until(&self, time: Timestamp) {
        let wait = time.min(self.deadline()).since(now());
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = self.abort.cancelled() => {}
        }
    }
}

fn not_running(info: StateInfo) -> Trouble {
    Trouble::Failed(match info.state {
        State::Paused => "the machine is paused, and not by this order".into(),
        State::ShutOff | State::Crashed => "the machine is not running".into(),
        State::Running | State::Blocked | State::ShuttingDown | State::PmSuspended | State::Other(_) => {
            format!("the machine is in state {:?}", info.state)
        }
    })
}

fn inconsistent(stage: Stage) -> Trouble {
    Trouble::Failed(format!("the record of the machine says '{}', which this action never writes", stage.as_str()))
}
