//! Redeploy: the machine is shut down, and its definition moves to another host.

use forewarn_libvirt::{MigrateFlags, Migration};

use super::driver::LibvirtMachines;
use crate::journaled::power_cycle::{Grace, Needs, shut_down};
use crate::journaled::{Job, LocatedMachine, Stage, Step, StepResult};
use crate::order::{HostAddress, Outcome};

pub async fn redeploy(job: &mut Job<'_, LibvirtMachines>, to: &HostAddress) -> StepResult<Outcome, LibvirtMachines> {
    note_power(job).await?;
    if !shut_down(job, Needs::Persistent, Grace::UntilDeadline).await? {
        // libvirt removes the definition here only after it exists there.
        let was_down = job.entry.reached.is_some_and(|reached| reached.stage == Stage::Down);
        return Ok(if was_down { Outcome::Moved { to: to.name.clone() } } else { Outcome::Gone });
    }
    let Some(LocatedMachine { machine: domain, .. }) = job.inspect().await? else {
        return Ok(Outcome::Moved { to: to.name.clone() });
    };
    job.run_step_hook(Step::MoveDefinition);
    let migration = Migration {
        target_uri: to.uri.clone(),
        flags: MigrateFlags::OFFLINE | MigrateFlags::PERSIST_DEST | MigrateFlags::UNDEFINE_SOURCE,
        data_uri: to.data_uri.clone(),
        ..Migration::default()
    };
    job.hypervisor.host.open().await.migrate(&domain, &migration).await?;
    Ok(Outcome::Moved { to: to.name.clone() })
}

/// Writes to the journal that the machine was shut off before the order, because then only its definition moves and it
/// is not started if that fails.
async fn note_power(job: &mut Job<'_, LibvirtMachines>) -> StepResult<(), LibvirtMachines> {
    let Some(LocatedMachine { machine, state }) = job.inspect().await? else { return Ok(()) };
    if job.read_stage(&machine).await?.is_none() && !state.is_active() {
        job.entry.was_off = true;
        job.journal.write(job.entry)?;
    }
    Ok(())
}
