//! The test kit: the clock, scenarios that ship and one's own, faults. Its forms are in `test_kit/forms.rs`.

mod forms;

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;

use super::Portal;
use super::page::{self, Drawn, Fragment, Look, Panel, Scene};
use super::visitor::Form;
use super::{sign_in, words};
use forewarn_access::Role;
use forewarn_api::next_deadline;
use forewarn_api::scenario::{Progress, RunState, SHIPPED, Scenario, StepState, StepStatus};
use forewarn_api_types::span::span_text;
use forewarn_engine::clock::Kind;
use forewarn_metadata::faults::{Fault, Kind as FaultKind, Method, Path};
pub use forms::{LastRun, Typed};

const HERE: &str = "/test-kit";

#[derive(Template)]
#[template(path = "clock.html")]
struct Clock {
    now: String,
    manual: bool,
    /// HTML, and what it is of.
    next: Option<(String, String)>,
    scale: u32,
}

#[derive(Template)]
#[template(path = "advance.html")]
struct Advance<'a> {
    form: String,
    csrf: &'a str,
}

#[derive(Template)]
#[template(path = "scenarios.html")]
struct Scenarios<'a> {
    scenarios: Vec<(&'static str, String, String)>,
    csrf: &'a str,
    allowed: bool,
}

#[derive(Template)]
#[template(path = "run.html")]
struct Run<'a> {
    id: u64,
    sort: String,
    title: String,
    state: &'static str,
    running: bool,
    open: bool,
    reason: String,
    steps: Vec<Step>,
    csrf: &'a str,
    allowed: bool,
}

struct Step {
    word: &'static str,
    /// HTML.
    at: String,
    text: String,
    message: String,
}

#[derive(Template)]
#[template(path = "fault.html")]
struct FaultRow<'a> {
    id: u64,
    sort: String,
    what: String,
    /// HTML.
    life: String,
    asked: u64,
    met: u64,
    csrf: &'a str,
    allowed: bool,
}

pub fn draw(scene: &Scene, typed: &Typed) -> Drawn {
    let typed = &typed.or_last(scene.service.shared.last_run(&scene.visitor.cookie));
    let csrf = scene.visitor.session.csrf.as_str();
    let allowed = scene.visitor.may(Role::Owner);
    let newest = scene.service.list_runs().last().map(|run| run.id);
    let runs = scene.service.list_runs().into_iter().rev().map(|run| shown(run, newest, csrf, allowed)).collect();
    let scenarios = SHIPPED.iter().filter_map(|one| {
        let scenario = Scenario::parse(one.text).ok()?;
        Some((one.name, scenario.title, scenario.about))
    });
    let scenarios = Scenarios { scenarios: scenarios.collect(), csrf, allowed };
    let faults = scene.service.faults().list();
    let faults = faults.iter().map(|fault| fault_row(fault, csrf, allowed)).collect();
    let form = |html: String| {
        if allowed { html } else { format!("<p class=\"quiet\">{}</p>", words::role_needed(Role::Owner)) }
    };
    let panels = vec![
        clock(scene, typed, csrf, allowed),
        Panel::new("runs", "Runs", runs).or("No scenario was run since the server started."),
        Panel::new("own", "A scenario of your own", Vec::new()).below(form(typed.scenario_form(csrf))),
        Panel::new("scenarios", "Scenarios", Vec::new()).below(sign_in::rendered(&scenarios).0),
        Panel::new("faults", "Faults", faults)
            .below(form(typed.fault_form(csrf)))
            .or("Every request is answered as it should be."),
    ];
    Drawn { title: "Test kit".into(), lead: String::new(), panels }
}

/// The part of this page with this id.
pub fn at(part: &str) -> String {
    format!("{HERE}#{part}")
}

/// One of the forms of this page. What is wrong is said at its field, and what was typed stays.
pub async fn submit(State(service): State<Portal>, form: Form) -> Response {
    let mut typed = Typed::of(&form);
    if let Some(request) = typed.request(form.text("form")) {
        match request.send(&service, &form.visitor).await {
            Ok(_) if form.text("form") == "scenario" => {
                service.shared.ran(&form.visitor.cookie, typed.ran());
                return Redirect::to(&at("runs")).into_response();
            }
            Ok(_) if form.text("form") == "advance" => return Redirect::to(&at("panel-clock-panel")).into_response(),
            Ok(_) => return Redirect::to(&at("faults")).into_response(),
            Err(refused) => typed.refused(form.text("form"), &refused),
        }
    }
    let scene = Scene::now(&service, &form.visitor, Look::First);
    (StatusCode::UNPROCESSABLE_ENTITY, page::framed(&scene, HERE, &draw(&scene, &typed), "")).into_response()
}

