//! The maintenance page: the planner, and the progress of maintenance by update domain, with a button to cancel it.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use forewarn_api_types::{count_of, join_names};
use forewarn_core::{Event, Machine, Operation, OperationResult, OperationState, Region, Request, Target};
use forewarn_widgets::expected_event::machines_of;
use forewarn_widgets::fragment::Fragment;
use forewarn_widgets::html::RenderMode;
use forewarn_widgets::panel::{PageContent, Panel};
use forewarn_widgets::{html, words};
use http::StatusCode;

use super::action::{Button, ButtonStyle};
use super::flash::Flash;
use super::page_context::PageContext;
use super::visitor::Form;
use super::{Portal, frame};
use forewarn_api::Action;
use forewarn_previews::plan::PlanFields;
use forewarn_previews::preview::PlanStep;
use forewarn_render::name_operation;

const HERE: &str = "/maintenance";

/// Operations per page, newest first.
const OPERATIONS_MAX: usize = 50;

/// Suggested names of each kind.
const SUGGESTIONS_MAX: usize = 500;

#[derive(Template)]
#[template(path = "maintenance.html")]
struct Planner<'a> {
    fields: Vec<String>,
    steps: &'a [PlanStep],
    digest: String,
    csrf: &'a str,
    allowed: bool,
    suggestions: Vec<String>,
}

#[derive(Template)]
#[template(path = "operation.html")]
struct OperationProgress {
    id: String,
    sort: String,
    title: String,
    href: String,
    requested: String,
    state: String,
    rows: Vec<ProgressRow>,
    /// HTML.
    cancel: String,
}

/// An event of an operation, or an update domain that has not been visited.
struct ProgressRow {
    /// `None` if the event was removed from the region, and its machines with it.
    domain: Option<u32>,
    machines: String,
    /// HTML.
    state: String,
}

pub fn render(context: &PageContext, fields: &PlanFields) -> PageContent {
    let operations = context.region().operations().filter(|one| matches!(one.request, Request::Maintain { .. }));
    let progress = render_operations(context, "In progress and recently finished", operations)
        .or_empty_text("No maintenance in progress.");
    PageContent {
        title: "Maintenance".into(),
        lead: String::new(),
        panels: vec![render_planner(context, fields), progress],
        aside: Vec::new(),
    }
}

fn render_planner(context: &PageContext, fields: &PlanFields) -> Panel {
    let region = context.region();
    let groups = region.groups().map(|group| group.name.to_string());
    let hosts = region.hosts().map(|host| host.name.to_string());
    let machines = region.machines().map(|machine| machine.name.to_string());
    let planner = Planner {
        fields: fields.render(),
        steps: &fields.preview,
        digest: fields.digest(),
        csrf: &context.visitor.session.csrf,
        allowed: context.visitor.is_allowed(Action::StartMaintenance),
        suggestions: groups
            .take(SUGGESTIONS_MAX)
            .chain(hosts.take(SUGGESTIONS_MAX))
            .chain(machines.take(SUGGESTIONS_MAX))
            .collect(),
    };
    // Above the list and not in it, so that live updates do not replace the form while it is being filled in.
    Panel::new("plan", "Plan maintenance", Vec::new()).with_html_before(html::render(&planner))
}

/// Operations with their progress, newest first.
pub fn render_operations<'r>(
    context: &PageContext,
    title: &str,
    operations: impl Iterator<Item = &'r Arc<Operation>>,
) -> Panel {
    let mut operations: Vec<_> = operations.collect();
    operations.sort_unstable_by_key(|operation| std::cmp::Reverse((operation.requested_at, operation.id)));
    let rows =
        operations.into_iter().take(OPERATIONS_MAX).map(|operation| render_progress(context, operation)).collect();
    Panel::new("operations", title, rows)
}

