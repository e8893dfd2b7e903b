//! Operations as the API shows them, from the region or from history.

use std::collections::BTreeMap;
use std::sync::Arc;

use forewarn_api_types::{
    Event, EventCause, EventId, EventOutcome, EventType, HandlerHealth, Operation, OperationKind, OperationPhase, Part,
    Time, split_ticket,
};
use forewarn_core as core;
use forewarn_core::{
    GroupId, Guid, MachineId, Name, OperationId, OperationResult, OperationState, Outcome, Region, Request, Target,
    Timestamp,
};
use forewarn_store::{HistoryFact, HistoryRow};

use super::cause::find_cause;
use super::conflict::{find_conflicts, render_conflicts};
use super::event::render_event;
use super::group_dip::{find_dips, render_capacity};
use super::not_ready::render_not_ready;
use super::operation_parts::{count_outcomes, render_operation_groups, render_progress};
use super::operation_waits::render_waits;
use crate::convert::Convert;

pub fn render_operation(region: &Region, operation: &core::Operation) -> Operation {
    let summary = RequestSummary::of(region, operation);
    let (ended, result) = state_of(&operation.state);
    let rollout = region.rollout_of_maintenance(operation).filter(|rollout| rollout.is_live());
    let description = describe_request(region, operation);
    Operation {
        id: operation.id.convert(),
        kind: summary.kind,
        requested_by: operation.requested_by.to_string(),
        requested_at: Some(operation.requested_at.convert()),
        state: result.state,
        ended,
        outcome: result.outcome,
        reason: result.reason,
        canceled_by: result.canceled_by,
        machines: summary.machines,
        host: summary.host,
        group: summary.group,
        events: operation.parts.iter().map(render_part).collect(),
        event_type: summary.event_type,
        cause: summary.cause,
        at: summary.at,
        next_update_domain: rollout.map(|rollout| rollout.next_domain()),
        resume: rollout.and_then(|rollout| rollout.pause_end()).map(Convert::convert),
        ticket: description.as_deref().and_then(|text| split_ticket(text).0).map(str::to_owned),
        description,
        rollout: operation.rollout.map(Convert::convert),
        progress: render_progress(region, operation),
        waits_for: render_waits(region, operation),
        groups: Vec::new(),
        not_ready: Vec::new(),
        not_ready_count: 0,
        capacity: Vec::new(),
        conflicts: Vec::new(),
    }
}

/// An operation with its events by event group, the machines that are not ready, the capacity of its groups and its conflicts.
pub fn render_whole_operation(
    region: &Region,
    operation: &core::Operation,
    now: Timestamp,
    find_handler: impl Fn(MachineId) -> Option<HandlerHealth>,
) -> Operation {
    let events: Vec<&Arc<core::Event>> = operation.parts.iter().filter_map(|part| region.event(part.event)).collect();
    let own = find_cause(region, operation.id);
    let dips = find_dips(region, now, own, &events);
    let (not_ready, not_ready_count) = render_not_ready(region, &events, find_handler);
    Operation {
        groups: render_operation_groups(region, operation),
        not_ready,
        not_ready_count: u32::try_from(not_ready_count).unwrap_or(u32::MAX),
        capacity: render_capacity(region, &dips),
        conflicts: render_conflicts(region, &find_conflicts(region, own, &events, &dips)),
        ..render_operation(region, operation)
    }
}

/// The description of the request, or of the rollout behind it.
pub fn describe_request(region: &Region, operation: &core::Operation) -> Option<String> {
    let rollout = || region.rollout(operation.rollout?)?.plan.description.as_ref();
    operation.request.description().or_else(rollout).map(ToString::to_string)
}

/// The events of an operation that the region still has.
pub fn render_events_of(region: &Region, operation: &Operation) -> Vec<Event> {
    let found = operation.events.iter().filter_map(|part| region.event(Guid(part.id.0)));
    found.map(|event| render_event(region, event)).collect()
}

