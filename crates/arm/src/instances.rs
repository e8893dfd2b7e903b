//! Handlers of scale set instances, which are named by number in Uniform sets and by name in Flexible sets.

use std::sync::Arc;

use axum::response::Response;
use forewarn_core::{
    Command, Group, Machine, MachineChange, MachineId, Membership, Orchestration, Region, ResourceGroupRef,
};
use forewarn_wire::arm::id::ResourceId;
use http::StatusCode;
use serde_json::Value;

use super::call::Call;
use super::fields::{invalid, read_bool};
use super::machines;
use super::page::{self, PageRequest};
use super::render::{self, ResourceForm, View};
use super::resource::not_found;
use super::scale_sets::{self, set_of};
use super::write::WriteResult;
use forewarn_api::Action;
use forewarn_api::error::ApiError;

/// IDs in one request: the maximum number of instances of a set.
const IDS_MAX: usize = forewarn_core::settings::MACHINES_PER_GROUP_MAX;

pub async fn list(call: Call) -> Result<Response, ApiError> {
    let request = PageRequest::of(&call)?;
    let after = request.after_number()?.map(MachineId);
    let snapshot = call.arm.snapshot();
    let region = &snapshot.region;
    let group = scale_sets::find(region, call.id())?;
    let mut found: Vec<_> =
        region.group_members(&group).filter(|machine| after.is_none_or(|after| machine.id > after)).cloned().collect();
    // Members are grouped by placement group; pages are ordered by registration.
    found.sort_unstable_by_key(|machine| machine.id);
    let next = request.cut(&mut found, |machine| machine.id.0.to_string());
    let value = render::machines(&call.arm, region, &found, ResourceForm::Instance, View::of(&call)).await?;
    Ok(page::respond(&call, value, next))
}

pub async fn get(call: Call) -> Result<Response, ApiError> {
    machines::respond(&call, find, ResourceForm::Instance).await
}

pub async fn instance_view(call: Call) -> Result<Response, ApiError> {
    machines::respond_view(&call, find)
}

/// Changes an instance. Only its scale-in protection can be set.
pub async fn put(call: Call) -> Result<Response, ApiError> {
    let given = call.json()?;
    let machine = find(&call.arm.snapshot().region, call.id())?;
    let protected = read_bool(&given, "properties.protectionPolicy.protectFromScaleIn")?;
    let commands = protected.filter(|protected| *protected != machine.protected).map(|protected| {
        let change = Box::new(MachineChange { protected: Some(protected), ..MachineChange::default() });
        Command::ChangeMachine { machine: machine.id, change }
    });
    let note = call.arm.actions.permit(Action::ChangeMachine)?.note(machine.name.as_str());
    let done = call.arm.actions.commit(commands.into_iter().collect(), note, |_| Vec::new()).await?;
    let region = &done.snapshot.region;
    let machine = region.machine(machine.id).ok_or_else(|| not_found(call.id()))?;
    let resource = render::machine(&call.arm, region, machine, ResourceForm::Instance, View::Without).await?;
    Ok(WriteResult { is_new: false, resource, pending: None }.into_response(&call, StatusCode::OK))
}

pub async fn delete(call: Call) -> Result<Response, ApiError> {
    machines::delete_found(&call, find).await
}

pub fn find(region: &Region, id: &ResourceId) -> Result<Arc<Machine>, ApiError> {
    let group = scale_sets::find(region, id)?;
    let instance = id.provider.as_ref().and_then(|it| it.pairs.get(1)).map_or("", |pair| pair.name.as_str());
    find_instance(region, &group, instance)?.ok_or_else(|| not_found(id))
}

fn find_instance(region: &Region, group: &Group, instance: &str) -> Result<Option<Arc<Machine>>, ApiError> {
    let name = match set_of(group)?.orchestration {
        Orchestration::Uniform => format!("{}_{instance}", group.name),
        Orchestration::Flexible => instance.to_owned(),
    };
    let home: &ResourceGroupRef = &group.home;
    let found = region.machine_at(home, &name);
    Ok(found
        .filter(|machine| matches!(machine.membership, Membership::Instance { set, .. } if set == group.id))
        .cloned())
}

/// The instances that an action on a set applies to.
pub enum Selection {
    All(Vec<Arc<Machine>>),
    These(Vec<Arc<Machine>>),
}

impl Selection {
    pub fn machines(self) -> Vec<Arc<Machine>> {
        match self {
            Selection::All(machines) | Selection::These(machines) => machines,
        }
    }
}

/// Reads `instanceIds` from the body of an action. If it is missing or contains `*`, all instances are selected.
pub fn select_instances(region: &Region, group: &Group, body: &Value) -> Result<Selection, ApiError> {
    const PLACE: &str = "instanceIds";
    let all = || Selection::All(region.group_members(group).cloned().collect());
    let ids = match body.get(PLACE) {
        None | Some(Value::Null) => return Ok(all()),
        Some(Value::Array(ids)) if ids.len() <= IDS_MAX => ids,
        Some(Value::Array(_)) => return Err(invalid(PLACE, format!("must have at most {IDS_MAX} entries"))),
        Some(_) => return Err(invalid(PLACE, "must be a list")),
    };
    if ids.is_empty() || ids.iter().any(|id| id == "*") {
        return Ok(all());
    }
    let mut machines = Vec::with_capacity(ids.len());
    for id in ids {
        let id = id.as_str().ok_or_else(|| invalid(PLACE, "must be a list of strings"))?;
        let missing = || invalid(PLACE, format!("contains '{id}', but '{}' has no such instance", group.name));
        machines.push(find_instance(region, group, id)?.ok_or_else(missing)?);
    }
    machines.sort_unstable_by_key(|machine| machine.id);
    machines.dedup_by_key(|machine| machine.id);
    Ok(Selection::These(machines))
}
