//! Freeze and hard reboot: the machine is paused, something happens, the machine continues.
//!
//! A machine that is recorded as held but runs was resumed by another program: the order fails, and a reset is not
//! repeated. A machine that is recorded as held but is shut off is started; that completes a reboot.

use std::time::Duration;

use forewarn_libvirt::{CreateFlags, Domain, State, StateInfo};

use super::{Job, Progress, Trouble, inconsistent, not_running};
use crate::libvirt::mark::{Mark, Stage};
use crate::libvirt::step::Step;
use crate::order::Outcome;

/// The change while the machine is held.
#[derive(Clone, Copy)]
enum Effect {
    Wait(Duration),
    Reset,
}

pub async fn freeze(job: &mut Job<'_>, duration: Duration) -> Progress<Outcome> {
    hold(job, Effect::Wait(duration)).await
}

pub async fn reset(job: &mut Job<'_>) -> Progress<Outcome> {
    hold(job, Effect::Reset).await
}

async fn hold(job: &mut Job<'_>, effect: Effect) -> Progress<Outcome> {
    loop {
        let Some((domain, info)) = job.look().await? else { return Ok(Outcome::Gone) };
        let Some(mark) = job.mark(&domain).await? else {
            job.check_time()?;
            if info.state != State::Running {
                return Err(not_running(info));
            }
            job.record(&domain, Stage::Begun).await?;
            continue;
        };
        match mark.stage {
            Stage::Begun => {
                job.check_time()?;
                job.reach(Step::Suspend);
                job.host.connection().await.suspend(&domain).await?;
                job.record(&domain, Stage::Held).await?;
            }
            Stage::Held => {
                if let Some(outcome) = act(job, &domain, info, &mark, effect).await? {
                    return Ok(outcome);
                }
            }
            Stage::Done => {
                job.reach(Step::Resume);
                if info.state == State::Paused {
                    job.host.connection().await.resume(&domain).await?;
                }
                return Ok(Outcome::Done);
            }
            Stage::Down => return Err(inconsistent(mark.stage)),
        }
    }
}

/// Acts on a machine that is recorded as held. Returns an outcome if the order ends here.
async fn act(
    job: &mut Job<'_>,
    domain: &Domain,
    info: StateInfo,
    mark: &Mark,
    effect: Effect,
) -> Progress<Option<Outcome>> {
    if !info.state.is_active() {
        job.reach(Step::Start);
        job.host.connection().await.start(domain, CreateFlags::NONE).await?;
        return match effect {
            Effect::Reset => Ok(Some(Outcome::Done)),
            Effect::Wait(_) => Err(Trouble::Failed("the machine was shut off while it was frozen".into())),
        };
    }
    if info.state != State::Paused {
        return Err(Trouble::Failed("the machine was resumed by another program".into()));
    }
    job.check_time()?;
    match effect {
        Effect::Reset => {
            job.reach(Step::Reset);
            job.host.connection().await.reset(domain).await?;
            job.record(domain, Stage::Done).await?;
        }
        Effect::Wait(duration) if crate::libvirt::host::now() < mark.since + duration => {
            job.reach(Step::Wait);
            job.wait_until(mark.since + duration).await;
            // Then look again: the machine may have been resumed meanwhile.
        }
        Effect::Wait(_) => job.record(domain, Stage::Done).await?,
    }
    Ok(None)
}
