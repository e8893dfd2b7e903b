//! Checks expectations against a region: they hold now, not yet, or can never hold.

use forewarn_core::{Event, MachineId, MachineLookup, Operation, OperationState, Outcome, Power, Region, Status};

use super::step::{EventState, MachineState};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Holds,
    /// The current state, for the error after a timeout.
    NotYet(String),
    /// The current state, from which the expected one cannot be reached.
    Never(String),
}

/// Judges the events of an operation, or those that affect one machine.
pub(super) fn judge_events(
    region: &Region,
    operation: &Operation,
    machine: Option<&str>,
    state: EventState,
) -> Verdict {
    let affects = |event: &&Event| {
        machine.is_none_or(|name| event.resources.iter().any(|resource| resource.name.eq_ignore_ascii_case(name)))
    };
    let all: Vec<&Event> =
        operation.parts.iter().filter_map(|part| region.event(part.event).map(|event| &**event)).collect();
    let events: Vec<&Event> = all.into_iter().filter(affects).collect();
    if events.is_empty() {
        return match operation.state {
            OperationState::Ended { .. } => Verdict::Never("the operation created no event".into()),
            OperationState::Running => Verdict::NotYet("the operation has no event yet".into()),
        };
    }
    if !events.iter().any(|event| event.is_shown() || !event.is_live()) {
        return Verdict::NotYet(
            "its event is hidden, because no machine of the event group has requested the document".into(),
        );
    }
    let verdicts = events.iter().map(|event| judge_event(event, state));
    verdicts.reduce(pick_worse).unwrap_or(Verdict::Holds)
}

fn pick_worse(one: Verdict, other: Verdict) -> Verdict {
    match (&one, &other) {
        (Verdict::Never(_), _) => one,
        (_, Verdict::Never(_)) => other,
        (Verdict::NotYet(_), _) => one,
        (Verdict::Holds, _) => other,
    }
}

fn judge_event(event: &Event, state: EventState) -> Verdict {
    let is = |status: &str| format!("the event is {status}");
    let ended = |outcome: &Outcome| format!("the event ended with {}", outcome_name(outcome));
    match (&event.status, state) {
        (_, EventState::Appeared) => Verdict::Holds,
        (Status::Scheduled, EventState::Scheduled) => Verdict::Holds,
        (_, EventState::Approved) if event.approval.is_some() => Verdict::Holds,
        (Status::Started { .. }, EventState::Started) => Verdict::Holds,
        (Status::Ended { .. }, EventState::Gone) => Verdict::Holds,
        (Status::Ended { outcome: Outcome::Completed, .. }, EventState::Completed) => Verdict::Holds,
        (Status::Ended { outcome: Outcome::Canceled { .. }, .. }, EventState::Canceled) => Verdict::Holds,
        (Status::Scheduled, _) => Verdict::NotYet(is("Scheduled")),
        (Status::Started { .. }, EventState::Scheduled | EventState::Approved) => Verdict::Never(is("Started")),
        (Status::Started { .. }, _) => Verdict::NotYet(is("Started")),
        (Status::Ended { outcome, .. }, _) => Verdict::Never(ended(outcome)),
    }
}

fn outcome_name(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Completed => "Completed".into(),
        Outcome::Failed(reason) => format!("Failed ({reason})"),
        Outcome::TimedOut => "TimedOut".into(),
        Outcome::Superseded => "Superseded".into(),
        Outcome::NoEffect => "NoEffect".into(),
        Outcome::ResourceGone => "ResourceGone".into(),
        Outcome::Canceled { by } => format!("Canceled by {by}"),
    }
}

/// Judges a machine. `polls` returns how often it has requested its document.
pub(super) fn judge_machine(
    region: &Region,
    name: &str,
    polls: impl Fn(MachineId) -> u64,
    state: MachineState,
) -> Verdict {
    let machine = match region.machine_by_name(name, None) {
        MachineLookup::One(id) => region.machine(id),
        MachineLookup::Many(_) | MachineLookup::Nothing => None,
    };
    let Some(machine) = machine else {
        return match state {
            MachineState::Deleted => Verdict::Holds,
            MachineState::Polling | MachineState::Running | MachineState::Stopped | MachineState::Deallocated => {
                Verdict::Never("the machine does not exist".into())
            }
        };
    };
    let holds = match state {
        MachineState::Polling => polls(machine.id) > 0 && region.is_on(machine.scope),
        MachineState::Running => machine.power == Power::Running,
        MachineState::Stopped => machine.power == Power::Stopped,
        MachineState::Deallocated => machine.power == Power::Deallocated,
        MachineState::Deleted => false,
    };
    match holds {
        true => Verdict::Holds,
        false => Verdict::NotYet(format!("the machine is {:?}", machine.power)),
    }
}
