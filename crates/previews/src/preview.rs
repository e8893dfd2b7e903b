//! Previews: what an action would do, in sentences. The rules run on a copy of the region, so that a preview agrees with the
//! action itself; this module only describes the result. Sentences are HTML: times are elements, names are escaped.

mod decisions;
mod host_change;
mod order;
#[cfg(test)]
#[path = "../tests/unit/preview.rs"]
mod tests;

use std::time::Duration;

use forewarn_api_types::{count_of, join_names};
use forewarn_core::{
    Answer, Approver, Command, Event, EventKind, EvictionPolicy, FactKind, Group, GroupChange, GroupKind, Guid, Host,
    Machine, MachineId, Membership, Name, OperationId, Outcome, Power, Region, Request, Scale, Status, Target,
    Timestamp, Transition,
};
use forewarn_widgets::conflict;
use forewarn_widgets::html::RenderMode;
use forewarn_widgets::words::{self, escape_html};

use decisions::find_ended_events;
pub use decisions::{ApprovalTrial, find_unapproved, is_unapproved};
use forewarn_api_types::span::format_span;
pub use order::PlanStep;

/// The ID of the operation in a trial.
const TRIAL: OperationId = Guid(u128::MAX);

/// Actions on one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineAction {
    Restart,
    Redeploy,
    PerformMaintenance,
    Evict,
    RecommendRebalance,
    Delete,
    /// The host fails, and the machine restarts or moves to another host.
    Fail(EventKind),
    Start,
    Stop,
    Deallocate,
}

/// Computes previews for one moment.
#[derive(Clone, Copy)]
pub struct Preview<'r> {
    pub region: &'r Region,
    pub now: Timestamp,
    pub mode: RenderMode,
}

impl<'r> Preview<'r> {
    pub fn describe_action(&self, machine: &Machine, action: MachineAction) -> String {
        self.describe_each(&[machine], action).pop().map_or_else(String::new, |(_, sentence)| sentence)
    }

    /// An action on several machines, one operation after the other, so that limits count the previous ones. Returns a
    /// description for each name.
    pub fn describe_each(&self, machines: &[&Machine], action: MachineAction) -> Vec<(String, String)> {
        let mut region = self.region.clone();
        let mut descriptions = Vec::new();
        for (number, machine) in machines.iter().enumerate() {
            let operation = TRIAL.derive(number as u64);
            let sentence = match region.apply(&action.command(operation, vec![machine.id]), self.now) {
                Ok(trial) => {
                    let sentence =
                        Preview { region: &region, ..*self }.describe_trial(machine, action, operation, &trial);
                    region = trial.region;
                    sentence
                }
                Err(rejection) => escape_html(rejection),
            };
            descriptions.push((machine.name.to_string(), sentence));
        }
        descriptions
    }

    /// An action on several machines in one operation, which the rules accept or refuse as a whole.
    pub fn describe_together(&self, machines: &[&Machine], action: MachineAction) -> Vec<(String, String)> {
        let ids = machines.iter().map(|machine| machine.id).collect();
        match self.region.apply(&action.command(TRIAL, ids), self.now) {
            Ok(trial) => {
                let describe = |machine: &&Machine| self.describe_trial(machine, action, TRIAL, &trial);
                machines.iter().map(|machine| (machine.name.to_string(), describe(machine))).collect()
            }
            Err(rejection) => vec![("Refused".into(), escape_html(rejection))],
        }
    }

