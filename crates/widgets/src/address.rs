//! Addresses of the portal's pages, and the names of groups in its forms.

use std::sync::Arc;

use forewarn_api_types::Operation;
use forewarn_core::{Group, GroupId, GroupKind, GroupType, Machine, Region};
use forewarn_wire::{guid, percent};

pub fn of_machine(machine: &Machine) -> String {
    format!("/machines/{}", guid::Lower(machine.vm_id.0))
}

pub fn of_host(name: &str) -> String {
    format!("/hosts/{}", encode_segment(name))
}

pub fn of_group(id: GroupId) -> String {
    format!("/groups/{}", id.0)
}

/// The page to show after an operation was accepted: its event if there is one, otherwise `back`.
pub fn after_operation(operation: &Operation, back: &str) -> String {
    match operation.events.first() {
        Some(event) => format!("/events/{}", event.id),
        None => back.to_owned(),
    }
}

/// The group that the page at this address shows.
pub fn find_group<'r>(region: &'r Region, here: &str) -> Option<&'r Arc<Group>> {
    let id = here.strip_prefix("/groups/")?.split('?').next()?.parse().ok()?;
    region.group(GroupId(id))
}

/// The address if it belongs to the portal, otherwise the overview. Prevents redirects to other sites.
pub fn check_own(text: &str) -> String {
    let is_plain = !text.contains(|letter: char| letter == '\\' || letter.is_control());
    let is_own = text.starts_with('/') && !text.starts_with("//") && is_plain;
    if is_own { text.to_owned() } else { "/".into() }
}

/// The type of group that a form names.
pub fn parse_group_type(kind: &str) -> Result<GroupType, String> {
    match kind {
        "scale-set" => Ok(GroupType::ScaleSet),
        "availability-set" => Ok(GroupType::AvailabilitySet),
        "cloud-service" => Ok(GroupType::CloudService),
        other => Err(format!("Unknown kind of group '{other}'. Reload the page and try again.")),
    }
}

/// The kind of a group, as [`parse_group_type`] expects it.
pub fn group_kind_word(group: &Group) -> &'static str {
    match group.kind {
        GroupKind::ScaleSet(_) => "scale-set",
        GroupKind::AvailabilitySet => "availability-set",
        GroupKind::CloudService => "cloud-service",
    }
}

/// The name of a group in forms.
pub fn group_target(group: &Group) -> String {
    format!("{}~{}", group.home.resource_group, group.name)
}

pub fn encode_segment(text: &str) -> String {
    percent::encode_component(text)
}

/// In a path, unlike in a query, `+` is a plus sign.
pub fn decode_segment(segment: &str) -> Option<String> {
    let pair = segment.replace('+', "%2B");
    form_urlencoded::parse(pair.as_bytes()).next().map(|(name, _)| name.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_stay_on_the_portals_own_pages() {
        for own in ["/", "/machines/x?version=1"] {
            assert_eq!(check_own(own), own);
        }
        for other in [
            "",
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "javascript:x",
            "/a\nb",
            "/a\tb",
            "/\u{85}",
        ] {
            assert_eq!(check_own(other), "/", "{other}");
        }
    }
}
