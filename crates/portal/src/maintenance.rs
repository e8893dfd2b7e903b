//! Maintenance: the planner, what is under way update domain by update domain, and stopping it.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use forewarn_core::{Event, Machine, Operation, OperationResult, OperationState, Region, Request, Target};
use http::StatusCode;

use super::Portal;
use super::act::{self, after};
use super::action::{Button, Tone};
use super::page::{self, Drawn, Fragment, Look, Panel, Scene};
use super::plan::Typed;
use super::preview::{Oracle, Stage, machines_of};
use super::visitor::Form;
use super::{sign_in, words};
use forewarn_access::Role;
use forewarn_api::CallError;

const HERE: &str = "/maintenance";

/// Operations on the page, newest first.
const OPERATIONS_MAX: usize = 50;

/// Names that a field offers.
const OFFERED_MAX: usize = 500;

#[derive(Template)]
#[template(path = "maintenance.html")]
struct Planner<'a> {
    fields: Vec<String>,
    stages: &'a [Stage],
    mark: String,
    csrf: &'a str,
    allowed: bool,
    offered: Vec<String>,
}

#[derive(Template)]
#[template(path = "operation.html")]
struct Progress {
    id: String,
    sort: String,
    what: String,
    asked: String,
    state: String,
    rows: Vec<Row>,
    /// HTML.
    stop: String,
}

/// An event of an operation, or an update domain that has not had its turn.
struct Row {
    domain: u32,
    machines: String,
    /// HTML.
    state: String,
}

pub fn draw(scene: &Scene, typed: &Typed) -> Drawn {
    let operations = scene.region().operations().filter(|one| matches!(one.request, Request::Maintain { .. }));
    let under_way = operations_panel(scene, "Under way and just over", operations).or("No maintenance is under way.");
    Drawn { title: "Maintenance".into(), lead: String::new(), panels: vec![planner(scene, typed), under_way] }
}

fn planner(scene: &Scene, typed: &Typed) -> Panel {
    let region = scene.region();
    let groups = region.groups().map(|group| group.name.to_string());
    let hosts = region.hosts().map(|host| host.name.to_string());
    let machines = region.machines().map(|machine| machine.name.to_string());
    let planner = Planner {
        fields: typed.fields(),
        stages: &typed.preview,
        mark: typed.mark(),
        csrf: &scene.visitor.session.csrf,
        allowed: scene.visitor.may(Role::Operator),
        offered: groups.take(OFFERED_MAX).chain(hosts.take(OFFERED_MAX)).chain(machines.take(OFFERED_MAX)).collect(),
    };
    // Above the list and not in it: a form is not redrawn under somebody's fingers.
    Panel::new("plan", "Plan", Vec::new()).below(sign_in::rendered(&planner).0)
}

/// These operations, the newest first, each with its progress.
pub fn operations_panel<'r>(scene: &Scene, title: &str, operations: impl Iterator<Item = &'r Arc<Operation>>) -> Panel {
    let mut operations: Vec<_> = operations.collect();
    operations.sort_unstable_by_key(|operation| std::cmp::Reverse((operation.asked, operation.id)));
    let rows = operations.into_iter().take(OPERATIONS_MAX).map(|operation| progress(scene, operation)).collect();
    Panel::new("operations", title, rows)
}

fn progress(scene: &Scene, operation: &Arc<Operation>) -> Fragment {
    let region = scene.region();
    let id = format!("operation-{}", operation.id);
    let sort = format!("{:020}-{}", i64::MAX - operation.asked.0, operation.id);
    let stop = match operation.state {
        OperationState::Running => {
            let button = Button::new(
                "cancel-operation",
                "Stop",
                Oracle::of(scene).stop(operation),
                Role::Operator,
                Tone::Danger,
            );
            button.html(scene, (&format!("stop-{}", operation.id), ""), &operation.id.to_string(), HERE)
        }
        OperationState::Ended { .. } => String::new(),
    };
    let mut rows = rows(region, operation);
    let all = rows.len();
    rows.extend(left_alone(region, operation));
    let shown = Progress {
        id: operation.id.to_string(),
        sort: sort.clone(),
        what: what(region, operation),
        asked: format!("{} {}", words::escaped(&operation.by), words::time(operation.asked)),
        state: state(operation, all),
        rows,
        stop,
    };
    Fragment::of(id, sort, &shown)
}