    pub fn describe_host_failure(&self, host: &Host, kind: EventKind) -> String {
        let request = Request::Fail { target: Target::Host(host.name.clone()), kind };
        let trial = match self.region.apply(&request_command(TRIAL, request), self.now) {
            Ok(trial) => trial,
            Err(rejection) => return escape_html(rejection),
        };
        let events = events_of(&trial, TRIAL);
        let (shown, hidden): (Vec<&&Event>, Vec<&&Event>) = events.iter().partition(|event| event.is_shown());
        let names = |events: &[&&Event]| events.iter().flat_map(|event| machine_names(event)).collect::<Vec<_>>();
        let mut sentences = vec![format!("Every machine on {} {}.", escape_html(&host.name), failure_effect(kind))];
        let (shown, hidden) = (names(&shown), names(&hidden));
        if !shown.is_empty() {
            let (kind, shown) = (kind.as_str(), join_names(&shown));
            sentences
                .push(format!("{kind} starts immediately, without notice, and appears in the documents of {shown}."));
        }
        if !hidden.is_empty() {
            sentences.push(format!("Not announced to {}, because no handler is connected.", join_names(&hidden)));
        }
        sentences.extend(describe_superseded(&trial));
        sentences.join(" ")
    }

    /// The deletion of a group. Groups can have thousands of machines, so this reads the region instead of running the rules.
    pub fn describe_group_deletion(&self, group: &Group) -> String {
        let name = escape_html(&group.name);
        let members = || self.region.group_members(group);
        if members().next().is_none() {
            return format!("{name} is deleted. It has no machines.");
        }
        let notices: Vec<Duration> =
            members().filter_map(|machine| Some(machine.terminate.as_ref()?.timeout)).collect();
        let silent = members().count() - notices.len();
        let on = group.scopes.iter().any(|scope| self.region.is_on(*scope));
        match (notices.iter().min(), silent) {
            (None, _) => format!("{name} and {} are deleted immediately, without notice.", count_of(silent, "machine")),
            (Some(_), _) if !on => format!(
                "{name} and {} are deleted immediately: no handler is connected, so there is no terminate notification.",
                count_of(notices.len() + silent, "machine")
            ),
            (Some(first), _) => {
                let at = self.render_after(self.region.settings().scaled(*first));
                let rest = match silent {
                    0 => String::new(),
                    silent => format!(
                        " {} without terminate notification {} deleted immediately.",
                        count_of(silent, "machine"),
                        is_or_are(silent)
                    ),
                };
                format!(
                    "{name} is deleted with {}: Terminate not before {at}, or earlier once all deletions in the event group are approved.{rest}",
                    count_of(notices.len() + silent, "machine")
                )
            }
        }
    }

    /// A change of a scale set's capacity.
    pub fn describe_scaling(&self, group: &Group, capacity: u32) -> String {
        let scale = Scale { capacity, by: no_actor(), operation: TRIAL };
        let change = GroupChange { capacity: Some(scale), ..GroupChange::default() };
        let command = Command::ChangeGroup { group: group.id, change: Box::new(change), salt: TRIAL };
        let trial = match self.region.apply(&command, self.now) {
            Ok(trial) => trial,
            Err(rejection) => return escape_html(rejection),
        };
        let Answer::Scaled { added, removing } = &trial.answer else { return "Nothing changes.".into() };
        let mut sentences = Vec::new();
        if !added.is_empty() {
            let count = added.len();
            sentences.push(format!("{} {} added with the latest model.", count_of(count, "machine"), is_or_are(count)));
        }
        if !removing.is_empty() {
            let gone = removing.iter().filter_map(|id| self.region.machine(*id));
            let gone: Vec<String> = gone.map(|machine| escape_html(&machine.name)).collect();
            sentences.push(format!("{} {} deleted.", join_names(&gone), is_or_are(gone.len())));
            sentences.extend(self.describe_deletions(&events_of(&trial, TRIAL)));
        }
        if sentences.is_empty() { "Nothing changes.".into() } else { sentences.join(" ") }
    }

