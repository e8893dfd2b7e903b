//! Parses scenario files. TOML is first read as typed and then interpreted; every error has a line and column and is found
//! before the scenario runs.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

use forewarn_api_types::nearest::suggest;
use forewarn_api_types::plain::{SourceFormat, reword_serde_error};
use forewarn_api_types::span::parse_span;
use forewarn_api_types::{NewFault, NewGroup, NewMachine, NewMaintenance, NewScaleSet, ResourceName};
use serde::Deserialize;
use toml::Spanned;

use super::step::{EventState, Expectation, MachineAction, MachineState, PowerAction, Step, StepAction};

/// Maximum size of a file. The largest built-in one has 2 KB.
pub const FILE_BYTES_MAX: usize = 256 * 1024;

/// Maximum number of steps.
pub const STEPS_MAX: usize = 1000;

/// Default time limit of an expectation, in real time. Long enough for a slow handler that polls every second.
pub const WITHIN_DEFAULT: Duration = Duration::from_secs(10);

/// A checked scenario: all names are known, and labels are defined before they are used.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub title: String,
    pub about: String,
    /// The machine of the handler under test. A run can replace it by another machine.
    pub subject: Option<String>,
    /// Resources to create before the first step.
    pub(super) fleet: Vec<FleetResource>,
    pub steps: Vec<Step>,
}

/// A resource to create.
#[derive(Clone, Debug)]
pub(super) enum FleetResource {
    Host(ResourceName),
    AvailabilitySet(NewGroup),
    CloudService(NewGroup),
    ScaleSet(Box<NewScaleSet>),
    Machine(Box<NewMachine>),
}

impl FleetResource {
    pub fn name(&self) -> &str {
        match self {
            FleetResource::Host(name) => &name.0,
            FleetResource::AvailabilitySet(new) | FleetResource::CloudService(new) => &new.name.0,
            FleetResource::ScaleSet(new) => &new.name.0,
            FleetResource::Machine(new) => &new.name.0,
        }
    }

    /// Applies `rename` to machine names.
    fn rename(&mut self, rename: &impl Fn(&mut String)) {
        match self {
            FleetResource::Machine(new) => {
                rename(&mut new.name.0);
                new.details.computer_name.iter_mut().for_each(|name| rename(&mut name.0));
            }
            FleetResource::Host(_)
            | FleetResource::AvailabilitySet(_)
            | FleetResource::CloudService(_)
            | FleetResource::ScaleSet(_) => {}
        }
    }
}

/// An error in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    pub line: usize,
    pub column: usize,
    pub message: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for FileError {}

impl Scenario {
    pub fn parse(text: &str) -> Result<Scenario, FileError> {
        let source = Source(text);
        if text.len() > FILE_BYTES_MAX {
            return Err(source.problem(&(0..0), format!("the file is larger than {FILE_BYTES_MAX} bytes")));
        }
        let mut typed: File = toml::from_str(text).map_err(|error| source.toml_problem(&error))?;
        let mut interpreter = Interpreter { source, labels: BTreeSet::new() };
        let fleet = typed.fleet();
        interpreter.check_subject(typed.subject.as_deref(), &fleet)?;
        if typed.step.len() > STEPS_MAX {
            let message = format!("there are {} steps, but at most {STEPS_MAX} are allowed", typed.step.len());
            return Err(interpreter.source.problem(&(0..0), message));
        }
        let steps = typed.step.into_iter().map(|step| interpreter.step(step)).collect::<Result<_, _>>()?;
        Ok(Scenario {
            title: typed.title,
            about: typed.about.unwrap_or_default(),
            subject: typed.subject,
            fleet,
            steps,
        })
    }
}

impl Scenario {
    /// Replaces the subject by another machine, or returns why that is not possible.
    pub fn with_subject(mut self, other: &str) -> Result<Scenario, String> {
        let Some(subject) = self.subject.replace(other.to_string()) else {
            return Err("The scenario has no subject, so it cannot be replaced".into());
        };
        if !subject.eq_ignore_ascii_case(other) && is_instance_of(&subject, &self.fleet) {
            return Err(format!(
                "The subject '{subject}' is an instance of a scale set in the file, so it cannot be replaced"
            ));
        }
        let rename = |name: &mut String| {
            if name.eq_ignore_ascii_case(&subject) {
                *name = other.to_string();
            }
        };
        self.fleet.iter_mut().for_each(|resource| resource.rename(&rename));
        self.steps.iter_mut().for_each(|step| step.action.rename(&rename));
        Ok(self)
    }
}

