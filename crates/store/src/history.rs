//! Converts the facts and audits of a batch into history rows. Every store writes the same rows. They contain
//! words and JSON because they outlive the types.

use std::borrow::Cow;

use crate::detail::{self, AppearedDetail, EventDetail, HostDetail, MachineDetail, OperationDetail, RolloutDetail};
use crate::record::{RequestBody, Tagged};
use crate::text::iso;
use crate::{Audit, Batch, HistoryFact, HistoryKind, HistoryQuery, HistoryRow};
use forewarn_core::{
    Approver, Event, Fact, FactKind, Host, Machine, MachineId, Operation, OperationId, OperationResult, OperationState,
    Outcome, Request, Rollout, RolloutChange, Status, StepTarget, Timestamp,
};

/// The rows of a batch in order, without numbers. An action precedes its consequences. No row is earlier than
/// `last`, the time of the latest stored row.
pub(crate) fn rows_of(batch: &Batch, mut last: Timestamp) -> Vec<HistoryRow> {
    let mut rows = Vec::with_capacity(batch.facts.len() + batch.audit.len());
    let mut audits = batch.audit.iter().peekable();
    for fact in &batch.facts {
        while let Some(audit) = audits.next_if(|audit| audit.at <= fact.at) {
            rows.push(row_of_audit(audit));
        }
        rows.push(row_of(fact));
    }
    rows.extend(audits.map(row_of_audit));
    for row in &mut rows {
        last = last.max(row.at);
        row.at = last;
    }
    rows
}

/// Folds case for comparison.
pub(crate) fn fold(name: &str) -> String {
    name.to_ascii_lowercase()
}

/// The names under which a row can be found, without duplicates.
pub(crate) fn search_names(row: &HistoryRow) -> Vec<String> {
    unique(row.machines.iter().chain(&row.target).map(|name| fold(name)))
}

/// Whether a row belongs to the machine with this ID and name. Rows without IDs, such as those of older versions, are
/// decided by the name.
fn concerns_machine(row: &HistoryRow, id: MachineId, name: Option<&str>) -> bool {
    if row.machine_ids.is_empty() {
        name.is_some_and(|name| search_names(row).contains(&fold(name)))
    } else {
        row.machine_ids.contains(&id)
    }
}

/// The operations under which a row can be found, without duplicates.
pub(crate) fn search_operations(row: &HistoryRow) -> Vec<OperationId> {
    unique(row.operation.iter().chain(&row.joined).copied())
}

/// The words under which the ticket of a row can be found, without duplicates: those of the description of an operation that has ended.
pub(crate) fn ticket_words(row: &HistoryRow) -> Vec<String> {
    if row.kind != HistoryKind::OperationEnded.as_str() {
        return Vec::new();
    }
    match row.fact() {
        Some(HistoryFact::OperationEnded(ended)) => {
            ended.request.as_ref().and_then(Request::description).map_or_else(Vec::new, |text| split_words(text))
        }
        _ => Vec::new(),
    }
}

/// The words of a text for comparison, without punctuation around them and without duplicates.
pub(crate) fn split_words(text: &str) -> Vec<String> {
    let words = text.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
    unique(words.filter(|word| !word.is_empty()).map(fold))
}

/// Whether a query asks for this row, apart from its number.
pub(crate) fn matches(query: &HistoryQuery, row: &HistoryRow) -> bool {
    let HistoryQuery {
        after: _,
        before,
        event,
        operation,
        machine,
        machine_id,
        target,
        actor,
        ticket,
        scopes,
        kinds,
        since,
        until,
        newest: _,
        limit: _,
    } = query;
    let is_about = || match (machine_id, machine) {
        (Some(id), name) => concerns_machine(row, *id, name.as_deref()),
        (None, Some(name)) => search_names(row).contains(&fold(name)),
        (None, None) => true,
    };
    let has_target = |wanted: &String| row.target.as_ref().is_some_and(|target| fold(target) == fold(wanted));
    let has_actor = |wanted: &String| row.actor.as_ref().is_some_and(|actor| fold(actor).contains(&fold(wanted)));
    let has_ticket = |wanted: &String| {
        let (wanted, words) = (split_words(wanted), ticket_words(row));
        !wanted.is_empty() && wanted.iter().all(|word| words.contains(word))
    };
    event.is_none_or(|event| row.event == Some(event))
        && before.is_none_or(|before| row.number < before)
        && target.as_ref().is_none_or(has_target)
        && actor.as_ref().is_none_or(has_actor)
        && ticket.as_ref().is_none_or(has_ticket)
        && operation.is_none_or(|operation| search_operations(row).contains(&operation))
        && (scopes.is_empty() || scopes.contains(&row.scope))
        && (kinds.is_empty() || kinds.iter().any(|kind| kind.as_str() == row.kind))
        && since.is_none_or(|since| row.at >= since)
        && until.is_none_or(|until| row.at < until)
        && is_about()
}