    fn describe_deletions(&self, events: &[&Event]) -> Vec<String> {
        let (waiting, going): (Vec<&&Event>, Vec<&&Event>) =
            events.iter().partition(|event| event.status == Status::Scheduled);
        let mut sentences = Vec::new();
        if let Some(first) = waiting.iter().map(|event| event.not_before).min() {
            sentences.push(format!(
                "Terminate not before {}, or earlier once all deletions in the event group are approved.",
                self.render_time(first)
            ));
        }
        let has_profile = |event: &&&Event| {
            let machines = event.resources.iter().filter_map(|resource| self.region.machine(resource.machine));
            machines.into_iter().any(|machine| machine.terminate.is_some())
        };
        let (unheard, off): (Vec<&&Event>, Vec<&&Event>) = going.into_iter().partition(|event| has_profile(event));
        for (events, reason) in [(unheard, "no handler is connected"), (off, "terminate notification is off")] {
            let silent: Vec<String> = events.iter().flat_map(|event| machine_names(event)).collect();
            if !silent.is_empty() {
                let verb = if silent.len() == 1 { "gets" } else { "get" };
                sentences.push(format!("{} {verb} no notice: {reason}.", join_names(&silent)));
            }
        }
        sentences
    }

    fn describe_trial(
        &self,
        machine: &Machine,
        action: MachineAction,
        operation: OperationId,
        trial: &Transition,
    ) -> String {
        let mut sentences = vec![self.describe_effect(machine, action, &trial.region)];
        match action {
            MachineAction::Start | MachineAction::Stop | MachineAction::Deallocate => {
                sentences.extend(describe_consequences(trial))
            }
            MachineAction::Restart
            | MachineAction::Redeploy
            | MachineAction::PerformMaintenance
            | MachineAction::Evict
            | MachineAction::RecommendRebalance
            | MachineAction::Delete
            | MachineAction::Fail(_) => {
                let of_it = |event: &&Event| event.resources.iter().any(|resource| resource.machine == machine.id);
                let events = events_of(trial, operation).into_iter().filter(of_it);
                sentences.extend(events.map(|event| self.describe_event(&trial.region, event)));
                sentences.extend(describe_superseded(trial));
                sentences.extend(conflict::describe_owner(self.region, machine));
            }
        }
        sentences.join(" ")
    }

    /// The effect on the machine, regardless of when it happens.
    fn describe_effect(&self, machine: &Machine, action: MachineAction, after: &Region) -> String {
        let name = escape_html(&machine.name);
        match action {
            MachineAction::Restart => format!("{name} restarts on the same host and loses its memory."),
            MachineAction::Redeploy => {
                format!("{name} moves to another host and loses its memory and ephemeral disks.")
            }
            MachineAction::PerformMaintenance => {
                format!("Maintenance of {name}: it moves to another host and loses its memory and ephemeral disks.")
            }
            MachineAction::Evict => match machine.eviction {
                EvictionPolicy::Deallocate => {
                    format!("{name} is evicted and deallocated. It can be started again.")
                }
                EvictionPolicy::Delete => format!("{name} is evicted and deleted."),
            },
            MachineAction::RecommendRebalance => {
                format!(
                    "{name} is advised to move its work elsewhere, because an eviction is likely. It keeps running."
                )
            }
            MachineAction::Delete => match (capacity_of(self.region, machine), capacity_of(after, machine)) {
                (Some((set, before)), Some((_, then))) if then < before => {
                    let set = escape_html(set);
                    format!("{name} is deleted, and the capacity of {set} drops from {before} to {then}.")
                }
                (Some(_) | None, _) => format!("{name} is deleted."),
            },
            MachineAction::Fail(kind) => format!("The host fails: {name} {}.", failure_effect(kind)),
            MachineAction::Start => format!("{name} starts. This creates no event."),
            MachineAction::Stop => {
                format!("{name} {} and stays on its host. This creates no event.", self.describe_stop())
            }
            MachineAction::Deallocate => {
                format!("{name} {} and leaves its host. This creates no event.", self.describe_stop())
            }
        }
    }