/// The file as typed. Resources are those of the API.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    title: String,
    about: Option<String>,
    subject: Option<String>,
    #[serde(default)]
    host: Vec<HostTable>,
    #[serde(default)]
    availability_set: Vec<NewGroup>,
    #[serde(default)]
    cloud_service: Vec<NewGroup>,
    #[serde(default)]
    scale_set: Vec<NewScaleSet>,
    #[serde(default)]
    machine: Vec<NewMachine>,
    #[serde(default)]
    step: Vec<Spanned<StepTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostTable {
    name: ResourceName,
}

impl File {
    fn fleet(&mut self) -> Vec<FleetResource> {
        let hosts = self.host.drain(..).map(|host| FleetResource::Host(host.name));
        let sets = self.availability_set.drain(..).map(FleetResource::AvailabilitySet);
        let services = self.cloud_service.drain(..).map(FleetResource::CloudService);
        let scale_sets = self.scale_set.drain(..).map(|set| FleetResource::ScaleSet(Box::new(set)));
        let machines = self.machine.drain(..).map(|machine| FleetResource::Machine(Box::new(machine)));
        hosts.chain(sets).chain(services).chain(scale_sets).chain(machines).collect()
    }
}

type Text = Option<Spanned<String>>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StepTable {
    restart: Text,
    redeploy: Text,
    perform_maintenance: Text,
    evict: Text,
    recommend_rebalance: Text,
    fail: Text,
    delete: Text,
    start: Text,
    stop: Text,
    deallocate: Text,
    maintain: Option<NewMaintenance>,
    scale: Text,
    upgrade: Text,
    cancel: Text,
    approve: Text,
    poll: Text,
    fault: Option<NewFault>,
    clear_faults: Option<bool>,
    wait: Text,
    expect: Text,
    // Parameters of the keys above.
    capacity: Option<u32>,
    by: Text,
    of: Text,
    machine: Text,
    within: Text,
    until: Text,
    r#as: Text,
}

/// The keys that define the action of a step.
const ACTION_KEYS: &str = "restart, redeploy, performMaintenance, evict, recommendRebalance, fail, delete, start, stop, deallocate, maintain, \
                     scale, upgrade, cancel, approve, poll, fault, clearFaults, wait, expect";

/// Interprets the typed file.
struct Interpreter<'a> {
    source: Source<'a>,
    /// Labels that earlier steps have defined.
    labels: BTreeSet<String>,
}

