//! Live migration. Only this side, the source, ever retries.
//!
//! | here | there | next |
//! |---|---|---|
//! | gone | | moved |
//! | a job is active | | wait; abort it at the deadline |
//! | running | paused | wait |
//! | running | running | alarm, change nothing |
//! | running | absent | migrate |
//! | paused or shut off | running | remove the rest here; moved |
//! | paused | absent | resume, then migrate |
//! | paused or shut off | unknown | alarm, then wait: it may run there |
//!
//! If libvirtd or this program is killed during a migration, libvirt either completes it or continues the machine here.

use std::time::{Duration, Instant};

use forewarn_libvirt::{Connection, DestroyFlags, Domain, ErrorCode, JobKind, MigrateFlags, Migration, UndefineFlags};

use super::config::PeerState;
use super::driver::LibvirtMachines;
use crate::journaled::{Job, LocatedMachine, MachineState, POLL_INTERVAL, Stage, Step, StepError, not_running};
use crate::order::{HostAddress, Outcome};

/// How long a machine can be paused here, with its state at the target unknown, before an alarm. libvirt itself takes a moment
/// between the last two steps of a migration.
const STUCK_AFTER: Duration = Duration::from_secs(2);

pub(super) type LibvirtResult<T> = crate::journaled::StepResult<T, LibvirtMachines>;

