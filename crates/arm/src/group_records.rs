//! The resource groups that exist: those created here, stored as attachments of the region, and those that exist only
//! because a machine or group names them. Read-only; `resource_groups` has the handlers.

use std::collections::BTreeMap;

use forewarn_core::{EventKind, Machine, Membership, Region, ResourceGroupRef};
use forewarn_store::{ATTACHMENTS_PAGE_MAX, Owner};
use forewarn_wire::arm::compute::LOCATION_DEFAULT;
use forewarn_wire::arm::id::{Name, ResourceId};
use serde_json::{Value, json};

use super::call::Arm;
use super::fields::read_text;
use super::resource::{group_id, is_same_resource_group, resource_group_of};
use forewarn_api::error::{ApiError, ErrorCode};
use forewarn_api::{RESOURCE_GROUP_DEFAULT, SUBSCRIPTION_DEFAULT};

/// Prefix of the attachments that hold resource groups; the ID of the group follows.
const RECORD: &str = "arm/group";

/// The name of the attachment that holds a resource group.
pub fn record_name(id: &ResourceId) -> String {
    format!("{RECORD}{}", group_id(id).key())
}

/// Prefix of the names of all records in a subscription.
fn record_prefix(subscription: &str) -> String {
    format!("{RECORD}/subscriptions/{}", subscription.to_ascii_lowercase())
}

/// The existing resource group of a resource, in its original spelling.
pub async fn find_home(arm: &Arm, id: &ResourceId) -> Result<ResourceGroupRef, ApiError> {
    let home = resource_group_of(id);
    if let Some(record) = arm.read_attachment(Owner::Region, record_name(id)).await? {
        let name = read_text(&record, "name")?.unwrap_or(&home.resource_group).into();
        return Ok(ResourceGroupRef { resource_group: name, ..home });
    }
    find_spelling(&arm.snapshot().region, &home).ok_or_else(|| group_not_found(id))
}

/// The group as the first machine or group in it spells it.
fn find_spelling(region: &Region, home: &ResourceGroupRef) -> Option<ResourceGroupRef> {
    let groups = region.groups().map(|group| &*group.home);
    let mut homes = groups.chain(region.machines().map(|machine| &*machine.home));
    homes.find(|it| is_same_resource_group(it, home)).cloned().or_else(|| is_default(home).then(|| home.clone()))
}

pub fn group_not_found(id: &ResourceId) -> ApiError {
    let name = id.group().map_or("", Name::as_str);
    let message = format!("Resource group '{name}' could not be found. Create it first.");
    ApiError::new(ErrorCode::ResourceGroupNotFound, message).with_target(name)
}

/// The group as GET shows it, or None if it was not created and nothing is in it.
pub async fn find(arm: &Arm, id: &ResourceId) -> Result<Option<Value>, ApiError> {
    match arm.read_attachment(Owner::Region, record_name(id)).await? {
        Some(record) => Ok(Some(render(&resource_group_of(id), &record, "Succeeded"))),
        None => Ok(find_implied(&arm.snapshot().region, &resource_group_of(id)).map(|group| group.render())),
    }
}

/// The groups that were created in one subscription.
pub async fn read_all(arm: &Arm, subscription: Option<&Name>) -> Result<Vec<Value>, ApiError> {
    let prefix = format!("{}/", record_prefix(subscription.map_or("", Name::as_str)));
    let found = arm.read(move |reader| reader.attachments(Owner::Region, &prefix, None, ATTACHMENTS_PAGE_MAX)).await?;
    Ok(found.into_iter().filter_map(|(_, text)| serde_json::from_str(&text).ok()).collect())
}

/// The subscriptions in which groups were created.
pub async fn read_subscriptions(arm: &Arm) -> Result<Vec<String>, ApiError> {
    arm.read(|reader| {
        let (mut found, mut after) = (Vec::new(), None::<String>);
        let first = |after: Option<&str>| reader.attachments(Owner::Region, &record_prefix(""), after, 1);
        while let Some((name, _)) = first(after.as_deref())?.pop() {
            let subscription = name[record_prefix("").len()..].split('/').next().unwrap_or_default().to_owned();
            // Skip the other groups of this subscription: '0' sorts after '/'.
            after = Some(record_prefix(&subscription) + "0");
            found.push(subscription);
        }
        Ok(found)
    })
    .await
}

/// A group that exists because a machine or group names it.
pub struct ImpliedGroup {
    pub home: ResourceGroupRef,
    location: String,
    is_leaving: bool,
}

impl ImpliedGroup {
    pub fn render(&self) -> Value {
        let state = if self.is_leaving { "Deleting" } else { "Succeeded" };
        render(&self.home, &json!({ "name": &*self.home.resource_group, "location": self.location }), state)
    }
}

fn find_implied(region: &Region, home: &ResourceGroupRef) -> Option<ImpliedGroup> {
    let found = implied_groups(region, &home.subscription).find(|group| is_same_resource_group(&group.home, home));
    found.or_else(|| {
        let default = || ImpliedGroup { home: home.clone(), location: LOCATION_DEFAULT.into(), is_leaving: false };
        is_default(home).then(default)
    })
}

/// Whether this is the group of machines that were created without one.
fn is_default(home: &ResourceGroupRef) -> bool {
    let default =
        ResourceGroupRef { subscription: SUBSCRIPTION_DEFAULT.into(), resource_group: RESOURCE_GROUP_DEFAULT.into() };
    is_same_resource_group(home, &default)
}

/// Every group of the subscription that contains something, once.
pub fn implied_groups(region: &Region, subscription: &str) -> impl Iterator<Item = ImpliedGroup> + use<> {
    let mut found: BTreeMap<String, ImpliedGroup> = BTreeMap::new();
    let mut add = |home: &ResourceGroupRef, location: &str, leaving: bool| {
        if !home.subscription.eq_ignore_ascii_case(subscription) {
            return;
        }
        let location = if location.is_empty() { LOCATION_DEFAULT } else { location };
        let first = || ImpliedGroup { home: home.clone(), location: location.to_owned(), is_leaving: true };
        found.entry(home.resource_group.as_str().to_ascii_lowercase()).or_insert_with(first).is_leaving &= leaving;
    };
    for machine in region.machines() {
        add(&machine.home, &machine.details.location, is_leaving(region, machine));
    }
    for group in region.groups() {
        add(&group.home, "", group.leaving);
    }
    found.into_values()
}

fn is_leaving(region: &Region, machine: &Machine) -> bool {
    let in_leaving_group = match machine.membership {
        Membership::Standalone => false,
        Membership::AvailabilitySet(group)
        | Membership::RoleInstance { service: group, .. }
        | Membership::Instance { set: group, .. } => region.group(group).is_some_and(|group| group.leaving),
    };
    in_leaving_group || region.events_of(machine.id).any(|event| event.kind == EventKind::Terminate)
}

pub fn render(home: &ResourceGroupRef, record: &Value, state: &str) -> Value {
    let name = record["name"].as_str().unwrap_or(&home.resource_group);
    json!({
        "id": format!("/subscriptions/{}/resourceGroups/{name}", home.subscription),
        "name": name,
        "type": "Microsoft.Resources/resourceGroups",
        "location": record["location"],
        "tags": record.get("tags").cloned().unwrap_or_else(|| json!({})),
        "properties": { "provisioningState": state },
    })
}