impl Interpreter<'_> {
    fn check_subject(&self, subject: Option<&str>, fleet: &[FleetResource]) -> Result<(), FileError> {
        let is_named = |name: &str| fleet.iter().any(|resource| resource.name().eq_ignore_ascii_case(name));
        match subject {
            Some(subject) if !is_named(subject) && !is_instance_of(subject, fleet) => Err(self.source.problem(
                &self.source.find("subject"),
                format!(
                    "the subject '{subject}' is not a machine of the file.{}",
                    suggest(subject, fleet.iter().map(FleetResource::name))
                ),
            )),
            Some(_) | None => Ok(()),
        }
    }

    fn step(&mut self, step: Spanned<StepTable>) -> Result<Step, FileError> {
        let span = step.span();
        let mut table = step.into_inner();
        let mut found = self.actions(&mut table, &span)?;
        let action = match (found.pop(), found.is_empty()) {
            (Some(action), true) => action,
            (Some(_), false) => {
                return Err(self.source.problem(&span, "this step has two actions. Split it into two steps"));
            }
            (None, _) => {
                return Err(self.source.problem(&span, format!("this step has no action. Use one of: {ACTION_KEYS}")));
            }
        };
        let label = table.r#as.take();
        if let Some(label) = &label {
            if !starts_operation(&action) {
                return Err(self
                    .source
                    .problem(&label.span(), "this step starts no operation, so it cannot have a name"));
            }
            self.labels.insert(label.get_ref().clone());
        }
        self.check_unused_keys(&table)?;
        Ok(Step { action, label: label.map(Spanned::into_inner), line: self.source.line_and_column(span.start).0 })
    }

    /// The actions of a step; a valid step has exactly one.
    fn actions(&self, table: &mut StepTable, span: &Range<usize>) -> Result<Vec<StepAction>, FileError> {
        let mut found = Vec::new();
        let actions = [
            (table.restart.take(), MachineAction::Restart),
            (table.redeploy.take(), MachineAction::Redeploy),
            (table.perform_maintenance.take(), MachineAction::PerformMaintenance),
            (table.evict.take(), MachineAction::Evict),
            (table.recommend_rebalance.take(), MachineAction::RecommendRebalance),
            (table.fail.take(), MachineAction::Fail),
            (table.delete.take(), MachineAction::Delete),
        ];
        let machine_actions = actions.into_iter().filter_map(|(machine, action)| {
            machine.map(|machine| StepAction::Act { action, machine: machine.into_inner() })
        });
        found.extend(machine_actions);
        let power_actions = [
            (table.start.take(), PowerAction::Start),
            (table.stop.take(), PowerAction::Stop),
            (table.deallocate.take(), PowerAction::Deallocate),
        ];
        let power_actions = power_actions.into_iter().filter_map(|(machine, action)| {
            machine.map(|machine| StepAction::Power { action, machine: machine.into_inner() })
        });
        found.extend(power_actions);
        found.extend(table.maintain.take().map(|new| StepAction::Maintain(Box::new(new))));
        found.extend(table.fault.take().map(|new| StepAction::Fault(Box::new(new))));
        found.extend(table.clear_faults.take().map(|_| StepAction::ClearFaults));
        found.extend(table.upgrade.take().map(|set| StepAction::Upgrade { set: set.into_inner() }));
        found.extend(table.poll.take().map(|machine| StepAction::Poll { machine: machine.into_inner() }));
        if let Some(set) = table.scale.take() {
            let missing = || self.source.problem(span, "'scale' requires the key 'capacity', the number of instances");
            let capacity = table.capacity.take().ok_or_else(missing)?;
            found.push(StepAction::Scale { set: set.into_inner(), capacity });
        }
        if let Some(of) = table.cancel.take() {
            found.push(StepAction::Cancel { of: self.label(of)? });
        }
        if let Some(of) = table.approve.take() {
            let of = self.label(of)?;
            found.push(StepAction::Approve { of, by: inner(&mut table.by), machine: inner(&mut table.machine) });
        }
        if let Some(text) = table.wait.take() {
            let until = table.until.take().map(|state| self.state(&state, table)).transpose()?;
            found.push(StepAction::Wait { span: self.parse_span(&text)?, until });
        }
        if let Some(state) = table.expect.take() {
            found.push(self.expectation(&state, table)?);
        }
        Ok(found)
    }

    fn expectation(&self, state: &Spanned<String>, table: &mut StepTable) -> Result<StepAction, FileError> {
        let within = table.within.take().map_or(Ok(WITHIN_DEFAULT), |text| self.parse_span(&text))?;
        Ok(StepAction::Expect { expectation: self.state(state, table)?, within })
    }

    /// The state of an event or machine that a step waits for.
    fn state(&self, state: &Spanned<String>, table: &mut StepTable) -> Result<Expectation, FileError> {
        let name = state.get_ref().as_str();
        let event = EventState::NAMES.iter().find(|(known, _)| *known == name).map(|(_, state)| *state);
        let machine = MachineState::NAMES.iter().find(|(known, _)| *known == name).map(|(_, state)| *state);
        Ok(match (event, machine) {
            (Some(at), _) => {
                let missing = "this state requires the key 'of', the name that an earlier step defines with 'as'";
                let of = table.of.take().ok_or_else(|| self.source.problem(&state.span(), missing))?;
                Expectation::Event { of: self.label(of)?, machine: inner(&mut table.machine), state: at }
            }
            (None, Some(at)) => {
                let missing = || self.source.problem(&state.span(), "this state requires the key 'machine'");
                Expectation::Machine { machine: inner(&mut table.machine).ok_or_else(missing)?, state: at }
            }
            (None, None) => {
                let known = EventState::NAMES.map(|(name, _)| name).into_iter();
                let known: Vec<&str> = known.chain(MachineState::NAMES.map(|(name, _)| name)).collect();
                let message = format!(
                    "'{name}' is not a known state.{} {}",
                    suggest(name, known.iter().copied()),
                    list_choices(&known)
                );
                return Err(self.source.problem(&state.span(), message));
            }
        })
    }

    /// The label of an operation, which an earlier step must define.
    fn label(&self, of: Spanned<String>) -> Result<String, FileError> {
        let span = of.span();
        let label = of.into_inner();
        if self.labels.contains(&label) {
            return Ok(label);
        }
        let near = suggest(&label, self.labels.iter().map(String::as_str));
        let message = format!("no earlier step is named '{label}'.{near} Name a step with: as = \"{label}\"");
        Err(self.source.problem(&span, message))
    }

    fn parse_span(&self, text: &Spanned<String>) -> Result<Duration, FileError> {
        parse_span(text.get_ref())
            .map_err(|must| self.source.problem(&text.span(), format!("'{}' must be {must}", text.get_ref())))
    }

    /// Refuses keys that do not belong to the action.
    fn check_unused_keys(&self, table: &StepTable) -> Result<(), FileError> {
        let texts = [
            ("by", &table.by),
            ("of", &table.of),
            ("machine", &table.machine),
            ("within", &table.within),
            ("until", &table.until),
        ];
        for (key, value) in texts {
            if let Some(value) = value {
                return Err(self.source.problem(&value.span(), format!("'{key}' does not apply to this step")));
            }
        }
        match table.capacity {
            Some(_) => Err(self.source.problem(&self.source.find("capacity"), "'capacity' only applies to 'scale'")),
            None => Ok(()),
        }
    }
}