/// What was visited, then what is still to come.
fn rows(region: &Region, operation: &Operation) -> Vec<Row> {
    let visited = operation.parts.iter().map(|part| {
        let event = region.event(part.event);
        let live = event.map_or("over", |event| words::status(event));
        let word = part.outcome.as_ref().map_or(live, words::outcome_word);
        let count = event.filter(|event| event.status == forewarn_core::Status::Scheduled);
        let count = count.map_or_else(String::new, |event| {
            format!(r#" <span class="count" data-until="{}"></span>"#, event.not_before.0)
        });
        Row {
            domain: event.map_or(0, |event| domain_of(region, event)),
            machines: event.map_or_else(String::new, |event| words::resources(region, &event.resources)),
            state: format!(r#"<a class="chip" href="/events/{}">{word}</a>{count}"#, words::event_name(part.event)),
        }
    });
    visited.chain(ahead(region, operation)).collect()
}

fn domain_of(region: &Region, event: &Event) -> u32 {
    let machine = event.resources.iter().find_map(|resource| region.machine(resource.machine));
    machine.map_or(0, |machine| machine.update_domain)
}

fn ahead(region: &Region, operation: &Operation) -> Vec<Row> {
    let (Some(rollout), Request::Maintain { target, .. }) = (&operation.rollout, &operation.request) else {
        return Vec::new();
    };
    rows_from(region, target, rollout.next_domain, |domain| match rollout.resume {
        Some(at) if domain == rollout.next_domain => format!("after the pause, {}", words::time(at)),
        Some(_) | None => "waits its turn".into(),
    })
}

/// Of a roll-out that was stopped: the update domains behind the last one that was visited.
fn left_alone(region: &Region, operation: &Operation) -> Vec<Row> {
    let target = match &operation.request {
        Request::Maintain { target: target @ (Target::Group(_) | Target::Machines(_)), .. } => target,
        Request::Maintain { target: Target::Host(_), .. }
        | Request::Fail { .. }
        | Request::Restart { .. }
        | Request::Redeploy { .. }
        | Request::PerformMaintenance { .. }
        | Request::Evict { .. }
        | Request::Delete { .. } => return Vec::new(),
    };
    // Events that are forgotten do not say where they were.
    let visited: Option<Vec<&Arc<Event>>> = operation.parts.iter().map(|part| region.event(part.event)).collect();
    let last = visited.into_iter().flatten().map(|event| domain_of(region, event)).max();
    match last.filter(|_| operation.canceled.is_some()) {
        Some(last) => rows_from(region, target, last + 1, |_| "left alone".into()),
        None => Vec::new(),
    }
}

/// The update domains of a target from this one on.
fn rows_from(region: &Region, target: &Target, first: u32, state: impl Fn(u32) -> String) -> Vec<Row> {
    let mut domains: BTreeMap<u32, Vec<&Machine>> = BTreeMap::new();
    for machine in machines_of(region, target).filter(|machine| machine.update_domain >= first) {
        domains.entry(machine.update_domain).or_default().push(machine);
    }
    let row = |(domain, machines): (u32, Vec<&Machine>)| Row {
        domain,
        machines: words::few_of(machines.iter().map(|machine| words::escaped(&machine.name))),
        state: state(domain),
    };
    domains.into_iter().map(row).collect()
}

fn what(region: &Region, operation: &Operation) -> String {
    let (kind, target) = match &operation.request {
        Request::Maintain { target, plan } => (words::kind(plan.kind), target),
        Request::Fail { target, .. } => ("Hardware failure", target),
        Request::Restart { .. }
        | Request::Redeploy { .. }
        | Request::PerformMaintenance { .. }
        | Request::Evict { .. }
        | Request::Delete { .. } => return String::new(),
    };
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
    format!("{kind} of {target}")
}

/// `all`: what is still to come included.
fn state(operation: &Operation, all: usize) -> String {
    match &operation.state {
        OperationState::Running => {
            let over = operation.parts.iter().filter(|part| part.outcome.is_some()).count();
            match operation.rollout.as_ref().and_then(|rollout| rollout.resume) {
                Some(at) => format!("pause until {}", words::time(at)),
                None => format!("under way, {over} of {all} over"),
            }
        }
        OperationState::Ended { result: OperationResult::Succeeded, .. } => "done".into(),
        OperationState::Ended { result: OperationResult::Failed(outcome), .. } => {
            format!("failed: {}", words::outcome_word(outcome).to_lowercase())
        }
        OperationState::Ended { result: OperationResult::Canceled { by }, .. } => {
            format!("stopped by {}", words::escaped(by))
        }
    }
}

pub async fn submit(State(service): State<Portal>, form: Form) -> Response {
    let scene = Scene::now(&service, &form.visitor, Look::First);
    let mut typed = Typed::of(&form);
    let Some(meant) = typed.check(&Oracle::of(&scene)) else {
        typed.preview.clear();
        return (StatusCode::UNPROCESSABLE_ENTITY, page::framed(&scene, HERE, &draw(&scene, &typed), ""))
            .into_response();
    };
    // What is started is what was shown: fields that were changed since are shown again first.
    if form.text("step") != "start" || form.text("shown") != typed.mark() {
        return page::framed(&scene, HERE, &draw(&scene, &typed), "").into_response();
    }
    match act::Request::post("/maintenance", meant.body).send(&service, &form.visitor).await {
        Ok(operation) if typed.is_of_one_machine() => Redirect::to(&after(&operation, HERE)).into_response(),
        Ok(_) => Redirect::to(HERE).into_response(),
        Err(CallError { status, message, .. }) => {
            (status, page::framed(&scene, HERE, &draw(&scene, &typed), &message)).into_response()
        }
    }
}
