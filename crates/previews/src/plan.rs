//! The form of the maintenance planner: its fields, their errors, the request to the API, and the preview.

use std::collections::HashMap;

use forewarn_core::{Machine, Plan, Region, Rejection, Target};
use forewarn_widgets::address;
use forewarn_widgets::field::{Control, Field, FieldErrors, parse_optional, parse_seconds, parse_time};
use serde_json::json;

use super::preview::{PlanStep, Preview};
use forewarn_access::digest::digest_of;
use forewarn_api::{build_plan, find_any_group, find_machine};
use forewarn_api_types::span::format_span;
use forewarn_api_types::{MaintenanceCause, MaintenanceTarget, MaintenanceType, NewMaintenance, TEXT_CHARS_MAX, Text};

/// The contents of the fields, with their errors.
#[derive(Clone, Debug)]
pub struct PlanFields {
    target: String,
    name: String,
    kind: String,
    cause: String,
    at: String,
    notice: String,
    duration: String,
    description: String,
    pub problems: FieldErrors,
    /// The steps of the plan; empty before the preview.
    pub preview: Vec<PlanStep>,
}

/// A plan without errors.
pub struct CheckedPlan {
    pub body: NewMaintenance,
    pub target: Target,
    plan: Plan,
}

impl Default for PlanFields {
    fn default() -> PlanFields {
        let text = String::new;
        PlanFields {
            target: "group".into(),
            name: text(),
            kind: "Freeze".into(),
            cause: "HostMaintenance".into(),
            at: text(),
            notice: text(),
            duration: text(),
            description: text(),
            problems: FieldErrors::default(),
            preview: Vec::new(),
        }
    }
}

/// The address of the planner with a target filled in.
pub fn address_with(target: &str, name: &str) -> String {
    format!("/maintenance?what={target}&name={}", address::encode_segment(name))
}

/// A name for a machine that the planner resolves to this machine.
pub fn target_name(region: &Region, machine: &Machine) -> String {
    match find_machine(region, &machine.name, None) {
        Ok(found) if found.id == machine.id && !machine.name.contains(SEPARATORS) => machine.name.to_string(),
        Ok(_) | Err(_) => machine.vm_id.to_string(),
    }
}

/// Separators of a list of names.
const SEPARATORS: [char; 5] = [',', ' ', '\n', '\r', '\t'];

impl PlanFields {
    pub fn from_query(query: &HashMap<String, String>) -> PlanFields {
        let or = |name: &str, default: String| query.get(name).cloned().unwrap_or(default);
        let blank = PlanFields::default();
        PlanFields {
            target: or("what", blank.target),
            name: or("name", blank.name),
            kind: or("kind", blank.kind),
            description: or("description", blank.description),
            ..PlanFields::default()
        }
    }

