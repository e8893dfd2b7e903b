//! What will happen, said before it happens. The rules are asked, on a copy of the region that is thrown away, so what is
//! said is what is done; this only puts it into words. Sentences are HTML: times are elements, names are escaped.

mod decisions;
mod order;
#[cfg(test)]
mod tests;

use std::time::Duration;

use forewarn_core::{
    Answer, Approver, Command, Event, EventKind, EvictionPolicy, Group, GroupChange, GroupKind, Guid, Host, Machine,
    MachineId, Name, OperationId, Outcome, Power, Region, Request, Scale, Seat, Status, Target, Timestamp, Transition,
    What,
};

use super::page::{Look, Scene};
use super::words::{self, escaped, few};
use decisions::ended;
use forewarn_api_types::span::span_text;
pub use order::{Stage, machines_of};

/// The id of an operation that is tried and never happens.
const TRIAL: OperationId = Guid(u128::MAX);

/// What can be asked for one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Restart,
    Redeploy,
    Maintenance,
    Evict,
    Delete,
    /// Its hardware breaks, and it restarts or is put elsewhere.
    Fail(EventKind),
    Start,
    Stop,
    Deallocate,
}

/// Who can say what would come of something now.
#[derive(Clone, Copy)]
pub struct Oracle<'r> {
    pub region: &'r Region,
    pub now: Timestamp,
    pub look: Look,
}

