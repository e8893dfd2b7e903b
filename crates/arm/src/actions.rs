//! What is done to machines: one, or many of a set. Where events come of it the answer lasts as long as they do; the rest
//! is over at once, and says so when it is asked.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use forewarn_core::{Command, Machine, MachineId, Power, Request};
use http::StatusCode;
use serde_json::Value;

use super::call::Call;
use super::instances::{self, Chosen, chosen};
use super::machines;
use super::operations::Ticket;
use super::scale_sets;
use forewarn_api::Note;
use forewarn_api::error::ApiError;

/// What somebody wants to have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Restart,
    Redeploy,
    PerformMaintenance,
    Start,
    PowerOff,
    Deallocate,
    /// Nothing that the rules know: the machine keeps its place, its name and its power.
    Reimage,
}

/// How a deed is done.
enum Way {
    /// One operation for all machines.
    Asking(fn(Vec<MachineId>) -> Request),
    Switching(Power),
    Nothing,
}

impl Deed {
    fn name(self) -> &'static str {
        match self {
            Deed::Restart => "restart",
            Deed::Redeploy => "redeploy",
            Deed::PerformMaintenance => "perform-maintenance",
            Deed::Start => "start",
            Deed::PowerOff => "stop",
            Deed::Deallocate => "deallocate",
            Deed::Reimage => "reimage",
        }
    }

    fn way(self) -> Way {
        match self {
            Deed::Restart => Way::Asking(|machines| Request::Restart { machines }),
            Deed::Redeploy => Way::Asking(|machines| Request::Redeploy { machines }),
            Deed::PerformMaintenance => Way::Asking(|machines| Request::PerformMaintenance { machines }),
            Deed::Start => Way::Switching(Power::Running),
            Deed::PowerOff => Way::Switching(Power::Stopped),
            Deed::Deallocate => Way::Switching(Power::Deallocated),
            Deed::Reimage => Way::Nothing,
        }
    }
}

/// The three doors of a deed: a virtual machine, an instance, a set.
macro_rules! deed {
    ($module:ident, $deed:ident) => {
        pub mod $module {
            use super::*;

            pub async fn machine(call: Call) -> Result<Response, ApiError> {
                let machine = machines::find(&call.arm.snapshot().region, call.id())?;
                done_to(&call, Deed::$deed, vec![machine]).await
            }

            pub async fn instance(call: Call) -> Result<Response, ApiError> {
                let machine = instances::find(&call.arm.snapshot().region, call.id())?;
                done_to(&call, Deed::$deed, vec![machine]).await
            }

            pub async fn set(call: Call) -> Result<Response, ApiError> {
                done_to_set(&call, Deed::$deed).await
            }
        }
    };
}

deed!(restart, Restart);
deed!(redeploy, Redeploy);
deed!(perform_maintenance, PerformMaintenance);
deed!(start, Start);
deed!(power_off, PowerOff);
deed!(deallocate, Deallocate);
deed!(reimage, Reimage);

async fn done_to_set(call: &Call, deed: Deed) -> Result<Response, ApiError> {
    let region = &call.arm.snapshot().region;
    let group = scale_sets::find(region, call.id())?;
    let machines = match (chosen(region, &group, &call.may_json()?)?, deed.way()) {
        // Who says "all" means those that it can be done to.
        (Chosen::All(mut machines), Way::Asking(_)) => {
            machines.retain(|machine| machine.power == Power::Running);
            machines
        }
        (chosen, Way::Asking(_) | Way::Switching(_) | Way::Nothing) => chosen.machines(),
    };
    done_to(call, deed, machines).await
}

async fn done_to(call: &Call, deed: Deed, machines: Vec<Arc<Machine>>) -> Result<Response, ApiError> {
    let over = Ticket::over(call.arm.api.engine().now());
    let (ticket, commands) = match deed.way() {
        Way::Asking(_) if machines.is_empty() => (over, Vec::new()),
        Way::Asking(request) => {
            let ids = machines.iter().map(|machine| machine.id).collect();
            Ticket::of_requests(&call.arm, vec![request(ids)])
        }
        Way::Switching(power) => {
            let switch = |machine: &Arc<Machine>| Command::SetPower { machine: machine.id, power };
            (over, machines.iter().map(switch).collect())
        }
        Way::Nothing => (over, Vec::new()),
    };
    call.arm.commit(commands, Note::new(deed.name(), target(&machines)), |_| Vec::new()).await?;
    Ok(ticket.accepted(call))
}

/// Whom the audit trail names: a few, and how many more.
fn target(machines: &[Arc<Machine>]) -> String {
    const NAMED_MAX: usize = 10;
    let mut text = machines.iter().take(NAMED_MAX).map(|machine| &*machine.name).collect::<Vec<_>>().join(", ");
    if machines.len() > NAMED_MAX {
        text += &format!(" and {} more", machines.len() - NAMED_MAX);
    }
    text
}

/// Deletes instances: one operation, however many they are.
pub async fn delete_instances(call: Call) -> Result<Response, ApiError> {
    let body = call.json()?;
    if body.get("instanceIds").and_then(Value::as_array).is_none_or(|ids| ids.is_empty()) {
        return Err(super::fields::missing("instanceIds"));
    }
    let region = &call.arm.snapshot().region;
    let group = scale_sets::find(region, call.id())?;
    let machines = chosen(region, &group, &body)?.machines();
    let ids: Vec<_> = machines.iter().map(|machine| machine.id).collect();
    let requests = if ids.is_empty() { Vec::new() } else { vec![Request::Delete { machines: ids, group: None }] };
    let (ticket, commands) = Ticket::of_requests(&call.arm, requests);
    let note = Note::new("scale-set.delete-instances", group.name.as_ref())
        .with(serde_json::json!({ "instances": target(&machines) }));
    call.arm.commit(commands, note, |_| Vec::new()).await?;
    Ok(ticket.accepted(&call))
}

/// Brings instances to the latest model.
pub async fn upgrade(call: Call) -> Result<Response, ApiError> {
    let region = &call.arm.snapshot().region;
    let group = scale_sets::find(region, call.id())?;
    let machines = match chosen(region, &group, &call.may_json()?)? {
        // An empty list is all, to the rules.
        Chosen::All(_) => Vec::new(),
        Chosen::These(machines) => machines.iter().map(|machine| machine.id).collect(),
    };
    let note = Note::new("scale-set.upgrade", group.name.as_ref());
    let command = Command::UpgradeInstances { group: group.id, machines };
    call.arm.commit(vec![command], note, |_| Vec::new()).await?;
    Ok(Ticket::over(call.arm.api.engine().now()).accepted(&call))
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

    /// Nobody waits for it: clients take nothing but 204.
    async fn evict(call: &Call, machine: &Machine) -> Result<Response, ApiError> {
        let (_, commands) = Ticket::of_requests(&call.arm, vec![Request::Evict { machine: machine.id }]);
        call.arm.commit(commands, Note::new("evict", machine.name.as_ref()), |_| Vec::new()).await?;
        Ok(StatusCode::NO_CONTENT.into_response())
    }
}
