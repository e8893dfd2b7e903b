//! What comes of approving and of cancelling.

use std::sync::Arc;

use forewarn_core::{
    Approver, Command, Event, EventKind, Operation, Outcome, Region, Status, Transition, What, Within,
};

use super::{Oracle, names_of, nobody, others_at_the_gate, under_way, what};
use crate::words::{self, escaped, few};

impl Oracle<'_> {
    pub fn approve(&self, event: &Event) -> String {
        let by = Approver::Management(nobody());
        let command = Command::Approve { by, within: Within::Region, events: vec![event.id] };
        let trial = match self.region.apply(&command, self.now) {
            Ok(trial) => trial,
            Err(rejection) => return escaped(rejection),
        };
        let at = words::time(event.not_before);
        let after = trial.region.event(event.id);
        match after.map(|event| &event.status) {
            Some(Status::Started { .. }) => {
                let others: Vec<String> = started(&trial).filter(|other| other.id != event.id).map(what).collect();
                match others.len() {
                    0 => format!("{} starts now instead of waiting for {at}.", what(event)),
                    _ => format!("{} starts now, and with it {}.", what(event), few(&others)),
                }
            }
            Some(Status::Scheduled) => self.waits(&trial.region, event, &at),
            Some(Status::Ended { .. }) | None => format!("{} ends at once: no machine of it runs.", what(event)),
        }
    }

    /// It is approved and does not start yet.
    fn waits(&self, after: &Region, event: &Event, at: &str) -> String {
        let gate = others_at_the_gate(after, event);
        let missing = missing(after, event);
        match (missing.is_empty(), event.kind, gate.is_empty()) {
            (false, _, _) => format!(
                "{} belongs to a host operation, which starts when all are approved: missing {}. It starts at {at} in any case.",
                what(event),
                few(&missing)
            ),
            (true, EventKind::Terminate, false) => format!(
                "{} waits for the deletions of the same document that are neither approved nor due: {}. It goes at {at} in any case.",
                what(event),
                few(&gate)
            ),
            (true, _, _) => format!("{} starts when {} has ended.", what(event), under_way(after, event)),
        }
    }

    /// Cancelling what an event comes from: all of it.
    pub fn cancel(&self, event: &Event) -> String {
        let operations: Vec<&Arc<Operation>> =
            event.operations.iter().filter_map(|id| self.region.operation(*id)).collect();
        let told = self.cancelled(&Command::CancelEvent { event: event.id, by: nobody() }, &operations);
        match operations.len() {
            0 | 1 => told,
            many => format!("{many} requests wait for it, and all of them are cancelled. {told}"),
        }
    }

    /// Stopping an operation.
    pub fn stop(&self, operation: &Arc<Operation>) -> String {
        self.cancelled(&Command::Cancel { operation: operation.id, by: nobody() }, &[operation])
    }

    fn cancelled(&self, command: &Command, operations: &[&Arc<Operation>]) -> String {
        let trial = match self.region.apply(command, self.now) {
            Ok(trial) => trial,
            Err(rejection) => return escaped(rejection),
        };
        let gone: Vec<String> = cancelled(&trial).map(what).collect();
        let live = || operations.iter().flat_map(|one| &one.parts).filter_map(|part| trial.region.event(part.event));
        let finish: Vec<String> =
            live().filter(|event| matches!(event.status, Status::Started { .. })).map(|event| what(event)).collect();
        let stay: Vec<String> =
            live().filter(|event| event.status == Status::Scheduled).map(|event| what(event)).collect();
        let next = operations.iter().find_map(|operation| Some(operation.rollout.as_ref()?.next_domain));
        let mut told = Vec::new();
        match gone.len() {
            0 => {}
            1 => told.push(format!("{} goes, and nothing happens.", gone[0])),
            _ => told.push(format!("{} go, and nothing happens.", few(&gone))),
        }
        if !stay.is_empty() {
            told.push(format!("{} stays: another request waits for it.", few(&stay)));
        }
        if !finish.is_empty() {
            told.push(format!("What has started finishes: {}.", few(&finish)));
        }
        if let Some(next) = next {
            told.push(format!("Update domains from {next} on are left alone."));
        }
        told.join(" ")
    }
}

/// The events that hold up a host operation, as `Freeze of web_0`.
fn missing(region: &Region, event: &Event) -> Vec<String> {
    let parts = event.cohort.and_then(|id| region.operation(id)).map_or(&[][..], |operation| &operation.parts);
    let events = parts.iter().filter_map(|part| region.event(part.event));
    let holding = events.filter(|one| one.status == Status::Scheduled && one.is_shown() && !one.is_ready());
    holding.flat_map(|event| names_of(event)).collect()
}

fn started(trial: &Transition) -> impl Iterator<Item = &Event> {
    trial.facts.iter().filter_map(|fact| match &fact.what {
        What::Started(event) => Some(&**event),
        What::Appeared(_)
        | What::Approved { .. }
        | What::Ended(_)
        | What::OperationEnded(_)
        | What::MachineAdded(_)
        | What::MachineRemoved(_)
        | What::ScopeOn(_)
        | What::ScopeOff(_) => None,
    })
}

pub(super) fn ended(trial: &Transition) -> impl Iterator<Item = (&Event, &Outcome)> {
    trial.facts.iter().filter_map(|fact| match &fact.what {
        What::Ended(event) => match &event.status {
            Status::Ended { outcome, .. } => Some((&**event, outcome)),
            Status::Scheduled | Status::Started { .. } => None,
        },
        What::Appeared(_)
        | What::Approved { .. }
        | What::Started(_)
        | What::OperationEnded(_)
        | What::MachineAdded(_)
        | What::MachineRemoved(_)
        | What::ScopeOn(_)
        | What::ScopeOff(_) => None,
    })
}

fn cancelled(trial: &Transition) -> impl Iterator<Item = &Event> {
    ended(trial).filter(|(_, outcome)| matches!(outcome, Outcome::Canceled { .. })).map(|(event, _)| event)
}
