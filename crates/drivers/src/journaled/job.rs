//! An order in progress, and the hypervisor as the shared sequences of steps see it. Each sequence is a loop that looks at
//! the machine and its record and takes the next step, so that a crash, a lost connection and the first attempt are the
//! same case.

use std::fmt;
use std::io;
use std::time::Duration;

use forewarn_core::{Guid, Timestamp};
use tokio_util::sync::CancellationToken;

use super::journal::{Entry, Journal};
use super::pause_tracker::{PauseGuard, PauseTracker};
use super::step::{Stage, Step, StepHook};
use super::{pause, power_cycle};
use crate::order::{Action, Eviction, HostAddress, Outcome, RebootMode};

/// Interval between two looks at the state of a machine. Looking cannot miss anything, unlike events across a lost
/// connection, and costs a fraction of a millisecond.
pub const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The outcome of an abandoned order.
pub const ABANDONED: &str = "the host was restarted or fenced, and the order is no longer wanted";

/// The reason why a step failed.
pub enum StepError<E> {
    /// The hypervisor does not answer. Perform the order again.
    Unreachable(E),
    /// The order fails with this text.
    Failed(String),
}

impl<E> From<io::Error> for StepError<E> {
    fn from(error: io::Error) -> StepError<E> {
        StepError::Failed(format!("cannot write the journal: {error}"))
    }
}

impl<E> From<String> for StepError<E> {
    fn from(reason: String) -> StepError<E> {
        StepError::Failed(reason)
    }
}

pub type StepResult<T, H> = Result<T, StepError<<H as Hypervisor>::Error>>;

/// The state of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineState {
    Running,
    Paused,
    Off,
    /// A process exists, but its state is another one. The text is the hypervisor's.
    Busy(String),
    /// Neither on nor off, such as a state of a newer hypervisor.
    Unknown(String),
}

impl MachineState {
    /// Whether there is a process, paused or not.
    pub fn is_active(&self) -> bool {
        match self {
            MachineState::Running | MachineState::Paused | MachineState::Busy(_) => true,
            MachineState::Off | MachineState::Unknown(_) => false,
        }
    }
}

/// A machine that exists on this host.
pub struct LocatedMachine<M> {
    pub machine: M,
    pub state: MachineState,
}

/// The recorded stage of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageRecord {
    pub stage: Stage,
    pub since: Timestamp,
}

/// A hypervisor. All calls can be repeated.
pub trait Hypervisor: Send + Sync + Sized {
    /// The hypervisor does not answer.
    type Error: fmt::Display + Send + Sync;
    /// A machine as `inspect` found it.
    type Machine: Send + Sync;

    /// Called before each step.
    fn hook(&self) -> &StepHook;

    /// None if the machine does not exist on this host.
    fn inspect(
        &self,
        machine: Guid,
    ) -> impl Future<Output = StepResult<Option<LocatedMachine<Self::Machine>>, Self>> + Send;

    /// How far this order got on the machine; None if it has not begun there.
    fn read_stage(
        &self,
        entry: &Entry,
        machine: &Self::Machine,
    ) -> impl Future<Output = StepResult<Option<StageRecord>, Self>> + Send;

    /// Records a stage in the machine. The journal is written afterwards.
    fn record(
        &self,
        entry: &Entry,
        machine: &Self::Machine,
        reached: StageRecord,
    ) -> impl Future<Output = StepResult<(), Self>> + Send;

    /// Removes the record from the machine, if the machine is still here and the record is about this order.
    fn clear(&self, entry: &Entry) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Called after a call was lost, before the next one.
    fn forget_connection(&self, machine: Guid, error: &Self::Error);

    fn suspend(&self, machine: &Self::Machine) -> impl Future<Output = StepResult<(), Self>> + Send;
    fn resume(&self, machine: &Self::Machine) -> impl Future<Output = StepResult<(), Self>> + Send;
    fn reset(&self, machine: &Self::Machine) -> impl Future<Output = StepResult<(), Self>> + Send;

