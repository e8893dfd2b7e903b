//! The planner's form: what was typed, what is wrong with it and at which field, what the API is sent, and the order in
//! which things will happen.

use std::collections::HashMap;

use forewarn_core::{Cause, EventKind, Machine, Name, Plan, Region, Rejection, Target};
use serde_json::{Value, json};

use super::field::{Control, Field, Problems};
use super::preview::{Oracle, Stage};
use super::visitor::Form;
use super::{act, words};
use forewarn_access::digest::digest_of;
use forewarn_api::text::TEXT_CHARS_MAX;
use forewarn_api::{When, find_any_group, find_machine};
use forewarn_api_types::span::{span, span_text};

/// What is in the fields.
#[derive(Clone, Debug)]
pub struct Typed {
    what: String,
    name: String,
    kind: String,
    cause: String,
    at: String,
    notice: String,
    duration: String,
    description: String,
    pub problems: Problems,
    /// Not empty: what will happen was shown for exactly these fields.
    pub preview: Vec<Stage>,
}

/// A plan that can be sent.
pub struct Meant {
    pub body: Value,
    pub target: Target,
    plan: Plan,
}

impl Default for Typed {
    fn default() -> Typed {
        let text = String::new;
        Typed {
            what: "group".into(),
            name: text(),
            kind: "Freeze".into(),
            cause: "HostMaintenance".into(),
            at: text(),
            notice: text(),
            duration: text(),
            description: text(),
            problems: Problems::default(),
            preview: Vec::new(),
        }
    }
}

/// The address of the planner with its first fields filled in.
pub fn prefilled(what: &str, name: &str) -> String {
    format!("/maintenance?what={what}&name={}", act::segment(name))
}

/// How to name a machine in the planner so that it is found again.
pub fn name_of(region: &Region, machine: &Machine) -> String {
    match find_machine(region, &machine.name, None) {
        Ok(found) if found.id == machine.id && !machine.name.contains(SEPARATORS) => machine.name.to_string(),
        Ok(_) | Err(_) => machine.vm_id.to_string(),
    }
}

/// Between several names.
const SEPARATORS: [char; 5] = [',', ' ', '\n', '\r', '\t'];

impl Typed {
    pub fn of_query(query: &HashMap<String, String>) -> Typed {
        let or = |name: &str, default: String| query.get(name).cloned().unwrap_or(default);
        let blank = Typed::default();
        Typed {
            what: or("what", blank.what),
            name: or("name", blank.name),
            kind: or("kind", blank.kind),
            ..Typed::default()
        }
    }

    pub fn of(form: &Form) -> Typed {
        let text = |name: &str| form.text(name).to_owned();
        Typed {
            what: text("what"),
            name: text("name"),
            kind: text("kind"),
            cause: text("cause"),
            at: text("at"),
            notice: text("notice"),
            duration: text("duration"),
            description: text("description"),
            ..Typed::default()
        }
    }

    /// Tells these fields from others: what is started is what was shown.
    pub fn mark(&self) -> String {
        let Typed { what, name, kind, cause, at, notice, duration, description, .. } = self;
        digest_of("plan", &json!([what, name, kind, cause, at, notice, duration, description]).to_string())
    }

    pub fn is_of_one_machine(&self) -> bool {
        self.what == "machine" && self.names().nth(1).is_none()
    }

    /// What it comes to, with what will happen; or what is wrong, at its field.
    pub fn check(&mut self, oracle: &Oracle) -> Option<Meant> {
        let meant = self.meant(oracle.region)?;
        match oracle.order(&meant.target, &meant.plan) {
            Ok(stages) => self.preview = stages,
            Err(rejection) => self.problems.add(self.field_of(&rejection), said(&rejection)),
        }
        self.problems.is_empty().then_some(meant)
    }

    pub fn fields(&self) -> Vec<String> {
        let of = |name, label, value| Field::new(name, label, value, &self.problems);
        let choice = |options: &[(&'static str, &'static str)]| Control::Choice(options.to_vec());
        let whom =
            [("group", "a group, by update domain"), ("host", "a host, all at once"), ("machine", "machines, by name")];
        let kinds = [("Freeze", "Freeze"), ("Reboot", "Reboot"), ("Redeploy", "Redeploy")];
        let causes = [("HostMaintenance", "Host maintenance"), ("LiveMigration", "Live migration")];
        let description = format!("At most {TEXT_CHARS_MAX} characters; the type's own when left out.");
        let fields = [
            of("what", "For", &self.what).as_(choice(&whom)),
            of("name", "Name", &self.name).as_(Control::Named("known")).hint("Several machines: separated by commas."),
            of("kind", "Type", &self.kind).as_(choice(&kinds)),
            of("cause", "Cause", &self.cause).as_(choice(&causes)),
            of("at", "Not before", &self.at).as_(Control::Time).hint("As soon as notice allows when left out."),
            of("notice", "Notice", &self.notice).hint("Such as 30m or 1h; the least of the type when left out."),
            of("duration", "Duration", &self.duration)
                .hint("Such as 9s; -1 when it is not known. The cause's own when left out."),
            of("description", "Description", &self.description).hint(&description),
        ];
        fields.iter().map(Field::html).collect()
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.name.split(SEPARATORS).filter(|name| !name.is_empty())
    }

