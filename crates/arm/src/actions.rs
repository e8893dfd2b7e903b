//! Actions on one machine or on instances of a scale set. Actions that create events are long-running operations until
//! those events are finished, and changes of the power state until the hosts have reported them; the others finish immediately.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use forewarn_api_types::{ActionOptions, PowerState};
use forewarn_core::{Command, Machine, MachineId, Power, Request};
use http::StatusCode;
use serde_json::Value;

use super::call::Call;
use super::fields::missing;
use super::instances::{self, Selection, select_instances};
use super::machines;
use super::operations::OperationTicket;
use super::scale_sets;
use forewarn_api::error::ApiError;
use forewarn_api::{Action, AuditDetail, MachineTarget, name_machines};

/// An action on machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MachineAction {
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
    StartOperation(Action, fn(Vec<MachineId>) -> Request),
    SetPower(PowerState),
    None,
}

impl MachineAction {
    fn effect(self) -> Effect {
        match self {
            MachineAction::Restart => {
                Effect::StartOperation(Action::RestartMachine, |machines| Request::Restart { machines })
            }
            MachineAction::Redeploy => {
                Effect::StartOperation(Action::RedeployMachine, |machines| Request::Redeploy { machines })
            }
            MachineAction::PerformMaintenance => {
                Effect::StartOperation(Action::PerformMaintenance, |machines| Request::PerformMaintenance { machines })
            }
            MachineAction::Start => Effect::SetPower(PowerState::Running),
            MachineAction::PowerOff => Effect::SetPower(PowerState::Stopped),
            MachineAction::Deallocate => Effect::SetPower(PowerState::Deallocated),
            MachineAction::Reimage => Effect::None,
        }
    }
}

/// The handlers of an action: on a virtual machine, on an instance, on a scale set.
macro_rules! action {
    ($module:ident, $action:ident) => {
        pub mod $module {
            use super::*;

            pub async fn act_on_machine(call: Call) -> Result<Response, ApiError> {
                let machine = machines::find(&call.arm.snapshot().region, call.id())?;
                perform(&call, MachineAction::$action, vec![machine]).await
            }

            pub async fn act_on_instance(call: Call) -> Result<Response, ApiError> {
                let machine = instances::find(&call.arm.snapshot().region, call.id())?;
                perform(&call, MachineAction::$action, vec![machine]).await
            }

            pub async fn act_on_set(call: Call) -> Result<Response, ApiError> {
                perform_on_set(&call, MachineAction::$action).await
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

async fn perform_on_set(call: &Call, action: MachineAction) -> Result<Response, ApiError> {
    let region = &call.arm.snapshot().region;
    let group = scale_sets::find(region, call.id())?;
    let machines = match (select_instances(region, &group, &call.optional_json()?)?, action.effect()) {
        // "All" means all that the action applies to.
        (Selection::All(mut machines), Effect::StartOperation(..)) => {
            machines.retain(|machine| machine.power == Power::Running);
            machines
        }
        (selection, Effect::StartOperation(..) | Effect::SetPower(_) | Effect::None) => selection.machines(),
    };
    perform(call, action, machines).await
}

async fn perform(call: &Call, action: MachineAction, machines: Vec<Arc<Machine>>) -> Result<Response, ApiError> {
    let actions = &call.arm.actions;
    let finished = OperationTicket::finished(actions.engine().now());
    let ticket = match action.effect() {
        Effect::StartOperation(action, _) if machines.is_empty() => {
            let note = actions.permit(action)?.note(String::new());
            actions.commit(Vec::new(), note, |_| Vec::new()).await?;
            finished
        }
        Effect::StartOperation(action, request) => {
            OperationTicket::of_operation(&actions.start_on_all(action, &machines, request).await?)
        }
        Effect::SetPower(power) => {
            let ticket = OperationTicket::power(actions.engine().now(), &machines);
            actions.set_power_of_all(&machines, power, ticket.seed()).await?;
            ticket
        }
        Effect::None => {
            let note = actions.permit(Action::ReimageMachine)?.note(name_machines(&machines));
            actions.commit(Vec::new(), note, |_| Vec::new()).await?;
            finished
        }
    };
    Ok(ticket.accepted(call))
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
    let (ticket, commands) = OperationTicket::of_requests(&call.arm, requests);
    let note = call
        .arm
        .actions
        .permit(Action::DeleteInstances)?
        .note(group.name.as_str())
        .with(AuditDetail::InstanceNames { instances: name_machines(&machines) });
    call.arm.actions.commit(commands, note, |_| Vec::new()).await?;
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
    let note = call.arm.actions.permit(Action::UpgradeInstances)?.note(group.name.as_str());
    let command = Command::UpgradeInstances { group: group.id, machines };
    call.arm.actions.commit(vec![command], note, |_| Vec::new()).await?;
    Ok(OperationTicket::finished(call.arm.actions.engine().now()).accepted(&call))
}

pub mod simulate_eviction {
    use super::*;

    pub async fn act_on_machine(call: Call) -> Result<Response, ApiError> {
        let machine = machines::find(&call.arm.snapshot().region, call.id())?;
        evict(&call, &machine).await
    }

    pub async fn act_on_instance(call: Call) -> Result<Response, ApiError> {
        let machine = instances::find(&call.arm.snapshot().region, call.id())?;
        evict(&call, &machine).await
    }

    /// Responds with 204: clients accept no other status here.
    async fn evict(call: &Call, machine: &Machine) -> Result<Response, ApiError> {
        call.arm.actions.evict_machine(&MachineTarget::Id(machine.id), ActionOptions::default()).await?;
        Ok(StatusCode::NO_CONTENT.into_response())
    }
}
