//! Access to the QEMU processes of this host: one QMP connection for each, shared by orders and by the watch, and opened
//! again when it ends.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use forewarn_core::Guid;
use tokio::sync::Notify;

use super::file::{MachinesFile, QemuMachine};
use super::qmp::{Qmp, QmpError};
use crate::journaled::MachineState;
use crate::order::parse_guid;

/// The connection to one socket, and the UUID of its QEMU. The lock is held while a connection is opened, because QEMU
/// serves only one.
type Slot = Arc<tokio::sync::Mutex<Option<(Qmp, String)>>>;

pub struct QemuHost {
    pub file: MachinesFile,
    slots: Mutex<HashMap<PathBuf, Slot>>,
    /// Notified when the state of a machine may have changed.
    pub changed: Arc<Notify>,
}

/// An error of one QEMU.
#[derive(Debug)]
pub struct QemuError {
    socket: PathBuf,
    pub cause: QmpError,
}

impl fmt::Display for QemuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QEMU at {}: {}", self.socket.display(), self.cause)
    }
}

/// A QEMU as it was found at a socket.
pub enum Process {
    Absent,
    /// The process listens, and is the wanted machine.
    Present {
        qmp: Qmp,
        state: MachineState,
    },
    /// The process at the socket is another machine. The text says so.
    Other(String),
}

impl QemuHost {
    pub fn new(file: MachinesFile) -> QemuHost {
        QemuHost { file, slots: Mutex::default(), changed: Arc::default() }
    }

    /// Looks at the process of a machine.
    pub async fn inspect(&self, machine: &QemuMachine) -> Result<Process, QemuError> {
        let found = self.try_look(machine).await;
        if found.is_err() {
            self.forget(&machine.qmp);
        }
        match found {
            Err(QmpError::Absent(_)) => Ok(Process::Absent),
            Ok(process) => Ok(process),
            Err(cause) => Err(QemuError { socket: machine.qmp.clone(), cause }),
        }
    }

    async fn try_look(&self, machine: &QemuMachine) -> Result<Process, QmpError> {
        let qmp = match self.connection(machine).await? {
            Ok(qmp) => qmp,
            Err(other) => return Ok(Process::Other(other)),
        };
        // Events are not replayed, so the state is asked for every time.
        let status = qmp.execute("query-status").await?;
        let status =
            status["status"].as_str().ok_or_else(|| QmpError::Malformed("query-status has no status".into()))?;
        Ok(Process::Present { qmp, state: machine_state(status) })
    }

    /// The connection to a machine, or the reason why the process at the socket is another one.
    async fn connection(&self, machine: &QemuMachine) -> Result<Result<Qmp, String>, QmpError> {
        let slot = self.lock().entry(machine.qmp.clone()).or_default().clone();
        let mut slot = slot.lock().await;
        if !slot.as_ref().is_some_and(|(qmp, _)| qmp.is_open()) {
            *slot = None;
            let qmp = Qmp::connect(&machine.qmp, self.changed.clone()).await?;
            let uuid = qmp.execute("query-uuid").await?["UUID"].as_str().unwrap_or_default().to_owned();
            *slot = Some((qmp, uuid));
        }
        match slot.as_ref() {
            Some((qmp, uuid)) if parse_guid(uuid) == Some(machine.vm_id) => Ok(Ok(qmp.clone())),
            Some((_, uuid)) => Ok(Err(describe_other(machine, uuid))),
            None => Err(QmpError::Disconnected("closed".into())),
        }
    }

    /// Ends the connection to a socket, because a call has failed on it.
    pub fn forget(&self, socket: &Path) {
        // A slot that is locked is being opened at this moment.
        if let Some(slot) = self.lock().get(socket)
            && let Ok(mut slot) = slot.try_lock()
            && let Some((qmp, _)) = slot.take()
        {
            qmp.close();
        }
    }

    pub fn forget_machine(&self, machine: Guid) {
        if let Some(machine) = self.file.machine(machine) {
            self.forget(&machine.qmp);
        }
    }

    /// Ends connections to sockets that the file does not name any more.
    pub fn prune(&self) {
        let machines = self.file.machines();
        self.lock().retain(|socket, _| machines.iter().any(|machine| machine.qmp == *socket));
    }

    pub async fn execute(&self, machine: &QemuMachine, qmp: &Qmp, command: &'static str) -> Result<(), QemuError> {
        let result = qmp.execute(command).await;
        result.map(drop).map_err(|cause| QemuError { socket: machine.qmp.clone(), cause })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, Slot>> {
        self.slots.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn describe_other(machine: &QemuMachine, uuid: &str) -> String {
    let (socket, expected) = (machine.qmp.display(), machine.vm_id);
    format!("the QEMU at {socket} has the UUID {uuid}, not {expected}: correct vm_id or qmp, or start it with -uuid")
}

fn machine_state(status: &str) -> MachineState {
    match status {
        "running" => MachineState::Running,
        // QEMU names a paused machine "prelaunch" after a reset.
        "paused" | "prelaunch" => MachineState::Paused,
        // The guest has powered off, and QEMU was told to stay.
        "shutdown" => MachineState::Off,
        _ => MachineState::Busy(status.to_owned()),
    }
}
