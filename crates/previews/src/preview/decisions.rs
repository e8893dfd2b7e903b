//! Previews of approvals and cancellations.

use std::collections::BTreeSet;
use std::sync::Arc;

use forewarn_api_types::{count_of, join_names};
use forewarn_core::{
    ApprovalScope, Approver, Command, Event, EventId, EventKind, FactKind, MachineId, Name, Operation, Outcome, Region,
    Rejection, Request, Status, Transition,
};
use forewarn_widgets::words::{self, escape_html};

use super::{Preview, capacity_of, event_title, events_in_progress, machine_names, no_actor, pending_deletions};
use forewarn_render::{find_cause, find_dips};

/// All missing approvals of an operation, given at once.
pub struct ApprovalTrial<'r> {
    preview: Preview<'r>,
    events: Vec<EventId>,
    outcome: Result<Transition, Rejection>,
}

/// The events of an operation that wait for an approval.
pub fn find_unapproved(region: &Region, operation: &Operation) -> Vec<EventId> {
    let events = operation.parts.iter().filter_map(|part| region.event(part.event));
    events.filter(|event| is_unapproved(event)).map(|event| event.id).collect()
}

pub fn is_unapproved(event: &Event) -> bool {
    event.status == Status::Scheduled && event.is_shown() && event.approval.is_none()
}

impl ApprovalTrial<'_> {
    /// The number of machines on which the impact starts at once.
    pub fn count_starting(&self) -> usize {
        self.outcome.as_ref().map_or(0, |trial| count_machines(started(trial)))
    }

    /// The number of machines whose approval was missing.
    pub fn count_approved(&self) -> usize {
        let events = self.events.iter().filter_map(|id| self.preview.region.event(*id));
        count_machines(events.map(|event| &**event))
    }

    pub fn describe(&self) -> String {
        match &self.outcome {
            Ok(trial) => self.preview.describe_approvals(&self.events, trial),
            Err(rejection) => escape_html(rejection),
        }
    }
}

fn count_machines<'e>(events: impl Iterator<Item = &'e Event>) -> usize {
    events.map(|event| event.resources.len()).sum()
}

impl<'r> Preview<'r> {
    /// `None` if no approval is missing.
    pub fn try_approval_of(&self, operation: &Operation) -> Option<ApprovalTrial<'r>> {
        let events = find_unapproved(self.region, operation);
        (!events.is_empty()).then(|| ApprovalTrial { preview: *self, outcome: self.try_approval(&events), events })
    }
}

