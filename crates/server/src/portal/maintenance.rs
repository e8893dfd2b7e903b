//! Planning maintenance: for a host, a group or a machine; what will happen in which order, said before; what is under way,
//! and stopping it.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use forewarn_core::{EventKind, Machine, Operation, OperationState, Region, Request, Target};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::act::after;
use super::page::{self, Drawn, Fragment, Look, Panel, Scene};
use super::visitor::Form;
use super::{foretell, sign_in, words};
use crate::api::{Refused, Service};
use crate::identity::Role;
use crate::span::{span, span_text};

const HERE: &str = "/maintenance";

/// Operations on the page, newest first.
const OPERATIONS_MAX: usize = 50;

/// Names that a field offers.
const OFFERED_MAX: usize = 500;

/// What is in the fields.
#[derive(Clone)]
pub struct Typed {
    what: String,
    name: String,
    kind: String,
    notice: String,
    duration: String,
    description: String,
    problem: String,
    field: &'static str,
    preview: Vec<String>,
}

impl Default for Typed {
    fn default() -> Typed {
        let text = String::new;
        Typed {
            what: "group".into(),
            name: text(),
            kind: "Freeze".into(),
            notice: text(),
            duration: text(),
            description: text(),
            problem: text(),
            field: "",
            preview: Vec::new(),
        }
    }
}

#[derive(Template)]
#[template(path = "maintenance.html")]
struct Planner<'a> {
    typed: &'a Typed,
    csrf: &'a str,
    allowed: bool,
    hosts: Vec<String>,
    groups: Vec<String>,
}

#[derive(Template)]
#[template(path = "operation.html")]
struct Progress<'a> {
    id: String,
    sort: String,
    what: String,
    asked: String,
    state: String,
    done: usize,
    parts: Vec<(String, String)>,
    running: bool,
    allowed: bool,
    csrf: &'a str,
}

pub fn draw(scene: &Scene, typed: &Typed) -> Drawn {
    let region = scene.region();
    let planner = Planner {
        typed,
        csrf: &scene.visitor.session.csrf,
        allowed: scene.visitor.may(Role::Operator),
        hosts: region.hosts().take(OFFERED_MAX).map(|host| host.name.to_string()).collect(),
        groups: region.groups().take(OFFERED_MAX).map(|group| group.name.to_string()).collect(),
    };
    let plan = Panel::new("plan", "Plan", Vec::new()).below(sign_in::rendered(&planner).0);
    let mut operations: Vec<_> =
        region.operations().filter(|one| matches!(one.request, Request::Maintain { .. })).collect();
    operations.sort_unstable_by_key(|operation| std::cmp::Reverse((operation.asked, operation.id)));
    let rows = operations.into_iter().take(OPERATIONS_MAX).map(|operation| progress(scene, operation)).collect();
    let under_way = Panel::new("operations", "Under way and just over", rows).or("No maintenance is under way.");
    Drawn { title: "Maintenance".into(), lead: String::new(), panels: vec![plan, under_way] }
}

fn progress(scene: &Scene, operation: &Operation) -> Fragment {
    let region = scene.region();
    let (what, state) = (what(region, operation), state(operation));
    let parts: Vec<(String, String)> = operation
        .parts
        .iter()
        .map(|part| {
            let live = region.event(part.event).map_or("over", |event| words::status(event));
            let word = part.outcome.as_ref().map_or(live, words::outcome_word);
            (words::event_name(part.event), word.to_owned())
        })
        .collect();
    let sort = format!("{:020}-{}", i64::MAX - operation.asked.0, operation.id);
    let shown = Progress {
        id: operation.id.to_string(),
        sort: sort.clone(),
        what,
        asked: format!("{} {}", words::escaped(&operation.by), words::time(operation.asked)),
        state,
        done: operation.parts.iter().filter(|part| part.outcome.is_some()).count(),
        parts,
        running: operation.state == OperationState::Running,
        allowed: scene.visitor.may(Role::Operator),
        csrf: &scene.visitor.session.csrf,
    };
    Fragment::of(format!("operation-{}", operation.id), sort, &shown)
}

fn what(region: &Region, operation: &Operation) -> String {
    let Request::Maintain { target, plan } = &operation.request else { return String::new() };
    let target = match target {
        Target::Machines(ids) => {
            let name = |id| region.machine(id).map_or("a machine that is gone".into(), |it| it.name.to_string());
            words::few(&ids.iter().map(|id| name(*id)).collect::<Vec<_>>())
        }
        Target::Host(host) => format!("host {host}"),
        Target::Group(id) => {
            region.group(*id).map_or_else(|| "a group that is gone".into(), |group| group.name.to_string())
        }
    };
    format!("{} of {target}", words::kind(plan.kind))
}

