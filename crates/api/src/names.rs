//! What the names in paths and bodies stand for.
//!
//! A machine is a `vmId`, `group/name`, or a name that is unique; a group of machines is
//! `resourceGroup/name` or a name that is unique among those of its kind.

use std::sync::Arc;

use forewarn_core::{Event, EventId, Found, Group, GroupKind, Machine, OperationId, Region, Seat};
use forewarn_wire::guid;

use super::error::{ApiError, Refusal};
use super::values::parse_guid;

/// What separates a group from the name in it. A slash would end the segment of a path, unless it is
/// written `%2F`; `~` needs no such care.
const SEPARATORS: [char; 2] = ['/', '~'];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    AvailabilitySet,
    CloudService,
    ScaleSet,
}

impl Kind {
    pub fn of(group: &Group) -> Kind {
        match group.kind {
            GroupKind::AvailabilitySet => Kind::AvailabilitySet,
            GroupKind::CloudService => Kind::CloudService,
            GroupKind::ScaleSet(_) => Kind::ScaleSet,
        }
    }

    pub fn words(self) -> &'static str {
        match self {
            Kind::AvailabilitySet => "availability set",
            Kind::CloudService => "cloud service",
            Kind::ScaleSet => "scale set",
        }
    }
}

pub fn machine(region: &Region, text: &str, within: Option<&str>) -> Result<Arc<Machine>, ApiError> {
    let by_id = guid::parse(text).and_then(|vm_id| region.machine_by_vm_id(forewarn_core::Guid(vm_id)));
    let found = match by_id {
        Some(id) => Found::One(id),
        None => region.machine_by_name(text, within),
    };
    // Names may have the separator in them, so the whole is tried first.
    let found = match (found, text.split_once(SEPARATORS)) {
        (Found::Nothing, Some((group, name))) if within.is_none() => region.machine_by_name(name, Some(group)),
        (found, _) => found,
    };
    match found {
        Found::One(id) => region.machine(id).cloned().ok_or_else(|| no_machine(text)),
        Found::Many(ids) => {
            let candidates = ids.iter().filter_map(|id| region.machine(*id)).map(|machine| label(region, machine));
            Err(ambiguous("machine", text, candidates))
        }
        Found::Nothing => Err(no_machine(text)),
    }
}

pub fn machines(region: &Region, named: &[String]) -> Result<Vec<Arc<Machine>>, ApiError> {
    named.iter().map(|name| machine(region, name, None)).collect()
}

/// The name itself in `group/name`.
pub fn without_group(text: &str) -> &str {
    text.split_once(SEPARATORS).map_or(text, |(_, name)| name)
}

pub fn group(region: &Region, text: &str, within: Option<&str>, kind: Kind) -> Result<Arc<Group>, ApiError> {
    let (named, others): (Vec<_>, Vec<_>) =
        groups(region, text, within).into_iter().partition(|group| Kind::of(group) == kind);
    if let (true, Some(other)) = (named.is_empty(), others.first()) {
        let message = format!("'{}' is a {}, not a {}.", said(text), Kind::of(other).words(), kind.words());
        return Err(ApiError::new(Refusal::GroupNotFound, message).about(text));
    }
    the_one(named, text, kind.words())
}

pub fn any_group(region: &Region, text: &str) -> Result<Arc<Group>, ApiError> {
    the_one(groups(region, text, None), text, "availability set, cloud service or scale set")
}

fn groups(region: &Region, text: &str, within: Option<&str>) -> Vec<Arc<Group>> {
    let named = |name: &str, within: Option<&str>| -> Vec<Arc<Group>> {
        let is_there = |group: &&Arc<Group>| within.is_none_or(|w| w.eq_ignore_ascii_case(&group.home.resource_group));
        region.groups_named(name).filter(is_there).cloned().collect()
    };
    let found = named(text, within);
    match text.split_once(SEPARATORS) {
        Some((group, name)) if found.is_empty() && within.is_none() => named(name, Some(group)),
        Some(_) | None => found,
    }
}

fn the_one(mut found: Vec<Arc<Group>>, text: &str, words: &str) -> Result<Arc<Group>, ApiError> {
    if found.len() > 1 {
        let candidates = found.iter().map(|group| {
            let home = &group.home;
            format!("{}/{} (subscription {})", home.resource_group, group.name, home.subscription)
        });
        return Err(ambiguous(words, text, candidates.take(Region::CANDIDATES_MAX)));
    }
    found.pop().ok_or_else(|| {
        let text = said(text);
        let message = format!("There is no {words} '{text}'. List them to see which there are, or create it first.");
        ApiError::new(Refusal::GroupNotFound, message).about(text)
    })
}

pub fn event(region: &Region, id: EventId) -> Result<Arc<Event>, ApiError> {
    region.event(id).cloned().ok_or_else(|| {
        let shown = guid::Upper(id.0);
        let message = format!("There is no event {shown}, or it is over for more than an hour. See the history.");
        ApiError::new(Refusal::EventNotFound, message).about(shown.to_string())
    })
}

pub fn event_id(text: &str) -> Result<EventId, ApiError> {
    parse_guid(text).map_err(|why| ApiError::new(Refusal::InvalidPath, format!("{why}.")).about(text))
}

pub fn operation_id(text: &str) -> Result<OperationId, ApiError> {
    event_id(text)
}

/// How a person would name a machine so that it is found again.
pub fn label(region: &Region, machine: &Machine) -> String {
    let within = match &machine.seat {
        Seat::RoleInstance { service, .. } => region.group(*service).map(|group| group.name.clone()),
        Seat::Standalone | Seat::AvailabilitySet(_) | Seat::Instance { .. } => None,
    };
    let within = within.unwrap_or_else(|| machine.home.resource_group.clone());
    format!("{within}/{} ({})", machine.name, machine.vm_id)
}

/// As people write it, however it stood in the path.
fn said(text: &str) -> String {
    text.split_once(SEPARATORS).map_or_else(|| text.to_owned(), |(group, name)| format!("{group}/{name}"))
}

fn no_machine(text: &str) -> ApiError {
    let text = said(text);
    let message =
        format!("There is no machine '{text}'. List the machines to see which there are, or register it first.");
    ApiError::new(Refusal::MachineNotFound, message).about(text)
}

fn ambiguous(words: &str, text: &str, candidates: impl Iterator<Item = String>) -> ApiError {
    let list = candidates.collect::<Vec<_>>().join(", ");
    let text = said(text);
    let message = format!("More than one {words} is named '{text}': {list}. Say which, as group/name or by its id.");
    ApiError::new(Refusal::AmbiguousName, message).about(text)
}