/// An operation that the region no longer has, reconstructed from its rows of history.
pub fn render_operation_from_history(region: &Region, id: OperationId, rows: &[HistoryRow]) -> Option<Operation> {
    let operation = read_past_operation(id, rows)?;
    let rendered = render_operation(region, &operation);
    let ended = rows.iter().filter(|row| row.event_outcome().is_some());
    let mut machines: Vec<String> = ended.flat_map(|row| row.machines.iter().cloned()).collect();
    machines.dedup();
    let causes = rows.iter().filter_map(HistoryRow::event_cause);
    Some(Operation {
        machines: if machines.is_empty() { rendered.machines } else { machines },
        cause: rendered.cause.or(causes.map(|cause| cause.convert()).next()),
        progress: count_outcomes(operation.parts.iter().map(|part| part.outcome.as_ref())),
        ..rendered
    })
}

/// An operation as its rows of history describe it.
pub fn read_past_operation(id: OperationId, rows: &[HistoryRow]) -> Option<core::Operation> {
    // The end of its step in a rollout can follow the end of the operation.
    let of_operation = rows.iter().rev().filter(|row| row.operation == Some(id) && row.event.is_none());
    let (last, ended) = of_operation.into_iter().find_map(|row| match row.fact() {
        Some(HistoryFact::OperationEnded(ended)) => Some((row, ended)),
        _ => None,
    })?;
    let outcomes: Vec<(&HistoryRow, Outcome)> =
        rows.iter().filter_map(|row| Some((row, row.event_outcome()?))).collect();
    let outcome_of = |event| outcomes.iter().find(|(row, _)| row.event == Some(event)).map(|(_, outcome)| outcome);
    let parts =
        ended.events.iter().map(|event| core::OperationEvent { event: *event, outcome: outcome_of(*event).cloned() });
    Some(core::Operation {
        id,
        requested_by: ended.requested_by.as_str().into(),
        subscription: ended.subscription.as_str().into(),
        request: ended.request?,
        requested_at: ended.requested.unwrap_or(last.at),
        state: OperationState::Ended { at: last.at, result: ended.result },
        parts: parts.collect(),
        drain: None,
        rollout: ended.rollout,
        canceled: None,
    })
}

/// The state of an operation and what it says about its result.
struct ResultSummary {
    state: OperationPhase,
    outcome: Option<EventOutcome>,
    reason: Option<String>,
    canceled_by: Option<String>,
}

impl ResultSummary {
    fn of(state: OperationPhase) -> ResultSummary {
        ResultSummary { state, outcome: None, reason: None, canceled_by: None }
    }
}

fn state_of(state: &OperationState) -> (Option<Time>, ResultSummary) {
    match state {
        OperationState::Running => (None, ResultSummary::of(OperationPhase::Running)),
        OperationState::Ended { at, result } => (Some(at.convert()), describe_result(result)),
    }
}

pub fn render_operation_kind(request: &Request) -> OperationKind {
    match request {
        Request::Restart { .. } => OperationKind::Restart,
        Request::Redeploy { .. } => OperationKind::Redeploy,
        Request::PerformMaintenance { .. } => OperationKind::PerformMaintenance,
        Request::Evict { .. } => OperationKind::Evict,
        Request::RecommendRebalance { .. } => OperationKind::RecommendRebalance,
        Request::Delete { .. } => OperationKind::Delete,
        Request::Maintain { .. } => OperationKind::Maintain,
        Request::Drain(_) => OperationKind::Drain,
        Request::Fail { .. } => OperationKind::Fail,
    }
}

pub fn render_operation_phase(state: &OperationState) -> OperationPhase {
    state_of(state).1.state
}

fn describe_result(result: &OperationResult) -> ResultSummary {
    match result {
        OperationResult::Succeeded => ResultSummary::of(OperationPhase::Succeeded),
        OperationResult::Failed(outcome) => ResultSummary {
            outcome: Some(outcome.convert()),
            reason: outcome.failure_reason().filter(|reason| !reason.is_empty()).map(ToString::to_string),
            canceled_by: outcome.canceled_by().map(ToString::to_string),
            ..ResultSummary::of(OperationPhase::Failed)
        },
        OperationResult::Canceled { by } => {
            ResultSummary { canceled_by: Some(by.to_string()), ..ResultSummary::of(OperationPhase::Canceled) }
        }
    }
}

