//! A scenario's file: TOML, read to what was typed first and to what is meant second. Whatever is wrong is
//! said with its line and column, before anything happens.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use toml::Spanned;

use super::step::{Action, Does, EventState, Expectation, MachineState, Step, Switch, rename_in};
use crate::bodies;
use forewarn_api_types::nearest::hint;
use forewarn_api_types::plain::{Written, plainly};
use forewarn_api_types::span::span;

/// A file. The largest that ships has 2 KB.
pub const FILE_BYTES_MAX: usize = 256 * 1024;

/// Steps of a scenario: more than a person reads.
pub const STEPS_MAX: usize = 1000;

/// How long an expectation waits, in real time, when it does not say. Long enough for a handler that polls
/// every second and is in no hurry.
pub const WITHIN_DEFAULT: Duration = Duration::from_secs(10);

/// A scenario that can be run: its words are known and its labels are set before they are used.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub title: String,
    pub about: String,
    /// The machine that a handler under test is. A run may put another in its place.
    pub subject: Option<String>,
    /// What must be there before the first step: the route of the API that makes it, and its body.
    pub(super) fleet: Vec<Made>,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub(super) struct Made {
    pub kind: Kind,
    pub name: String,
    pub body: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Host,
    AvailabilitySet,
    CloudService,
    ScaleSet,
    Machine,
}

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub line: usize,
    pub column: usize,
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for Problem {}

impl Scenario {
    pub fn parse(text: &str) -> Result<Scenario, Problem> {
        let places = Places(text);
        if text.len() > FILE_BYTES_MAX {
            return Err(places.problem(&(0..0), format!("the file has more than {FILE_BYTES_MAX} bytes")));
        }
        let typed: File = toml::from_str(text).map_err(|error| places.of_toml(&error))?;
        let raw: Value = toml::from_str(text).map_err(|error| places.of_toml(&error))?;
        let mut meant = Meaning { places, raw: &raw, labels: BTreeSet::new() };
        let fleet = meant.fleet(&typed)?;
        if typed.step.len() > STEPS_MAX {
            let message = format!("there are {} steps, and there may be {STEPS_MAX}", typed.step.len());
            return Err(meant.places.problem(&(0..0), message));
        }
        let steps = typed.step.into_iter().enumerate();
        let steps = steps.map(|(number, step)| meant.step(number, step)).collect::<Result<_, _>>()?;
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
    /// The same with another machine in the subject's place, or why that cannot be.
    pub fn with_subject(mut self, other: &str) -> Result<Scenario, String> {
        let Some(subject) = self.subject.replace(other.to_string()) else {
            return Err(
                "The scenario says of no machine that a handler may be it, so another cannot take its place".into()
            );
        };
        if !subject.eq_ignore_ascii_case(other) && is_instance_of(&subject, &self.fleet) {
            return Err(format!(
                "The machine '{subject}' of the scenario is made by a scale set of the file, so another cannot take its place"
            ));
        }
        let rename = |name: &mut String| {
            if name.eq_ignore_ascii_case(&subject) {
                *name = other.to_string();
            }
        };
        for made in &mut self.fleet {
            rename(&mut made.name);
            rename_in(&mut made.body, &rename);
        }
        self.steps.iter_mut().for_each(|step| step.does.rename(&rename));
        Ok(self)
    }
}

/// What was typed. The bodies are checked against what the API takes, and then sent as they stand.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    title: String,
    about: Option<String>,
    subject: Option<String>,
    #[serde(default)]
    host: Vec<HostTable>,
    #[serde(default)]
    availability_set: Vec<bodies::NewGroup>,
    #[serde(default)]
    cloud_service: Vec<bodies::NewGroup>,
    #[serde(default)]
    scale_set: Vec<bodies::NewScaleSet>,
    #[serde(default)]
    machine: Vec<bodies::NewMachine>,
    #[serde(default)]
    step: Vec<Spanned<StepTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostTable {
    #[serde(rename = "name")]
    _name: bodies::Word,
}

type Text = Option<Spanned<String>>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StepTable {
    restart: Text,
    redeploy: Text,
    perform_maintenance: Text,
    evict: Text,
    fail: Text,
    delete: Text,
    start: Text,
    stop: Text,
    deallocate: Text,
    maintain: Option<bodies::NewMaintenance>,
    scale: Text,
    upgrade: Text,
    cancel: Text,
    approve: Text,
    poll: Text,
    fault: Option<bodies::NewFault>,
    clear_faults: Option<bool>,
    wait: Text,
    expect: Text,
    // What goes with them.
    capacity: Option<u32>,
    by: Text,
    of: Text,
    machine: Text,
    within: Text,
    until: Text,
    r#as: Text,
}

/// What a step may begin with.
const VERBS: &str = "restart, redeploy, performMaintenance, evict, fail, delete, start, stop, deallocate, maintain, \
                     scale, upgrade, cancel, approve, poll, fault, clearFaults, wait, expect";

struct Meaning<'a> {
    places: Places<'a>,
    raw: &'a Value,
    /// What steps have called their operations so far.
    labels: BTreeSet<String>,
}

