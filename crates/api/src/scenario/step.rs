//! What a step of a scenario does or expects, and how a person reads it.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use forewarn_api_types::span::span_text;

/// A step, and where it is in its file.
#[derive(Clone, Debug)]
pub struct Step {
    pub does: Does,
    /// What later steps call the operation that comes of it.
    pub label: Option<String>,
    pub line: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Does {
    /// An action on a machine that makes an operation.
    Act {
        action: Action,
        machine: String,
    },
    Maintain(Value),
    Scale {
        set: String,
        capacity: u32,
    },
    /// Brings all instances to the set's latest model.
    Upgrade {
        set: String,
    },
    Power {
        switch: Switch,
        machine: String,
    },
    Cancel {
        of: String,
    },
    Approve {
        of: String,
        /// The guest that approves; None: somebody at the management API.
        by: Option<String>,
        /// Only the event of this machine.
        machine: Option<String>,
    },
    /// The machine asks for its document, which turns its scope on.
    Poll {
        machine: String,
    },
    /// A fault of the metadata endpoint, as `POST /faults` takes it.
    Fault(Value),
    /// All faults end.
    ClearFaults,
    Wait {
        span: Duration,
        /// Not longer than until this is so, and then it must be so.
        until: Option<Expectation>,
    },
    Expect {
        what: Expectation,
        within: Duration,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Restart,
    Redeploy,
    PerformMaintenance,
    Evict,
    Fail,
    Delete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    Start,
    Stop,
    Deallocate,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expectation {
    Event {
        of: String,
        /// Only the event of this machine.
        machine: Option<String>,
        state: EventState,
    },
    Machine {
        machine: String,
        state: MachineState,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventState {
    /// It is in the document, or was: an approval may have started it meanwhile.
    Appeared,
    Scheduled,
    /// Approved, whether it has started or not.
    Approved,
    Started,
    /// Out of the document, whatever became of it.
    Gone,
    Completed,
    Canceled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineState {
    /// It has asked for its document.
    Polling,
    Running,
    Stopped,
    Deallocated,
    Deleted,
}

impl Does {
    /// Gives every name of a machine to `rename`.
    pub(super) fn rename(&mut self, rename: &impl Fn(&mut String)) {
        match self {
            Does::Act { machine, .. } | Does::Power { machine, .. } | Does::Poll { machine } => rename(machine),
            Does::Maintain(body) => rename_in(&mut body["target"], rename),
            Does::Fault(body) => rename_in(body, rename),
            Does::Approve { by, machine, .. } => by.iter_mut().chain(machine).for_each(rename),
            Does::Expect { what, .. } | Does::Wait { until: Some(what), .. } => {
                what.machine_mut().into_iter().for_each(rename)
            }
            Does::Scale { .. }
            | Does::Upgrade { .. }
            | Does::Cancel { .. }
            | Does::ClearFaults
            | Does::Wait { until: None, .. } => {}
        }
    }
}

impl Expectation {
    pub fn machine(&self) -> Option<&str> {
        match self {
            Expectation::Event { machine, .. } => machine.as_deref(),
            Expectation::Machine { machine, .. } => Some(machine),
        }
    }

    fn machine_mut(&mut self) -> Option<&mut String> {
        match self {
            Expectation::Event { machine, .. } => machine.as_mut(),
            Expectation::Machine { machine, .. } => Some(machine),
        }
    }
}

/// The same in a body of the API.
pub(super) fn rename_in(body: &mut Value, rename: &impl Fn(&mut String)) {
    match body {
        Value::String(text) => rename(text),
        Value::Array(values) => values.iter_mut().for_each(|value| rename_in(value, rename)),
        Value::Object(values) => values.values_mut().for_each(|value| rename_in(value, rename)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

impl Action {
    /// As in the paths of the API.
    pub fn word(self) -> &'static str {
        match self {
            Action::Restart => "restart",
            Action::Redeploy => "redeploy",
            Action::PerformMaintenance => "perform-maintenance",
            Action::Evict => "evict",
            Action::Fail => "hardware-failure",
            Action::Delete => "delete",
        }
    }
}

impl Switch {
    pub fn word(self) -> &'static str {
        match self {
            Switch::Start => "start",
            Switch::Stop => "stop",
            Switch::Deallocate => "deallocate",
        }
    }
}

impl EventState {
    pub const WORDS: [(&'static str, EventState); 7] = [
        ("appeared", EventState::Appeared),
        ("scheduled", EventState::Scheduled),
        ("approved", EventState::Approved),
        ("started", EventState::Started),
        ("gone", EventState::Gone),
        ("completed", EventState::Completed),
        ("canceled", EventState::Canceled),
    ];

    pub fn word(self) -> &'static str {
        word_of(&Self::WORDS, self)
    }
}

impl MachineState {
    pub const WORDS: [(&'static str, MachineState); 5] = [
        ("polling", MachineState::Polling),
        ("running", MachineState::Running),
        ("stopped", MachineState::Stopped),
        ("deallocated", MachineState::Deallocated),
        ("deleted", MachineState::Deleted),
    ];

    pub fn word(self) -> &'static str {
        word_of(&Self::WORDS, self)
    }
}

fn word_of<T: PartialEq>(words: &[(&'static str, T)], value: T) -> &'static str {
    words.iter().find(|(_, other)| *other == value).map_or("?", |(word, _)| word)
}

impl fmt::Display for Does {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Does::Act { action, machine } => write!(f, "{} {machine}", action.word().replace('-', " ")),
            Does::Maintain(body) => {
                let text = |key: &str| body[key].as_str().unwrap_or("?").to_string();
                let target = body["target"].as_object().and_then(|target| target.iter().next());
                let target = target.map(|(kind, name)| format!("{kind} {}", name.as_str().unwrap_or("?")));
                write!(f, "maintain {} ({})", target.unwrap_or_default(), text("type"))
            }
            Does::Scale { set, capacity } => write!(f, "scale {set} to {capacity}"),
            Does::Upgrade { set } => write!(f, "upgrade {set}"),
            Does::Power { switch, machine } => write!(f, "{} {machine}", switch.word()),
            Does::Cancel { of } => write!(f, "cancel {of}"),
            Does::Approve { of, by, machine } => {
                write!(f, "approve {of}")?;
                machine.as_ref().map_or(Ok(()), |machine| write!(f, " for {machine}"))?;
                by.as_ref().map_or(Ok(()), |by| write!(f, " as {by}"))
            }
            Does::Poll { machine } => write!(f, "{machine} asks for its document"),
            Does::Fault(body) => write!(f, "fault {body}"),
            Does::ClearFaults => write!(f, "clear all faults"),
            Does::Wait { span, until: None } => write!(f, "wait {}", span_text(*span)),
            Does::Wait { span, until: Some(what) } => write!(f, "wait {} at most for {what}", span_text(*span)),
            Does::Expect { what, .. } => write!(f, "expect {what}"),
        }
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expectation::Event { of, machine, state } => {
                write!(f, "{of}")?;
                machine.as_ref().map_or(Ok(()), |machine| write!(f, " of {machine}"))?;
                let verb = if *state == EventState::Appeared { "have" } else { "be" };
                write!(f, " to {verb} {}", state.word())
            }
            Expectation::Machine { machine, state } => write!(f, "{machine} to be {}", state.word()),
        }
    }
}
