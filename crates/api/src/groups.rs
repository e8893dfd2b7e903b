//! Handlers of availability sets and cloud services, whose machines are registered one by one.

use std::sync::Arc;

use axum::response::Response;
use forewarn_api_types::{Group, NewGroup, Page, PolicyChange};
use forewarn_core as core;
use forewarn_core::{GroupId, Region};
use forewarn_render::render_group;
use serde::Serialize;

use super::Actions;
use super::actions::PlainGroup;
use super::error::ApiError;
use super::extract::{self, Body, GroupQuery, NoQuery, Paging, Params, Segment};
use super::machine_actions::DeleteQuery;
use super::names::GroupType;

/// The five handlers of one kind of group.
macro_rules! resource {
    ($module:ident, $kind:ident) => {
        pub mod $module {
            use super::*;

            const KIND: PlainGroup = PlainGroup::$kind;

            pub async fn list(actions: Actions, query: Params<Paging>) -> Result<Response, ApiError> {
                let handlers = actions.service().handlers();
                list_of(KIND.group_type(), &actions, query, |region, group| {
                    let handlers = Some(handlers.render_group(region, group));
                    Ok(Group { handlers, ..render_group(region, group) })
                })
            }

            pub async fn get(
                actions: Actions,
                Segment(name): Segment,
                Params(within): Params<GroupQuery>,
            ) -> Result<Response, ApiError> {
                let snapshot = actions.engine().snapshot();
                let group = within.named_group(name).find(&snapshot.region, KIND.group_type())?;
                let handlers = Some(actions.service().handlers().render_group(&snapshot.region, &group));
                Ok(extract::respond_ok(Group { handlers, ..render_group(&snapshot.region, &group) }))
            }

            pub async fn create(
                actions: Actions,
                Params(NoQuery {}): Params<NoQuery>,
                Body(body): Body<NewGroup>,
            ) -> Result<Response, ApiError> {
                actions.create_group(KIND, body).await.map(extract::respond_created)
            }

            pub async fn change(
                actions: Actions,
                Segment(name): Segment,
                Params(within): Params<GroupQuery>,
                Body(body): Body<PolicyChange>,
            ) -> Result<Response, ApiError> {
                actions.change_group(KIND, &within.named_group(name), body).await.map(extract::respond_ok)
            }

            pub async fn delete(
                actions: Actions,
                Segment(name): Segment,
                Params(query): Params<DeleteQuery>,
            ) -> Result<Response, ApiError> {
                let (deletion, options) = (query.deletion(), query.options());
                let target = query.into_group(name);
                let operation = actions.delete_group(KIND.group_type(), &target, deletion, options).await?;
                Ok(actions.respond_started(operation))
            }
        }
    };
}

resource!(availability_sets, AvailabilitySet);
resource!(cloud_services, CloudService);

/// Lists the groups of one type.
pub fn list_of<T: Serialize>(
    kind: GroupType,
    actions: &Actions,
    Params(query): Params<Paging>,
    render: impl Fn(&Region, &core::Group) -> Result<T, ApiError>,
) -> Result<Response, ApiError> {
    let limit = extract::page_limit(query.limit)?;
    let after = extract::numeric_cursor(query.after.as_deref())?.map(GroupId);
    let snapshot = actions.engine().snapshot();
    let region = &snapshot.region;
    let found = region
        .groups()
        .filter(|group| GroupType::of(group) == kind)
        .filter(|group| after.is_none_or(|after| group.id > after));
    let cursor = |group: &&Arc<core::Group>| group.id.0.to_string();
    let page = Page::split_off(found, limit, cursor, |group| render(region, group));
    Ok(extract::respond_ok(Page { value: page.value.into_iter().collect::<Result<Vec<_>, _>>()?, next: page.next }))
}
