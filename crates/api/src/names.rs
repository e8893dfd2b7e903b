//! Lookups of machines, groups, events and operations by the names in paths and bodies.
//!
//! A machine is named by its `vmId`, by `group/name` or by a unique name; a group by `resourceGroup/name` or by a name that
//! is unique among groups of its type.

use std::sync::Arc;

pub use forewarn_core::GroupType;
use forewarn_core::{
    Event, EventId, Group, GroupId, GroupKind, Guid, Machine, MachineId, MachineLookup, Membership, Name, OperationId,
    Region, Rejection, RolloutId, ScaleSet,
};
use forewarn_wire::guid;

use super::error::{ApiError, ErrorCode};
use forewarn_api_types::parse_guid;

/// Separators between a group and a name in it. In a path, a slash must be written as `%2F`; `~` needs no escaping.
const SEPARATORS: [char; 2] = ['/', '~'];

/// Between the type and the name of a group. Names do not contain it.
const TYPE_SEPARATOR: char = ':';

/// A machine that an action concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineTarget {
    Id(MachineId),
    /// A name that [`find_machine`] resolves.
    Named {
        name: String,
        within: Option<String>,
    },
}

impl MachineTarget {
    /// A machine by `vmId`, `group/name` or unique name.
    pub fn named(name: impl Into<String>) -> MachineTarget {
        MachineTarget::Named { name: name.into(), within: None }
    }

    pub fn find(&self, region: &Region) -> Result<Arc<Machine>, ApiError> {
        match self {
            MachineTarget::Id(id) => region.machine(*id).cloned().ok_or_else(|| Rejection::UnknownMachine(*id).into()),
            MachineTarget::Named { name, within } => find_machine(region, name, within.as_deref()),
        }
    }
}

/// A group that an action concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupTarget {
    Id(GroupId),
    /// A name that [`find_group`] resolves.
    Named {
        name: String,
        within: Option<String>,
    },
}

impl GroupTarget {
    /// A group by `resourceGroup/name` or unique name.
    pub fn named(name: impl Into<String>) -> GroupTarget {
        GroupTarget::Named { name: name.into(), within: None }
    }

    pub fn find(&self, region: &Region, wanted: GroupType) -> Result<Arc<Group>, ApiError> {
        match self {
            GroupTarget::Id(id) => {
                let found = region.group(*id).filter(|group| GroupType::of(group) == wanted);
                found.cloned().ok_or_else(|| Rejection::UnknownGroup.into())
            }
            GroupTarget::Named { name, within } => find_group(region, name, within.as_deref(), wanted),
        }
    }
}

/// The scale set of a group.
pub fn scale_set_of(group: &Group) -> Result<&ScaleSet, ApiError> {
    match &group.kind {
        GroupKind::ScaleSet(set) => Ok(set),
        GroupKind::AvailabilitySet | GroupKind::CloudService => Err(Rejection::NotAScaleSet(group.name.clone()).into()),
    }
}

pub fn find_host(region: &Region, name: &str) -> Result<Name, ApiError> {
    region.host(name).map(|host| host.name.clone()).ok_or_else(|| {
        let message = format!("No host is named '{name}'. Register it first, or set it as the 'host' of a machine.");
        ApiError::new(ErrorCode::HostNotFound, message).with_target(name)
    })
}

/// The rollout with this ID, or with an ID that starts with this text.
pub fn find_rollout(region: &Region, text: &str) -> Result<RolloutId, ApiError> {
    let wanted = text.to_ascii_lowercase();
    let mut found = region.rollouts().map(|rollout| rollout.id).filter(|id| id.to_string().starts_with(&wanted));
    let unknown = || {
        let message = format!("No rollout has the ID '{text}', or it ended more than a week ago. List the rollouts.");
        ApiError::new(ErrorCode::RolloutNotFound, message).with_target(text)
    };
    let first = found.next().filter(|_| !wanted.is_empty()).ok_or_else(unknown)?;
    if found.next().is_some() {
        let message = format!("Several rollouts have IDs that start with '{text}'. Use more characters.");
        return Err(ApiError::new(ErrorCode::AmbiguousName, message).with_target(text));
    }
    Ok(first)
}

pub fn find_machine(region: &Region, text: &str, within: Option<&str>) -> Result<Arc<Machine>, ApiError> {
    let by_id = guid::parse(text).and_then(|vm_id| region.machine_by_vm_id(forewarn_core::Guid(vm_id)));
    let found = match by_id {
        Some(id) => MachineLookup::One(id),
        None => region.machine_by_name(text, within),
    };
    // Names can contain a separator, so the whole text is tried first.
    let found = match (found, text.split_once(SEPARATORS)) {
        (MachineLookup::Nothing, Some((group, name))) if within.is_none() => region.machine_by_name(name, Some(group)),
        (found, _) => found,
    };
    match found {
        MachineLookup::One(id) => region.machine(id).cloned().ok_or_else(|| machine_not_found(text)),
        MachineLookup::Many(ids) => {
            let candidates =
                ids.iter().filter_map(|id| region.machine(*id)).map(|machine| describe_machine(region, machine));
            Err(ambiguous_name("machine", text, candidates))
        }
        MachineLookup::Nothing => Err(machine_not_found(text)),
    }
}