impl Meaning<'_> {
    fn fleet(&self, typed: &File) -> Result<Vec<Made>, Problem> {
        let File { title: _, about: _, subject, host, availability_set, cloud_service, scale_set, machine, step: _ } =
            typed;
        let mut fleet = Vec::new();
        let mut add = |kind, key: &str, count: usize| {
            for body in (0..count).map(|number| self.raw[key][number].clone()) {
                let name = body["name"].as_str().unwrap_or_default().to_string();
                fleet.push(Made { kind, name, body });
            }
        };
        add(Kind::Host, "host", host.len());
        add(Kind::AvailabilitySet, "availabilitySet", availability_set.len());
        add(Kind::CloudService, "cloudService", cloud_service.len());
        add(Kind::ScaleSet, "scaleSet", scale_set.len());
        add(Kind::Machine, "machine", machine.len());
        let named = |name: &str| fleet.iter().any(|made| made.name.eq_ignore_ascii_case(name));
        match subject {
            Some(subject) if !named(subject) && !is_instance_of(subject, &fleet) => Err(self.places.problem(
                &self.places.find("subject"),
                format!(
                    "the subject '{subject}' is none of the machines of the file.{}",
                    hint(subject, fleet.iter().map(|made| made.name.as_str()))
                ),
            )),
            Some(_) | None => Ok(fleet),
        }
    }

    fn step(&mut self, number: usize, step: Spanned<StepTable>) -> Result<Step, Problem> {
        let span = step.span();
        let mut table = step.into_inner();
        let mut found = self.verbs(number, &mut table, &span)?;
        let does = match (found.pop(), found.is_empty()) {
            (Some(does), true) => does,
            (Some(_), false) => {
                return Err(self.places.problem(&span, "this step does two things: make two steps of it"));
            }
            (None, _) => {
                return Err(self.places.problem(&span, format!("this step does nothing. It may have one of: {VERBS}")));
            }
        };
        let label = table.r#as.take();
        if let Some(label) = &label {
            if !makes_operation(&does) {
                return Err(self.places.problem(&label.span(), "no operation comes of this step, so it needs no name"));
            }
            self.labels.insert(label.get_ref().clone());
        }
        self.nothing_left(&table)?;
        Ok(Step { does, label: label.map(Spanned::into_inner), line: self.places.line_and_column(span.start).0 })
    }

    /// All that the step says to do: exactly one, if it is right.
    fn verbs(&self, number: usize, table: &mut StepTable, span: &Range<usize>) -> Result<Vec<Does>, Problem> {
        let mut found = Vec::new();
        let actions = [
            (table.restart.take(), Action::Restart),
            (table.redeploy.take(), Action::Redeploy),
            (table.perform_maintenance.take(), Action::PerformMaintenance),
            (table.evict.take(), Action::Evict),
            (table.fail.take(), Action::Fail),
            (table.delete.take(), Action::Delete),
        ];
        let acts = actions
            .into_iter()
            .filter_map(|(machine, action)| machine.map(|machine| Does::Act { action, machine: machine.into_inner() }));
        found.extend(acts);
        let switches = [
            (table.start.take(), Switch::Start),
            (table.stop.take(), Switch::Stop),
            (table.deallocate.take(), Switch::Deallocate),
        ];
        let turns = switches.into_iter().filter_map(|(machine, switch)| {
            machine.map(|machine| Does::Power { switch, machine: machine.into_inner() })
        });
        found.extend(turns);
        let raw = &self.raw["step"][number];
        found.extend(table.maintain.take().map(|_| Does::Maintain(raw["maintain"].clone())));
        found.extend(table.fault.take().map(|_| Does::Fault(raw["fault"].clone())));
        found.extend(table.clear_faults.take().map(|_| Does::ClearFaults));
        found.extend(table.upgrade.take().map(|set| Does::Upgrade { set: set.into_inner() }));
        found.extend(table.poll.take().map(|machine| Does::Poll { machine: machine.into_inner() }));
        if let Some(set) = table.scale.take() {
            let missing = || self.places.problem(span, "scale needs the key 'capacity': how many instances");
            let capacity = table.capacity.take().ok_or_else(missing)?;
            found.push(Does::Scale { set: set.into_inner(), capacity });
        }
        if let Some(of) = table.cancel.take() {
            found.push(Does::Cancel { of: self.label(of)? });
        }
        if let Some(of) = table.approve.take() {
            let of = self.label(of)?;
            found.push(Does::Approve { of, by: inner(&mut table.by), machine: inner(&mut table.machine) });
        }
        if let Some(text) = table.wait.take() {
            let until = table.until.take().map(|state| self.state(&state, table)).transpose()?;
            found.push(Does::Wait { span: self.span_of(&text)?, until });
        }
        if let Some(state) = table.expect.take() {
            found.push(self.expectation(&state, table)?);
        }
        Ok(found)
    }

    fn expectation(&self, state: &Spanned<String>, table: &mut StepTable) -> Result<Does, Problem> {
        let within = table.within.take().map_or(Ok(WITHIN_DEFAULT), |text| self.span_of(&text))?;
        Ok(Does::Expect { what: self.state(state, table)?, within })
    }

    /// A word for how something is, and of what.
    fn state(&self, state: &Spanned<String>, table: &mut StepTable) -> Result<Expectation, Problem> {
        let word = state.get_ref().as_str();
        let event = EventState::WORDS.iter().find(|(known, _)| *known == word).map(|(_, state)| *state);
        let machine = MachineState::WORDS.iter().find(|(known, _)| *known == word).map(|(_, state)| *state);
        Ok(match (event, machine) {
            (Some(at), _) => {
                let missing = "of which operation? Say it with 'of', the name that an earlier step was given with 'as'";
                let of = table.of.take().ok_or_else(|| self.places.problem(&state.span(), missing))?;
                Expectation::Event { of: self.label(of)?, machine: inner(&mut table.machine), state: at }
            }
            (None, Some(at)) => {
                let missing = || self.places.problem(&state.span(), "of which machine? Say it with 'machine'");
                Expectation::Machine { machine: inner(&mut table.machine).ok_or_else(missing)?, state: at }
            }
            (None, None) => {
                let known = EventState::WORDS.map(|(word, _)| word).into_iter();
                let known: Vec<&str> = known.chain(MachineState::WORDS.map(|(word, _)| word)).collect();
                let message =
                    format!("'{word}' cannot be expected.{} {}", hint(word, known.iter().copied()), one_of(&known));
                return Err(self.places.problem(&state.span(), message));
            }
        })
    }

    /// The name of an operation, which an earlier step must have given.
    fn label(&self, of: Spanned<String>) -> Result<String, Problem> {
        let span = of.span();
        let label = of.into_inner();
        if self.labels.contains(&label) {
            return Ok(label);
        }
        let near = hint(&label, self.labels.iter().map(String::as_str));
        let message = format!("no earlier step is called '{label}'.{near} Give one a name with: as = \"{label}\"");
        Err(self.places.problem(&span, message))
    }

    fn span_of(&self, text: &Spanned<String>) -> Result<Duration, Problem> {
        span(text.get_ref())
            .map_err(|must| self.places.problem(&text.span(), format!("'{}' must be {must}", text.get_ref())))
    }

    /// Every key that no verb has taken is one too many.
    fn nothing_left(&self, table: &StepTable) -> Result<(), Problem> {
        let texts = [
            ("by", &table.by),
            ("of", &table.of),
            ("machine", &table.machine),
            ("within", &table.within),
            ("until", &table.until),
        ];
        for (key, value) in texts {
            if let Some(value) = value {
                return Err(self.places.problem(&value.span(), format!("'{key}' means nothing to this step")));
            }
        }
        match table.capacity {
            Some(_) => Err(self.places.problem(&self.places.find("capacity"), "'capacity' goes with 'scale' only")),
            None => Ok(()),
        }
    }
}