fn unique<T: Ord>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut items: Vec<T> = items.collect();
    items.sort();
    items.dedup();
    items
}

fn row_of(fact: &Fact) -> HistoryRow {
    let at = fact.at;
    match &fact.what {
        FactKind::Appeared(event) => HistoryRow {
            outcome: Some(event.kind.tag().to_string()),
            detail: appeared_detail(event),
            ..event_row(at, "appeared", event)
        },
        FactKind::Approved { event, by } => HistoryRow { actor: Some(actor(by)), ..event_row(at, "approved", event) },
        FactKind::Started(event) => event_row(at, "started", event),
        FactKind::Ended(event) => ended_row(at, event),
        FactKind::OperationEnded(operation) => operation_row(at, operation),
        FactKind::RolloutChanged { rollout, change } => rollout_row(at, rollout, change),
        FactKind::HostChanged(host) => host_row(at, host),
        FactKind::MachineAdded(machine) => machine_row(at, "machine-added", machine),
        FactKind::MachineRemoved(machine) => machine_row(at, "machine-removed", machine),
        FactKind::ScopeOn(scope) => HistoryRow { scope: Some(scope.0), ..blank(at, "scope-on") },
        FactKind::ScopeOff(scope) => HistoryRow { scope: Some(scope.0), ..blank(at, "scope-off") },
    }
}

fn row_of_audit(audit: &Audit) -> HistoryRow {
    HistoryRow {
        actor: Some(audit.actor.clone()),
        target: Some(audit.target.clone()),
        machine_ids: audit.machines.clone(),
        outcome: Some(audit.action.clone()),
        detail: audit.detail.clone(),
        ..blank(audit.at, "audit")
    }
}

fn blank(at: Timestamp, kind: &str) -> HistoryRow {
    HistoryRow {
        number: 0,
        at,
        kind: kind.to_string(),
        event: None,
        operation: None,
        joined: Vec::new(),
        scope: None,
        machines: Vec::new(),
        machine_ids: Vec::new(),
        actor: None,
        target: None,
        outcome: None,
        detail: "{}".to_string(),
    }
}

fn event_row(at: Timestamp, kind: &str, event: &Event) -> HistoryRow {
    HistoryRow {
        event: Some(event.id),
        operation: event.operations.first().copied(),
        joined: event.operations.iter().skip(1).copied().collect(),
        scope: Some(event.scope.0),
        machines: event.resources.iter().map(|resource| resource.name.to_string()).collect(),
        machine_ids: event.resources.iter().map(|resource| resource.machine).collect(),
        detail: detail::write(&event_detail(event)),
        ..blank(at, kind)
    }
}

fn event_detail(event: &Event) -> EventDetail<'_> {
    EventDetail { cause: event.cause.tag().into(), reason: None, kind: event.kind.tag().into() }
}

fn appeared_detail(event: &Event) -> String {
    detail::write(&AppearedDetail {
        cause: event.cause.tag().into(),
        description: (&*event.description).into(),
        duration_secs: event.duration_secs,
        not_before: iso(event.not_before).into(),
        source: event.cause.source().tag().into(),
        subscription: (&*event.subscription).into(),
        kind: event.kind.tag().into(),
        visibility: event.visibility.tag().into(),
    })
}

fn ended_row(at: Timestamp, event: &Event) -> HistoryRow {
    let row = event_row(at, "ended", event);
    let Status::Ended { outcome, .. } = &event.status else { return row };
    let detail = EventDetail { reason: reason_of(outcome), ..event_detail(event) };
    HistoryRow {
        outcome: Some(outcome_word(outcome).to_string()),
        actor: outcome.canceled_by().map(|by| format!("management:{by}")),
        detail: detail::write(&detail),
        ..row
    }
}

fn operation_row(at: Timestamp, operation: &Operation) -> HistoryRow {
    let (outcome, actor, because) = match &operation.state {
        OperationState::Running => (None, None, None),
        OperationState::Ended { result: OperationResult::Succeeded, .. } => (Some("succeeded"), None, None),
        OperationState::Ended { result: OperationResult::Failed(outcome), .. } => (Some("failed"), None, Some(outcome)),
        OperationState::Ended { result: OperationResult::Canceled { by }, .. } => {
            (Some("canceled"), Some(format!("management:{by}")), None)
        }
    };
    let request = serde_json::to_value(RequestBody::from(&operation.request));
    let detail = OperationDetail {
        asked: iso(operation.requested_at).into(),
        because: because.map(|outcome| outcome_word(outcome).into()),
        by: (&*operation.requested_by).into(),
        events: operation.parts.iter().map(|part| part.event.to_string()).collect(),
        request: request.expect("requests have string keys only and do not fail"),
        rollout: operation.rollout.map(|rollout| rollout.to_string().into()),
        subscription: (&*operation.subscription).into(),
    };
    HistoryRow {
        operation: Some(operation.id),
        outcome: outcome.map(String::from),
        actor,
        detail: detail::write(&detail),
        ..blank(at, "operation-ended")
    }
}

