//! Operations as the API shows them, from the region or from history.

use std::collections::BTreeMap;

use forewarn_api_types::{
    Event, EventCause, EventId, EventOutcome, EventType, Operation, OperationKind, OperationPhase, Part, Time,
};
use forewarn_core as core;
use forewarn_core::{
    GroupId, Guid, MachineId, Name, OperationId, OperationResult, OperationState, Outcome, Region, Request, Target,
};
use forewarn_store::{HistoryFact, HistoryRow};

use super::event::{canceled_by, failure_reason, render_event};
use super::operation_parts::{count_outcomes, render_operation_groups, render_progress};
use super::operation_waits::render_waits;
use crate::convert::Convert;

pub fn render_operation(region: &Region, operation: &core::Operation) -> Operation {
    let summary = RequestSummary::of(region, operation);
    let (ended, result) = state_of(&operation.state);
    let rollout = region.rollout_of_maintenance(operation).filter(|rollout| rollout.is_live());
    Operation {
        id: operation.id.convert(),
        kind: summary.kind,
        requested_by: operation.by.to_string(),
        requested_at: Some(operation.asked.convert()),
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
        description: describe_request(region, operation),
        rollout: operation.rollout.map(Convert::convert),
        progress: render_progress(region, operation),
        waits_for: render_waits(region, operation),
        groups: Vec::new(),
    }
}

/// An operation with its events by event group.
pub fn render_whole_operation(region: &Region, operation: &core::Operation) -> Operation {
    let groups = render_operation_groups(region, operation);
    Operation { groups, ..render_operation(region, operation) }
}

/// The description of the request, or of the rollout behind it.
pub fn describe_request(region: &Region, operation: &core::Operation) -> Option<String> {
    let own = match &operation.request {
        Request::Maintain { plan, .. } => plan.description.as_ref(),
        Request::Drain(plan) => plan.description.as_ref(),
        Request::Restart { .. }
        | Request::Redeploy { .. }
        | Request::PerformMaintenance { .. }
        | Request::Evict { .. }
        | Request::RecommendRebalance { .. }
        | Request::Delete { .. }
        | Request::Fail { .. } => None,
    };
    let rollout = || region.rollout(operation.rollout?)?.plan.description.as_ref();
    own.or_else(rollout).map(ToString::to_string)
}

/// The events of an operation that the region still has.
pub fn render_events_of(region: &Region, operation: &Operation) -> Vec<Event> {
    let found = operation.events.iter().filter_map(|part| region.event(Guid(part.id.0)));
    found.map(|event| render_event(region, event)).collect()
}

/// An operation that the region no longer has, reconstructed from its rows of history.
pub fn render_operation_from_history(id: OperationId, rows: &[HistoryRow]) -> Option<Operation> {
    // The end of its step in a rollout can follow the end of the operation.
    let of_operation = rows.iter().rev().filter(|row| row.operation == Some(id) && row.event.is_none());
    let (last, ended) = of_operation.into_iter().find_map(|row| match row.fact() {
        Some(HistoryFact::OperationEnded(ended)) => Some((row, ended)),
        _ => None,
    })?;
    let result = describe_result(&ended.result);
    let outcomes: Vec<(&HistoryRow, Outcome)> =
        rows.iter().filter_map(|row| Some((row, row.event_outcome()?))).collect();
    let mut machines: Vec<String> = outcomes.iter().flat_map(|(row, _)| row.machines.iter().cloned()).collect();
    machines.dedup();
    let outcome_of = |event| outcomes.iter().find(|(row, _)| row.event == Some(event)).map(|(_, outcome)| outcome);
    Some(Operation {
        id: id.convert(),
        kind: ended.request?.convert(),
        requested_by: ended.requested_by,
        requested_at: ended.requested.map(Convert::convert),
        state: result.state,
        ended: Some(last.at.convert()),
        outcome: result.outcome,
        reason: result.reason,
        canceled_by: result.canceled_by,
        machines,
        host: None,
        group: None,
        events: ended
            .events
            .iter()
            .map(|event| Part { id: EventId(event.0), outcome: outcome_of(*event).map(Convert::convert) })
            .collect(),
        event_type: None,
        cause: None,
        at: None,
        next_update_domain: None,
        resume: None,
        description: None,
        rollout: None,
        progress: count_outcomes(ended.events.iter().map(|event| outcome_of(*event))),
        waits_for: Vec::new(),
        groups: Vec::new(),
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
            reason: failure_reason(outcome).filter(|reason| !reason.is_empty()),
            canceled_by: canceled_by(outcome),
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
