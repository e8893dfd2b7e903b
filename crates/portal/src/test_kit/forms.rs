//! The forms of the test kit: what was typed, what the API is sent, what is wrong at which field.

use std::collections::HashMap;

use askama::Template;
use serde_json::{Value, json};

use crate::act::{Request, number};
use crate::field::{self, Control, Field, Problems};
use crate::plan::{optional, seconds};
use crate::sign_in::rendered;
use crate::visitor::Form;
use forewarn_api::CallError;
use forewarn_api::scenario::{Scenario, find_shipped};
use forewarn_api_types::span::span;
use forewarn_metadata::faults::{DELAY_MAX, FaultError};

/// What goes wrong, as the API and as people call it.
const KINDS: [(&str, &str); 9] = [
    ("Status", "a status"),
    ("Delay", "a delay"),
    ("Reset", "a closed connection"),
    ("Truncated", "half an answer"),
    ("Malformed", "broken JSON"),
    ("SlowFirstCall", "a slow first call"),
    ("IncarnationRestart", "an incarnation that begins again"),
    ("EventsVanish", "no events"),
    ("UnknownType", "events of an unknown type"),
];

/// What is in the fields of all of them.
#[derive(Clone, Debug)]
pub struct Typed {
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
    problems: Problems,
}

/// The form of a scenario that was run.
#[derive(Clone, Debug)]
pub struct LastRun {
    text: String,
    subject: String,
    handler: String,
}

#[derive(Template)]
#[template(path = "test_kit_form.html")]
struct Shown<'a> {
    form: &'static str,
    fields: Vec<String>,
    label: &'static str,
    csrf: &'a str,
}

impl Default for Typed {
    fn default() -> Typed {
        let text = String::new;
        Typed {
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
            problems: Problems::default(),
        }
    }
}

impl Typed {
    /// With a scenario that ships, to be changed.
    pub fn of_query(query: &HashMap<String, String>) -> Typed {
        let found = query.get("scenario").and_then(|name| find_shipped(name));
        Typed { text: found.map_or_else(String::new, |found| found.text.to_owned()), ..Typed::default() }
    }

