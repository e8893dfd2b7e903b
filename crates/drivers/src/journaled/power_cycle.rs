//! Actions that shut a machine down: graceful reboot, stop, deallocation, and the first half of a redeploy. And its start.

use std::time::Duration;

use forewarn_core::Timestamp;

use super::job::{
    Hypervisor, Job, LocatedMachine, POLL_INTERVAL, StageRecord, StepError, StepResult, inconsistent, not_running,
};
use super::step::{Stage, Step};
use crate::order::Outcome;

/// Time before the deadline at which a guest that does not shut down is powered off, so that the rest can be done in time.
const RESERVE: Duration = Duration::from_secs(10);

/// Time that an evicted guest has to shut down. Azure gives as much notice.
const EVICTION_GRACE: Duration = Duration::from_secs(30);

const STARTED: &str = "the machine runs again after it had shut down";

/// Interval between two requests to shut down. A guest that is booting ignores the first one.
const ASK_AGAIN: Duration = Duration::from_secs(5);

pub async fn reboot<H: Hypervisor>(job: &mut Job<'_, H>) -> StepResult<Outcome, H> {
    if !shut_down(job, Needs::RunningAndPersistent, Grace::UntilDeadline).await? {
        return Ok(Outcome::Gone);
    }
    start(job).await
}

pub async fn deallocate<H: Hypervisor>(job: &mut Job<'_, H>) -> StepResult<Outcome, H> {
    Ok(if shut_down(job, Needs::Persistent, Grace::Eviction).await? { Outcome::Done } else { Outcome::Gone })
}

/// Shuts the machine down, if it runs.
pub async fn stop<H: Hypervisor>(job: &mut Job<'_, H>) -> StepResult<Outcome, H> {
    Ok(if shut_down(job, Needs::Persistent, Grace::UntilDeadline).await? { Outcome::Done } else { Outcome::Gone })
}

/// Starts the machine, if it does not run.
pub async fn start<H: Hypervisor>(job: &mut Job<'_, H>) -> StepResult<Outcome, H> {
    let Some(LocatedMachine { machine, state }) = job.inspect().await? else { return Ok(Outcome::Gone) };
    job.run_step_hook(Step::Start);
    if !state.is_active() {
        H::start(job, &machine).await?;
    }
    Ok(Outcome::Done)
}

/// Requirements of an action for a machine that it shuts down. They also decide about a machine that another program starts
/// then: an action that removes the machine powers it off again, others fail.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    Nothing,
    /// A definition that outlives the process.
    Persistent,
    RunningAndPersistent,
}

/// Time that a guest has to shut down before it is powered off.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Grace {
    /// Almost until the deadline of the order.
    UntilDeadline,
    /// The grace period of an eviction, counted from its start. A crash does not extend it.
    Eviction,
}

impl Grace {
    fn limit<H: Hypervisor>(self, job: &Job<'_, H>, begun: StageRecord) -> Timestamp {
        match self {
            Grace::UntilDeadline => job.deadline() - RESERVE,
            Grace::Eviction => job.time_of(begun) + EVICTION_GRACE,
        }
    }
}

/// Shuts the machine down, and powers it off after a time. Returns whether it is still defined here. If so, it does not run,
/// except in a restart that has come further.
pub async fn shut_down<H: Hypervisor>(job: &mut Job<'_, H>, needs: Needs, grace: Grace) -> StepResult<bool, H> {
    loop {
        let Some(LocatedMachine { machine, state }) = job.inspect().await? else { return Ok(false) };
        let Some(reached) = job.read_stage(&machine).await? else {
            job.check_time()?;
            if needs != Needs::Nothing {
                job.hypervisor.check_persistent(&machine).await?;
            }
            if needs == Needs::RunningAndPersistent && !state.is_active() {
                return Err(not_running(&state).into());
            }
            job.record(&machine, Stage::Begun).await?;
            continue;
        };
        match reached.stage {
            Stage::Begun => {
                if state.is_active() {
                    power_off(job, &machine, grace.limit(job, reached)).await?;
                }
                job.hypervisor.end_process(&machine).await?;
                // A transient domain disappears with its process.
                if job.inspect().await?.is_none() {
                    return Ok(false);
                }
                job.record(&machine, Stage::Down).await?;
            }
            Stage::Down if state.is_active() => match needs {
                Needs::Nothing => {
                    destroy(job, &machine).await?;
                    job.hypervisor.end_process(&machine).await?;
                }
                Needs::Persistent => return Err(StepError::Failed(STARTED.into())),
                // By this order.
                Needs::RunningAndPersistent => return Ok(true),
            },
            Stage::Down => return Ok(true),
            Stage::Held | Stage::Done => return Err(inconsistent(reached.stage).into()),
        }
    }
}

/// Asks the guest to shut down. Once it was asked, the order cannot end early any more.
async fn power_off<H: Hypervisor>(job: &Job<'_, H>, machine: &H::Machine, limit: Timestamp) -> StepResult<(), H> {
    let mut ask = job.now();
    while job.now() < limit {
        if job.now() >= ask {
            job.run_step_hook(Step::Shutdown);
            job.hypervisor.shutdown(machine).await?;
            ask = job.now() + ASK_AGAIN;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
        match job.inspect().await? {
            Some(found) if found.state.is_active() => {}
            Some(_) | None => return Ok(()),
        }
    }
    destroy(job, machine).await
}

/// Powers the machine off, if it runs.
pub async fn destroy<H: Hypervisor>(job: &Job<'_, H>, machine: &H::Machine) -> StepResult<(), H> {
    job.run_step_hook(Step::Destroy);
    job.hypervisor.destroy(machine).await
}
