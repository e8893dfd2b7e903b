//! The test kit page: the clock, scenarios and faults. The forms are in `test_kit/forms.rs`.

mod forms;

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use forewarn_widgets::fragment::Fragment;
use forewarn_widgets::html::RenderMode;
use forewarn_widgets::panel::{PageContent, Panel};
use forewarn_widgets::{html, words};
use http::StatusCode;

use super::flash::Flash;
use super::page_context::PageContext;
use super::visitor::Form;
use super::{Portal, frame};
use forewarn_api::scenario::{BUILTIN_SCENARIOS, Progress, RunState, Scenario, StepState, StepStatus};
use forewarn_api::{Action, next_deadline, render_fault};
use forewarn_api_types::Fault;
use forewarn_core::Timestamp;
use forewarn_engine::ClockKind;
pub use forms::{LastScenario, TestKitFields};

const HERE: &str = "/test-kit";

#[derive(Template)]
#[template(path = "clock.html")]
struct ClockPanel {
    now: String,
    manual: bool,
    /// The next deadline in HTML, with a description.
    next: Option<(String, String)>,
    scale: u32,
}

#[derive(Template)]
#[template(path = "advance.html")]
struct AdvanceForm<'a> {
    form: String,
    csrf: &'a str,
}

#[derive(Template)]
#[template(path = "scenarios.html")]
struct ScenarioList<'a> {
    scenarios: Vec<(&'static str, String, String)>,
    csrf: &'a str,
    allowed: bool,
}

#[derive(Template)]
#[template(path = "run.html")]
struct RunPanel<'a> {
    id: u64,
    sort: String,
    title: String,
    state: &'static str,
    running: bool,
    open: bool,
    reason: String,
    steps: Vec<RunStep>,
    csrf: &'a str,
    allowed: bool,
}

struct RunStep {
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
    description: String,
    /// HTML.
    lifetime: String,
    requests: u64,
    affected: u64,
    csrf: &'a str,
    allowed: bool,
}

pub fn render(context: &PageContext, fields: &TestKitFields) -> PageContent {
    let fields = &fields.or_last(context.portal.shared.last_scenario(&context.visitor.cookie));
    let csrf = context.visitor.session.csrf.as_str();
    let allowed = context.visitor.is_allowed(Action::AddFault);
    let newest = context.portal.list_runs().last().map(|run| run.id);
    let runs = context.portal.list_runs().into_iter().rev().map(|run| render_run(run, newest, csrf, allowed)).collect();
    let scenarios = BUILTIN_SCENARIOS.iter().filter_map(|one| {
        let scenario = Scenario::parse(one.text).ok()?;
        Some((one.name, scenario.title, scenario.about))
    });
    let scenarios = ScenarioList { scenarios: scenarios.collect(), csrf, allowed };
    let faults = context.portal.faults().list();
    let faults = faults.iter().map(|fault| render_fault_row(&render_fault(fault), csrf, allowed)).collect();
    let form = |html: String| {
        if allowed { html } else { format!("<p class=\"quiet\">{}</p>", words::role_needed(Action::AddFault.role())) }
    };
    let panels = vec![
        render_clock(context, fields, csrf, allowed),
        Panel::new("runs", "Runs", runs).or_empty_text("No scenarios have run since the server started."),
        Panel::new("own", "Your own scenario", Vec::new()).with_html_before(form(fields.scenario_form(csrf))),
        Panel::new("scenarios", "Built-in scenarios", Vec::new()).with_html_before(html::render(&scenarios)),
        Panel::new("faults", "Faults", faults)
            .with_html_before(form(fields.fault_form(csrf)))
            .or_empty_text("No faults. All requests get normal responses."),
    ];
    PageContent { title: "Test kit".into(), lead: String::new(), panels, aside: Vec::new() }
}

/// The address of a part of this page.
pub fn address_of(part: &str) -> String {
    format!("{HERE}#{part}")
}

