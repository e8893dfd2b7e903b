//! Handlers of scale sets: groups that create and delete their machines themselves.

use std::sync::Arc;

use axum::response::Response;
use forewarn_api_types::{
    DeleteInstances, InstanceSelection, Machine, NewScaleSet, Page, ScaleSet, ScaleSetChange, Upgrade,
};
use forewarn_core as core;
use forewarn_core::{MachineId, Region};
use forewarn_render::{render_machine, render_scale_set};
use serde::Deserialize;
use utoipa::IntoParams;

use super::Actions;
use super::error::ApiError;
use super::extract::{self, Body, GroupQuery, NoQuery, OptionalBody, Paging, Params, Segment};
use super::groups::list_of;
use super::handlers::Handlers;
use super::machine_actions::DeleteQuery;
use super::names::{self, GroupType, scale_set_of};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct InstancesQuery {
    /// Resource group of the set, if its name alone is not unique.
    pub group: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next` of the previous page.
    #[param(pattern = "^[0-9]{1,18}$")]
    pub after: Option<String>,
}

pub async fn list(actions: Actions, query: Params<Paging>) -> Result<Response, ApiError> {
    let handlers = actions.service().handlers();
    list_of(GroupType::ScaleSet, &actions, query, |region, group| render(handlers, region, group))
}

pub async fn get(
    actions: Actions,
    Segment(name): Segment,
    Params(within): Params<GroupQuery>,
) -> Result<Response, ApiError> {
    let snapshot = actions.engine().snapshot();
    let set = within.named_group(name).find(&snapshot.region, GroupType::ScaleSet)?;
    render(actions.service().handlers(), &snapshot.region, &set).map(extract::respond_ok)
}

pub async fn create(
    actions: Actions,
    Params(NoQuery {}): Params<NoQuery>,
    Body(body): Body<NewScaleSet>,
) -> Result<Response, ApiError> {
    actions.create_scale_set(body).await.map(extract::respond_created)
}

pub async fn change(
    actions: Actions,
    Segment(name): Segment,
    Params(within): Params<GroupQuery>,
    Body(body): Body<ScaleSetChange>,
) -> Result<Response, ApiError> {
    actions.change_scale_set(&within.named_group(name), body).await.map(extract::respond_ok)
}

pub async fn delete(
    actions: Actions,
    Segment(name): Segment,
    Params(query): Params<DeleteQuery>,
) -> Result<Response, ApiError> {
    let (deletion, options) = (query.deletion(), query.options());
    let operation = actions.delete_group(GroupType::ScaleSet, &query.into_group(name), deletion, options).await?;
    Ok(actions.respond_started(operation))
}

pub async fn instances(
    actions: Actions,
    Segment(name): Segment,
    Params(query): Params<InstancesQuery>,
) -> Result<Response, ApiError> {
    let limit = extract::page_limit(query.limit)?;
    let after = extract::numeric_cursor(query.after.as_deref())?.map(MachineId);
    let snapshot = actions.engine().snapshot();
    let region = &snapshot.region;
    let set = names::find_group(region, &name, query.group.as_deref(), GroupType::ScaleSet)?;
    let mut members: Vec<_> =
        region.group_members(&set).filter(|machine| after.is_none_or(|after| machine.id > after)).collect();
    // Members are grouped by placement group; pages are ordered by registration.
    members.sort_unstable_by_key(|machine| machine.id);
    let cursor = |machine: &&Arc<core::Machine>| machine.id.0.to_string();
    let handlers = actions.service().handlers();
    let render = |machine: &&Arc<core::Machine>| Machine {
        handler: handlers.render(machine.id),
        ..render_machine(region, machine)
    };
    Ok(extract::respond_ok(Page::split_off(members.into_iter(), limit, cursor, render)))
}

pub async fn upgrade(
    actions: Actions,
    Segment(name): Segment,
    Params(within): Params<GroupQuery>,
    OptionalBody(body): OptionalBody<Upgrade>,
) -> Result<Response, ApiError> {
    actions.upgrade_instances(&within.named_group(name), body).await.map(extract::respond_ok)
}

/// A handler of an action on instances: one operation for all of them.
macro_rules! instance_action {
    ($name:ident, $method:ident) => {
        pub async fn $name(
            actions: Actions,
            Segment(name): Segment,
            Params(within): Params<GroupQuery>,
            OptionalBody(body): OptionalBody<InstanceSelection>,
        ) -> Result<Response, ApiError> {
            let operation = actions.$method(&within.named_group(name), body).await?;
            Ok(actions.respond_started(operation))
        }
    };
}

instance_action!(restart, restart_instances);
instance_action!(redeploy, redeploy_instances);
instance_action!(perform_maintenance, perform_maintenance_of_instances);

pub async fn delete_instances(
    actions: Actions,
    Segment(name): Segment,
    Params(within): Params<GroupQuery>,
    Body(body): Body<DeleteInstances>,
) -> Result<Response, ApiError> {
    let operation = actions.delete_instances(&within.named_group(name), body).await?;
    Ok(actions.respond_started(operation))
}

fn render(handlers: &Handlers, region: &Region, group: &core::Group) -> Result<ScaleSet, ApiError> {
    let mut set = render_scale_set(region, group, scale_set_of(group)?);
    set.group.handlers = Some(handlers.render_group(region, group));
    Ok(set)
}