fn render_part(part: &core::OperationEvent) -> Part {
    Part { id: EventId(part.event.0), outcome: part.outcome.as_ref().map(Convert::convert) }
}

/// The request of an operation, as the API shows it.
struct RequestSummary {
    kind: OperationKind,
    machines: Vec<String>,
    host: Option<String>,
    group: Option<String>,
    event_type: Option<EventType>,
    cause: Option<EventCause>,
    at: Option<Time>,
}

impl RequestSummary {
    fn of(region: &Region, operation: &core::Operation) -> RequestSummary {
        let names = |machines: &[MachineId]| machine_names(region, operation, machines);
        let at = |kind, target: &Target| {
            let blank = RequestSummary::new(kind, Vec::new());
            match target {
                Target::Machines(machines) => RequestSummary::new(kind, names(machines)),
                Target::Host(host) => RequestSummary { host: Some(host.to_string()), ..blank },
                Target::Group(group) => RequestSummary { group: group_name(region, *group), ..blank },
            }
        };
        match &operation.request {
            Request::Restart { machines } => {
                RequestSummary::new(OperationKind::Restart, names(machines)).caused_by(EventCause::UserRestart)
            }
            Request::Redeploy { machines } => {
                RequestSummary::new(OperationKind::Redeploy, names(machines)).caused_by(EventCause::UserRedeploy)
            }
            Request::PerformMaintenance { machines } => {
                RequestSummary::new(OperationKind::PerformMaintenance, names(machines))
                    .caused_by(EventCause::SelfServiceMaintenance)
            }
            Request::Evict { machine } => {
                RequestSummary::new(OperationKind::Evict, names(&[*machine])).caused_by(EventCause::Eviction)
            }
            Request::RecommendRebalance { machine } => {
                RequestSummary::new(OperationKind::RecommendRebalance, names(&[*machine]))
                    .caused_by(EventCause::RebalanceRecommendation)
            }
            Request::Delete { machines, group } => RequestSummary {
                group: group.and_then(|group| group_name(region, group)),
                ..RequestSummary::new(OperationKind::Delete, names(machines)).caused_by(EventCause::Deletion)
            },
            Request::Maintain { target, plan } => RequestSummary {
                event_type: Some(plan.kind.convert()),
                cause: Some(plan.cause.convert()),
                at: plan.at.map(Convert::convert),
                ..at(OperationKind::Maintain, target)
            },
            Request::Drain(plan) => RequestSummary {
                host: Some(plan.host.to_string()),
                ..RequestSummary::new(OperationKind::Drain, Vec::new()).caused_by(EventCause::HostMaintenance)
            },
            Request::Fail { target, kind } => RequestSummary {
                event_type: Some(kind.convert()),
                ..at(OperationKind::Fail, target).caused_by(EventCause::HardwareFailure)
            },
        }
    }

    fn new(kind: OperationKind, machines: Vec<String>) -> RequestSummary {
        RequestSummary { kind, machines, host: None, group: None, event_type: None, cause: None, at: None }
    }

    fn caused_by(self, cause: EventCause) -> RequestSummary {
        RequestSummary { cause: Some(cause), ..self }
    }
}

fn group_name(region: &Region, group: GroupId) -> Option<String> {
    region.group(group).map(|group| group.name.to_string())
}

/// The names of machines. Events keep the names of deleted machines.
fn machine_names(region: &Region, operation: &core::Operation, machines: &[MachineId]) -> Vec<String> {
    let events = operation.parts.iter().filter_map(|part| region.event(part.event));
    let in_events: BTreeMap<MachineId, &Name> =
        events.flat_map(|event| event.resources.iter()).map(|resource| (resource.machine, &resource.name)).collect();
    let name = |id: &MachineId| region.machine(*id).map(|machine| &machine.name).or(in_events.get(id).copied());
    machines.iter().filter_map(name).map(|name| name.to_string()).collect()
}
