//! Resource groups. One that was made here is an attachment of the region; one that only machines or groups name is there
//! as long as they are.

use std::collections::{BTreeMap, BTreeSet};

use axum::response::{IntoResponse, Response};
use forewarn_core::{EventKind, GroupId, Home, Machine, MachineId, Region, Request, Seat};
use forewarn_store::{ATTACHMENTS_PAGE_MAX, Attachment, Owner};
use forewarn_wire::arm::id::{Name, ResourceId};
use http::StatusCode;
use serde_json::{Value, json};

use super::call::{Arm, Call, group_id, home_of};
use super::fields::{self, missing, text};
use super::operations::Ticket;
use super::page::{self, Wanted};
use super::write::{How, Written};
use forewarn_api::error::{ApiError, Refusal};
use forewarn_api::text::Word;
use forewarn_api::{Note, RESOURCE_GROUP_DEFAULT, SUBSCRIPTION_DEFAULT};
use forewarn_wire::arm::compute::LOCATION_DEFAULT;

/// Resource groups of one subscription: the original has 980. A list of them is read in one go.
const GROUPS_MAX: usize = 980;
const _: () = assert!(GROUPS_MAX < ATTACHMENTS_PAGE_MAX as usize, "they fit one page of the store");

/// What the attachments are named that belong to resource groups; the group's id follows.
const RECORD: &str = "arm/group";

fn record_of(id: &ResourceId) -> String {
    format!("{RECORD}{}", group_id(id).key())
}

/// The group that a resource is to be made in, as it is spelt.
pub async fn home(arm: &Arm, id: &ResourceId) -> Result<Home, ApiError> {
    let home = home_of(id);
    if let Some(record) = arm.attached(Owner::Region, record_of(id)).await? {
        let name = text(&record, "name")?.unwrap_or(&home.resource_group).into();
        return Ok(Home { resource_group: name, ..home });
    }
    spelt_in(&arm.snapshot().region, &home).ok_or_else(|| not_found(id))
}

/// The home of the first thing that is kept there.
fn spelt_in(region: &Region, home: &Home) -> Option<Home> {
    let groups = region.groups().map(|group| &group.home);
    let mut homes = groups.chain(region.machines().map(|machine| &machine.home));
    homes.find(|it| is_home(it, home)).cloned().or_else(|| is_default(home).then(|| home.clone()))
}

fn not_found(id: &ResourceId) -> ApiError {
    let name = id.group().map_or("", Name::as_str);
    let message = format!("Resource group '{name}' could not be found. Create it first.");
    ApiError::new(Refusal::ResourceGroupNotFound, message).about(name)
}

pub async fn put(call: Call) -> Result<Response, ApiError> {
    let written = write(&call.arm, call.id(), &call.json()?, How::Put).await?;
    Ok(written.into_response(&call))
}

pub async fn patch(call: Call) -> Result<Response, ApiError> {
    let written = write(&call.arm, call.id(), &call.json()?, How::Patch).await?;
    Ok(written.into_response(&call))
}

async fn write(arm: &Arm, id: &ResourceId, given: &Value, how: How) -> Result<Written, ApiError> {
    let _lock = arm.lock(id).await;
    let existing = find(arm, id).await?;
    let home = home_of(id);
    for (what, name) in [("subscription", &home.subscription), ("resource group", &home.resource_group)] {
        Word::new(name.to_string()).map_err(|why| fields::invalid(what, why))?;
    }
    if existing.is_none() && how == How::Patch {
        return Err(not_found(id));
    }
    let merged = how.merged(existing.as_ref().unwrap_or(&Value::Null), given);
    let location = text(&merged, "location")?.ok_or_else(|| missing("location"))?.to_owned();
    let before = existing.as_ref().and_then(|existing| existing["location"].as_str());
    if let Some(before) = before.filter(|before| !same_location(before, &location)) {
        let message = format!("The resource group is in '{before}' and cannot be moved to '{location}'.");
        return Err(ApiError::new(Refusal::PropertyChangeNotAllowed, message).about("location"));
    }
    let tags = fields::tags(&merged)?.unwrap_or_default();
    let name = existing.as_ref().and_then(|it| it["name"].as_str()).unwrap_or(&home.resource_group).to_owned();
    let record = json!({
        "name": name,
        "location": location,
        "tags": tags.into_iter().map(|(key, value)| (key, value.into())).collect::<serde_json::Map<_, Value>>(),
    });
    if existing.is_none() {
        check_room(arm, id).await?;
    }
    let attachment = Attachment::put(Owner::Region, record_of(id), record.to_string());
    let note = Note::new("resource-group.put", name.as_str());
    arm.commit(Vec::new(), note, move |_| vec![attachment]).await?;
    Ok(Written { is_new: existing.is_none(), resource: shown(&home, &record, "Succeeded"), pending: None })
}

