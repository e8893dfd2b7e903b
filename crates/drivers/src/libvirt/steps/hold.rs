//! Freeze and hard reboot: the machine is paused, something happens, the machine continues.
//!
//! A machine that is recorded as held but runs was resumed by another program: the order fails, and a reset is not
//! repeated. A machine that is recorded as held but is shut off is started; that completes a reboot.
//!
//! If this program stops, a freeze that would end much later is recorded as done at once, and the machine resumed: its
//! duration is an estimate for the guest, and nothing else is waiting for it.

use std::time::Duration;

use forewarn_core::Timestamp;
use forewarn_libvirt::{CreateFlags, Domain, State, StateInfo};

use super::{Job, Progress, Trouble, inconsistent, not_running};
use crate::libvirt::holds::Holds;
use crate::libvirt::host::now;
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
    let holds = job.holds;
    job.hold.get_or_insert_with(|| holds.begin());
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
                if job.holds.is_ending() {
                    // The order goes on after the next start. Nothing is paused until then.
                    *job.hold = None;
                    std::future::pending::<()>().await;
                }
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
        Effect::Wait(duration) if must_wait(job, mark.since + duration) => {
            job.reach(Step::Wait);
            tokio::select! {
                () = job.wait_until(mark.since + duration) => {}
                () = job.holds.ending(mark.since + duration) => {}
            }
            // Then look again: the machine may have been resumed meanwhile.
        }
        Effect::Wait(_) => job.record(domain, Stage::Done).await?,
    }
    Ok(None)
}

/// Whether a freeze goes on. It is cut short if this program stops before it would end.
fn must_wait(job: &Job<'_>, until: Timestamp) -> bool {
    let is_cut = job.holds.is_ending() && !Holds::is_short(until);
    if is_cut {
        tracing::warn!(order = %job.entry.order.id, name = job.entry.order.name, "freeze ended early: this program stops");
    }
    now() < until && !is_cut
}
