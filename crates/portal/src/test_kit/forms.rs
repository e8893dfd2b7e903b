//! The forms of the test kit: their fields, their errors, and the requests to the API.

use std::collections::HashMap;
use std::time::Duration;

use askama::Template;
use forewarn_widgets::field::{self, Control, Field, FieldErrors, parse_number, parse_optional, parse_seconds};
use forewarn_widgets::html;

use crate::refusal::Refusal;
use crate::visitor::Form;
use forewarn_api::scenario::{Scenario, find_builtin};
use forewarn_api::{Actions, ApiError};
use forewarn_api_types::span::parse_span;
use forewarn_api_types::{AdvanceClock, FaultKind, FaultMethod, NewFault, NewRun, ResourceName};
use forewarn_metadata::faults::{DELAY_MAX, FaultError};

/// Kinds of faults: names in the API and labels.
const FAULT_KINDS: [(&str, &str); 9] = [
    ("Status", "HTTP status"),
    ("Delay", "Delay"),
    ("Reset", "Closed connection"),
    ("Truncated", "Truncated response"),
    ("Malformed", "Malformed JSON"),
    ("SlowFirstCall", "Slow first call"),
    ("IncarnationRestart", "Restarted DocumentIncarnation"),
    ("EventsVanish", "No events"),
    ("UnknownType", "Unknown event type"),
];

/// The contents of the fields of all forms, with their errors.
#[derive(Clone, Debug)]
pub struct TestKitFields {
    text: String,
    subject: String,
    handler: String,
    by: String,
    kind: String,
    status: String,
    retry_after: String,
    delay: String,
    count: String,
    lasts: String,
    percent: String,
    method: String,
    documents: String,
    machine: String,
    problems: FieldErrors,
}

/// The scenario that was run last, to fill in the form again.
#[derive(Clone, Debug)]
pub struct LastScenario {
    text: String,
    subject: String,
    handler: String,
}

#[derive(Template)]
#[template(path = "test_kit_form.html")]
struct TestKitForm<'a> {
    form: &'static str,
    fields: Vec<String>,
    label: &'static str,
    csrf: &'a str,
}

impl Default for TestKitFields {
    fn default() -> TestKitFields {
        let text = String::new;
        TestKitFields {
            text: text(),
            subject: text(),
            handler: text(),
            by: "15m".into(),
            kind: "Status".into(),
            status: "503".into(),
            retry_after: "1s".into(),
            delay: "5s".into(),
            count: "10".into(),
            lasts: text(),
            percent: text(),
            method: text(),
            documents: text(),
            machine: text(),
            problems: FieldErrors::default(),
        }
    }
}

impl TestKitFields {
    /// With the text of a built-in scenario.
    pub fn from_query(query: &HashMap<String, String>) -> TestKitFields {
        let found = query.get("scenario").and_then(|name| find_builtin(name));
        TestKitFields {
            text: found.map_or_else(String::new, |found| found.text.to_owned()),
            ..TestKitFields::default()
        }
    }

    /// The fields of the form that was sent. The other fields have their defaults.
    pub fn from_form(form: &Form) -> TestKitFields {
        let text = |name: &str| form.text(name).to_owned();
        let blank = TestKitFields::default();
        match form.text("form") {
            "scenario" => {
                TestKitFields { text: form.lines("text"), subject: text("subject"), handler: text("handler"), ..blank }
            }
            "advance" => TestKitFields { by: text("by"), ..blank },
            _ => TestKitFields {
                kind: text("kind"),
                status: text("status"),
                retry_after: text("retry_after"),
                delay: text("delay"),
                count: text("count"),
                lasts: text("lasts"),
                percent: text("percent"),
                method: text("method"),
                documents: text("documents"),
                machine: text("machine"),
                ..blank
            },
        }
    }

    /// The request of a form, or `None` if a field has an error.
    pub fn build_request(&mut self, form: &str) -> Option<TestKitRequest> {
        let mut problems = FieldErrors::default();
        let request = match form {
            "scenario" => self.build_run(&mut problems),
            "advance" => self.build_advance(&mut problems),
            _ => self.build_fault(&mut problems),
        };
        let is_good = problems.is_empty();
        self.problems = problems;
        request.filter(|_| is_good)
    }