fn state(operation: &Operation) -> String {
    use forewarn_core::OperationResult;
    match &operation.state {
        OperationState::Running => match &operation.rollout {
            Some(rollout) => match rollout.resume {
                Some(at) => format!("pause until {}, then update domain {}", words::time(at), rollout.next_domain),
                None => format!("under way, next is update domain {}", rollout.next_domain),
            },
            None => "under way".into(),
        },
        OperationState::Ended { result: OperationResult::Succeeded, .. } => "done".into(),
        OperationState::Ended { result: OperationResult::Failed(outcome), .. } => {
            format!("failed: {}", words::outcome_word(outcome).to_lowercase())
        }
        OperationState::Ended { result: OperationResult::Canceled { by }, .. } => {
            format!("stopped by {}", words::escaped(by))
        }
    }
}

pub async fn submit(State(service): State<Service>, form: Form) -> Response {
    let scene = Scene::now(&service, &form.visitor, Look::First);
    let text = |name: &str| form.text(name).to_owned();
    let mut typed = Typed {
        what: text("what"),
        name: text("name"),
        kind: text("kind"),
        notice: text("notice"),
        duration: text("duration"),
        description: text("description"),
        ..Typed::default()
    };
    let body = match typed.body(scene.region()) {
        Ok(body) => body,
        Err((field, problem)) => {
            (typed.field, typed.problem) = (field, problem);
            return (StatusCode::UNPROCESSABLE_ENTITY, page::framed(&scene, HERE, &draw(&scene, &typed), ""))
                .into_response();
        }
    };
    if form.text("step") != "start" {
        typed.preview = preview(&scene, &typed);
        return page::framed(&scene, HERE, &draw(&scene, &typed), "").into_response();
    }
    match service.call(form.visitor.principal(), Method::POST, "/maintenance", Some(body)).await {
        Ok(operation) if typed.what == "machine" => Redirect::to(&after(&operation, HERE)).into_response(),
        Ok(_) => Redirect::to(HERE).into_response(),
        Err(Refused { status, message }) => {
            (status, page::framed(&scene, HERE, &draw(&scene, &typed), &message)).into_response()
        }
    }
}

impl Typed {
    fn event_kind(&self) -> EventKind {
        match self.kind.as_str() {
            "Reboot" => EventKind::Reboot,
            "Redeploy" => EventKind::Redeploy,
            _ => EventKind::Freeze,
        }
    }

    /// What the API is sent, or which field is wrong.
    fn body(&self, region: &Region) -> Result<Value, (&'static str, String)> {
        if self.name.is_empty() || self.members(region).is_empty() {
            let problem = if self.name.is_empty() {
                "Name what shall be maintained.".into()
            } else {
                format!("There is no {} '{}' with machines.", self.what, self.name)
            };
            return Err(("name", problem));
        }
        let mut body = json!({ "target": { self.what.as_str(): self.name }, "type": words::kind(self.event_kind()) });
        if !self.notice.is_empty() {
            let notice = span(&self.notice).map_err(|must| ("notice", format!("Notice must be {must}.")))?;
            body["noticeSeconds"] = json!(notice.as_secs());
        }
        if !self.duration.is_empty() {
            let duration =
                span(&self.duration).map_err(|must| ("duration", format!("The duration must be {must}.")))?;
            body["durationSeconds"] = json!(duration.as_secs());
        }
        if !self.description.is_empty() {
            body["description"] = json!(self.description);
        }
        Ok(body)
    }

    fn members<'r>(&self, region: &'r Region) -> Vec<&'r Machine> {
        match self.what.as_str() {
            "host" => region.machines_on(&self.name.as_str().into()).map(|machine| &**machine).collect(),
            "machine" => match region.machine_by_name(&self.name, None) {
                forewarn_core::Found::One(id) => region.machine(id).map(|machine| &**machine).into_iter().collect(),
                forewarn_core::Found::Many(_) | forewarn_core::Found::Nothing => Vec::new(),
            },
            _ => region
                .groups_named(&self.name)
                .next()
                .map_or_else(Vec::new, |group| region.group_members(group).map(|machine| &**machine).collect()),
        }
    }
}

/// The order by update domain, in sentences of HTML.
fn preview(scene: &Scene, typed: &Typed) -> Vec<String> {
    let region = scene.region();
    let least = foretell::maintenance_notice(region, typed.event_kind());
    let notice = span(&typed.notice).map_or(least, |notice| notice.max(least));
    let at = words::time((scene.now + notice).round_up_to_second());
    let mut domains: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for machine in typed.members(region) {
        let domain = if typed.what == "group" { machine.update_domain } else { 0 };
        domains.entry(domain).or_default().push(words::escaped(&machine.name));
    }
    let pause = span_text(region.settings().scaled(region.settings().update_domain_pause));
    let mut lines = Vec::new();
    for (number, (domain, names)) in domains.into_iter().enumerate() {
        let names = words::few(&names);
        lines.push(match (typed.what.as_str(), number) {
            ("host", _) => format!("{names}: together, not before {at}, earlier when all are approved."),
            ("machine", _) => format!("{names}: not before {at}, earlier when approved."),
            (_, 0) => format!("Update domain {domain}: {names}, not before {at}, earlier when approved."),
            (_, _) => {
                format!("Update domain {domain}: {names}, {pause} after the one before has ended, and its own notice.")
            }
        });
    }
    lines
}