fn render_progress(context: &PageContext, operation: &Arc<Operation>) -> Fragment {
    let region = context.region();
    let id = format!("operation-{}", operation.id);
    let sort = format!("{:020}-{}", i64::MAX - operation.requested_at.0, operation.id);
    let cancel = match operation.state {
        OperationState::Running => {
            let button = Button::new(
                "cancel-operation",
                "Cancel",
                context.preview().describe_operation_cancellation(operation),
                Action::Cancel,
                ButtonStyle::Normal,
            );
            button.render(context, (&format!("cancel-{}", operation.id), ""), &operation.id.to_string(), HERE)
        }
        OperationState::Ended { .. } => String::new(),
    };
    let mut rows = list_rows(region, operation);
    let all = rows.len();
    rows.extend(skipped_rows(region, operation));
    let progress = OperationProgress {
        id: operation.id.to_string(),
        sort: sort.clone(),
        title: name_operation(region, operation),
        href: format!("/operations/{}", operation.id),
        requested: format!("{} {}", words::escape_html(&operation.requested_by), words::time(operation.requested_at)),
        state: describe_state(region, operation, all),
        rows,
        cancel,
    };
    Fragment::render(id, sort, &progress)
}

/// Visited update domains, then those that follow.
fn list_rows(region: &Region, operation: &Operation) -> Vec<ProgressRow> {
    let visited = operation.parts.iter().map(|part| {
        let event = region.event(part.event);
        let live = event.map_or("Finished", |event| words::status(event));
        let word = part.outcome.as_ref().map_or(live, words::outcome_word);
        let count = event.filter(|event| event.status == forewarn_core::Status::Scheduled);
        let count =
            count.map_or_else(String::new, |event| format!(" starts {}", words::countdown_at(event.not_before)));
        ProgressRow {
            domain: event.and_then(|event| domain_of(region, event)),
            machines: event.map_or_else(String::new, |event| words::resource_links(region, &event.resources)),
            state: format!(r#"<a class="chip" href="/events/{}">{word}</a>{count}"#, words::event_name(part.event)),
        }
    });
    visited.chain(queued_rows(region, operation)).collect()
}

fn domain_of(region: &Region, event: &Event) -> Option<u32> {
    let machine = event.resources.iter().find_map(|resource| region.machine(resource.machine));
    machine.map(|machine| machine.update_domain)
}

fn queued_rows(region: &Region, operation: &Operation) -> Vec<ProgressRow> {
    let rollout = region.rollout_of_maintenance(operation).filter(|rollout| rollout.is_live());
    let (Some(rollout), Request::Maintain { target, .. }) = (rollout, &operation.request) else {
        return Vec::new();
    };
    let next = rollout.next_domain();
    rows_from(region, target, next, |domain| match rollout.pause_end() {
        Some(at) if domain == next => format!("after a pause, at {}", words::time(at)),
        Some(_) | None => "queued".into(),
    })
}

/// The update domains that a canceled rollout did not visit.
fn skipped_rows(region: &Region, operation: &Operation) -> Vec<ProgressRow> {
    let target = match &operation.request {
        Request::Maintain { target: target @ (Target::Group(_) | Target::Machines(_)), .. } => target,
        Request::Maintain { target: Target::Host(_), .. }
        | Request::Drain(_)
        | Request::Fail { .. }
        | Request::Restart { .. }
        | Request::Redeploy { .. }
        | Request::PerformMaintenance { .. }
        | Request::Evict { .. }
        | Request::RecommendRebalance { .. }
        | Request::Delete { .. } => return Vec::new(),
    };
    // The update domain of an event that was removed from the region is unknown.
    let visited: Option<Vec<&Arc<Event>>> = operation.parts.iter().map(|part| region.event(part.event)).collect();
    let last = visited.into_iter().flatten().filter_map(|event| domain_of(region, event)).max();
    match last.filter(|_| operation.canceled.is_some()) {
        Some(last) => rows_from(region, target, last + 1, |_| "skipped".into()),
        None => Vec::new(),
    }
}

/// The update domains of a target from this one on.
fn rows_from(region: &Region, target: &Target, first: u32, state: impl Fn(u32) -> String) -> Vec<ProgressRow> {
    let mut domains: BTreeMap<u32, Vec<&Machine>> = BTreeMap::new();
    for machine in machines_of(region, target).filter(|machine| machine.update_domain >= first) {
        domains.entry(machine.update_domain).or_default().push(machine);
    }
    let row = |(domain, machines): (u32, Vec<&Machine>)| ProgressRow {
        domain: Some(domain),
        machines: join_names(machines.iter().map(|machine| words::escape_html(&machine.name))),
        state: state(domain),
    };
    domains.into_iter().map(row).collect()
}

/// `all` is the number of rows, including update domains that were not visited yet.
fn describe_state(region: &Region, operation: &Operation, all: usize) -> String {
    match &operation.state {
        OperationState::Running => {
            let finished = operation.parts.iter().filter(|part| part.outcome.is_some()).count();
            let rollout = region.rollout_of_maintenance(operation);
            match rollout.and_then(|rollout| rollout.pause_end()) {
                Some(at) => format!("paused until {}", words::time(at)),
                None => describe_progress(region, operation, finished, all),
            }
        }
        OperationState::Ended { result: OperationResult::Succeeded, .. } => "succeeded".into(),
        OperationState::Ended { result: OperationResult::Failed(outcome), .. } => {
            format!("failed: {}", words::outcome_word(outcome).to_lowercase())
        }
        OperationState::Ended { result: OperationResult::Canceled { by }, .. } => {
            format!("canceled by {}", words::escape_html(by))
        }
    }
}

/// While nothing has started: when it does, and how many machines are ready.
fn describe_progress(region: &Region, operation: &Operation, finished: usize, all: usize) -> String {
    let events: Vec<&Arc<Event>> = operation.parts.iter().filter_map(|part| region.event(part.event)).collect();
    let is_scheduled = |event: &&&Arc<Event>| event.status == forewarn_core::Status::Scheduled;
    let due = events.iter().filter(is_scheduled).map(|event| event.not_before).min();
    match due.filter(|_| events.len() == all && events.iter().all(|event| is_scheduled(&event))) {
        Some(due) => {
            let count = |is_counted: &dyn Fn(&Event) -> bool| -> usize {
                let counted = events.iter().filter(|event| is_counted(event));
                counted.map(|event| event.resources.len()).sum()
            };
            let (ready, machines) = (count(&|event| event.is_shown() && event.is_ready()), count(&|_| true));
            format!("scheduled for {}, {ready} of {} ready", words::time(due), count_of(machines, "machine"))
        }
        None => format!("in progress, {finished} of {all} finished"),
    }
}

pub async fn submit(State(portal): State<Portal>, form: Form) -> Response {
    let context = PageContext::now(&portal, &form.visitor, RenderMode::Page);
    let mut fields = PlanFields::read(|name| form.text(name));
    let Some(plan) = fields.check(&context.preview()) else {
        fields.preview.clear();
        return (StatusCode::UNPROCESSABLE_ENTITY, frame::render(&context, HERE, &render(&context, &fields), ""))
            .into_response();
    };
    // Only the plan that was previewed is scheduled. If a field has changed since, show the preview again.
    if form.text("step") != "start" || form.text("previewed") != fields.digest() {
        return frame::render(&context, HERE, &render(&context, &fields), "").into_response();
    }
    match portal.actions(form.visitor.principal()).start_maintenance(plan.body).await {
        Ok(operation) => {
            let flash = Flash::new("Scheduled maintenance.").with_link(HERE, "Plan more maintenance");
            portal.shared.flashes.set(&form.visitor.cookie, flash);
            Redirect::to(&format!("/operations/{}", operation.id)).into_response()
        }
        Err(error) => {
            (error.status, frame::render(&context, HERE, &render(&context, &fields), &error.message)).into_response()
        }
    }
}
