//! Adds and clears faults, and records in history when they begin and end.

use std::sync::Arc;
use std::time::Duration;

use forewarn_core::{MachineId, Name};
use tokio_util::sync::CancellationToken;

use forewarn_engine::{AuditEntry, ClockKind, Engine, SubmitError};
use forewarn_metadata::EndpointState;
use forewarn_metadata::faults::{Fault, FaultEnd, FaultError, FaultId, NewFault};

use crate::audit_detail::{AuditDetail, FaultDetail};

/// Maximum time between two checks, in case the system clock is set.
const SLEEP_MAX: Duration = Duration::from_secs(5);

/// The actor in history of a fault that ends by itself.
const ACTOR: &str = "forewarn";

/// The target in history of a fault for all machines.
const ALL_MACHINES: &str = "all machines";

/// Adds, clears and expires the faults of the metadata endpoint.
#[derive(Clone)]
pub struct RecordedFaults {
    engine: Engine,
    endpoint: Arc<EndpointState>,
}

#[derive(Debug, thiserror::Error)]
pub enum AddFaultError {
    #[error(transparent)]
    Fault(#[from] FaultError),
    #[error(transparent)]
    Submit(#[from] SubmitError),
}

impl RecordedFaults {
    pub fn new(engine: Engine, endpoint: Arc<EndpointState>) -> RecordedFaults {
        RecordedFaults { engine, endpoint }
    }

    /// Adds a fault. History records it before it affects a request.
    pub async fn add(&self, new: &NewFault, by: &str) -> Result<Fault, AddFaultError> {
        new.check()?;
        let machine = match new.machine {
            Some(id) => Some((id, self.name_of(id).ok_or(FaultError::UnknownMachine)?)),
            None => None,
        };
        let fault = self.endpoint.faults.prepare(new, machine, self.engine.now())?;
        self.engine.note(audit(&fault, "fault.add", by, None)).await?;
        self.endpoint.faults.add(fault.clone())?;
        Ok(fault)
    }

    /// The active faults, oldest first.
    pub fn list(&self) -> Vec<Fault> {
        self.endpoint.faults.list(self.engine.now())
    }

    pub fn find(&self, id: FaultId) -> Option<Fault> {
        self.list().into_iter().find(|fault| fault.id == id)
    }

    /// Clears a fault; None if there is no such fault.
    pub async fn clear(&self, id: FaultId, by: &str) -> Result<Option<Fault>, SubmitError> {
        let Some(fault) = self.find(id) else { return Ok(None) };
        self.engine.note(audit(&fault, "fault.clear", by, None)).await?;
        Ok(self.endpoint.faults.remove(id).or(Some(fault)))
    }

    /// Clears all faults, or all faults of one machine.
    pub async fn clear_all(&self, machine: Option<MachineId>, by: &str) -> Result<Vec<Fault>, SubmitError> {
        let is_selected = |fault: &Fault| machine.is_none() || fault.machine.as_ref().map(|(id, _)| *id) == machine;
        let mut cleared = Vec::new();
        for fault in self.list().into_iter().filter(is_selected) {
            cleared.extend(self.clear(fault.id, by).await?);
        }
        Ok(cleared)
    }

    /// Expires faults and records their end until the server stops.
    pub async fn run(self, stop: CancellationToken) {
        let _ = stop.run_until_cancelled(self.keep()).await;
    }

    async fn keep(&self) {
        let faults = &self.endpoint.faults;
        let mut commits = self.engine.subscribe();
        loop {
            for (fault, reason) in faults.take_ended(&self.engine.snapshot().region, self.engine.now()) {
                self.record_end(&fault, reason).await;
            }
            let next_end = faults.next_end();
            let pause = match self.engine.clock_kind() {
                ClockKind::Manual => SLEEP_MAX,
                ClockKind::Real => next_end.map_or(SLEEP_MAX, |end| end.since(self.engine.now()).min(SLEEP_MAX)),
            };
            tokio::select! {
                () = faults.changed() => {}
                _ = commits.changed(), if faults.has_any() => {}
                () = tokio::time::sleep(pause), if next_end.is_some() => {}
            }
        }
    }

    async fn record_end(&self, fault: &Fault, reason: FaultEnd) {
        if let Err(error) = self.engine.note(audit(fault, "fault.over", ACTOR, Some(reason))).await {
            tracing::warn!(fault = fault.id.0, %error, "cannot record the end of a fault in history");
        }
    }

    fn name_of(&self, machine: MachineId) -> Option<Name> {
        self.engine.snapshot().region.machine(machine).map(|machine| machine.name.clone())
    }
}

fn audit(fault: &Fault, action: &str, by: &str, end: Option<FaultEnd>) -> AuditEntry {
    let target = fault.machine.as_ref().map_or(ALL_MACHINES, |(_, name)| &**name);
    AuditEntry {
        actor: by.to_owned(),
        action: action.to_owned(),
        target: target.to_owned(),
        detail: AuditDetail::Fault(FaultDetail::of(fault, end)).to_json(),
    }
}