/// `West Europe` is `westeurope`.
pub fn same_location(one: &str, other: &str) -> bool {
    let folded = |text: &str| text.replace(' ', "").to_ascii_lowercase();
    folded(one) == folded(other)
}

async fn check_room(arm: &Arm, id: &ResourceId) -> Result<(), ApiError> {
    let count = records(arm, id.subscription()).await?.len();
    match count < GROUPS_MAX {
        true => Ok(()),
        false => {
            let message = format!("A subscription may have {GROUPS_MAX} resource groups. Delete one first.");
            Err(ApiError::new(Refusal::QuotaExceeded, message))
        }
    }
}

pub async fn get(call: Call) -> Result<Response, ApiError> {
    let found = find(&call.arm, call.id()).await?.ok_or_else(|| not_found(call.id()))?;
    Ok(axum::Json(found).into_response())
}

/// Whether it exists.
pub async fn head(call: Call) -> Result<Response, ApiError> {
    let found = find(&call.arm, call.id()).await?;
    Ok(if found.is_some() { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND }.into_response())
}

pub async fn list(call: Call) -> Result<Response, ApiError> {
    let wanted = Wanted::of(&call)?;
    let subscription: forewarn_core::Name = call.subscription().into();
    let mut all = BTreeMap::new();
    for used in all_in_use(&call.arm.snapshot().region, &subscription) {
        all.insert(used.home.resource_group.to_ascii_lowercase(), used.shown());
    }
    for record in records(&call.arm, call.id().subscription()).await? {
        let name = record["name"].as_str().unwrap_or_default();
        let home = Home { subscription: subscription.clone(), resource_group: name.into() };
        all.insert(name.to_ascii_lowercase(), shown(&home, &record, "Succeeded"));
    }
    let after = wanted.after.as_deref();
    let rest = all.into_iter().filter(|(key, _)| after.is_none_or(|after| key.as_str() > after));
    let mut found: Vec<_> = rest.take(wanted.limit + 1).collect();
    let next = wanted.cut(&mut found, |(key, _)| key.clone());
    Ok(page::shown(&call, found.into_iter().map(|(_, group)| group).collect(), next))
}

/// Deletes everything in the group, with notice where there is some to give; it is there until the last machine has gone.
pub async fn delete(call: Call) -> Result<Response, ApiError> {
    let (arm, id) = (&call.arm, call.id());
    let _lock = arm.lock(id).await;
    if find(arm, id).await?.is_none() {
        return Err(not_found(id));
    }
    let home = home_of(id);
    let snapshot = arm.snapshot();
    let (groups, machines) = contents(&snapshot.region, &home);
    let mut requests: Vec<_> =
        groups.into_iter().map(|group| Request::Delete { machines: Vec::new(), group: Some(group) }).collect();
    if !machines.is_empty() {
        requests.push(Request::Delete { machines, group: None });
    }
    let mut gone = arm.names_below(id).await?;
    gone.push(record_of(id));
    let (ticket, commands) = Ticket::of_requests(arm, requests);
    let note = Note::new("resource-group.delete", home.resource_group.as_ref());
    let remove = |name| Attachment::remove(Owner::Region, name);
    arm.commit(commands, note, move |_| gone.into_iter().map(remove).collect()).await?;
    Ok(ticket.accepted(&call))
}

/// Groups, and the machines that are in none of them.
fn contents(region: &Region, home: &Home) -> (Vec<GroupId>, Vec<MachineId>) {
    let groups: BTreeSet<_> =
        region.groups().filter(|group| is_home(&group.home, home)).map(|group| group.id).collect();
    let alone = |machine: &&std::sync::Arc<Machine>| {
        is_home(&machine.home, home) && machine.seat.group().is_none_or(|group| !groups.contains(&group))
    };
    let machines = region.machines().filter(alone).map(|machine| machine.id).collect();
    (groups.into_iter().collect(), machines)
}

