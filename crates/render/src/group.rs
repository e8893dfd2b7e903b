//! Availability sets, cloud services and scale sets as the API shows them.

use forewarn_api_types::{EventGroup, Group, Model, ScaleSet};
use forewarn_core as core;
use forewarn_core::Region;

use crate::convert::{Convert, render_details};

pub fn render_group(region: &Region, group: &core::Group) -> Group {
    Group {
        id: group.id.0,
        name: group.name.to_string(),
        subscription: group.home.subscription.to_string(),
        resource_group: group.home.resource_group.to_string(),
        policy: (&group.policy).convert(),
        update_domains: group.update_domains,
        fault_domains: group.fault_domains,
        machines: region.group_members(group).count(),
        event_groups: group.scopes.iter().map(|id| render_event_group(region, *id)).collect(),
        deleting: group.leaving,
        handlers: None,
    }
}

fn render_event_group(region: &Region, id: core::ScopeId) -> EventGroup {
    let incarnation = region.scope(id).map_or(0, |scope| scope.incarnation);
    EventGroup { id: id.0, handler_connected: region.is_on(id), incarnation }
}

pub fn render_scale_set(region: &Region, group: &core::Group, set: &core::ScaleSet) -> ScaleSet {
    let (details, tags) = render_details(&set.model.details);
    ScaleSet {
        group: render_group(region, group),
        orchestration: set.orchestration.convert(),
        upgrade_mode: set.upgrade_mode.convert(),
        capacity: set.capacity,
        placement_group_max: set.placement_group_max,
        zones: set.zones.iter().map(|zone| zone.to_string()).collect(),
        model: Model {
            priority: set.model.priority.convert(),
            eviction_policy: set.model.eviction.convert(),
            terminate_notification: set.model.terminate.as_deref().map(Convert::convert),
            details,
            tags,
        },
        model_version: set.model_version.into(),
    }
}