fn inner(text: &mut Text) -> Option<String> {
    text.take().map(Spanned::into_inner)
}

fn makes_operation(does: &Does) -> bool {
    match does {
        Does::Act { .. } | Does::Maintain(_) | Does::Scale { .. } => true,
        Does::Upgrade { .. }
        | Does::Power { .. }
        | Does::Cancel { .. }
        | Does::Approve { .. }
        | Does::Poll { .. }
        | Does::Fault(_)
        | Does::ClearFaults
        | Does::Wait { .. }
        | Does::Expect { .. } => false,
    }
}

/// Instances are made by their set and named after it.
fn is_instance_of(name: &str, fleet: &[Made]) -> bool {
    let set = name.rsplit_once('_').map(|(set, _)| set);
    set.is_some_and(|set| fleet.iter().any(|made| made.kind == Kind::ScaleSet && made.name == set))
}

fn one_of(words: &[&str]) -> String {
    format!("It may be one of: {}", words.join(", "))
}

/// From bytes of the text to lines and columns.
struct Places<'a>(&'a str);

impl Places<'_> {
    fn problem(&self, span: &Range<usize>, message: impl Into<String>) -> Problem {
        let (line, column) = self.line_and_column(span.start);
        Problem { line, column, message: message.into() }
    }

    fn line_and_column(&self, at: usize) -> (usize, usize) {
        let before = self.0.get(..at).unwrap_or(self.0);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    /// Where a key is first written.
    fn find(&self, key: &str) -> Range<usize> {
        let at = self.0.find(key).unwrap_or(0);
        at..at
    }

    /// What TOML or the shapes complain of. Unknown keys and words come with the one that was meant.
    fn of_toml(&self, error: &toml::de::Error) -> Problem {
        self.problem(&error.span().unwrap_or(0..0), plainly(error.message(), Written::Toml))
    }
}

#[cfg(test)]
mod tests;