pub fn is_home(one: &Home, other: &Home) -> bool {
    one.resource_group.eq_ignore_ascii_case(&other.resource_group)
        && one.subscription.eq_ignore_ascii_case(&other.subscription)
}

/// The group as GET shows it; None: nobody made it and nothing is in it.
pub async fn find(arm: &Arm, id: &ResourceId) -> Result<Option<Value>, ApiError> {
    match arm.attached(Owner::Region, record_of(id)).await? {
        Some(record) => Ok(Some(shown(&home_of(id), &record, "Succeeded"))),
        None => Ok(in_use(&arm.snapshot().region, &home_of(id)).map(|used| used.shown())),
    }
}

/// What was made here in one subscription.
pub async fn records(arm: &Arm, subscription: Option<&Name>) -> Result<Vec<Value>, ApiError> {
    let prefix = format!("{}/", record_below(subscription.map_or("", Name::as_str)));
    let found = arm.read(move |reader| reader.attachments(Owner::Region, &prefix, None, ATTACHMENTS_PAGE_MAX)).await?;
    Ok(found.into_iter().filter_map(|(_, text)| serde_json::from_str(&text).ok()).collect())
}

/// The subscriptions in which groups were made.
pub async fn subscriptions(arm: &Arm) -> Result<Vec<String>, ApiError> {
    arm.read(|reader| {
        let (mut found, mut after) = (Vec::new(), None::<String>);
        let first = |after: Option<&str>| reader.attachments(Owner::Region, &record_below(""), after, 1);
        while let Some((name, _)) = first(after.as_deref())?.pop() {
            let subscription = name[record_below("").len()..].split('/').next().unwrap_or_default().to_owned();
            // Past all groups of this one: '0' comes after '/'.
            after = Some(record_below(&subscription) + "0");
            found.push(subscription);
        }
        Ok(found)
    })
    .await
}

/// What the names of all records of a subscription begin with.
fn record_below(subscription: &str) -> String {
    format!("{RECORD}/subscriptions/{}", subscription.to_ascii_lowercase())
}

/// A group that exists because something is in it.
struct InUse {
    home: Home,
    location: String,
    is_leaving: bool,
}

impl InUse {
    fn shown(&self) -> Value {
        let state = if self.is_leaving { "Deleting" } else { "Succeeded" };
        shown(&self.home, &json!({ "name": &*self.home.resource_group, "location": self.location }), state)
    }
}

fn in_use(region: &Region, home: &Home) -> Option<InUse> {
    let found = all_in_use(region, &home.subscription).find(|used| is_home(&used.home, home));
    found.or_else(|| {
        is_default(home).then(|| InUse { home: home.clone(), location: LOCATION_DEFAULT.into(), is_leaving: false })
    })
}

/// Where machines are kept that do not say.
fn is_default(home: &Home) -> bool {
    is_home(home, &Home { subscription: SUBSCRIPTION_DEFAULT.into(), resource_group: RESOURCE_GROUP_DEFAULT.into() })
}

/// Every group of the subscription that something is in, once.
fn all_in_use(region: &Region, subscription: &str) -> impl Iterator<Item = InUse> + use<> {
    let mut found: BTreeMap<String, InUse> = BTreeMap::new();
    let mut note = |home: &Home, location: &str, leaving: bool| {
        if !home.subscription.eq_ignore_ascii_case(subscription) {
            return;
        }
        let location = if location.is_empty() { LOCATION_DEFAULT } else { location };
        let first = || InUse { home: home.clone(), location: location.to_owned(), is_leaving: true };
        found.entry(home.resource_group.to_ascii_lowercase()).or_insert_with(first).is_leaving &= leaving;
    };
    for machine in region.machines() {
        note(&machine.home, &machine.details.location, is_leaving(region, machine));
    }
    for group in region.groups() {
        note(&group.home, "", group.leaving);
    }
    found.into_values()
}

pub fn is_leaving(region: &Region, machine: &Machine) -> bool {
    let in_leaving_group = match machine.seat {
        Seat::Standalone => false,
        Seat::AvailabilitySet(group)
        | Seat::RoleInstance { service: group, .. }
        | Seat::Instance { set: group, .. } => region.group(group).is_some_and(|group| group.leaving),
    };
    in_leaving_group || region.events_of(machine.id).any(|event| event.kind == EventKind::Terminate)
}

fn shown(home: &Home, record: &Value, state: &str) -> Value {
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
