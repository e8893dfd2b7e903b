//! Actions that remove a machine: Terminate, and eviction with the policy Delete.

use forewarn_libvirt::{Connection, Domain, ErrorCode, UndefineFlags, XmlFlags};

use super::disks::own_disks;
use super::driver::LibvirtMachines;
use super::migrate::LibvirtResult;
use crate::journaled::power_cycle::{Grace, Needs, destroy, shut_down};
use crate::journaled::{Job, LocatedMachine, Stage, Step};
use crate::order::Outcome;

pub async fn evict(job: &mut Job<'_, LibvirtMachines>) -> LibvirtResult<Outcome> {
    if shut_down(job, Needs::Nothing, Grace::Eviction).await?
        && let Some(LocatedMachine { machine: domain, .. }) = job.inspect().await?
    {
        undefine(job, &domain).await?;
    }
    Ok(Outcome::Gone)
}

pub async fn terminate(job: &mut Job<'_, LibvirtMachines>) -> LibvirtResult<Outcome> {
    while let Some(LocatedMachine { machine: domain, state }) = job.inspect().await? {
        if job.read_stage(&domain).await?.is_none() {
            note_disks(job, &domain).await?;
            job.record(&domain, Stage::Begun).await?;
            continue;
        }
        if state.is_active() {
            destroy(job, &domain).await?;
        }
        undefine(job, &domain).await?;
    }
    delete_disks(job).await?;
    Ok(Outcome::Gone)
}

/// Writes the disks to the journal, because they are unknown once the definition is removed.
async fn note_disks(job: &mut Job<'_, LibvirtMachines>, domain: &Domain) -> LibvirtResult<()> {
    if job.hypervisor.config.pools.is_empty() {
        return Ok(());
    }
    let xml = job.hypervisor.host.connection().await.xml(domain, XmlFlags::INACTIVE).await?;
    job.entry.disks = own_disks(&xml);
    job.journal.write(job.entry)?;
    Ok(())
}

async fn undefine(job: &Job<'_, LibvirtMachines>, domain: &Domain) -> LibvirtResult<()> {
    job.run_step_hook(Step::Undefine);
    let connection = job.hypervisor.host.connection().await;
    let widely_known = UndefineFlags::MANAGED_SAVE | UndefineFlags::SNAPSHOTS_METADATA;
    let all = widely_known | UndefineFlags::NVRAM | UndefineFlags::CHECKPOINTS_METADATA;
    let mut result = connection.undefine(domain, all).await;
    // Old versions do not know all flags, and have none of the things that the new ones remove.
    if result.as_ref().is_err_and(|error| error.is(ErrorCode::INVALID_ARGUMENT)) {
        result = connection.undefine(domain, widely_known).await;
    }
    match result {
        // A transient domain has disappeared with its process.
        Err(error) if error.is(ErrorCode::NO_DOMAIN) => Ok(()),
        other => Ok(other?),
    }
}

async fn delete_disks(job: &Job<'_, LibvirtMachines>) -> LibvirtResult<()> {
    if job.entry.disks.is_empty() {
        return Ok(());
    }
    job.run_step_hook(Step::DeleteDisks);
    let connection = job.hypervisor.host.connection().await;
    for disk in &job.entry.disks {
        delete_disk(&connection, disk, &job.hypervisor.config.pools).await?;
    }
    Ok(())
}

/// Deletes a disk if it is a volume of one of the pools. A disk that is gone already is as wanted.
async fn delete_disk(connection: &Connection, path: &str, pools: &[String]) -> LibvirtResult<()> {
    match connection.volume_by_path(path).await {
        Ok(volume) if pools.contains(&volume.pool) => match connection.delete_volume(&volume).await {
            Err(error) if error.is(ErrorCode::NO_VOLUME) => Ok(()),
            other => Ok(other?),
        },
        Ok(_) => Ok(()),
        Err(error) if error.is(ErrorCode::NO_VOLUME) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
