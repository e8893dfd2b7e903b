//! Actions that shut a machine down: graceful reboot, redeploy, deallocation. And its start.

use std::time::Duration;

use forewarn_core::Timestamp;
use forewarn_libvirt::{CreateFlags, DestroyFlags, Domain, ErrorCode, MigrateFlags, Migration, ShutdownFlags};

use super::{Job, Progress, Trouble, inconsistent, not_running};
use crate::libvirt::host::{LOOK, now};
use crate::libvirt::mark::Stage;
use crate::libvirt::step::Step;
use crate::order::{HostAddress, Outcome};

/// Time before the deadline at which a guest that does not shut down is powered off, so that the rest can be done in time.
const RESERVE: Duration = Duration::from_secs(10);

/// Time that an evicted guest has to shut down. Azure gives as much notice.
pub const EVICTION_GRACE: Duration = Duration::from_secs(30);

/// Interval between two requests to shut down. A guest that is booting ignores the first one.
const ASK_AGAIN: Duration = Duration::from_secs(5);

pub async fn reboot(job: &mut Job<'_>) -> Progress<Outcome> {
    let limit = before_deadline(job);
    if !shut_down(job, Needs::RunningAndPersistent, limit).await? {
        return Ok(Outcome::Gone);
    }
    start(job).await
}

pub async fn deallocate(job: &mut Job<'_>) -> Progress<Outcome> {
    let limit = now() + EVICTION_GRACE;
    Ok(if shut_down(job, Needs::Persistent, limit).await? { Outcome::Done } else { Outcome::Gone })
}

pub async fn redeploy(job: &mut Job<'_>, to: &HostAddress) -> Progress<Outcome> {
    let limit = before_deadline(job);
    note_power(job).await?;
    if !shut_down(job, Needs::Persistent, limit).await? {
        // libvirt removes the definition here only after it exists there.
        let was_down = job.entry.stage == Some(Stage::Down);
        return Ok(if was_down { Outcome::Moved { to: to.name.clone() } } else { Outcome::Gone });
    }
    let Some((domain, _)) = job.look().await? else { return Ok(Outcome::Moved { to: to.name.clone() }) };
    job.reach(Step::MoveDefinition);
    let migration = Migration {
        target_uri: to.uri.clone(),
        flags: MigrateFlags::OFFLINE | MigrateFlags::PERSIST_DEST | MigrateFlags::UNDEFINE_SOURCE,
        data_uri: to.data_uri.clone(),
        ..Migration::default()
    };
    job.host.open().await.migrate(&domain, &migration).await?;
    Ok(Outcome::Moved { to: to.name.clone() })
}

/// Writes to the journal that the machine was shut off before the order, because then only its definition moves and it
/// is not started if that fails.
async fn note_power(job: &mut Job<'_>) -> Progress<()> {
    let Some((domain, info)) = job.look().await? else { return Ok(()) };
    if job.mark(&domain).await?.is_none() && !info.state.is_active() {
        job.entry.was_off = true;
        job.journal.write(job.entry)?;
    }
    Ok(())
}

/// Starts the machine, if it does not run.
pub async fn start(job: &mut Job<'_>) -> Progress<Outcome> {
    let Some((domain, info)) = job.look().await? else { return Ok(Outcome::Gone) };
    job.reach(Step::Start);
    if !info.state.is_active() {
        job.host.connection().await.start(&domain, CreateFlags::NONE).await?;
    }
    Ok(Outcome::Done)
}

/// Requirements of an action for a machine that it shuts down.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    Nothing,
    /// A definition that outlives the process.
    Persistent,
    RunningAndPersistent,
}

/// Shuts the machine down, and powers it off at a time. Returns whether it is still defined here.
pub async fn shut_down(job: &mut Job<'_>, needs: Needs, limit: Timestamp) -> Progress<bool> {
    loop {
        let Some((domain, info)) = job.look().await? else { return Ok(false) };
        let Some(mark) = job.mark(&domain).await? else {
            job.check_time()?;
            check_needs(job, &domain, needs).await?;
            if needs == Needs::RunningAndPersistent && !info.state.is_active() {
                return Err(not_running(info));
            }
            job.record(&domain, Stage::Begun).await?;
            continue;
        };
        match mark.stage {
            Stage::Begun => {
                if info.state.is_active() {
                    power_off(job, &domain, limit).await?;
                }
                // A transient domain disappears with its process.
                if job.look().await?.is_none() {
                    return Ok(false);
                }
                job.record(&domain, Stage::Down).await?;
            }
            Stage::Down => return Ok(true),
            Stage::Held | Stage::Done => return Err(inconsistent(mark.stage)),
        }
    }
}

async fn check_needs(job: &Job<'_>, domain: &Domain, needs: Needs) -> Progress<()> {
    if needs != Needs::Nothing && !job.host.connection().await.is_persistent(domain).await? {
        return Err(Trouble::Failed("the domain is transient: it would be lost when it shuts down".into()));
    }
    Ok(())
}

fn before_deadline(job: &Job<'_>) -> Timestamp {
    Timestamp(job.deadline().0 - i64::try_from(RESERVE.as_millis()).unwrap_or(0))
}

/// Asks the guest to shut down. Once it was asked, the order cannot end early any more.
async fn power_off(job: &Job<'_>, domain: &Domain, limit: Timestamp) -> Progress<()> {
    let mut ask = now();
    while now() < limit {
        if now() >= ask {
            job.reach(Step::Shutdown);
            ignore_inactive(job.host.connection().await.shutdown(domain, ShutdownFlags::NONE).await)?;
            ask = now() + ASK_AGAIN;
        }
        tokio::time::sleep(LOOK).await;
        match job.look().await? {
            Some((_, info)) if info.state.is_active() => {}
            Some(_) | None => return Ok(()),
        }
    }
    destroy(job, domain).await
}

/// Powers the machine off, if it runs.
pub async fn destroy(job: &Job<'_>, domain: &Domain) -> Progress<()> {
    job.reach(Step::Destroy);
    ignore_inactive(job.host.connection().await.destroy(domain, DestroyFlags::NONE).await)
}

/// A machine that has just shut down by itself is as wanted.
fn ignore_inactive(result: forewarn_libvirt::Result<()>) -> Progress<()> {
    match result {
        Err(error) if error.is(ErrorCode::OPERATION_INVALID) || error.is(ErrorCode::NO_DOMAIN) => Ok(()),
        other => Ok(other?),
    }
}