    fn describe_stop(&self) -> &'static str {
        if self.region.settings().machine_orders {
            "is shut down by its host, or powered off if its guest does not shut down in time,"
        } else {
            "is powered off immediately"
        }
    }

    /// An event that a trial created or joined.
    fn describe_event(&self, after: &Region, event: &Event) -> String {
        let kind = event.kind.as_str();
        if self.region.event(event.id).is_some() {
            return match event.status {
                Status::Scheduled => {
                    format!(
                        "It joins the {kind} that is already scheduled, not before {}.",
                        words::time(event.not_before)
                    )
                }
                Status::Started { .. } | Status::Ended { .. } => {
                    format!("It joins the {kind} that is already in progress.")
                }
            };
        }
        match (&event.status, event.is_shown()) {
            (Status::Ended { .. }, _) => "It is not running, so nothing happens to it.".into(),
            (Status::Started { .. }, true) if event.approval.is_some() => {
                format!("The policy approves it: {kind} starts immediately.")
            }
            (Status::Started { .. }, true) => {
                format!("{kind} starts immediately, without notice, and appears in the document.")
            }
            (Status::Started { .. }, false) => self.describe_unannounced(event),
            (Status::Scheduled, _) if event.is_ready() => {
                format!("{kind} starts when {} has finished.", events_in_progress(after, event))
            }
            (Status::Scheduled, false) => format!(
                "{kind} not before {}. It is announced only if a handler connects before that.",
                self.render_time(event.not_before)
            ),
            (Status::Scheduled, true) => self.describe_announced(after, event),
        }
    }

    fn describe_unannounced(&self, event: &Event) -> String {
        let without =
            |machine: MachineId| self.region.machine(machine).is_some_and(|machine| machine.terminate.is_none());
        if event.kind == EventKind::Terminate && event.resources.iter().any(|resource| without(resource.machine)) {
            return "Terminate notification is off, so it is deleted immediately, without notice.".into();
        }
        "No handler is connected in its event group, so it happens immediately, without notice.".into()
    }

    fn describe_announced(&self, after: &Region, event: &Event) -> String {
        let members = || self.region.members(event.scope);
        let (sharing, approves) = match members().nth(1) {
            Some(_) => (
                format!("{} share the document", join_names(members().map(|member| escape_html(&member.name)))),
                "one of them approves",
            ),
            None => ("No other machine shares the document".into(), "it approves"),
        };
        let first = format!(
            "{} not before {} ({} from now). {sharing}; the event starts earlier if {approves}.",
            event.kind.as_str(),
            self.render_time(event.not_before),
            format_span(self.left(event.not_before)),
        );
        match pending_deletions(after, event) {
            names if names.is_empty() => first,
            names => format!(
                "{first} Once approved, it waits for other deletions in the document that are neither approved nor due: {}.",
                join_names(&names)
            ),
        }
    }

    /// Whole seconds.
    fn left(&self, at: Timestamp) -> Duration {
        Duration::from_secs(at.since(self.now).as_secs())
    }

    /// The time after this span.
    fn render_after(&self, span: Duration) -> String {
        self.render_time((self.now + span).round_up_to_second())
    }

    /// A time that moves along with the clock while the page is open.
    fn render_time(&self, at: Timestamp) -> String {
        words::time_ahead(at, self.left(at), self.mode)
    }
}

impl MachineAction {
    /// Only some actions support several machines; the others take the first one.
    fn command(self, operation: OperationId, machines: Vec<MachineId>) -> Command {
        let machine = machines[0];
        let request = match self {
            MachineAction::Restart => Request::Restart { machines },
            MachineAction::Redeploy => Request::Redeploy { machines },
            MachineAction::PerformMaintenance => Request::PerformMaintenance { machines },
            MachineAction::Evict => Request::Evict { machine },
            MachineAction::RecommendRebalance => Request::RecommendRebalance { machine },
            MachineAction::Delete => Request::Delete { machines, group: None },
            MachineAction::Fail(kind) => Request::Fail { target: Target::Machines(machines), kind },
            MachineAction::Start => return power_command(operation, machine, Power::Running),
            MachineAction::Stop => return power_command(operation, machine, Power::Stopped),
            MachineAction::Deallocate => return power_command(operation, machine, Power::Deallocated),
        };
        request_command(operation, request)
    }
}