impl Preview<'_> {
    pub fn describe_approval(&self, event: &Event) -> String {
        let trial = match self.try_approval(&[event.id]) {
            Ok(trial) => trial,
            Err(rejection) => return escape_html(rejection),
        };
        let at = words::time(event.not_before);
        let after = trial.region.event(event.id);
        match after.map(|event| &event.status) {
            Some(Status::Started { .. }) => {
                let others = started(&trial).filter(|other| other.id != event.id).map(event_title);
                let others: Vec<String> = others.collect();
                match others.len() {
                    0 => format!("{} starts now instead of at {at}.", event_title(event)),
                    _ => format!("{} starts now, together with {}.", event_title(event), join_names(&others)),
                }
            }
            Some(Status::Scheduled) => self.describe_waiting(&trial.region, event, &at),
            Some(Status::Ended { .. }) | None => {
                format!("{} ends immediately: none of its machines is running.", event_title(event))
            }
        }
    }

    fn try_approval(&self, events: &[EventId]) -> Result<Transition, Rejection> {
        let by = Approver::Management(no_actor());
        self.region.apply(&Command::Approve { by, within: ApprovalScope::Region, events: events.to_vec() }, self.now)
    }

    fn describe_approvals(&self, events: &[EventId], trial: &Transition) -> String {
        let starting: Vec<&Event> = started(trial).collect();
        let waiting: Vec<String> = events
            .iter()
            .filter_map(|id| trial.region.event(*id))
            .filter(|event| event.status == Status::Scheduled)
            .flat_map(|event| machine_names(event))
            .collect();
        let mut sentences: Vec<String> = self.describe_early_start(&starting).into_iter().collect();
        let unapproved = starting.iter().filter(|event| events.contains(&event.id));
        let unready: Vec<String> = unapproved.flat_map(|event| machine_names(event)).collect();
        if !unready.is_empty() {
            sentences.push(format!("Not ready: {}.", join_names(&unready)));
        }
        let hidden = starting.iter().filter(|event| !event.is_shown());
        let unnotified: Vec<String> = hidden.flat_map(|event| machine_names(event)).collect();
        if !unnotified.is_empty() {
            sentences.push(format!("Not notified, because there is no handler: {}.", join_names(&unnotified)));
        }
        sentences.extend(self.warn_of_floors(&trial.region, &starting));
        if !waiting.is_empty() {
            let names = join_names(&waiting);
            sentences.push(format!("Approved, but not starting yet: {names}."));
        }
        sentences.join(" ")
    }

    /// `4 machines go down now instead of at 03:00: a, b, c and d.`
    fn describe_early_start(&self, starting: &[&Event]) -> Option<String> {
        let names: Vec<String> = starting.iter().flat_map(|event| machine_names(event)).collect();
        let first = starting.first()?;
        let (one, many) = words::impact_verb(first.kind).unwrap_or(("gets its event", "get their events"));
        let is_same = starting.iter().all(|event| event.kind == first.kind);
        let verb = match (names.len(), is_same) {
            (1, true) => one,
            (_, true) => many,
            (_, false) => "are affected",
        };
        let planned = starting.iter().map(|event| event.not_before).filter(|at| *at > self.now).min();
        let instead = planned.map_or_else(String::new, |at| format!(" instead of at {}", words::time(at)));
        Some(format!("{} {verb} now{instead}: {}.", count_of(names.len(), "machine"), join_names(&names)))
    }

    /// Groups that fall below their floor after an approval. HTML.
    fn warn_of_floors(&self, after: &Region, starting: &[&Event]) -> Option<String> {
        let cause = starting.first().and_then(|event| event.operations.first())?;
        let own = find_cause(after, *cause);
        let events: Vec<&Arc<Event>> = starting.iter().filter_map(|event| after.event(event.id)).collect();
        let dips = find_dips(after, self.now, own, &events);
        let below: Vec<String> =
            dips.iter().filter(|dip| dip.then < dip.floor).map(|dip| escape_html(dip.describe())).collect();
        (!below.is_empty()).then(|| format!(r#"<span class="red">{}.</span>"#, join_names(&below)))
    }

    /// An approved event that does not start yet.
    fn describe_waiting(&self, after: &Region, event: &Event, at: &str) -> String {
        let deletions = pending_deletions(after, event);
        let missing = missing_approvals(after, event);
        match (missing.is_empty(), event.kind, deletions.is_empty()) {
            (false, _, _) => format!(
                "{} belongs to a host operation that starts when all its events are approved. Still missing: {}. It starts at {at} at the latest.",
                event_title(event),
                join_names(&missing)
            ),
            (true, EventKind::Terminate, false) => format!(
                "{} waits for other deletions in the document that are neither approved nor due: {}. It starts at {at} at the latest.",
                event_title(event),
                join_names(&deletions)
            ),
            (true, _, _) => {
                format!("{} starts when {} has finished.", event_title(event), events_in_progress(after, event))
            }
        }
    }

    /// Canceling an event cancels every operation that it belongs to.
    pub fn describe_cancellation(&self, event: &Event) -> String {
        let operations: Vec<&Arc<Operation>> =
            event.operations.iter().filter_map(|id| self.region.operation(*id)).collect();
        let sentences = self.describe_canceled(&Command::CancelEvent { event: event.id, by: no_actor() }, &operations);
        match operations.len() {
            0 | 1 => sentences,
            many => format!("{many} requests are waiting for it; all of them are canceled. {sentences}"),
        }
    }

    pub fn describe_operation_cancellation(&self, operation: &Arc<Operation>) -> String {
        self.describe_canceled(&Command::Cancel { operation: operation.id, by: no_actor() }, &[operation])
    }

    /// Why an operation cannot be canceled. `None` if it can.
    pub fn find_cancel_obstacle(&self, operation: &Operation) -> Option<String> {
        let command = Command::Cancel { operation: operation.id, by: no_actor() };
        let rejection = self.region.apply(&command, self.now).err()?;
        Some(match &operation.request {
            Request::Delete { machines, .. } => self.describe_firm_deletion(machines),
            Request::Restart { .. }
            | Request::Redeploy { .. }
            | Request::PerformMaintenance { .. }
            | Request::Evict { .. }
            | Request::RecommendRebalance { .. }
            | Request::Maintain { .. }
            | Request::Drain(_)
            | Request::Fail { .. } => escape_html(rejection),
        })
    }

    /// Why a deletion cannot be canceled, and how to replace its machines.
    fn describe_firm_deletion(&self, machines: &[MachineId]) -> String {
        let sets = machines.iter().filter_map(|id| capacity_of(self.region, self.region.machine(*id)?));
        let sets: BTreeSet<&Name> = sets.map(|(set, _)| set).collect();
        let firm = "A deletion cannot be canceled, as on Azure. It starts at its time, or once all deletions in the event group are approved.";
        match sets.first() {
            Some(set) => format!(
                "{firm} To keep the capacity, raise the capacity of {}: it adds new instances.",
                escape_html(set)
            ),
            None => format!("{firm} To replace a machine, create a new one."),
        }
    }

    fn describe_canceled(&self, command: &Command, operations: &[&Arc<Operation>]) -> String {
        let trial = match self.region.apply(command, self.now) {
            Ok(trial) => trial,
            Err(rejection) => return escape_html(rejection),
        };
        let gone: Vec<String> = canceled(&trial).map(event_title).collect();
        let live = || operations.iter().flat_map(|one| &one.parts).filter_map(|part| trial.region.event(part.event));
        let finish: Vec<String> = live()
            .filter(|event| matches!(event.status, Status::Started { .. }))
            .map(|event| event_title(event))
            .collect();
        let stay: Vec<String> =
            live().filter(|event| event.status == Status::Scheduled).map(|event| event_title(event)).collect();
        let rollouts = operations.iter().filter_map(|operation| self.region.rollout_of_maintenance(operation));
        let next = rollouts.filter(|rollout| rollout.is_live()).map(|rollout| rollout.next_domain()).next();
        let mut sentences = Vec::new();
        match gone.len() {
            0 => {}
            1 => sentences.push(format!("{} is canceled.", gone[0])),
            _ => sentences.push(format!("{} are canceled.", join_names(&gone))),
        }
        if !stay.is_empty() {
            sentences
                .push(format!("{} stays scheduled, because another request is waiting for it.", join_names(&stay)));
        }
        if !finish.is_empty() {
            sentences.push(format!("Events in progress will finish: {}.", join_names(&finish)));
        }
        if let Some(next) = next {
            sentences.push(format!("Update domains from {next} on are skipped."));
        }
        sentences.join(" ")
    }
}

/// The machines whose events hold up a host operation.
fn missing_approvals(region: &Region, event: &Event) -> Vec<String> {
    let holding = region.cohort(event).filter(|one| one.is_shown() && !one.is_ready());
    holding.flat_map(|event| machine_names(event)).collect()
}

fn started(trial: &Transition) -> impl Iterator<Item = &Event> {
    let started = trial.facts.iter().filter(|fact| matches!(fact.what, FactKind::Started(_)));
    started.filter_map(|fact| fact.what.event()).map(|event| &**event)
}

pub(super) fn find_ended_events(trial: &Transition) -> impl Iterator<Item = (&Event, &Outcome)> {
    let ended = trial.facts.iter().filter(|fact| matches!(fact.what, FactKind::Ended(_)));
    ended.filter_map(|fact| fact.what.event()).filter_map(|event| match &event.status {
        Status::Ended { outcome, .. } => Some((&**event, outcome)),
        Status::Scheduled | Status::Started { .. } => None,
    })
}

fn canceled(trial: &Transition) -> impl Iterator<Item = &Event> {
    find_ended_events(trial).filter(|(_, outcome)| matches!(outcome, Outcome::Canceled { .. })).map(|(event, _)| event)
}