/// Handles all forms of this page.
pub async fn submit(State(portal): State<Portal>, form: Form) -> Response {
    let mut fields = TestKitFields::from_form(&form);
    if let Some(request) = fields.build_request(form.text("form")) {
        match request.perform(&portal.actions(form.visitor.principal())).await {
            Ok(()) => {
                let (done, part) = match form.text("form") {
                    "scenario" => ("Started your scenario.", "runs"),
                    "advance" => ("Advanced the clock.", "panel-clock-panel"),
                    _ => ("Added a fault.", "faults"),
                };
                if part == "runs" {
                    portal.shared.set_last_scenario(&form.visitor.cookie, fields.last_scenario());
                }
                let flash = Flash::new(done).with_link("/history", "Show history");
                portal.shared.flashes.set(&form.visitor.cookie, flash);
                return Redirect::to(&address_of(part)).into_response();
            }
            Err(error) => fields.add_refusal(form.text("form"), &error.into()),
        }
    }
    let context = PageContext::now(&portal, &form.visitor, RenderMode::Page);
    (StatusCode::UNPROCESSABLE_ENTITY, frame::render(&context, HERE, &render(&context, &fields), "")).into_response()
}

fn render_clock(context: &PageContext, fields: &TestKitFields, csrf: &str, allowed: bool) -> Panel {
    let manual = context.portal.engine().clock_kind() == ClockKind::Manual;
    // The header of the page shows the real clock.
    let now = if manual { words::time(context.now) } else { String::new() };
    let next = next_deadline(context.region(), context.portal.engine().next_report());
    let next = next.map(|(at, what)| (words::time(at), what));
    let clock = ClockPanel { now, manual, next, scale: context.region().settings().notice_scale };
    let panel = Panel::with_content("clock-panel", "Clock", &clock);
    // Above the list and not in it, so that live updates do not replace the form while it is being filled in.
    let advance = || html::render(&AdvanceForm { form: fields.advance_form(csrf), csrf });
    if manual && allowed { panel.with_html_before(advance()) } else { panel }
}

fn render_run(run: Progress, newest: Option<u64>, csrf: &str, allowed: bool) -> Fragment {
    let sort = format!("{:012}", u32::MAX as u64 - run.id.min(u32::MAX as u64));
    let state = match run.state {
        RunState::Running => "running",
        RunState::Passed => "passed",
        RunState::Failed => "failed",
        RunState::Stopped => "stopped",
    };
    let running = run.state == RunState::Running;
    let panel = RunPanel {
        id: run.id,
        sort: sort.clone(),
        title: run.title,
        state,
        running,
        open: running || newest == Some(run.id),
        reason: run.reason.unwrap_or_default(),
        steps: run.steps.into_iter().map(render_step).collect(),
        csrf,
        allowed,
    };
    Fragment::render(format!("run-{}", run.id), sort, &panel)
}

fn render_step(step: StepState) -> RunStep {
    let word = match step.status {
        StepStatus::Waiting => "waiting",
        StepStatus::Running => "running",
        StepStatus::Done => "done",
        StepStatus::Failed => "failed",
    };
    let at = step.at.map_or_else(String::new, words::time);
    RunStep { word, at, text: step.text, message: step.message.unwrap_or_default() }
}

fn render_fault_row(fault: &Fault, csrf: &str, allowed: bool) -> Fragment {
    let sort = format!("{:012}", fault.id);
    let until = fault.until.map(|until| words::time(Timestamp(until.0)));
    let row = FaultRow {
        id: fault.id,
        sort: sort.clone(),
        description: format!("{} for {}", fault.describe(), fault.machine.as_deref().unwrap_or("all machines")),
        lifetime: fault.describe_remaining(until),
        requests: fault.matched,
        affected: fault.affected,
        csrf,
        allowed,
    };
    Fragment::render(format!("fault-{}", fault.id), sort, &row)
}
