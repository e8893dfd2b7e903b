//! The machines whose approval an operation waits for, with the state of their handlers.

use std::sync::Arc;

use forewarn_api_types::{EventId, HandlerHealth, HandlerPresence, NotReadyMachine, NotReadyReason, Operation};
use forewarn_core::{Event, MachineId, Region, Status};

use super::operation_parts::name_event_group;
use crate::convert::Convert;

/// The first [`Operation::NOT_READY_MAX`] machines that are not ready, and the number of all of them.
pub fn render_not_ready(
    region: &Region,
    events: &[&Arc<Event>],
    find_handler: impl Fn(MachineId) -> Option<HandlerHealth>,
) -> (Vec<NotReadyMachine>, usize) {
    let missing = || events.iter().filter(|event| event.status == Status::Scheduled && event.approval.is_none());
    let resources = missing().flat_map(|event| event.resources.iter().map(move |resource| (*event, resource)));
    let machines = resources.take(Operation::NOT_READY_MAX).map(|(event, resource)| {
        let health = find_handler(resource.machine);
        let (handler, reason) = judge(event, health.as_ref());
        NotReadyMachine {
            machine: resource.name.to_string(),
            machine_id: resource.machine.0,
            group: name_event_group(region, event),
            event_group: event.scope.0,
            event: EventId(event.id.0),
            handler,
            last_poll: health.map(|health| health.last_poll),
            reason,
        }
    });
    (machines.collect(), missing().map(|event| event.resources.len()).sum())
}

fn judge(event: &Event, health: Option<&HandlerHealth>) -> (HandlerPresence, NotReadyReason) {
    match (event.is_shown(), health) {
        (false, _) => (HandlerPresence::Missing, NotReadyReason::NoHandler),
        (true, Some(health)) if health.polling && health.last_poll >= event.appeared.convert() => {
            (HandlerPresence::Polling, NotReadyReason::NotApproved)
        }
        (true, Some(health)) if health.polling => (HandlerPresence::Polling, NotReadyReason::NotPolledSince),
        (true, Some(_)) => (HandlerPresence::Silent, NotReadyReason::StoppedPolling),
        (true, None) => (HandlerPresence::Silent, NotReadyReason::NeverPolled),
    }
}