impl<'r> Oracle<'r> {
    pub fn of(scene: &'r Scene) -> Oracle<'r> {
        Oracle { region: scene.region(), now: scene.now, look: scene.look }
    }

    pub fn machine(&self, machine: &Machine, asked: Asked) -> String {
        self.each(&[machine], asked).pop().map_or_else(String::new, |(_, told)| told)
    }

    /// Several, one after the other: limits count those before. Each with its name.
    pub fn each(&self, machines: &[&Machine], asked: Asked) -> Vec<(String, String)> {
        let mut region = self.region.clone();
        let mut told = Vec::new();
        for (number, machine) in machines.iter().enumerate() {
            let operation = TRIAL.derive(number as u64);
            let sentence = match region.apply(&asked.command(operation, vec![machine.id]), self.now) {
                Ok(trial) => {
                    let sentence = Oracle { region: &region, ..*self }.of_machine(machine, asked, operation, &trial);
                    region = trial.region;
                    sentence
                }
                Err(rejection) => escaped(rejection),
            };
            told.push((machine.name.to_string(), sentence));
        }
        told
    }

    /// Several in one operation: all or none.
    pub fn together(&self, machines: &[&Machine], asked: Asked) -> Vec<(String, String)> {
        let ids = machines.iter().map(|machine| machine.id).collect();
        match self.region.apply(&asked.command(TRIAL, ids), self.now) {
            Ok(trial) => {
                let told = |machine: &&Machine| self.of_machine(machine, asked, TRIAL, &trial);
                machines.iter().map(|machine| (machine.name.to_string(), told(machine))).collect()
            }
            Err(rejection) => vec![("Refused".into(), escaped(rejection))],
        }
    }

    pub fn host_failure(&self, host: &Host, kind: EventKind) -> String {
        let request = Request::Fail { target: Target::Host(host.name.clone()), kind };
        let trial = match self.region.apply(&asking(TRIAL, request), self.now) {
            Ok(trial) => trial,
            Err(rejection) => return escaped(rejection),
        };
        let events = made(&trial, TRIAL);
        let (shown, hidden): (Vec<&&Event>, Vec<&&Event>) = events.iter().partition(|event| event.is_shown());
        let names = |events: &[&&Event]| events.iter().flat_map(|event| names_of(event)).collect::<Vec<_>>();
        let mut told = vec![format!("Everything on {} {}.", escaped(&host.name), broken(kind))];
        let (shown, hidden) = (names(&shown), names(&hidden));
        if !shown.is_empty() {
            let (kind, shown) = (words::kind(kind), few(&shown));
            told.push(format!("{kind} at once, without notice; shown in the documents of {shown}."));
        }
        if !hidden.is_empty() {
            told.push(format!("Not told, because nobody in their scopes asks for events: {}.", few(&hidden)));
        }
        told.extend(pushed_aside(&trial));
        told.join(" ")
    }

    /// The deletion of a whole group, which may have thousands of machines: the rules are not tried but read.
    pub fn group_delete(&self, group: &Group) -> String {
        let name = escaped(&group.name);
        let members = || self.region.group_members(group);
        if members().next().is_none() {
            return format!("{name} is deleted. It has no machines.");
        }
        let told: Vec<Duration> = members().filter_map(|machine| Some(machine.terminate.as_ref()?.timeout)).collect();
        let silent = members().count() - told.len();
        let on = group.scopes.iter().any(|scope| self.region.is_on(*scope));
        match (told.iter().min(), silent) {
            (None, _) => format!("{name} and {} are deleted at once, without notice.", machines(silent)),
            (Some(_), _) if !on => format!(
                "{name} and {} are deleted at once: nobody asks for events, so the terminate notification reaches nobody.",
                machines(told.len() + silent)
            ),
            (Some(first), _) => {
                let at = self.ahead(self.region.settings().scaled(*first));
                let rest = match silent {
                    0 => String::new(),
                    silent => format!(" {} without terminate notification go at once.", machines(silent)),
                };
                format!(
                    "{name} is deleted with {}: Terminate not before {at}; they go earlier, together, when all of a document are approved.{rest}",
                    machines(told.len() + silent)
                )
            }
        }
    }

    /// A change of a set's capacity.
    pub fn scale(&self, group: &Group, capacity: u32) -> String {
        let scale = Scale { capacity, by: nobody(), operation: TRIAL };
        let change = GroupChange { capacity: Some(scale), ..GroupChange::default() };
        let command = Command::ChangeGroup { group: group.id, change: Box::new(change), salt: TRIAL };
        let trial = match self.region.apply(&command, self.now) {
            Ok(trial) => trial,
            Err(rejection) => return escaped(rejection),
        };
        let Answer::Scaled { added, removing } = &trial.answer else { return "Nothing changes.".into() };
        let mut told = Vec::new();
        if !added.is_empty() {
            told.push(format!("{} come, with the latest model.", machines(added.len())));
        }
        if !removing.is_empty() {
            let gone = removing.iter().filter_map(|id| self.region.machine(*id));
            let gone: Vec<String> = gone.map(|machine| escaped(&machine.name)).collect();
            told.push(format!("{} {} deleted.", few(&gone), is_or_are(gone.len())));
            told.extend(self.deletions(&made(&trial, TRIAL)));
        }
        if told.is_empty() { "Nothing changes.".into() } else { told.join(" ") }
    }

    /// Many deletions in one breath.
    fn deletions(&self, events: &[&Event]) -> Vec<String> {
        let (waiting, going): (Vec<&&Event>, Vec<&&Event>) =
            events.iter().partition(|event| event.status == Status::Scheduled);
        let mut told = Vec::new();
        if let Some(first) = waiting.iter().map(|event| event.not_before).min() {
            told.push(format!(
                "Terminate not before {}; they go earlier, together, when all that wait in a document are approved.",
                self.time(first)
            ));
        }
        let silent: Vec<String> = going.iter().flat_map(|event| names_of(event)).collect();
        if !silent.is_empty() {
            told.push(format!(
                "{} {} told nothing and {} at once.",
                few(&silent),
                is_or_are(silent.len()),
                if silent.len() == 1 { "goes" } else { "go" }
            ));
        }
        told
    }

    fn of_machine(&self, machine: &Machine, asked: Asked, operation: OperationId, trial: &Transition) -> String {
        let mut told = vec![self.effect(machine, asked, &trial.region)];
        match asked {
            Asked::Start | Asked::Stop | Asked::Deallocate => told.extend(consequences(trial)),
            Asked::Restart | Asked::Redeploy | Asked::Maintenance | Asked::Evict | Asked::Delete | Asked::Fail(_) => {
                let of_it = |event: &&Event| event.resources.iter().any(|resource| resource.machine == machine.id);
                let events = made(trial, operation).into_iter().filter(of_it);
                told.extend(events.map(|event| self.event(&trial.region, event)));
                told.extend(pushed_aside(trial));
            }
        }
        told.join(" ")
    }

    /// What it does to the machine, whenever that is.
    fn effect(&self, machine: &Machine, asked: Asked, after: &Region) -> String {
        let name = escaped(&machine.name);
        match asked {
            Asked::Restart => format!("{name} restarts where it is and loses its memory."),
            Asked::Redeploy => format!("{name} moves to another host and loses its memory and ephemeral disks."),
            Asked::Maintenance => {
                format!(
                    "{name} gets its maintenance now: it moves to another host and loses its memory and ephemeral disks."
                )
            }
            Asked::Evict => match machine.eviction {
                EvictionPolicy::Deallocate => {
                    format!("{name} is evicted: it is deallocated, and can be started again.")
                }
                EvictionPolicy::Delete => format!("{name} is evicted and deleted."),
            },
            Asked::Delete => match (wanted(self.region, machine), wanted(after, machine)) {
                (Some((set, before)), Some((_, then))) if then < before => {
                    format!("{name} is deleted, and {} wants {then} instead of {before}.", escaped(set))
                }
                (Some(_) | None, _) => format!("{name} is deleted."),
            },
            Asked::Fail(kind) => format!("The hardware under {name} breaks: it {}.", broken(kind)),
            Asked::Start => format!("{name} is switched on. No event comes of it."),
            Asked::Stop => format!("{name} is switched off at once and stays on its host. No event comes of it."),
            Asked::Deallocate => {
                format!("{name} is switched off at once and gives up its place. No event comes of it.")
            }
        }
    }

    /// An event that came of a trial.
    fn event(&self, after: &Region, event: &Event) -> String {
        let kind = words::kind(event.kind);
        if self.region.event(event.id).is_some() {
            return match event.status {
                Status::Scheduled => {
                    format!("It joins the {kind} that is coming already, not before {}.", words::time(event.not_before))
                }
                Status::Started { .. } | Status::Ended { .. } => {
                    format!("It joins the {kind} that is under way already.")
                }
            };
        }
        match (&event.status, event.is_shown()) {
            (Status::Ended { .. }, _) => "It does not run, so nothing happens to it.".into(),
            (Status::Started { .. }, true) if event.approval.is_some() => {
                format!("The policy approves it: {kind} starts at once.")
            }
            (Status::Started { .. }, true) => {
                format!("{kind} starts at once, without notice, and the document shows it.")
            }
            (Status::Started { .. }, false) => self.unannounced(event),
            (Status::Scheduled, _) if event.is_ready() => {
                format!("{kind} starts when {} has ended.", under_way(after, event))
            }
            (Status::Scheduled, false) => format!(
                "{kind} not before {}; nobody in its scope asks for events, so nobody is told until somebody does.",
                self.time(event.not_before)
            ),
            (Status::Scheduled, true) => self.announced(after, event),
        }
    }

    fn unannounced(&self, event: &Event) -> String {
        let without =
            |machine: MachineId| self.region.machine(machine).is_some_and(|machine| machine.terminate.is_none());
        if event.kind == EventKind::Terminate && event.resources.iter().any(|resource| without(resource.machine)) {
            return "It has no terminate notification, so it goes at once, without notice.".into();
        }
        "Nobody in its scope asks for events, so it happens at once, without notice.".into()
    }

    fn announced(&self, after: &Region, event: &Event) -> String {
        let members = || self.region.members(event.scope);
        let (sharing, approves) = match members().nth(1) {
            Some(_) => (
                format!("{} share the document", words::few_of(members().map(|member| escaped(&member.name)))),
                "one of them approves",
            ),
            None => ("no other machine shares its document".into(), "it approves"),
        };
        let first = format!(
            "{} not before {} ({} from now); {sharing}; it starts earlier if {approves}.",
            words::kind(event.kind),
            self.time(event.not_before),
            span_text(self.left(event.not_before)),
        );
        match others_at_the_gate(after, event) {
            names if names.is_empty() => first,
            names => format!(
                "{first} Once approved it waits for the deletions of the same document that are neither approved nor due: {}.",
                few(&names)
            ),
        }
    }

    /// Whole seconds.
    fn left(&self, at: Timestamp) -> Duration {
        Duration::from_secs(at.since(self.now).as_secs())
    }

    fn ahead(&self, span: Duration) -> String {
        self.time((self.now + span).round_up_to_second())
    }

    /// A time that moves with the clock until somebody decides.
    fn time(&self, at: Timestamp) -> String {
        words::time_ahead(at, self.left(at), self.look)
    }
}

impl Asked {
    /// Only some can be asked for several machines in one breath; the others take the first.
    fn command(self, operation: OperationId, machines: Vec<MachineId>) -> Command {
        let machine = machines[0];
        let request = match self {
            Asked::Restart => Request::Restart { machines },
            Asked::Redeploy => Request::Redeploy { machines },
            Asked::Maintenance => Request::PerformMaintenance { machines },
            Asked::Evict => Request::Evict { machine },
            Asked::Delete => Request::Delete { machines, group: None },
            Asked::Fail(kind) => Request::Fail { target: Target::Machines(machines), kind },
            Asked::Start => return Command::SetPower { machine, power: Power::Running },
            Asked::Stop => return Command::SetPower { machine, power: Power::Stopped },
            Asked::Deallocate => return Command::SetPower { machine, power: Power::Deallocated },
        };
        asking(operation, request)
    }
}

fn asking(operation: OperationId, request: Request) -> Command {
    Command::Request { operation, by: nobody(), request, event: None }
}

fn nobody() -> Name {
    "".into()
}

/// The events of the operation that was tried: made by it, or joined.
fn made(trial: &Transition, operation: OperationId) -> Vec<&Event> {
    let parts = trial.region.operation(operation).map_or(&[][..], |operation| &operation.parts);
    parts.iter().filter_map(|part| trial.region.event(part.event)).map(|event| &**event).collect()
}

/// What is under way and does not finish.
fn pushed_aside(trial: &Transition) -> Vec<String> {
    let superseded = ended(trial).filter(|(_, outcome)| **outcome == Outcome::Superseded);
    superseded.map(|(event, _)| format!("It ends the {} that is under way.", words::kind(event.kind))).collect()
}

/// What a turned power switch lets happen to events that are there.
fn consequences(trial: &Transition) -> Vec<String> {
    let told = trial.facts.iter().filter_map(|fact| match &fact.what {
        What::Approved { event, by: Approver::Policy } => {
            Some(format!("All machines of its scope are down then, so the policy approves {}.", what(event)))
        }
        What::Started(event) => Some(format!("{} starts.", what(event))),
        What::Ended(event) => Some(format!("{} ends without effect.", what(event))),
        What::Approved { .. }
        | What::Appeared(_)
        | What::OperationEnded(_)
        | What::MachineAdded(_)
        | What::MachineRemoved(_)
        | What::ScopeOn(_)
        | What::ScopeOff(_) => None,
    });
    told.collect()
}

/// Other deletions in the document for which an approved one waits.
fn others_at_the_gate(region: &Region, event: &Event) -> Vec<String> {
    if event.kind != EventKind::Terminate {
        return Vec::new();
    }
    let waits = |other: &&Event| {
        other.kind == EventKind::Terminate
            && other.id != event.id
            && other.status == Status::Scheduled
            && !other.is_ready()
    };
    region.document(event.scope).map(|other| &**other).filter(waits).flat_map(names_of).collect()
}

/// `the Redeploy of web_0`.
fn under_way(region: &Region, event: &Event) -> String {
    let others = event.resources.iter().flat_map(|resource| region.events_of(resource.machine));
    let started = others.filter(|other| other.id != event.id && matches!(other.status, Status::Started { .. }));
    let names: Vec<String> = started.map(|other| format!("the {}", what(other))).collect();
    if names.is_empty() { "what is under way".into() } else { few(&names) }
}

/// `Reboot of web_0`.
fn what(event: &Event) -> String {
    format!("{} of {}", words::kind(event.kind), few(&names_of(event)))
}

fn names_of(event: &Event) -> Vec<String> {
    event.resources.iter().map(|resource| escaped(&resource.name)).collect()
}

fn broken(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Redeploy => "comes up on another host, without its memory and ephemeral disks",
        EventKind::Reboot | EventKind::Freeze | EventKind::Preempt | EventKind::Terminate => {
            "restarts and loses its memory"
        }
    }
}

/// The set that it is an instance of, and how many that wants.
fn wanted<'r>(region: &'r Region, machine: &Machine) -> Option<(&'r Name, u32)> {
    let Seat::Instance { set, .. } = machine.seat else { return None };
    let group = region.group(set)?;
    match &group.kind {
        GroupKind::ScaleSet(set) => Some((&group.name, set.capacity)),
        GroupKind::AvailabilitySet | GroupKind::CloudService => None,
    }
}

fn machines(count: usize) -> String {
    if count == 1 { "one machine".into() } else { format!("{count} machines") }
}

fn is_or_are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}