fn clock(scene: &Scene, typed: &Typed, csrf: &str, allowed: bool) -> Panel {
    let manual = scene.service.engine().clock_kind() == Kind::Manual;
    // A real clock is always another one; the page tells it by itself.
    let now = if manual { words::time(scene.now) } else { String::new() };
    let next = next_deadline(scene.region(), scene.service.engine().next_report());
    let next = next.map(|(at, what)| (words::time(at), what));
    let clock = Clock { now, manual, next, scale: scene.region().settings().notice_scale };
    let panel = Panel::one("clock-panel", "Clock", &clock);
    // Above the list and not in it: a form is not redrawn under somebody's fingers.
    let advance = || sign_in::rendered(&Advance { form: typed.advance_form(csrf), csrf }).0;
    if manual && allowed { panel.below(advance()) } else { panel }
}

fn shown(run: Progress, newest: Option<u64>, csrf: &str, allowed: bool) -> Fragment {
    let sort = format!("{:012}", u32::MAX as u64 - run.id.min(u32::MAX as u64));
    let state = match run.state {
        RunState::Running => "running",
        RunState::Passed => "passed",
        RunState::Failed => "failed",
        RunState::Stopped => "stopped",
    };
    let running = run.state == RunState::Running;
    let shown = Run {
        id: run.id,
        sort: sort.clone(),
        title: run.title,
        state,
        running,
        open: running || newest == Some(run.id),
        reason: run.reason.unwrap_or_default(),
        steps: run.steps.into_iter().map(step).collect(),
        csrf,
        allowed,
    };
    Fragment::of(format!("run-{}", run.id), sort, &shown)
}

fn step(step: StepState) -> Step {
    let word = match step.status {
        StepStatus::Waiting => "waiting",
        StepStatus::Running => "running",
        StepStatus::Done => "done",
        StepStatus::Failed => "failed",
    };
    let at = step.at.map_or_else(String::new, words::time);
    Step { word, at, text: step.text, message: step.message.unwrap_or_default() }
}

fn fault_row(fault: &Fault, csrf: &str, allowed: bool) -> Fragment {
    let sort = format!("{:012}", fault.id.0);
    let row = FaultRow {
        id: fault.id.0,
        sort: sort.clone(),
        what: what(fault),
        life: life(fault),
        asked: fault.asked,
        met: fault.met,
        csrf,
        allowed,
    };
    Fragment::of(format!("fault-{}", fault.id.0), sort, &row)
}

/// `Status 503 for web_0, POST alone`.
fn what(fault: &Fault) -> String {
    let kind = match fault.kind {
        FaultKind::Status { status, retry_after_secs } => {
            format!("Status {}, Retry-After {retry_after_secs}s", status.code())
        }
        FaultKind::Delay(delay) | FaultKind::SlowFirstCall(delay) => {
            format!("{} {}", fault.kind.word(), span_text(delay))
        }
        FaultKind::Reset
        | FaultKind::Truncated
        | FaultKind::Malformed
        | FaultKind::IncarnationRestart
        | FaultKind::EventsVanish
        | FaultKind::UnknownType => fault.kind.word().to_owned(),
    };
    let machine = fault.machine.as_ref().map_or("all machines", |(_, name)| name);
    let method = match fault.only.method {
        Some(Method::Get) => ", GET alone",
        Some(Method::Post) => ", POST alone",
        None => "",
    };
    let path = if fault.only.path == Path::Events { ", the document alone" } else { "" };
    format!("{kind} for {machine}{method}{path}")
}

/// How long it stays.
fn life(fault: &Fault) -> String {
    let percent = fault.life.percent.map(|percent| format!("{percent} % of requests"));
    let count = fault.life.count.map(|count| format!("{} left", count.saturating_sub(fault.met)));
    let until = fault.until.map(|until| format!("until {}", words::time(until)));
    let parts: Vec<String> = [percent, count, until].into_iter().flatten().collect();
    if fault.life.count.is_none() && fault.until.is_none() {
        return [parts, vec!["until it is cleared".into()]].concat().join(", ");
    }
    parts.join(", ")
}