fn power_command(order: OperationId, machine: MachineId, power: Power) -> Command {
    Command::ChangePower { machine, power, order }
}

fn request_command(operation: OperationId, request: Request) -> Command {
    Command::Request { operation, by: no_actor(), request, event: None }
}

fn no_actor() -> Name {
    "".into()
}

/// The events that the operation of a trial created or joined.
fn events_of(trial: &Transition, operation: OperationId) -> Vec<&Event> {
    let parts = trial.region.operation(operation).map_or(&[][..], |operation| &operation.parts);
    parts.iter().filter_map(|part| trial.region.event(part.event)).map(|event| &**event).collect()
}

/// Events in progress that a trial replaces.
fn describe_superseded(trial: &Transition) -> Vec<String> {
    let superseded = find_ended_events(trial).filter(|(_, outcome)| **outcome == Outcome::Superseded);
    superseded.map(|(event, _)| format!("It supersedes the {} that is in progress.", event.kind.as_str())).collect()
}

/// Effects of a power change on existing events.
fn describe_consequences(trial: &Transition) -> Vec<String> {
    let sentences = trial.facts.iter().filter_map(|fact| match &fact.what {
        FactKind::Approved { event, by: Approver::Policy } => Some(format!(
            "All machines of its event group are then down, so the policy approves {}.",
            event_title(event)
        )),
        FactKind::Started(event) => Some(format!("{} starts.", event_title(event))),
        FactKind::Ended(event) => Some(format!("{} ends without effect.", event_title(event))),
        FactKind::Approved { .. }
        | FactKind::Appeared(_)
        | FactKind::OperationEnded(_)
        | FactKind::RolloutChanged { .. }
        | FactKind::HostChanged(_)
        | FactKind::MachineAdded(_)
        | FactKind::MachineRemoved(_)
        | FactKind::ScopeOn(_)
        | FactKind::ScopeOff(_) => None,
    });
    sentences.collect()
}

/// Other deletions in the document that an approved deletion waits for.
fn pending_deletions(region: &Region, event: &Event) -> Vec<String> {
    if event.kind != EventKind::Terminate {
        return Vec::new();
    }
    let waits = |other: &&Event| {
        other.kind == EventKind::Terminate
            && other.id != event.id
            && other.status == Status::Scheduled
            && !other.is_ready()
    };
    region.document(event.scope).map(|other| &**other).filter(waits).flat_map(machine_names).collect()
}

/// `the Redeploy of web_0`.
fn events_in_progress(region: &Region, event: &Event) -> String {
    let others = event.resources.iter().flat_map(|resource| region.events_of(resource.machine));
    let started = others.filter(|other| other.id != event.id && matches!(other.status, Status::Started { .. }));
    let names: Vec<String> = started.map(|other| format!("the {}", event_title(other))).collect();
    if names.is_empty() { "the current event".into() } else { join_names(&names) }
}

/// `Reboot of web_0`.
fn event_title(event: &Event) -> String {
    format!("{} of {}", event.kind.as_str(), join_names(machine_names(event)))
}

fn machine_names(event: &Event) -> Vec<String> {
    event.resources.iter().map(|resource| escape_html(&resource.name)).collect()
}

fn failure_effect(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Redeploy => "moves to another host and loses its memory and ephemeral disks",
        EventKind::Reboot
        | EventKind::Freeze
        | EventKind::Preempt
        | EventKind::Terminate
        | EventKind::SpotRebalanceRecommendation => "restarts and loses its memory",
    }
}

/// The scale set of an instance, with its capacity.
fn capacity_of<'r>(region: &'r Region, machine: &Machine) -> Option<(&'r Name, u32)> {
    let Membership::Instance { set, .. } = machine.membership else { return None };
    let group = region.group(set)?;
    match &group.kind {
        GroupKind::ScaleSet(set) => Some((&group.name, set.capacity)),
        GroupKind::AvailabilitySet | GroupKind::CloudService => None,
    }
}

fn is_or_are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}