pub async fn migrate(job: &mut Job<'_, LibvirtMachines>, to: &HostAddress) -> LibvirtResult<Outcome> {
    let moved = Outcome::Moved { to: to.name.clone() };
    let mut stuck = Stuck::default();
    loop {
        // In this order: there, jobs, here. The machine stops here before it runs there, and only this driver begins jobs,
        // so a migration that completes in between is not taken for a machine that runs on both hosts.
        let there = job.hypervisor.config.peers.state_of(&to.name, job.entry.order.id.machine).await;
        let Some(domain) = job.hypervisor.host.find(job.entry.order.id.machine).await? else {
            return Ok(if job.entry.reached.is_some() { moved } else { Outcome::Gone });
        };
        if has_job(&job.hypervisor.host.connection().await, &domain).await? {
            if job.entry.reached.is_none() && job.read_stage(&domain).await?.is_none() {
                // Not ours, such as a backup: it is not aborted, and does not use up the time of the migration.
                return Err(StepError::Failed("another job is in progress on the domain: wait until it ends".into()));
            }
            wait_for_job(job, &domain).await?;
            continue;
        }
        let Some(LocatedMachine { machine: domain, state }) = job.inspect().await? else { continue };
        if job.read_stage(&domain).await?.is_none() {
            job.check_time()?;
            if state != MachineState::Running {
                return Err(not_running(&state).into());
            }
            job.record(&domain, Stage::Begun).await?;
            continue;
        }
        match decide(&state, there) {
            Next::Wait => {
                job.check_time()?;
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            Next::AskOperator => {
                let advice = format!(
                    "the machine is not running on this host, and host '{to}' cannot be reached: check that host. If the machine \
                     runs there, remove it here (virsh destroy, virsh undefine); otherwise, resume it here (virsh resume)",
                    to = to.name
                );
                stuck.warn(job, &advice);
                job.check_time().map_err(|reason| format!("{reason}; {advice}"))?;
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            Next::Alarm(reason) => return Err(StepError::Failed(reason.into())),
            Next::Migrate => {
                job.check_time()?;
                attempt(job, &domain, to).await?;
            }
            Next::Resume => job.hypervisor.host.connection().await.resume(&domain).await?,
            Next::RemoveRest => remove_rest(job, &domain).await?,
        }
    }
}

/// A machine that does not run here and is not known to run at the target.
#[derive(Default)]
struct Stuck {
    since: Option<Instant>,
    is_logged: bool,
}

impl Stuck {
    fn warn(&mut self, job: &Job<'_, LibvirtMachines>, advice: &str) {
        let since = *self.since.get_or_insert_with(Instant::now);
        if !self.is_logged && since.elapsed() >= STUCK_AFTER {
            self.is_logged = true;
            let order = &job.entry.order;
            tracing::error!(order = %order.id, name = order.name, "the migration was interrupted: {advice}");
        }
    }
}

/// The next step of a migration that was begun, while no job is active.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Wait,
    /// The machine may run at the target, which only an operator can find out.
    AskOperator,
    Alarm(&'static str),
    Migrate,
    Resume,
    RemoveRest,
}

fn decide(here: &MachineState, there: PeerState) -> Next {
    let runs = matches!(here, MachineState::Running | MachineState::Busy(_));
    match (runs, there) {
        (true, PeerState::Running) => Next::Alarm("the machine runs on both hosts: stop one of them"),
        (true, PeerState::Paused) => Next::Wait,
        (true, PeerState::Absent | PeerState::Unknown) => Next::Migrate,
        (false, PeerState::Running) => Next::RemoveRest,
        (false, PeerState::Absent) if *here == MachineState::Paused => Next::Resume,
        (false, PeerState::Absent) => Next::Alarm("the machine was shut off during its migration"),
        (false, PeerState::Paused) => Next::Wait,
        (false, PeerState::Unknown) => Next::AskOperator,
    }
}

/// Migrates the machine. Succeeds also if libvirt lost it from sight: the caller looks again.
async fn attempt(job: &Job<'_, LibvirtMachines>, domain: &Domain, to: &HostAddress) -> LibvirtResult<()> {
    job.run_step_hook(Step::Migrate);
    let migration = Migration {
        target_uri: to.uri.clone(),
        flags: MigrateFlags::LIVE | MigrateFlags::PERSIST_DEST | MigrateFlags::UNDEFINE_SOURCE,
        data_uri: to.data_uri.clone(),
        ..Migration::default()
    };
    let connection = job.hypervisor.host.open().await;
    let call = connection.migrate(domain, &migration);
    tokio::pin!(call);
    let mut aborted = false;
    let result = loop {
        tokio::select! {
            result = &mut call => break result,
            () = job.wait_until(job.deadline()) => {
                // Again and again, because a job that has not begun cannot be aborted.
                abort(job, domain).await?;
                aborted = true;
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
    };
    match result {
        Ok(()) => Ok(()),
        // A call of a driver that was killed can still be in progress, or have just succeeded.
        Err(error)
            if job.inspect().await?.is_none() || has_job(&job.hypervisor.host.connection().await, domain).await? =>
        {
            tracing::warn!(%error, "another call migrates this machine");
            Ok(())
        }
        Err(error) => {
            // libvirt words the failure of an aborted job in several ways. The reason is why it was aborted.
            if aborted {
                job.check_time()?;
            }
            Err(error.into())
        }
    }
}

async fn abort(job: &Job<'_, LibvirtMachines>, domain: &Domain) -> LibvirtResult<()> {
    match job.hypervisor.host.connection().await.abort_job(domain).await {
        // The job has just ended, or has not begun.
        Err(error) if error.is(ErrorCode::OPERATION_INVALID) || error.is(ErrorCode::NO_DOMAIN) => Ok(()),
        other => Ok(other?),
    }
}

async fn has_job(connection: &Connection, domain: &Domain) -> LibvirtResult<bool> {
    match connection.job_info(domain).await {
        Ok(info) => Ok(matches!(info.kind, JobKind::Bounded | JobKind::Unbounded)),
        Err(error) if error.is(ErrorCode::OPERATION_INVALID) || error.is(ErrorCode::NO_DOMAIN) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A migration that goes on without its client, after a crash of this program.
async fn wait_for_job(job: &Job<'_, LibvirtMachines>, domain: &Domain) -> LibvirtResult<()> {
    if job.check_time().is_err() {
        abort(job, domain).await?;
    }
    tokio::time::sleep(POLL_INTERVAL).await;
    Ok(())
}

async fn remove_rest(job: &Job<'_, LibvirtMachines>, domain: &Domain) -> LibvirtResult<()> {
    let connection = job.hypervisor.host.connection().await;
    let absent =
        |error: &forewarn_libvirt::Error| error.is(ErrorCode::OPERATION_INVALID) || error.is(ErrorCode::NO_DOMAIN);
    match connection.destroy(domain, DestroyFlags::NONE).await {
        Err(error) if !absent(&error) => return Err(error.into()),
        Ok(()) | Err(_) => {}
    }
    match connection.undefine(domain, UndefineFlags::KEEP_NVRAM | UndefineFlags::MANAGED_SAVE).await {
        Err(error) if !absent(&error) => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recovery_depends_on_both_hosts() {
        use PeerState::{Absent, Paused, Running, Unknown};
        let cases = [
            (MachineState::Running, Paused, Next::Wait),
            (MachineState::Running, Absent, Next::Migrate),
            (MachineState::Running, Unknown, Next::Migrate),
            (MachineState::Paused, Running, Next::RemoveRest),
            (MachineState::Off, Running, Next::RemoveRest),
            (MachineState::Paused, Absent, Next::Resume),
            (MachineState::Paused, Unknown, Next::AskOperator),
            (MachineState::Paused, Paused, Next::Wait),
        ];
        for (state, there, next) in cases {
            assert_eq!(decide(&state, there), next, "{state:?} {there:?}");
        }
        assert!(matches!(decide(&MachineState::Running, Running), Next::Alarm(_)));
        assert!(matches!(decide(&MachineState::Off, Absent), Next::Alarm(_)));
    }
}
