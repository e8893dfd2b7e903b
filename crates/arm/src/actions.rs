//! Actions on one machine or on instances of a scale set. Actions that create events are long-running operations until
//! those events are finished; the others finish at once.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use forewarn_core::{Command, Machine, MachineId, Power, Request};
use http::StatusCode;
use serde_json::Value;

use super::call::Call;
use super::fields::missing;
use super::instances::{self, Selection, select_instances};
use super::machines;
use super::operations::Ticket;
use super::scale_sets;
use forewarn_api::AuditNote;
use forewarn_api::error::ApiError;

/// An action on machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Restart,
    Redeploy,
    PerformMaintenance,
    Start,
    PowerOff,
    Deallocate,
    /// Accepted and ignored: the rules know no disks.
    Reimage,
}

/// The effect of an action on the region.
enum Effect {
    /// One operation for all machines.
    StartOperation(fn(Vec<MachineId>) -> Request),
    SetPower(Power),
    None,
}

impl Action {
    fn name(self) -> &'static str {
        match self {
            Action::Restart => "restart",
            Action::Redeploy => "redeploy",
            Action::PerformMaintenance => "perform-maintenance",
            Action::Start => "start",
            Action::PowerOff => "stop",
            Action::Deallocate => "deallocate",
            Action::Reimage => "reimage",
        }
    }

    fn effect(self) -> Effect {
        match self {
            Action::Restart => Effect::StartOperation(|machines| Request::Restart { machines }),
            Action::Redeploy => Effect::StartOperation(|machines| Request::Redeploy { machines }),
            Action::PerformMaintenance => Effect::StartOperation(|machines| Request::PerformMaintenance { machines }),
            Action::Start => Effect::SetPower(Power::Running),
            Action::PowerOff => Effect::SetPower(Power::Stopped),
            Action::Deallocate => Effect::SetPower(Power::Deallocated),
            Action::Reimage => Effect::None,
        }
    }
}

/// The handlers of an action: on a virtual machine, on an instance, on a scale set.
macro_rules! action {
    ($module:ident, $action:ident) => {
        pub mod $module {
            use super::*;

            pub async fn machine(call: Call) -> Result<Response, ApiError> {
                let machine = machines::find(&call.arm.snapshot().region, call.id())?;
                perform(&call, Action::$action, vec![machine]).await
            }

            pub async fn instance(call: Call) -> Result<Response, ApiError> {
                let machine = instances::find(&call.arm.snapshot().region, call.id())?;
                perform(&call, Action::$action, vec![machine]).await
            }

            pub async fn set(call: Call) -> Result<Response, ApiError> {
                perform_on_set(&call, Action::$action).await
            }
        }
    };
}

action!(restart, Restart);
action!(redeploy, Redeploy);
action!(perform_maintenance, PerformMaintenance);
action!(start, Start);
action!(power_off, PowerOff);
action!(deallocate, Deallocate);
action!(reimage, Reimage);

async fn perform_on_set(call: &Call, action: Action) -> Result<Response, ApiError> {
    let region = &call.arm.snapshot().region;
    let group = scale_sets::find(region, call.id())?;
    let machines = match (select_instances(region, &group, &call.optional_json()?)?, action.effect()) {
        // "All" means all that the action applies to.
        (Selection::All(mut machines), Effect::StartOperation(_)) => {
            machines.retain(|machine| machine.power == Power::Running);
            machines
        }
        (selection, Effect::StartOperation(_) | Effect::SetPower(_) | Effect::None) => selection.machines(),
    };
    perform(call, action, machines).await
}

async fn perform(call: &Call, action: Action, machines: Vec<Arc<Machine>>) -> Result<Response, ApiError> {
    let finished = Ticket::finished(call.arm.api.engine().now());
    let (ticket, commands) = match action.effect() {
        Effect::StartOperation(_) if machines.is_empty() => (finished, Vec::new()),
        Effect::StartOperation(request) => {
            let ids = machines.iter().map(|machine| machine.id).collect();
            Ticket::of_requests(&call.arm, vec![request(ids)])
        }
        Effect::SetPower(power) => {
            let switch = |machine: &Arc<Machine>| Command::SetPower { machine: machine.id, power };
            (finished, machines.iter().map(switch).collect())
        }
        Effect::None => (finished, Vec::new()),
    };
    call.arm.commit(commands, AuditNote::new(action.name(), name_machines(&machines)), |_| Vec::new()).await?;
    Ok(ticket.accepted(call))
}

/// The machines as the audit trail names them: the first few, then the number of the others.
fn name_machines(machines: &[Arc<Machine>]) -> String {
    const NAMED_MAX: usize = 10;
    let mut text = machines.iter().take(NAMED_MAX).map(|machine| &*machine.name).collect::<Vec<_>>().join(", ");
    if machines.len() > NAMED_MAX {
        text += &format!(" and {} more", machines.len() - NAMED_MAX);
    }
    text
}

/// Deletes instances in one operation.
pub async fn delete_instances(call: Call) -> Result<Response, ApiError> {
    let body = call.json()?;
    if body.get("instanceIds").and_then(Value::as_array).is_none_or(|ids| ids.is_empty()) {
        return Err(missing("instanceIds"));
    }
    let region = &call.arm.snapshot().region;
    let group = scale_sets::find(region, call.id())?;
    let machines = select_instances(region, &group, &body)?.machines();
    let ids: Vec<_> = machines.iter().map(|machine| machine.id).collect();
    let requests = if ids.is_empty() { Vec::new() } else { vec![Request::Delete { machines: ids, group: None }] };
    let (ticket, commands) = Ticket::of_requests(&call.arm, requests);
    let note = AuditNote::new("scale-set.delete-instances", group.name.as_ref())
        .with(serde_json::json!({ "instances": name_machines(&machines) }));
    call.arm.commit(commands, note, |_| Vec::new()).await?;
    Ok(ticket.accepted(&call))
}

/// Upgrades instances to the latest model.
pub async fn upgrade(call: Call) -> Result<Response, ApiError> {
    let region = &call.arm.snapshot().region;
    let group = scale_sets::find(region, call.id())?;
    let machines = match select_instances(region, &group, &call.optional_json()?)? {
        // To the rules, an empty list means all instances.
        Selection::All(_) => Vec::new(),
        Selection::These(machines) => machines.iter().map(|machine| machine.id).collect(),
    };
    let note = AuditNote::new("scale-set.upgrade", group.name.as_ref());
    let command = Command::UpgradeInstances { group: group.id, machines };
    call.arm.commit(vec![command], note, |_| Vec::new()).await?;
    Ok(Ticket::finished(call.arm.api.engine().now()).accepted(&call))
}

pub mod simulate_eviction {
    use super::*;

    pub async fn machine(call: Call) -> Result<Response, ApiError> {
        let machine = machines::find(&call.arm.snapshot().region, call.id())?;
        evict(&call, &machine).await
    }

    pub async fn instance(call: Call) -> Result<Response, ApiError> {
        let machine = instances::find(&call.arm.snapshot().region, call.id())?;
        evict(&call, &machine).await
    }

    /// Responds with 204: clients accept no other status here.
    async fn evict(call: &Call, machine: &Machine) -> Result<Response, ApiError> {
        let (_, commands) = Ticket::of_requests(&call.arm, vec![Request::Evict { machine: machine.id }]);
        call.arm.commit(commands, AuditNote::new("evict", machine.name.as_ref()), |_| Vec::new()).await?;
        Ok(StatusCode::NO_CONTENT.into_response())
    }
}