    /// Starts a machine that does not run.
    fn start(job: &Job<'_, Self>, machine: &Self::Machine) -> impl Future<Output = StepResult<(), Self>> + Send;

    /// Asks the guest to shut down. A machine that has just shut down is as wanted.
    fn shutdown(&self, machine: &Self::Machine) -> impl Future<Output = StepResult<(), Self>> + Send;

    /// Powers the machine off, if it runs.
    fn destroy(&self, machine: &Self::Machine) -> impl Future<Output = StepResult<(), Self>> + Send;

    /// Ends what is left of the process of a guest that has shut down.
    fn end_process(&self, machine: &Self::Machine) -> impl Future<Output = StepResult<(), Self>> + Send;

    /// Fails if the machine would be lost with its process.
    fn check_persistent(&self, machine: &Self::Machine) -> impl Future<Output = StepResult<(), Self>> + Send;

    /// Moves the running machine to another host.
    fn migrate(job: &mut Job<'_, Self>, to: &HostAddress) -> impl Future<Output = StepResult<Outcome, Self>> + Send;

    /// Shuts the machine down and moves its definition to another host.
    fn redeploy(job: &mut Job<'_, Self>, to: &HostAddress) -> impl Future<Output = StepResult<Outcome, Self>> + Send;

    /// Gives the guest time to shut down, then removes the machine.
    fn evict(job: &mut Job<'_, Self>) -> impl Future<Output = StepResult<Outcome, Self>> + Send;

    /// Powers the machine off and removes it.
    fn terminate(job: &mut Job<'_, Self>) -> impl Future<Output = StepResult<Outcome, Self>> + Send;

    /// Whether an order can end although the hypervisor does not answer. Asked after the deadline.
    fn can_give_up(&self, entry: &Entry) -> bool;
}

/// An order in progress, and what its steps work with.
pub struct Job<'j, H> {
    pub hypervisor: &'j H,
    pub journal: &'j Journal,
    pub holds: &'j PauseTracker,
    pub entry: &'j mut Entry,
    pub abort: &'j CancellationToken,
    /// No recorded stage is later: the time of acceptance, or of the last stage that this program recorded.
    pub latest: &'j mut Timestamp,
    /// Taken while the order may keep the machine paused.
    pub hold: &'j mut Option<PauseGuard>,
}

/// Performs an order from its recorded stage to its end.
///
/// # Errors
///
/// If the hypervisor does not answer. The records say how far the order got: perform it again.
pub async fn perform<H: Hypervisor>(job: &mut Job<'_, H>) -> Result<Outcome, H::Error> {
    let failed = match perform_action(job).await {
        Ok(outcome) => return Ok(outcome),
        Err(StepError::Unreachable(error)) => return give_up(job, error),
        Err(StepError::Failed(reason)) => reason,
    };
    match job.release().await {
        Ok(()) => Ok(Outcome::Failed(failed)),
        Err(StepError::Unreachable(error)) => give_up(job, error),
        Err(StepError::Failed(reason)) if reason == failed => Ok(Outcome::Failed(failed)),
        Err(StepError::Failed(reason)) => Ok(Outcome::Failed(format!("{failed}; then: {reason}"))),
    }
}

fn give_up<H: Hypervisor>(job: &Job<'_, H>, error: H::Error) -> Result<Outcome, H::Error> {
    match job.check_time() {
        Err(reason) if job.hypervisor.can_give_up(job.entry) => Ok(Outcome::Failed(format!("{reason}: {error}"))),
        Ok(()) | Err(_) => Err(error),
    }
}

async fn perform_action<H: Hypervisor>(job: &mut Job<'_, H>) -> StepResult<Outcome, H> {
    // A migration has to find out first where the machine is.
    if job.entry.is_abandoned && !job.entry.order.is_migration() {
        return Err(StepError::Failed(ABANDONED.into()));
    }
    match job.entry.order.action.clone() {
        Action::Freeze { duration } => pause::freeze(job, duration).await,
        Action::Reboot(RebootMode::Hard) => pause::reset(job).await,
        Action::Reboot(RebootMode::Graceful) => power_cycle::reboot(job).await,
        Action::Redeploy { to } => H::redeploy(job, &to).await,
        Action::Start => power_cycle::start(job).await,
        Action::Stop => power_cycle::stop(job).await,
        Action::Migrate { to } => H::migrate(job, &to).await,
        Action::Evict(Eviction::Deallocate) => power_cycle::deallocate(job).await,
        Action::Evict(Eviction::Delete) => H::evict(job).await,
        Action::Terminate => H::terminate(job).await,
        Action::Withdraw => Err(StepError::Failed("withdrawn".into())),
    }
}

impl<H: Hypervisor> Job<'_, H> {
    /// Called before each step.
    pub fn run_step_hook(&self, step: Step) {
        (self.hypervisor.hook())(step);
    }

    pub async fn inspect(&self) -> StepResult<Option<LocatedMachine<H::Machine>>, H> {
        self.hypervisor.inspect(self.entry.order.id.machine).await
    }

    /// How far this order got; None if it has not begun on the machine.
    pub async fn read_stage(&self, machine: &H::Machine) -> StepResult<Option<StageRecord>, H> {
        self.hypervisor.read_stage(self.entry, machine).await
    }

    /// Records a stage in the machine, then in the journal.
    pub async fn record(&mut self, machine: &H::Machine, stage: Stage) -> StepResult<(), H> {
        self.run_step_hook(match stage {
            Stage::Begun => Step::RecordBegun,
            Stage::Held => Step::RecordHeld,
            Stage::Down => Step::RecordDown,
            Stage::Done => Step::RecordDone,
        });
        let reached = StageRecord { stage, since: self.now() };
        // Before the call, because its answer can be lost.
        *self.latest = reached.since;
        self.hypervisor.record(self.entry, machine, reached).await?;
        self.entry.reached = Some(reached);
        self.journal.write(self.entry)?;
        Ok(())
    }

    /// Lets the machine run again if this order has paused it or shut it down. The machine of an abandoned order is not
    /// started: it may run on another host.
    async fn release(&self) -> StepResult<(), H> {
        let Some(LocatedMachine { machine, state }) = self.inspect().await? else { return Ok(()) };
        if self.read_stage(&machine).await?.is_none() {
            return Ok(());
        }
        match self.entry.order.action {
            Action::Freeze { .. } | Action::Reboot(RebootMode::Hard) if state == MachineState::Paused => {
                self.hypervisor.resume(&machine).await
            }
            Action::Reboot(RebootMode::Graceful) | Action::Redeploy { .. }
                if !state.is_active() && !self.entry.was_off && !self.entry.is_abandoned =>
            {
                H::start(self, &machine).await
            }
            Action::Freeze { .. }
            | Action::Reboot(_)
            | Action::Redeploy { .. }
            | Action::Migrate { .. }
            | Action::Start
            | Action::Stop
            | Action::Evict(_)
            | Action::Terminate
            | Action::Withdraw => Ok(()),
        }
    }

    /// The time of a step, which was possibly taken before a restart of the operating system. The clock may have been
    /// set back since: then a time that begins with the step begins when the order was accepted again.
    pub fn time_of(&self, reached: StageRecord) -> Timestamp {
        reached.since.min(*self.latest)
    }

    /// The current time on the clock of deadlines and recorded steps.
    pub fn now(&self) -> Timestamp {
        self.journal.now()
    }

    pub fn deadline(&self) -> Timestamp {
        self.entry.order.deadline
    }

    /// Fails if the deadline has passed or the order is to end early.
    pub fn check_time(&self) -> Result<(), String> {
        if self.abort.is_cancelled() {
            return Err("aborted".into());
        }
        if self.now() >= self.deadline() {
            return Err("the deadline has passed".into());
        }
        Ok(())
    }

    /// Waits until a time, but not past the deadline, and not if the order is to end early.
    pub async fn wait_until(&self, time: Timestamp) {
        let wait = time.min(self.deadline()).since(self.now());
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = self.abort.cancelled() => {}
        }
    }
}

pub fn not_running(state: &MachineState) -> String {
    match state {
        MachineState::Paused => "the machine is paused, and not by this order".into(),
        MachineState::Off => "the machine is not running".into(),
        MachineState::Running => "the machine is running".into(),
        MachineState::Busy(state) | MachineState::Unknown(state) => format!("the machine is in state {state}"),
    }
}

pub fn inconsistent(stage: Stage) -> String {
    format!("the record of the machine says '{}', which this action never writes", stage.as_str())
}
