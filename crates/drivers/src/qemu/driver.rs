//! QEMU as the shared sequences of steps see it. The journal is the only record: nothing is stored in the machine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use forewarn_core::Guid;
use tokio::process::Child;

use super::file::{MachinesFile, QemuMachine};
use super::host::{Process, QemuError, QemuHost};
use super::launch::{self, clean_up, delete_disk, describe_failure};
use super::qmp::{Qmp, QmpError};
use super::watch::QemuWatch;
use crate::clock::now;
use crate::inventory::{MachineWatch, WatchedDriver};
use crate::journaled::journal::Entry;
use crate::journaled::power_cycle::{Grace, Needs, destroy, shut_down};
use crate::journaled::{
    Hypervisor, Job, JournaledDriver, LocatedMachine, MachineState, POLL_INTERVAL, Stage, StageRecord, Step, StepError,
    StepHook, inconsistent,
};
use crate::order::{Action, HostAddress, Outcome, Pending, RebootMode};

/// Time limit for a QEMU to end after `quit`. It writes back what its disks have cached.
const QUIT_MAX: Duration = Duration::from_secs(30);

/// Time limit for a QEMU to answer after its start command was run.
const START_MAX: Duration = Duration::from_secs(60);

/// Attempts to start a machine. The process that ended before can hold locks of its disks for a moment.
const START_ATTEMPTS: u32 = 3;

/// The pause between two attempts to start a machine.
const START_PAUSE: Duration = Duration::from_secs(1);

/// Settings of the driver.
pub struct QemuConfig {
    /// The file that names the machines.
    pub machines: PathBuf,
    /// The directory of the journal.
    pub journal: PathBuf,
    /// Called before each step.
    pub hook: StepHook,
}

/// The QEMU processes of one host.
pub struct QemuMachines {
    host: Arc<QemuHost>,
    logs: PathBuf,
    hook: StepHook,
}

pub type QemuDriver = JournaledDriver<QemuMachines>;

impl JournaledDriver<QemuMachines> {
    /// Reads the file and opens the journal. Connects to QEMU only when needed.
    ///
    /// # Errors
    ///
    /// If the file is invalid, or the directory of the journal cannot be created.
    pub fn open(config: QemuConfig) -> Result<QemuDriver, String> {
        let host = Arc::new(QemuHost::new(MachinesFile::open(&config.machines)?));
        let machines = QemuMachines { host, logs: config.journal.clone(), hook: config.hook };
        JournaledDriver::new(machines, &config.journal)
            .map_err(|error| format!("cannot open the journal in {}: {error}", config.journal.display()))
    }
}

impl WatchedDriver for JournaledDriver<QemuMachines> {
    fn watch_machines(&self) -> Pending<'_, Result<Box<dyn MachineWatch>, String>> {
        let watch: Box<dyn MachineWatch> = Box::new(QemuWatch::new(self.hypervisor.host.clone()));
        Box::pin(async { Ok(watch) })
    }

    /// Nothing is stored in machines.
    fn remove_unknown_records(&self) -> Pending<'_, Result<Vec<String>, String>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// A machine, and the connection to its process if it has one.
pub struct FoundQemu {
    machine: QemuMachine,
    qmp: Option<Qmp>,
}

type QemuResult<T> = crate::journaled::StepResult<T, QemuMachines>;

impl From<QemuError> for StepError<QemuError> {
    fn from(error: QemuError) -> StepError<QemuError> {
        match &error.cause {
            QmpError::Refused { .. } => StepError::Failed(error.to_string()),
            QmpError::Absent(_)
            | QmpError::Connect(_)
            | QmpError::Silent
            | QmpError::Timeout(_)
            | QmpError::Disconnected(_)
            | QmpError::Malformed(_) => StepError::Unreachable(error),
        }
    }
}

impl QemuMachines {
    async fn execute(&self, found: &FoundQemu, command: &'static str) -> QemuResult<()> {
        let Some(qmp) = &found.qmp else { return Err(StepError::Failed("the machine is not running".into())) };
        Ok(self.host.execute(&found.machine, qmp, command).await?)
    }

