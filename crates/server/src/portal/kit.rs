//! The test kit: scenarios, faults and the clock.

use askama::Template;

use super::page::{Drawn, Fragment, Panel, Scene};
use super::{sign_in, words};
use crate::clock::Kind;
use crate::identity::Role;
use crate::scenario::{Progress, RunState, SHIPPED, Scenario, StepStatus};

#[derive(Template)]
#[template(path = "clock.html")]
struct Clock<'a> {
    now: String,
    manual: bool,
    next: Option<String>,
    scale: u32,
    csrf: &'a str,
    allowed: bool,
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
    reason: String,
    steps: Vec<(&'static str, String, String)>,
    csrf: &'a str,
    allowed: bool,
}

#[derive(Template)]
#[template(path = "faults.html")]
struct FaultForm<'a> {
    csrf: &'a str,
    allowed: bool,
}

#[derive(Template)]
#[template(path = "fault.html")]
struct FaultRow<'a> {
    id: u64,
    sort: String,
    kind: &'static str,
    machine: String,
    asked: u64,
    met: u64,
    csrf: &'a str,
    allowed: bool,
}

pub fn draw(scene: &Scene) -> Drawn {
    let csrf = scene.visitor.session.csrf.as_str();
    let allowed = scene.visitor.may(Role::Owner);
    let runs = scene.service.runs().into_iter().rev().map(|run| shown(run, csrf, allowed)).collect();
    let scenarios = SHIPPED.iter().filter_map(|one| {
        let scenario = Scenario::parse(one.text).ok()?;
        Some((one.name, scenario.title, scenario.about))
    });
    let scenarios = Scenarios { scenarios: scenarios.collect(), csrf, allowed };
    let faults = scene.service.engine().faults();
    let faults = faults.into_iter().map(|fault| {
        let sort = format!("{:012}", fault.id.0);
        let machine = fault.machine.as_ref().map(|(_, name)| name.to_string());
        let row = FaultRow {
            id: fault.id.0,
            sort: sort.clone(),
            kind: fault.kind.word(),
            machine: machine.unwrap_or_else(|| "all machines".into()),
            asked: fault.asked,
            met: fault.met,
            csrf,
            allowed,
        };
        Fragment::of(format!("fault-{}", fault.id.0), sort, &row)
    });
    let faults = Panel::new("faults", "Faults", faults.collect())
        .below(sign_in::rendered(&FaultForm { csrf, allowed }).0)
        .or("Every request is answered as it should be.");
    let panels = vec![
        Panel::one("clock", "Clock", &clock(scene, csrf, allowed)),
        Panel::new("runs", "Runs", runs).or("No scenario was run since the server started."),
        Panel::new("scenarios", "Scenarios", Vec::new()).below(sign_in::rendered(&scenarios).0),
        faults,
    ];
    Drawn { title: "Test kit".into(), lead: String::new(), panels }
}

fn clock<'a>(scene: &Scene, csrf: &'a str, allowed: bool) -> Clock<'a> {
    let manual = scene.service.engine().clock_kind() == Kind::Manual;
    // A real clock is always another one; the page tells it by itself.
    let now = if manual { words::time(scene.now) } else { String::new() };
    let next = scene.region().next_deadline().map(words::time);
    Clock { now, manual, next, scale: scene.region().settings().notice_scale, csrf, allowed }
}

fn shown(run: Progress, csrf: &str, allowed: bool) -> Fragment {
    let sort = format!("{:012}", u32::MAX as u64 - run.id.min(u32::MAX as u64));
    let state = match run.state {
        RunState::Running => "running",
        RunState::Passed => "passed",
        RunState::Failed => "failed",
        RunState::Stopped => "stopped",
    };
    let steps = run.steps.into_iter().map(|step| {
        let word = match step.status {
            StepStatus::Waiting => "waiting",
            StepStatus::Running => "running",
            StepStatus::Done => "done",
            StepStatus::Failed => "failed",
        };
        (word, step.text, step.message.unwrap_or_default())
    });
    let shown = Run {
        id: run.id,
        sort: sort.clone(),
        title: run.title,
        state,
        running: run.state == RunState::Running,
        reason: run.reason.unwrap_or_default(),
        steps: steps.collect(),
        csrf,
        allowed,
    };
    Fragment::of(format!("run-{}", run.id), sort, &shown)
}