    fn meant(&mut self, region: &Region) -> Option<Meant> {
        let mut problems = Problems::default();
        let named = problems.take("name", self.target(region));
        let kind = problems.take("kind", self.event_kind());
        let cause = problems.take("cause", self.cause());
        let at = problems.take("at", optional(&self.at, time));
        let notice = problems.take("notice", optional(&self.notice, |text| seconds("The notice", text)));
        let duration = problems.take("duration", optional(&self.duration, duration));
        if self.description.chars().count() > TEXT_CHARS_MAX {
            problems.add("description", format!("The description may have {TEXT_CHARS_MAX} characters."));
        }
        let is_good = problems.is_empty();
        self.problems = problems;
        let ((target, named), kind, cause) = (named?, kind?, cause?);
        let (at, notice, duration) = (at?, notice?, duration?);
        let description = (!self.description.is_empty()).then_some(self.description.as_str());
        let mut body = json!({ "target": named, "type": words::kind(kind), "cause": self.cause });
        let optional = [
            ("at", at.map(|at| json!(at))),
            ("noticeSeconds", notice.map(|secs| json!(secs))),
            ("durationSeconds", duration.map(|secs| json!(secs))),
            ("description", description.map(|text| json!(text))),
        ];
        for (key, value) in optional {
            if let Some(value) = value {
                body[key] = value;
            }
        }
        let plan = Plan {
            kind,
            cause,
            at: at.map(|at| at.0),
            notice: notice.map(std::time::Duration::from_secs),
            duration_secs: duration,
            description: description.map(Name::from),
        };
        is_good.then_some(Meant { body, target, plan })
    }

    /// The target, and how the API names it.
    fn target(&self, region: &Region) -> Result<(Target, Value), String> {
        if self.name.is_empty() {
            return Err("Name what shall be maintained.".into());
        }
        match self.what.as_str() {
            "host" => {
                let host = region.host(&self.name).ok_or_else(|| format!("There is no host '{}'.", self.name))?;
                Ok((Target::Host(host.name.clone()), json!({ "host": self.name })))
            }
            "machine" => self.machines(region),
            _ => {
                let group = find_any_group(region, &self.name).map_err(|error| error.message)?;
                Ok((Target::Group(group.id), json!({ "group": self.name })))
            }
        }
    }

    fn machines(&self, region: &Region) -> Result<(Target, Value), String> {
        let names: Vec<&str> = self.names().collect();
        let machines = names.iter().map(|name| find_machine(region, name, None).map(|machine| machine.id));
        let machines: Result<Vec<_>, _> = machines.collect();
        Ok((Target::Machines(machines.map_err(|error| error.message)?), json!({ "machines": names })))
    }

    fn event_kind(&self) -> Result<EventKind, String> {
        match self.kind.as_str() {
            "Freeze" => Ok(EventKind::Freeze),
            "Reboot" => Ok(EventKind::Reboot),
            "Redeploy" => Ok(EventKind::Redeploy),
            other => Err(format!("Maintenance is a Freeze, a Reboot or a Redeploy, not '{other}'.")),
        }
    }

    fn cause(&self) -> Result<Cause, String> {
        match self.cause.as_str() {
            "HostMaintenance" => Ok(Cause::HostMaintenance),
            "LiveMigration" => Ok(Cause::LiveMigration),
            other => Err(format!("The cause is host maintenance or live migration, not '{other}'.")),
        }
    }

    /// Where a refusal of the rules belongs.
    fn field_of(&self, rejection: &Rejection) -> &'static str {
        let is_of_time = matches!(rejection, Rejection::PlanPast | Rejection::PlanTooFar) && !self.at.is_empty();
        if is_of_time {
            "at"
        } else if matches!(rejection, Rejection::NoticeTooShort { .. } | Rejection::PlanTooFar) {
            "notice"
        } else if *rejection == Rejection::DurationRange {
            "duration"
        } else if *rejection == Rejection::DescriptionTooLong {
            "description"
        } else {
            "name"
        }
    }
}

/// A refusal of the rules, with spans as they are typed here.
fn said(rejection: &Rejection) -> String {
    let text = rejection.to_string();
    if let Rejection::NoticeTooShort { secs_min } = rejection {
        let least = span_text(std::time::Duration::from_secs(*secs_min));
        return text.replacen(&format!("{secs_min} seconds"), &least, 1);
    }
    text
}

/// Nothing typed is nothing said.
pub fn optional<T>(text: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    if text.is_empty() { Ok(None) } else { read(text).map(Some) }
}

/// Whole seconds.
pub fn seconds(what: &str, text: &str) -> Result<u64, String> {
    let read = span(text).map_err(|must| format!("{what} must be {must}."))?;
    if read.subsec_millis() > 0 { Err(format!("{what} is in whole seconds.")) } else { Ok(read.as_secs()) }
}

fn duration(text: &str) -> Result<i64, String> {
    if text == "-1" {
        return Ok(-1);
    }
    seconds("The duration", text).map(|secs| secs as i64)
}

/// What a field for times sends is UTC, with or without seconds.
fn time(text: &str) -> Result<When, String> {
    let candidates = [text.to_owned(), format!("{text}Z"), format!("{text}:00Z")];
    candidates
        .iter()
        .find_map(|text| When::parse(text).ok())
        .ok_or_else(|| format!("'{text}' is not a time. Write it as 2026-03-01T12:00, in UTC."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc_with_or_without_seconds() {
        for text in ["2026-03-01T12:00", "2026-03-01T12:00:00", "2026-03-01T12:00:00Z", "2026-03-01T13:00:00+01:00"] {
            assert_eq!(time(text).unwrap().to_string(), "2026-03-01T12:00:00Z", "{text}");
        }
        assert!(time("tomorrow").unwrap_err().contains("in UTC"));
    }

    #[test]
    fn spans_are_whole_seconds() {
        assert_eq!(seconds("It", "1h30m"), Ok(5400));
        assert!(seconds("It", "1s500ms").unwrap_err().contains("whole seconds"));
        assert!(seconds("It", "soon").unwrap_err().contains("such as 90s"));
        assert_eq!(duration("-1"), Ok(-1));
    }
}