    /// The fields of the form that was sent; the others are as they begin.
    pub fn of(form: &Form) -> Typed {
        let text = |name: &str| form.text(name).to_owned();
        let blank = Typed::default();
        match form.text("form") {
            "scenario" => {
                Typed { text: form.lines("text"), subject: text("subject"), handler: text("handler"), ..blank }
            }
            "advance" => Typed { by: text("by"), ..blank },
            _ => Typed {
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

    /// What comes of a form, unless something is wrong with it.
    pub fn request(&mut self, form: &str) -> Option<Request> {
        let mut problems = Problems::default();
        let request = match form {
            "scenario" => self.run(&mut problems),
            "advance" => self.advance(&mut problems),
            _ => self.fault(&mut problems),
        };
        let is_good = problems.is_empty();
        self.problems = problems;
        request.filter(|_| is_good)
    }

    /// The scenario that was run last in the empty field, to be changed and run again.
    pub fn or_last(&self, last: Option<LastRun>) -> Typed {
        match last.filter(|_| self.text.is_empty() && self.problems.is_empty()) {
            Some(LastRun { text, subject, handler }) => Typed { text, subject, handler, ..self.clone() },
            None => self.clone(),
        }
    }

    /// What was run.
    pub fn ran(&self) -> LastRun {
        LastRun { text: self.text.clone(), subject: self.subject.clone(), handler: self.handler.clone() }
    }

    /// A refusal of the API, at the field that it is about.
    pub fn refused(&mut self, form: &str, refused: &CallError) {
        let of_machine = ["MachineNotFound", "AmbiguousName"].contains(&refused.code.as_str());
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
            self.field("text", "File", &self.text)
                .as_(Control::Text)
                .hint("TOML, as in docs/scenarios.md. Begin with one that ships: Edit."),
            self.field("subject", "Machine", &self.subject)
                .hint("Takes the place of the file's subject; nothing: as the file says."),
            self.field("handler", "A handler asks for its document and is waited for", &self.handler)
                .as_(Control::Tick),
        ];
        shown("scenario", &fields, "Run it", csrf)
    }

    pub fn advance_form(&self, csrf: &str) -> String {
        shown("advance", &[self.field("by", "Advance by", &self.by).hint("Such as 90s, 15m, 1h30m.")], "Advance", csrf)
    }

    pub fn fault_form(&self, csrf: &str) -> String {
        let statuses = vec![
            ("429", "429 Too many requests"),
            ("410", "410 Gone"),
            ("500", "500 Internal server error"),
            ("503", "503 Service unavailable"),
        ];
        let methods = vec![("", "GET and POST"), ("GET", "GET alone"), ("POST", "POST alone")];
        let fields = [
            self.field("kind", "Answer with", &self.kind).as_(Control::Choice(KINDS.to_vec())),
            self.field("status", "Status", &self.status).as_(Control::Choice(statuses)).only_for("Status"),
            self.field("retry_after", "Retry-After", &self.retry_after)
                .hint("With 429 and 503; not looked at otherwise.")
                .only_for("Status"),
            self.field("delay", "Delay", &self.delay)
                .hint("Such as 500ms or 5s, at most 300s.")
                .only_for("Delay SlowFirstCall"),
            self.field("machine", "Machine", &self.machine).hint("Nothing: all machines."),
            self.field("count", "Requests", &self.count)
                .as_(Control::Number)
                .hint("So many meet it; nothing: until the time is over, or it is cleared."),
            self.field("lasts", "For", &self.lasts).hint("Such as 5m, on the server's clock."),
            self.field("percent", "Share (%)", &self.percent)
                .as_(Control::Number)
                .hint("So many of a hundred requests, evenly spread; nothing: all."),
            self.field("method", "Method", &self.method).as_(Control::Choice(methods)),
            self.field("documents", "Only requests for the document", &self.documents).as_(Control::Tick),
        ];
        shown("fault", &fields, "Add fault", csrf)
    }

    fn field<'a>(&'a self, name: &'static str, label: &'a str, value: &'a str) -> Field<'a> {
        Field::new(name, label, value, &self.problems)
    }

    fn run(&self, problems: &mut Problems) -> Option<Request> {
        let parsed = Scenario::parse(&self.text).map_err(|problem| {
            format!("Line {}, column {}: {}.", problem.line, problem.column, problem.message.trim_end_matches('.'))
        });
        let is_read = problems.take("text", parsed).is_some();
        let is_named = problems.take("subject", optional(&self.subject, field::name)).is_some();
        if !(is_read && is_named) {
            return None;
        }
        let mut body = json!({ "text": self.text, "name": "own", "handler": self.handler == "on" });
        if !self.subject.is_empty() {
            body["subject"] = json!(self.subject);
        }
        Some(Request::post("/scenario-runs", body))
    }

    fn advance(&self, problems: &mut Problems) -> Option<Request> {
        let secs = problems.take("by", seconds("The time to advance", &self.by))?;
        Some(Request::post("/clock/advance", json!({ "seconds": secs })))
    }

    fn fault(&self, problems: &mut Problems) -> Option<Request> {
        let kind = self.fault_kind(problems);
        let whole = |text: &str, label: &'static str| optional(text, |text| number(text, label));
        let mut fault = json!({ "documentsOnly": self.documents == "on" });
        put(&mut fault, "count", problems.take("count", whole(&self.count, "Requests")).flatten());
        let lasts = problems.take("lasts", optional(&self.lasts, |text| seconds("The time", text)));
        put(&mut fault, "forSeconds", lasts.flatten());
        let percent = problems.take("percent", whole(&self.percent, "The share")).flatten();
        if percent.is_some_and(|percent| !(1..=100).contains(&percent)) {
            problems.add("percent", "The share of requests is from 1 to 100 percent.");
        }
        put(&mut fault, "percent", percent);
        put(&mut fault, "method", Some(&self.method).filter(|method| !method.is_empty()));
        put(&mut fault, "machine", Some(&self.machine).filter(|machine| !machine.is_empty()));
        fault["fault"] = kind?;
        Some(Request::post("/faults", fault))
    }

    /// With the fields that the kind has; the others are not looked at.
    fn fault_kind(&self, problems: &mut Problems) -> Option<Value> {
        match self.kind.as_str() {
            "Status" => {
                let status = problems.take("status", number(&self.status, "The status"))?;
                let typed = if ["429", "503"].contains(&self.status.as_str()) { self.retry_after.as_str() } else { "" };
                let retry = problems.take("retry_after", optional(typed, |text| seconds("Retry-After", text)))?;
                let mut kind = json!({ "kind": "Status", "status": status });
                put(&mut kind, "retryAfterSeconds", retry);
                Some(kind)
            }
            word @ ("Delay" | "SlowFirstCall") => {
                let delay = span(&self.delay).map_err(|must| format!("The delay must be {must}."));
                let delay = delay.and_then(|delay| match delay <= DELAY_MAX {
                    true => Ok(delay),
                    false => Err(FaultError::DelayRange.to_string()),
                });
                Some(json!({ "kind": word, "delaySeconds": problems.take("delay", delay)?.as_secs_f64() }))
            }
            word if KINDS.iter().any(|(known, _)| *known == word) => Some(json!({ "kind": word })),
            other => {
                problems.add("kind", format!("No fault is called '{other}'. Choose one of the list."));
                None
            }
        }
    }
}

fn put(object: &mut Value, key: &str, value: Option<impl serde::Serialize>) {
    if let Some(value) = value {
        object[key] = json!(value);
    }
}

fn shown(form: &'static str, fields: &[Field], label: &'static str, csrf: &str) -> String {
    rendered(&Shown { form, fields: fields.iter().map(Field::html).collect(), label, csrf }).0
}