    /// `read` gives the contents of the field with this name.
    pub fn read<'f>(read: impl Fn(&str) -> &'f str) -> PlanFields {
        let text = |name: &str| read(name).to_owned();
        PlanFields {
            target: text("what"),
            name: text("name"),
            kind: text("kind"),
            cause: text("cause"),
            at: text("at"),
            notice: text("notice"),
            duration: text("duration"),
            description: text("description"),
            ..PlanFields::default()
        }
    }

    /// Identifies the contents of the fields, so that only a plan that was previewed is scheduled.
    pub fn digest(&self) -> String {
        let PlanFields { target, name, kind, cause, at, notice, duration, description, .. } = self;
        digest_of("plan", &json!([target, name, kind, cause, at, notice, duration, description]).to_string())
    }

    /// Checks all fields and computes the preview. Returns `None` if a field has an error.
    pub fn check(&mut self, preview: &Preview) -> Option<CheckedPlan> {
        let checked = self.parse(preview.region)?;
        match preview.plan_steps(&checked.target, &checked.plan) {
            Ok(steps) => self.preview = steps,
            Err(rejection) => self.problems.add(self.field_of(&rejection), describe_rejection(&rejection)),
        }
        self.problems.is_empty().then_some(checked)
    }

    /// The HTML of the fields.
    pub fn render(&self) -> Vec<String> {
        let of = |name, label, value| Field::new(name, label, value, &self.problems);
        let choice = |options: &[(&'static str, &'static str)]| Control::Choice(options.to_vec());
        let targets = [
            ("group", "Group, one update domain at a time"),
            ("host", "Host, all machines together"),
            ("machine", "Machines, by name"),
        ];
        let kinds = [("Freeze", "Freeze"), ("Reboot", "Reboot"), ("Redeploy", "Redeploy")];
        let causes = [("HostMaintenance", "Host maintenance"), ("LiveMigration", "Live migration")];
        let description = format!("At most {TEXT_CHARS_MAX} characters. Default: the description of the type.");
        let fields = [
            of("what", "Target", &self.target).with_control(choice(&targets)),
            of("name", "Name", &self.name)
                .with_control(Control::Suggested("targets"))
                .with_hint("Separate several machines with commas."),
            of("kind", "Type", &self.kind).with_control(choice(&kinds)),
            of("cause", "Cause", &self.cause).with_control(choice(&causes)),
            of("at", "Not before", &self.at)
                .with_control(Control::Time)
                .with_hint("Default: as soon as the notice allows."),
            of("notice", "Notice", &self.notice).with_hint("For example 30m or 1h. Default: the minimum for the type."),
            of("duration", "Duration", &self.duration)
                .with_hint("For example 9s, or -1 if unknown. Default: the duration for the cause."),
            of("description", "Description", &self.description).with_hint(&description),
        ];
        fields.iter().map(Field::render).collect()
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.name.split(SEPARATORS).filter(|name| !name.is_empty())
    }

    fn parse(&mut self, region: &Region) -> Option<CheckedPlan> {
        let mut problems = FieldErrors::default();
        let named = problems.take("name", self.parse_target(region));
        let kind = problems.take("kind", self.parse_kind());
        let cause = problems.take("cause", self.parse_cause());
        let at = problems.take("at", parse_optional(&self.at, parse_time));
        let notice = problems.take("notice", parse_optional(&self.notice, |text| parse_seconds("The notice", text)));
        let duration = problems.take("duration", parse_optional(&self.duration, parse_duration));
        if self.description.chars().count() > TEXT_CHARS_MAX {
            problems.add("description", format!("The description is longer than {TEXT_CHARS_MAX} characters."));
        }
        let is_good = problems.is_empty();
        self.problems = problems;
        let ((target, named), kind, cause) = (named?, kind?, cause?);
        let (at, notice, duration) = (at?, notice?, duration?);
        let body = NewMaintenance {
            cause: Some(cause),
            at,
            notice_seconds: notice,
            duration_seconds: duration,
            description: (!self.description.is_empty()).then(|| Text(self.description.clone())),
            ..NewMaintenance::of(named, kind)
        };
        let plan = build_plan(body.clone());
        is_good.then_some(CheckedPlan { body, target, plan })
    }

    /// The target, and its form in the API.
    fn parse_target(&self, region: &Region) -> Result<(Target, MaintenanceTarget), String> {
        if self.name.is_empty() {
            return Err("Enter a name.".into());
        }
        match self.target.as_str() {
            "host" => {
                let host = region.host(&self.name).ok_or_else(|| format!("There is no host '{}'.", self.name))?;
                Ok((Target::Host(host.name.clone()), MaintenanceTarget::Host(self.name.clone())))
            }
            "machine" => self.parse_machines(region),
            _ => {
                let group = find_any_group(region, &self.name).map_err(|error| error.message)?;
                Ok((Target::Group(group.id), MaintenanceTarget::Group(self.name.clone())))
            }
        }
    }

    fn parse_machines(&self, region: &Region) -> Result<(Target, MaintenanceTarget), String> {
        let names: Vec<&str> = self.names().collect();
        let machines = names.iter().map(|name| find_machine(region, name, None).map(|machine| machine.id));
        let machines: Result<Vec<_>, _> = machines.collect();
        Ok((
            Target::Machines(machines.map_err(|error| error.message)?),
            MaintenanceTarget::Machines(names.into_iter().map(str::to_owned).collect()),
        ))
    }

    fn parse_kind(&self) -> Result<MaintenanceType, String> {
        MaintenanceType::parse(&self.kind)
            .ok_or_else(|| format!("Invalid type '{}'. Select Freeze, Reboot or Redeploy.", self.kind))
    }

    fn parse_cause(&self) -> Result<MaintenanceCause, String> {
        MaintenanceCause::parse(&self.cause)
            .ok_or_else(|| format!("Invalid cause '{}'. Select host maintenance or live migration.", self.cause))
    }

    /// The field that a rejection is about.
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

/// The message of a rejection, with time spans in the format of this form.
fn describe_rejection(rejection: &Rejection) -> String {
    let text = rejection.to_string();
    if let Rejection::NoticeTooShort { secs_min } = rejection {
        let notice_min = format_span(std::time::Duration::from_secs(*secs_min));
        return text.replacen(&format!("{secs_min} seconds"), &notice_min, 1);
    }
    text
}

fn parse_duration(text: &str) -> Result<i64, String> {
    if text == "-1" {
        return Ok(-1);
    }
    parse_seconds("The duration", text).map(|secs| secs as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_seconds_or_unknown() {
        assert_eq!(parse_duration("90s"), Ok(90));
        assert_eq!(parse_duration("-1"), Ok(-1));
    }
}
