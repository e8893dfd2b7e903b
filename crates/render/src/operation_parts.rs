//! The parts of an operation: its progress, and its events by event group.

use std::collections::BTreeMap;

use forewarn_api_types::{OperationGroup, OperationProgress};
use forewarn_core::{Event, Operation, OperationEvent, OperationState, Outcome, Region, ScopeId, ScopeOwner, Status};

use super::event::render_event;

pub fn render_progress(region: &Region, operation: &Operation) -> OperationProgress {
    let mut progress = count_outcomes(operation.parts.iter().map(|part| part.outcome.as_ref()));
    for event in unfinished(operation).filter_map(|part| region.event(part.event)) {
        match event.status {
            Status::Scheduled => {
                progress.scheduled += 1;
                progress.approved += u32::from(event.approval.is_some());
            }
            Status::Started { .. } => progress.started += 1,
            Status::Ended { .. } => {}
        }
    }
    for event in operation.parts.iter().filter_map(|part| region.event(part.event)) {
        let machines = u32::try_from(event.resources.len()).unwrap_or(u32::MAX);
        progress.machines += machines;
        progress.machines_ready += if event.is_shown() && event.approval.is_some() { machines } else { 0 };
    }
    progress.machines_left = count_machines_left(region, operation);
    progress
}

/// The progress of events of which only the outcome is known.
pub fn count_outcomes<'a>(outcomes: impl Iterator<Item = Option<&'a Outcome>>) -> OperationProgress {
    let mut progress = OperationProgress::default();
    for outcome in outcomes {
        progress.events += 1;
        match outcome {
            None => {}
            Some(Outcome::Completed | Outcome::NoEffect) => progress.completed += 1,
            Some(Outcome::Failed(_) | Outcome::TimedOut | Outcome::Superseded | Outcome::ResourceGone) => {
                progress.failed += 1;
            }
            Some(Outcome::Canceled { .. }) => progress.canceled += 1,
        }
    }
    progress
}

fn unfinished(operation: &Operation) -> impl Iterator<Item = &OperationEvent> {
    operation.parts.iter().filter(|part| part.outcome.is_none())
}

fn count_machines_left(region: &Region, operation: &Operation) -> Option<u32> {
    let plan = operation.request.drain_plan().filter(|_| operation.state == OperationState::Running)?;
    u32::try_from(region.machines_on(&plan.host).count()).ok()
}

/// The events that the region still has, by event group.
pub fn render_operation_groups(region: &Region, operation: &Operation) -> Vec<OperationGroup> {
    let mut groups: BTreeMap<ScopeId, OperationGroup> = BTreeMap::new();
    for event in operation.parts.iter().filter_map(|part| region.event(part.event)) {
        let group = groups.entry(event.scope).or_insert_with(|| OperationGroup {
            name: name_event_group(region, event),
            event_group: event.scope.0,
            handler_connected: region.is_on(event.scope),
            events: Vec::new(),
        });
        group.events.push(render_event(region, event));
    }
    groups.into_values().collect()
}

/// The name of an event's group, or of its standalone machine, which may be gone.
pub fn name_event_group(region: &Region, event: &Event) -> String {
    let owner = region.scope(event.scope).map(|scope| &scope.owner);
    let name = owner.and_then(|owner| match owner {
        ScopeOwner::Machine(machine) => region.machine(*machine).map(|machine| machine.name.to_string()),
        ScopeOwner::Group { group, .. } => region.group(*group).map(|group| group.name.to_string()),
    });
    name.unwrap_or_else(|| event.resources.first().map_or_else(String::new, |resource| resource.name.to_string()))
}
