//! Handlers of machines: register, list, get and change. Actions on them are in `machine_actions`.

use std::sync::Arc;

use axum::response::Response;
use forewarn_api_types::{Machine, MachineChange, NewMachine, Number, Page};
use forewarn_core as core;
use forewarn_core::{MachineId, MachineLookup, Membership, Name, Region};
use forewarn_render::render_machine;
use serde::Deserialize;
use utoipa::IntoParams;

use super::error::ApiError;
use super::extract::{self, Body, GroupQuery, NoQuery, Params, Segment};
use super::{Actions, names};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub struct MachinesQuery {
    /// Only machines with this name.
    pub name: Option<String>,
    /// Only machines in this resource group or cloud service; used with `name`.
    pub group: Option<String>,
    /// Only those of this event group.
    #[param(inline)]
    pub event_group: Option<Number>,
    pub host: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next` of the previous page.
    #[param(pattern = "^[0-9]{1,18}$")]
    pub after: Option<String>,
}

pub async fn list(actions: Actions, Params(query): Params<MachinesQuery>) -> Result<Response, ApiError> {
    let limit = extract::page_limit(query.limit)?;
    let after = extract::numeric_cursor(query.after.as_deref())?.map(MachineId);
    let snapshot = actions.engine().snapshot();
    let region = &snapshot.region;
    let wanted = |machine: &&Arc<core::Machine>| {
        after.is_none_or(|after| machine.id > after)
            && query.name.as_ref().is_none_or(|name| name.eq_ignore_ascii_case(&machine.name))
            && query.group.as_ref().is_none_or(|group| is_within(region, machine, group))
            && query.event_group.is_none_or(|scope| machine.scope.0 == scope.0)
            && query.host.as_ref().is_none_or(|host| machine.host.as_deref() == Some(host))
    };
    let host = query.host.as_deref().map(Name::from);
    let named = query.name.as_deref().and_then(|name| indexed_by_name(region, name, query.group.as_deref()));
    let found: Box<dyn Iterator<Item = &Arc<core::Machine>>> = match (query.event_group, &host) {
        _ if named.is_some() => Box::new(named.into_iter().flatten().filter_map(|id| region.machine(id))),
        (Some(scope), _) => Box::new(region.members(core::ScopeId(scope.0))),
        (None, Some(host)) => Box::new(region.machines_on(host)),
        (None, None) => Box::new(region.machines_after(after)),
    };
    let cursor = |machine: &&Arc<core::Machine>| machine.id.0.to_string();
    let handlers = actions.service().handlers();
    let render = |machine: &&Arc<core::Machine>| Machine {
        handler: handlers.render(machine.id),
        ..render_machine(region, machine)
    };
    let page = Page::split_off(found.filter(wanted), limit, cursor, render);
    Ok(extract::respond_ok(page))
}

pub async fn get(
    actions: Actions,
    Segment(name): Segment,
    Params(within): Params<GroupQuery>,
) -> Result<Response, ApiError> {
    let snapshot = actions.engine().snapshot();
    let machine = names::find_machine(&snapshot.region, &name, within.group.as_deref())?;
    let handler = actions.service().handlers().render(machine.id);
    Ok(extract::respond_ok(Machine { handler, ..render_machine(&snapshot.region, &machine) }))
}

pub async fn register(
    actions: Actions,
    Params(NoQuery {}): Params<NoQuery>,
    Body(body): Body<NewMachine>,
) -> Result<Response, ApiError> {
    actions.register_machine(body).await.map(extract::respond_created)
}

pub async fn change(
    actions: Actions,
    Segment(name): Segment,
    Params(within): Params<GroupQuery>,
    Body(body): Body<MachineChange>,
) -> Result<Response, ApiError> {
    actions.change_machine(&within.machine(name), body).await.map(extract::respond_ok)
}

/// Machines with this name in order of registration, from the index. None if there are too many for the index.
fn indexed_by_name(region: &Region, name: &str, within: Option<&str>) -> Option<Vec<MachineId>> {
    match region.machine_by_name(name, within) {
        MachineLookup::Nothing => Some(Vec::new()),
        MachineLookup::One(id) => Some(vec![id]),
        MachineLookup::Many(ids) if ids.len() == Region::CANDIDATES_MAX => None,
        MachineLookup::Many(mut ids) => {
            ids.sort_unstable();
            Some(ids)
        }
    }
}

fn is_within(region: &Region, machine: &core::Machine, group: &str) -> bool {
    let service = match &machine.membership {
        Membership::RoleInstance { service, .. } => region.group(*service),
        Membership::Standalone | Membership::AvailabilitySet(_) | Membership::Instance { .. } => None,
    };
    let within = service.map_or(&machine.home.resource_group, |service| &service.name);
    within.eq_ignore_ascii_case(group)
}
