//! The next time at which something changes without a request, with a description.

use std::sync::Arc;

use forewarn_api_types::{HOUSEKEEPING, join_first};
use forewarn_core::{Event, Group, GroupKind, Region, Status, Timestamp};

/// The next deadline of the rules or of the simulated driver, with a description.
pub fn next_deadline(region: &Region, simulated_end: Option<Timestamp>) -> Option<(Timestamp, String)> {
    match (region.next_deadline(), simulated_end) {
        (rules, Some(end)) if rules.is_none_or(|rules| end <= rules) => Some((end, describe_simulated_end(region))),
        (rules, _) => rules.map(|at| (at, describe_deadline(region, at))),
    }
}

fn describe_simulated_end(region: &Region) -> String {
    let mut in_progress = region.wanted_effects();
    match (in_progress.next(), in_progress.next()) {
        (Some(event), None) => format!("the end of {}", describe_event(event)),
        _ => "the end of an event in progress".into(),
    }
}

fn describe_deadline(region: &Region, at: Timestamp) -> String {
    let due = |event: &&Arc<Event>| event.status == Status::Scheduled && event.not_before == at;
    if let Some(event) = region.events().find(due) {
        return format!("NotBefore of {}", describe_event(event));
    }
    let mut resumed = region.live_rollouts().filter(|rollout| rollout.pause_end() == Some(at));
    if resumed.any(|rollout| rollout.operation.is_some()) {
        return "the next update domain of a rollout".into();
    }
    let upgrades = |group: &&Arc<Group>| match &group.kind {
        GroupKind::ScaleSet(set) => set.next_batch == Some(at),
        GroupKind::AvailabilitySet | GroupKind::CloudService => false,
    };
    match region.groups().find(upgrades) {
        Some(set) => format!("the next upgrade batch of {}", set.name),
        None => HOUSEKEEPING.into(),
    }
}

fn describe_event(event: &Event) -> String {
    let names = event.resources.iter().map(|resource| &resource.name);
    format!("a {} of {}", event.kind.as_str(), join_first(names, event.resources.len(), NAMED_MAX))
}

/// Machines listed in the description of an event; a host can have hundreds.
const NAMED_MAX: usize = 3;