    /// Fills in the scenario that was run last if the form is empty.
    pub fn or_last(&self, last: Option<LastScenario>) -> TestKitFields {
        match last.filter(|_| self.text.is_empty() && self.problems.is_empty()) {
            Some(LastScenario { text, subject, handler }) => TestKitFields { text, subject, handler, ..self.clone() },
            None => self.clone(),
        }
    }

    pub fn last_scenario(&self) -> LastScenario {
        LastScenario { text: self.text.clone(), subject: self.subject.clone(), handler: self.handler.clone() }
    }

    /// Adds the API's message to the field that it is about.
    pub fn add_refusal(&mut self, form: &str, refused: &Refusal) {
        let of_machine = ["MachineNotFound", "AmbiguousName"].contains(&refused.code);
        let field = match (form, refused.target.as_str()) {
            ("scenario", "subject") => "subject",
            ("scenario", _) if of_machine && !self.subject.is_empty() => "subject",
            ("scenario", _) => "text",
            ("advance", _) => "by",
            (_, "fault.delaySeconds") => "delay",
            (_, "fault.retryAfterSeconds") => "retry_after",
            (_, "percent") => "percent",
            (_, "count") => "count",
            (_, "forSeconds") => "lasts",
            _ if of_machine => "machine",
            _ if refused.code == "FaultNeverMet" => "method",
            _ => "kind",
        };
        self.problems.add(field, refused.message.clone());
    }

    pub fn scenario_form(&self, csrf: &str) -> String {
        let fields = [
            self.field("text", "File", &self.text).with_control(Control::Text).with_hint(
                "TOML, as described in docs/scenarios.md. To start from a built-in scenario, select Edit below.",
            ),
            self.field("subject", "Machine", &self.subject)
                .with_hint("Replaces the subject of the file. Default: the subject of the file."),
            self.field("handler", "Wait for the machine's own handler", &self.handler).with_control(Control::Checkbox),
        ];
        render_form("scenario", &fields, "Run scenario", csrf)
    }

    pub fn advance_form(&self, csrf: &str) -> String {
        render_form(
            "advance",
            &[self.field("by", "Advance by", &self.by).with_hint("For example 90s, 15m or 1h30m.")],
            "Advance",
            csrf,
        )
    }

    pub fn fault_form(&self, csrf: &str) -> String {
        let statuses = vec![
            ("429", "429 Too Many Requests"),
            ("410", "410 Gone"),
            ("500", "500 Internal Server Error"),
            ("503", "503 Service Unavailable"),
        ];
        let methods = vec![("", "GET and POST"), ("GET", "GET only"), ("POST", "POST only")];
        let fields = [
            self.field("kind", "Respond with", &self.kind).with_control(Control::Choice(FAULT_KINDS.to_vec())),
            self.field("status", "Status", &self.status).with_control(Control::Choice(statuses)).only_for("Status"),
            self.field("retry_after", "Retry-After", &self.retry_after)
                .with_hint("Only for 429 and 503.")
                .only_for("Status"),
            self.field("delay", "Delay", &self.delay)
                .with_hint("For example 500ms or 5s; at most 300s.")
                .only_for("Delay SlowFirstCall"),
            self.field("machine", "Machine", &self.machine).with_hint("Default: all machines."),
            self.field("count", "Requests", &self.count)
                .with_control(Control::Number)
                .with_hint("Number of requests affected. Default: no limit."),
            self.field("lasts", "Duration", &self.lasts)
                .with_hint("For example 5m, on the server's clock. Default: until cleared."),
            self.field("percent", "Share (%)", &self.percent)
                .with_control(Control::Number)
                .with_hint("Percentage of requests affected, evenly spread. Default: 100."),
            self.field("method", "Method", &self.method).with_control(Control::Choice(methods)),
            self.field("documents", "Only requests for the document", &self.documents).with_control(Control::Checkbox),
        ];
        render_form("fault", &fields, "Add fault", csrf)
    }

    fn field<'a>(&'a self, name: &'static str, label: &'a str, value: &'a str) -> Field<'a> {
        Field::new(name, label, value, &self.problems)
    }

    fn build_run(&self, problems: &mut FieldErrors) -> Option<TestKitRequest> {
        let parsed = Scenario::parse(&self.text).map_err(|problem| {
            format!("Line {}, column {}: {}.", problem.line, problem.column, problem.message.trim_end_matches('.'))
        });
        let is_read = problems.take("text", parsed).is_some();
        let subject = problems.take("subject", parse_optional(&self.subject, field::parse_name));
        let subject = subject.filter(|_| is_read)?;
        Some(TestKitRequest::Run(NewRun {
            text: Some(self.text.clone()),
            name: Some(ResourceName("own".into())),
            subject,
            handler: self.handler == "on",
            ..NewRun::default()
        }))
    }