fn rollout_row(at: Timestamp, rollout: &Rollout, change: &RolloutChange) -> HistoryRow {
    let number = match change {
        RolloutChange::StepStarted { step }
        | RolloutChange::StepEnded { step, .. }
        | RolloutChange::StepRetried { step } => Some(*step),
        RolloutChange::Started
        | RolloutChange::Waiting
        | RolloutChange::Paused
        | RolloutChange::Resumed
        | RolloutChange::Stopped
        | RolloutChange::Failed
        | RolloutChange::Finished => None,
    };
    let step = number.and_then(|number| rollout.steps.get(number));
    let mut detail = RolloutDetail {
        by: (&*rollout.requested_by).into(),
        failures: rollout.failures.into(),
        state: rollout.state.as_str().into(),
        ..RolloutDetail::default()
    };
    if let (Some(number), Some(step)) = (number, step) {
        detail.step = Some(number as u64);
        detail.step_state = Some(step.state.tag().into());
        match &step.target {
            StepTarget::Host(host) => detail.host = Some((&**host).into()),
            StepTarget::Domain { group, domain } => {
                detail.group = Some(group.0);
                detail.domain = Some((*domain).into());
            }
            StepTarget::Machine(id) => detail.machine = Some(id.0),
            StepTarget::Machines { domain, .. } => detail.domain = Some((*domain).into()),
        }
    }
    if let RolloutChange::StepEnded { failure: Some(failure), .. } = change {
        detail.failure = Some(outcome_word(failure).into());
        detail.reason = reason_of(failure);
    }
    if let (RolloutChange::Waiting, Some(wait)) = (change, &rollout.waits_for) {
        detail.waits_for = Some(wait.as_str().into());
    }
    HistoryRow {
        operation: step.and_then(|step| step.operation),
        target: Some(rollout.id.to_string()),
        outcome: Some(rollout_word(change).to_string()),
        detail: detail::write(&detail),
        ..blank(at, "rollout")
    }
}

fn rollout_word(change: &RolloutChange) -> &'static str {
    match change {
        RolloutChange::Started => "started",
        RolloutChange::StepStarted { .. } => "step-started",
        RolloutChange::StepEnded { .. } => "step-ended",
        RolloutChange::StepRetried { .. } => "step-retried",
        RolloutChange::Waiting => "waiting",
        RolloutChange::Paused => "paused",
        RolloutChange::Resumed => "resumed",
        RolloutChange::Stopped => "stopped",
        RolloutChange::Failed => "failed",
        RolloutChange::Finished => "finished",
    }
}

fn host_row(at: Timestamp, host: &Host) -> HistoryRow {
    HistoryRow {
        target: Some(host.name.to_string()),
        outcome: Some(host.state.tag().to_string()),
        detail: detail::write(&HostDetail { pool: (&*host.pool).into(), reachable: !host.is_unreachable() }),
        ..blank(at, "host")
    }
}

fn machine_row(at: Timestamp, kind: &str, machine: &Machine) -> HistoryRow {
    HistoryRow {
        scope: Some(machine.scope.0),
        machines: vec![machine.name.to_string()],
        machine_ids: vec![machine.id],
        detail: detail::write(&MachineDetail {
            group: machine.membership.group().map(|group| group.0),
            machine: machine.id.0,
            resource_group: (&*machine.home.resource_group).into(),
            subscription: (&*machine.home.subscription).into(),
            vm_id: machine.vm_id.to_string().into(),
        }),
        ..blank(at, kind)
    }
}

fn actor(by: &Approver) -> String {
    match by {
        Approver::Guest { name, .. } => format!("guest:{name}"),
        Approver::Management(name) => format!("management:{name}"),
        Approver::Policy => "policy".to_string(),
    }
}

fn reason_of(outcome: &Outcome) -> Option<Cow<'_, str>> {
    outcome.failure_reason().map(|reason| (&**reason).into())
}

/// The words are the same as in records.
fn outcome_word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Completed => "completed",
        Outcome::Failed(_) => "failed",
        Outcome::TimedOut => "timed-out",
        Outcome::Superseded => "superseded",
        Outcome::NoEffect => "no-effect",
        Outcome::ResourceGone => "resource-gone",
        Outcome::Canceled { .. } => "canceled",
    }
}
