//! Instances of scale sets, as the set names them: by number in Uniform sets, by name in Flexible ones.

use std::sync::Arc;

use axum::response::Response;
use forewarn_core::{Command, Group, Home, Machine, MachineChange, MachineId, Orchestration, Region, Seat};
use forewarn_wire::arm::id::ResourceId;
use serde_json::Value;

use super::call::Call;
use super::fields::{boolean, invalid};
use super::machines::{self, not_found};
use super::page::{self, Wanted};
use super::render::{self, Form, View};
use super::scale_sets::{self, set_of};
use super::write::Written;
use forewarn_api::Note;
use forewarn_api::error::ApiError;

/// Ids in one request: as many as a set may have instances.
const IDS_MAX: usize = forewarn_core::settings::MACHINES_PER_GROUP_MAX;

pub async fn list(call: Call) -> Result<Response, ApiError> {
    let wanted = Wanted::of(&call)?;
    let after = wanted.after_number()?.map(MachineId);
    let snapshot = call.arm.snapshot();
    let region = &snapshot.region;
    let group = scale_sets::find(region, call.id())?;
    let mut found: Vec<_> =
        region.group_members(&group).filter(|machine| after.is_none_or(|after| machine.id > after)).cloned().collect();
    // Placement groups come one after the other; pages go by registration.
    found.sort_unstable_by_key(|machine| machine.id);
    let next = wanted.cut(&mut found, |machine| machine.id.0.to_string());
    let value = render::machines(&call.arm, region, &found, Form::Instance, View::asked(&call)).await?;
    Ok(page::shown(&call, value, next))
}

pub async fn get(call: Call) -> Result<Response, ApiError> {
    machines::shown(&call, find, Form::Instance).await
}

pub async fn instance_view(call: Call) -> Result<Response, ApiError> {
    machines::view_shown(&call, find)
}

/// What can be set of one instance is its protection.
pub async fn put(call: Call) -> Result<Response, ApiError> {
    let given = call.json()?;
    let machine = find(&call.arm.snapshot().region, call.id())?;
    let protected = boolean(&given, "properties.protectionPolicy.protectFromScaleIn")?;
    let commands = protected.filter(|protected| *protected != machine.protected).map(|protected| {
        let change = Box::new(MachineChange { protected: Some(protected), ..MachineChange::default() });
        Command::ChangeMachine { machine: machine.id, change }
    });
    let note = Note::new("machine.change", machine.name.as_ref());
    let done = call.arm.commit(commands.into_iter().collect(), note, |_| Vec::new()).await?;
    let region = &done.snapshot.region;
    let machine = region.machine(machine.id).ok_or_else(|| not_found(call.id()))?;
    let resource = render::machine(&call.arm, region, machine, Form::Instance, View::Without).await?;
    Ok(Written { is_new: false, resource, pending: None }.into_response(&call))
}

pub async fn delete(call: Call) -> Result<Response, ApiError> {
    machines::delete_found(&call, find).await
}

pub fn find(region: &Region, id: &ResourceId) -> Result<Arc<Machine>, ApiError> {
    let group = scale_sets::find(region, id)?;
    let instance = id.provider.as_ref().and_then(|it| it.pairs.get(1)).map_or("", |pair| pair.name.as_str());
    named(region, &group, instance)?.ok_or_else(|| not_found(id))
}

fn named(region: &Region, group: &Group, instance: &str) -> Result<Option<Arc<Machine>>, ApiError> {
    let name = match set_of(group)?.orchestration {
        Orchestration::Uniform => format!("{}_{instance}", group.name),
        Orchestration::Flexible => instance.to_owned(),
    };
    let home: &Home = &group.home;
    let found = region.machine_at(home, &name);
    Ok(found.filter(|machine| matches!(machine.seat, Seat::Instance { set, .. } if set == group.id)).cloned())
}

/// Whom an action on a set is for.
pub enum Chosen {
    All(Vec<Arc<Machine>>),
    These(Vec<Arc<Machine>>),
}

impl Chosen {
    pub fn machines(self) -> Vec<Arc<Machine>> {
        match self {
            Chosen::All(machines) | Chosen::These(machines) => machines,
        }
    }
}

/// `instanceIds` of an action's body: left out or `*` is all.
pub fn chosen(region: &Region, group: &Group, body: &Value) -> Result<Chosen, ApiError> {
    const PLACE: &str = "instanceIds";
    let all = || Chosen::All(region.group_members(group).cloned().collect());
    let ids = match body.get(PLACE) {
        None | Some(Value::Null) => return Ok(all()),
        Some(Value::Array(ids)) if ids.len() <= IDS_MAX => ids,
        Some(Value::Array(_)) => return Err(invalid(PLACE, format!("may have {IDS_MAX} entries"))),
        Some(_) => return Err(invalid(PLACE, "must be a list")),
    };
    if ids.is_empty() || ids.iter().any(|id| id == "*") {
        return Ok(all());
    }
    let mut machines = Vec::with_capacity(ids.len());
    for id in ids {
        let id = id.as_str().ok_or_else(|| invalid(PLACE, "must be a list of texts"))?;
        let missing = || invalid(PLACE, format!("names '{id}', and '{}' has no such instance", group.name));
        machines.push(named(region, group, id)?.ok_or_else(missing)?);
    }
    machines.sort_unstable_by_key(|machine| machine.id);
    machines.dedup_by_key(|machine| machine.id);
    Ok(Chosen::These(machines))
}