    fn build_advance(&self, problems: &mut FieldErrors) -> Option<TestKitRequest> {
        let seconds = problems.take("by", parse_seconds("The time to advance", &self.by))?;
        Some(TestKitRequest::Advance(AdvanceClock { seconds }))
    }

    fn build_fault(&self, problems: &mut FieldErrors) -> Option<TestKitRequest> {
        let kind = self.build_fault_kind(problems);
        let whole = |text: &str, label: &'static str| parse_optional(text, |text| parse_number(text, label));
        let count = problems.take("count", whole(&self.count, "Requests"));
        let lasts = problems.take("lasts", parse_optional(&self.lasts, |text| parse_seconds("The duration", text)));
        let percent = problems.take("percent", whole(&self.percent, "The share")).flatten();
        if percent.is_some_and(|percent| !(1..=100).contains(&percent)) {
            problems.add("percent", "The share must be from 1 to 100 percent.");
        }
        let method = problems.take("method", parse_optional(&self.method, parse_method));
        Some(TestKitRequest::Fault(NewFault {
            machine: Some(self.machine.clone()).filter(|machine| !machine.is_empty()),
            count: count?,
            // The API refuses longer durations.
            for_seconds: lasts?.map(|secs| u32::try_from(secs).unwrap_or(u32::MAX)),
            percent: percent.and_then(|percent| u8::try_from(percent).ok()),
            method: method?,
            documents_only: self.documents == "on",
            ..NewFault::of(kind?)
        }))
    }

    /// Uses the fields of the selected kind and ignores the others.
    fn build_fault_kind(&self, problems: &mut FieldErrors) -> Option<FaultKind> {
        match self.kind.as_str() {
            "Status" => {
                let status = problems.take("status", parse_number(&self.status, "The status"))?;
                let typed = if ["429", "503"].contains(&self.status.as_str()) { self.retry_after.as_str() } else { "" };
                let retry =
                    problems.take("retry_after", parse_optional(typed, |text| parse_seconds("Retry-After", text)))?;
                Some(FaultKind::Status {
                    status: u16::try_from(status).unwrap_or(u16::MAX),
                    retry_after_seconds: retry.map(|secs| u32::try_from(secs).unwrap_or(u32::MAX)),
                })
            }
            "Delay" => self.parse_delay(problems).map(FaultKind::Delay),
            "SlowFirstCall" => self.parse_delay(problems).map(FaultKind::SlowFirstCall),
            word => {
                let plain = FaultKind::PLAIN.into_iter().find(|kind| kind.as_str() == word);
                if plain.is_none() {
                    problems.add("kind", format!("Unknown kind of fault '{word}'. Select one from the list."));
                }
                plain
            }
        }
    }

    fn parse_delay(&self, problems: &mut FieldErrors) -> Option<Duration> {
        let delay = parse_span(&self.delay).map_err(|must| format!("The delay must be {must}."));
        let delay = delay.and_then(|delay| match delay <= DELAY_MAX {
            true => Ok(delay),
            false => Err(FaultError::DelayRange.to_string()),
        });
        problems.take("delay", delay)
    }
}

/// The action of a form.
#[derive(Clone, Debug)]
pub enum TestKitRequest {
    Run(NewRun),
    Advance(AdvanceClock),
    Fault(NewFault),
}

impl TestKitRequest {
    pub async fn perform(self, actions: &Actions) -> Result<(), ApiError> {
        match self {
            TestKitRequest::Run(new) => actions.run_scenario(new).await.map(drop),
            TestKitRequest::Advance(by) => actions.advance_clock(by).await.map(drop),
            TestKitRequest::Fault(new) => actions.add_fault(new).await.map(drop),
        }
    }
}

fn parse_method(text: &str) -> Result<FaultMethod, String> {
    match text {
        "GET" => Ok(FaultMethod::Get),
        "POST" => Ok(FaultMethod::Post),
        other => Err(format!("Unknown method '{other}'. Select GET or POST.")),
    }
}

fn render_form(form: &'static str, fields: &[Field], label: &'static str, csrf: &str) -> String {
    html::render(&TestKitForm { form, fields: fields.iter().map(Field::render).collect(), label, csrf })
}