fn inner(text: &mut Text) -> Option<String> {
    text.take().map(Spanned::into_inner)
}

fn starts_operation(action: &StepAction) -> bool {
    match action {
        StepAction::Act { .. } | StepAction::Maintain(_) | StepAction::Scale { .. } => true,
        StepAction::Upgrade { .. }
        | StepAction::Power { .. }
        | StepAction::Cancel { .. }
        | StepAction::Approve { .. }
        | StepAction::Poll { .. }
        | StepAction::Fault(_)
        | StepAction::ClearFaults
        | StepAction::Wait { .. }
        | StepAction::Expect { .. } => false,
    }
}

/// Whether a machine is an instance of a scale set in the fleet; instances are named after their set.
fn is_instance_of(name: &str, fleet: &[FleetResource]) -> bool {
    let set = name.rsplit_once('_').map(|(set, _)| set);
    let is_set =
        |resource: &FleetResource| matches!(resource, FleetResource::ScaleSet(new) if Some(new.name.0.as_str()) == set);
    fleet.iter().any(is_set)
}

fn list_choices(words: &[&str]) -> String {
    format!("Use one of: {}", words.join(", "))
}

/// The text of a file, for positions of errors.
struct Source<'a>(&'a str);

impl Source<'_> {
    fn problem(&self, span: &Range<usize>, message: impl Into<String>) -> FileError {
        let (line, column) = self.line_and_column(span.start);
        FileError { line, column, message: message.into() }
    }

    fn line_and_column(&self, at: usize) -> (usize, usize) {
        let before = self.0.get(..at).unwrap_or(self.0);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    /// The position of the first occurrence of a key.
    fn find(&self, key: &str) -> Range<usize> {
        let at = self.0.find(key).unwrap_or(0);
        at..at
    }

    /// An error of the TOML parser. For unknown keys and values, it suggests the closest known one.
    fn toml_problem(&self, error: &toml::de::Error) -> FileError {
        self.problem(&error.span().unwrap_or(0..0), reword_serde_error(error.message(), SourceFormat::Toml))
    }
}

#[cfg(test)]
mod tests;