    /// Ends the process, if there is one, and waits for its end.
    async fn quit(&self, machine: &QemuMachine) -> QemuResult<()> {
        let limit = now() + QUIT_MAX;
        loop {
            match self.host.inspect(machine).await {
                Ok(Process::Absent) => return Ok(()),
                Ok(Process::Other(reason)) => return Err(StepError::Failed(reason)),
                Ok(Process::Present { .. }) if now() >= limit => {
                    let secs = QUIT_MAX.as_secs();
                    return Err(StepError::Failed(format!(
                        "QEMU did not end within {secs} s after 'quit': end it by hand"
                    )));
                }
                Ok(Process::Present { qmp, .. }) => match self.host.execute(machine, &qmp, "quit").await {
                    Err(error) if matches!(error.cause, QmpError::Refused { .. }) => return Err(error.into()),
                    // QEMU can end before it replies.
                    Ok(()) | Err(_) => self.host.forget(&machine.qmp),
                },
                Err(error) if now() >= limit => return Err(error.into()),
                // A process that is about to end does not answer any more.
                Err(_) => {}
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn log(&self, machine: &QemuMachine, kind: &str) -> PathBuf {
        self.logs.join(format!("{}.{kind}.log", machine.vm_id))
    }

    /// Runs the start command and waits until the machine runs. Returns the reason if the command has failed.
    async fn launch(&self, job: &Job<'_, Self>, machine: &QemuMachine) -> QemuResult<Option<String>> {
        let log = self.log(machine, "start");
        let limit = now() + START_MAX;
        let mut child: Option<Child> = None;
        loop {
            let failure = match child.as_mut().map(Child::try_wait) {
                Some(Ok(Some(status))) if !status.success() => Some(describe_failure(&machine.start[0], status, &log)),
                Some(Err(error)) => Some(error.to_string()),
                Some(Ok(_)) | None => None,
            };
            // A failed command can have started the machine nevertheless, so look after the command has ended.
            let Some(mut reason) = self.find_running(machine).await? else { return Ok(None) };
            if failure.is_some() {
                return Ok(failure);
            }
            if child.is_none() {
                match launch::lock(&log)? {
                    // An earlier start can have succeeded just before it released the lock.
                    Some(_) if self.find_running(machine).await?.is_none() => return Ok(None),
                    Some(lock) => child = Some(launch::start(machine, lock)?),
                    None => reason = "an earlier start command, or its QEMU, still runs".into(),
                }
            }
            job.run_step_hook(Step::AwaitStart);
            if now() >= limit {
                let secs = START_MAX.as_secs();
                return Err(StepError::Failed(format!("the machine did not start within {secs} s: {reason}")));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// None if the machine runs, and else the reason why it does not.
    async fn find_running(&self, machine: &QemuMachine) -> QemuResult<Option<String>> {
        match self.host.inspect(machine).await {
            Ok(Process::Present { state: MachineState::Running | MachineState::Busy(_), .. }) => Ok(None),
            Ok(Process::Present { qmp, .. }) => {
                self.host.execute(machine, &qmp, "cont").await?;
                Ok(None)
            }
            Ok(Process::Other(reason)) => Err(StepError::Failed(reason)),
            Ok(Process::Absent) => Ok(Some("QEMU is not listening on its socket".into())),
            Err(error) => Ok(Some(error.to_string())),
        }
    }
}

impl Hypervisor for QemuMachines {
    type Error = QemuError;
    type Machine = FoundQemu;

    fn hook(&self) -> &StepHook {
        &self.hook
    }

    async fn inspect(&self, vm_id: Guid) -> QemuResult<Option<LocatedMachine<FoundQemu>>> {
        let Some(machine) = self.host.file.machine(vm_id) else { return Ok(None) };
        let (qmp, state) = match self.host.inspect(&machine).await? {
            Process::Absent => (None, MachineState::Off),
            Process::Present { qmp, state } => (Some(qmp), state),
            Process::Other(reason) => return Err(StepError::Failed(reason)),
        };
        Ok(Some(LocatedMachine { machine: FoundQemu { machine, qmp }, state }))
    }

    async fn read_stage(&self, entry: &Entry, _found: &FoundQemu) -> QemuResult<Option<StageRecord>> {
        Ok(entry.reached)
    }

    async fn record(&self, _entry: &Entry, _found: &FoundQemu, _reached: StageRecord) -> QemuResult<()> {
        Ok(())
    }

    async fn clear(&self, _entry: &Entry) -> Result<(), QemuError> {
        Ok(())
    }

    fn forget_connection(&self, machine: Guid, _error: &QemuError) {
        self.host.forget_machine(machine);
    }

    async fn suspend(&self, found: &FoundQemu) -> QemuResult<()> {
        self.execute(found, "stop").await
    }

    async fn resume(&self, found: &FoundQemu) -> QemuResult<()> {
        self.execute(found, "cont").await
    }

    async fn reset(&self, found: &FoundQemu) -> QemuResult<()> {
        self.execute(found, "system_reset").await
    }

    async fn start(job: &Job<'_, Self>, found: &FoundQemu) -> QemuResult<()> {
        let (machines, machine) = (job.hypervisor, &found.machine);
        machines.quit(machine).await?;
        for attempt in 1.. {
            match machines.launch(job, machine).await? {
                None => break,
                Some(reason) if attempt == START_ATTEMPTS => return Err(StepError::Failed(reason)),
                Some(reason) => tracing::warn!(name = machine.name, reason, "trying to start a machine again"),
            }
            tokio::time::sleep(START_PAUSE).await;
        }
        Ok(())
    }

    async fn shutdown(&self, found: &FoundQemu) -> QemuResult<()> {
        self.execute(found, "system_powerdown").await
    }

    async fn destroy(&self, found: &FoundQemu) -> QemuResult<()> {
        self.quit(&found.machine).await
    }

    /// A guest that has powered off leaves its QEMU behind if that was started with `-no-shutdown`.
    async fn end_process(&self, found: &FoundQemu) -> QemuResult<()> {
        self.quit(&found.machine).await
    }

    /// The file describes the machine, so that it can be started again.
    async fn check_persistent(&self, _found: &FoundQemu) -> QemuResult<()> {
        Ok(())
    }

    async fn migrate(_job: &mut Job<'_, Self>, to: &HostAddress) -> QemuResult<Outcome> {
        Err(cannot_move(to))
    }

    async fn redeploy(_job: &mut Job<'_, Self>, to: &HostAddress) -> QemuResult<Outcome> {
        Err(cannot_move(to))
    }

    async fn evict(job: &mut Job<'_, Self>) -> QemuResult<Outcome> {
        note_disks(job)?;
        shut_down(job, Needs::Nothing, Grace::Eviction).await?;
        remove(job).await?;
        Ok(Outcome::Gone)
    }

    async fn terminate(job: &mut Job<'_, Self>) -> QemuResult<Outcome> {
        note_disks(job)?;
        while let Some(LocatedMachine { machine, state }) = job.inspect().await? {
            match job.read_stage(&machine).await?.map(|reached| reached.stage) {
                None => job.record(&machine, Stage::Begun).await?,
                Some(Stage::Down) if !state.is_active() => break,
                // Another program may have started it again.
                Some(Stage::Begun | Stage::Down) => {
                    destroy(job, &machine).await?;
                    job.record(&machine, Stage::Down).await?;
                }
                Some(stage @ (Stage::Held | Stage::Done)) => return Err(inconsistent(stage).into()),
            }
        }
        remove(job).await?;
        Ok(Outcome::Gone)
    }

    /// Not while the order may have paused the machine: then it is resumed as soon as QEMU answers.
    fn can_give_up(&self, entry: &Entry) -> bool {
        match entry.order.action {
            Action::Freeze { .. } | Action::Reboot(RebootMode::Hard) => entry.reached.is_none(),
            Action::Reboot(RebootMode::Graceful)
            | Action::Migrate { .. }
            | Action::Redeploy { .. }
            | Action::Start
            | Action::Stop
            | Action::Evict(_)
            | Action::Terminate
            | Action::Withdraw => true,
        }
    }
}

fn cannot_move(to: &HostAddress) -> StepError<QemuError> {
    StepError::Failed(format!(
        "the machine cannot move to host '{}': the qemu driver does not move machines; use libvirt for that",
        to.name
    ))
}

/// Writes the disks to the journal, because the file can change before they are deleted.
fn note_disks(job: &mut Job<'_, QemuMachines>) -> QemuResult<()> {
    let Some(machine) = job.hypervisor.host.file.machine(job.entry.order.id.machine) else { return Ok(()) };
    if job.entry.reached.is_none() && !machine.delete_disks.is_empty() {
        job.entry.disks = machine.delete_disks.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        job.journal.write(job.entry)?;
    }
    Ok(())
}

/// Removes what is left of a machine that is off.
async fn remove(job: &Job<'_, QemuMachines>) -> QemuResult<()> {
    let machine = job.hypervisor.host.file.machine(job.entry.order.id.machine);
    if let Some(machine) = &machine
        && let Some(words) = &machine.cleanup
    {
        job.run_step_hook(Step::Cleanup);
        clean_up(machine, words, &job.hypervisor.log(machine, "cleanup")).await?;
    }
    if !job.entry.disks.is_empty() {
        job.run_step_hook(Step::DeleteDisks);
    }
    for disk in &job.entry.disks {
        delete_disk(disk)?;
    }
    Ok(())
}