pub fn find_machines(region: &Region, names: &[String]) -> Result<Vec<Arc<Machine>>, ApiError> {
    names.iter().map(|name| find_machine(region, name, None)).collect()
}

/// The name in `group/name`.
pub fn without_group(text: &str) -> &str {
    text.split_once(SEPARATORS).map_or(text, |(_, name)| name)
}

pub fn find_group(
    region: &Region,
    text: &str,
    within: Option<&str>,
    wanted: GroupType,
) -> Result<Arc<Group>, ApiError> {
    let (named, others): (Vec<_>, Vec<_>) =
        groups_named(region, text, within).into_iter().partition(|group| GroupType::of(group) == wanted);
    if let (true, Some(other)) = (named.is_empty(), others.first()) {
        let message =
            format!("'{}' is a {}, not a {}.", display_name(text), GroupType::of(other).name(), wanted.name());
        return Err(ApiError::new(ErrorCode::GroupNotFound, message).with_target(text));
    }
    expect_one(named, text, wanted.name())
}

/// A group of any type. If types share the name, the text starts with one of them: `scale-set:group/name`.
pub fn find_any_group(region: &Region, text: &str) -> Result<Arc<Group>, ApiError> {
    if let Some((prefix, name)) = text.split_once(TYPE_SEPARATOR)
        && let Some(wanted) = GroupType::ALL.into_iter().find(|wanted| type_prefix(*wanted) == prefix)
    {
        return find_group(region, name, None, wanted);
    }
    expect_one(groups_named(region, text, None), text, "availability set, cloud service or scale set")
}

/// A name that [`find_any_group`] finds, whatever the names of other groups are.
pub fn full_group_name(group: &Group) -> String {
    format!("{}{TYPE_SEPARATOR}{}/{}", type_prefix(GroupType::of(group)), group.home.resource_group, group.name)
}

fn type_prefix(of: GroupType) -> &'static str {
    match of {
        GroupType::AvailabilitySet => "availability-set",
        GroupType::CloudService => "cloud-service",
        GroupType::ScaleSet => "scale-set",
    }
}

fn groups_named(region: &Region, text: &str, within: Option<&str>) -> Vec<Arc<Group>> {
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

fn expect_one(mut found: Vec<Arc<Group>>, text: &str, type_name: &str) -> Result<Arc<Group>, ApiError> {
    if found.len() > 1 {
        let candidates =
            found.iter().map(|group| format!("{} (subscription {})", full_group_name(group), group.home.subscription));
        return Err(ambiguous_name(type_name, text, candidates.take(Region::CANDIDATES_MAX)));
    }
    found.pop().ok_or_else(|| {
        let text = display_name(text);
        let message =
            format!("No {type_name} is named '{text}'. List them to find the right name, or create it first.");
        ApiError::new(ErrorCode::GroupNotFound, message).with_target(text)
    })
}

pub fn find_event(region: &Region, id: EventId) -> Result<Arc<Event>, ApiError> {
    region.event(id).cloned().ok_or_else(|| {
        let id_text = guid::Upper(id.0);
        let message = format!("Event {id_text} does not exist, or it finished more than an hour ago. See the history.");
        ApiError::new(ErrorCode::EventNotFound, message).with_target(id_text.to_string())
    })
}

pub fn parse_event_id(text: &str) -> Result<EventId, ApiError> {
    parse_guid(text)
        .map(Guid)
        .map_err(|reason| ApiError::new(ErrorCode::InvalidPath, format!("{reason}.")).with_target(text))
}

pub fn parse_operation_id(text: &str) -> Result<OperationId, ApiError> {
    parse_event_id(text)
}

/// A machine by group and name, with its ID.
fn describe_machine(region: &Region, machine: &Machine) -> String {
    let within = match &machine.membership {
        Membership::RoleInstance { service, .. } => region.group(*service).map(|group| group.name.clone()),
        Membership::Standalone | Membership::AvailabilitySet(_) | Membership::Instance { .. } => None,
    };
    let within = within.unwrap_or_else(|| machine.home.resource_group.clone());
    format!("{within}/{} ({})", machine.name, machine.vm_id)
}

/// The text with a slash as its separator.
fn display_name(text: &str) -> String {
    text.split_once(SEPARATORS).map_or_else(|| text.to_owned(), |(group, name)| format!("{group}/{name}"))
}

fn machine_not_found(text: &str) -> ApiError {
    let text = display_name(text);
    let message =
        format!("No machine is named '{text}'. List the machines to find the right name, or register it first.");
    ApiError::new(ErrorCode::MachineNotFound, message).with_target(text)
}

fn ambiguous_name(type_name: &str, text: &str, candidates: impl Iterator<Item = String>) -> ApiError {
    let list = candidates.collect::<Vec<_>>().join(", ");
    let text = display_name(text);
    let message = format!("More than one {type_name} is named '{text}': {list}. Use group/name or the ID.");
    ApiError::new(ErrorCode::AmbiguousName, message).with_target(text)
}
