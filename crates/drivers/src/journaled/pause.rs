//! Freeze and hard reboot: the machine is paused, something happens, the machine continues.
//!
//! A machine that is recorded as held but runs was resumed by another program: the order fails, and a reset is not
//! repeated. A machine that is recorded as held but is shut off is started; that completes a reboot.
//!
//! If this program stops, a freeze that would end much later is recorded as done at once, and the machine resumed: its
//! duration is an estimate for the guest, and nothing else is waiting for it.

use std::time::Duration;

use forewarn_core::Timestamp;

use super::job::{Hypervisor, Job, LocatedMachine, MachineState, StepError, StepResult, inconsistent, not_running};
use super::step::{Stage, Step};
use crate::order::Outcome;

/// The change while the machine is held.
#[derive(Clone, Copy)]
enum Effect {
    Wait(Duration),
    Reset,
}

pub async fn freeze<H: Hypervisor>(job: &mut Job<'_, H>, duration: Duration) -> StepResult<Outcome, H> {
    hold(job, Effect::Wait(duration)).await
}

pub async fn reset<H: Hypervisor>(job: &mut Job<'_, H>) -> StepResult<Outcome, H> {
    hold(job, Effect::Reset).await
}

async fn hold<H: Hypervisor>(job: &mut Job<'_, H>, effect: Effect) -> StepResult<Outcome, H> {
    let holds = job.holds;
    job.hold.get_or_insert_with(|| holds.begin());
    loop {
        let Some(found) = job.inspect().await? else { return Ok(Outcome::Gone) };
        let Some(reached) = job.read_stage(&found.machine).await? else {
            job.check_time()?;
            if found.state != MachineState::Running {
                return Err(not_running(&found.state).into());
            }
            job.record(&found.machine, Stage::Begun).await?;
            continue;
        };
        match reached.stage {
            Stage::Begun => {
                job.check_time()?;
                if job.holds.is_ending() {
                    // The order goes on after the next start. Nothing is paused until then.
                    *job.hold = None;
                    std::future::pending::<()>().await;
                }
                job.run_step_hook(Step::Suspend);
                job.hypervisor.suspend(&found.machine).await?;
                job.record(&found.machine, Stage::Held).await?;
            }
            Stage::Held => {
                if let Some(outcome) = act(job, &found, job.time_of(reached), effect).await? {
                    return Ok(outcome);
                }
            }
            Stage::Done => {
                job.run_step_hook(Step::Resume);
                if found.state == MachineState::Paused {
                    job.hypervisor.resume(&found.machine).await?;
                }
                return Ok(Outcome::Done);
            }
            Stage::Down => return Err(inconsistent(reached.stage).into()),
        }
    }
}

/// Acts on a machine that is recorded as held. Returns an outcome if the order ends here.
async fn act<H: Hypervisor>(
    job: &mut Job<'_, H>,
    found: &LocatedMachine<H::Machine>,
    since: Timestamp,
    effect: Effect,
) -> StepResult<Option<Outcome>, H> {
    if !found.state.is_active() {
        job.run_step_hook(Step::Start);
        H::start(job, &found.machine).await?;
        return match effect {
            Effect::Reset => Ok(Some(Outcome::Done)),
            Effect::Wait(_) => Err(StepError::Failed("the machine was shut off while it was frozen".into())),
        };
    }
    if found.state != MachineState::Paused {
        return Err(StepError::Failed("the machine was resumed by another program".into()));
    }
    job.check_time()?;
    match effect {
        Effect::Reset => {
            job.run_step_hook(Step::Reset);
            job.hypervisor.reset(&found.machine).await?;
            job.record(&found.machine, Stage::Done).await?;
        }
        Effect::Wait(duration) if must_wait(job, since + duration) => {
            job.run_step_hook(Step::Wait);
            tokio::select! {
                () = job.wait_until(since + duration) => {}
                () = job.holds.ending(since + duration) => {}
            }
            // Then look again: the machine may have been resumed meanwhile.
        }
        Effect::Wait(_) => job.record(&found.machine, Stage::Done).await?,
    }
    Ok(None)
}

/// Whether a freeze goes on. It is cut short if this program stops before it would end.
fn must_wait<H: Hypervisor>(job: &Job<'_, H>, until: Timestamp) -> bool {
    let is_cut = job.holds.is_ending() && !job.holds.is_short(until);
    if is_cut {
        tracing::warn!(order = %job.entry.order.id, name = job.entry.order.name, "freeze ended early: Forewarn is stopping");
    }
    job.now() < until && !is_cut
}
