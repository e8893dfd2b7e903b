//! The planner of rollouts. The plan is in the address, so that it can be shared and going back keeps it. The preview comes from
//! the rules; exactly the plan that was previewed is scheduled.

use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use forewarn_api::{Action, ApiError, parse_operation_id};
use forewarn_api_types::span::format_span;
use forewarn_api_types::{
    MaintenanceWindow, NewRollout, RolloutPreview, RolloutType, TEXT_CHARS_MAX, Text, count_of, join_names,
};
use forewarn_core::{Region, Rollout, RolloutAction, RolloutStep, StepTarget, UNLIMITED};
use forewarn_widgets::callout::Callout;
use forewarn_widgets::field::{Control, Field, FieldErrors, parse_number, parse_optional, parse_seconds, parse_time};
use forewarn_widgets::html::RenderMode;
use forewarn_widgets::panel::{PageContent, Panel};
use forewarn_widgets::query::PageQuery;
use forewarn_widgets::{html, waits, words};
use http::StatusCode;

use super::flash::Flash;
use super::fleet::{self, FleetGroup};
use super::page_context::PageContext;
use super::rollout_chart::{Chart, is_meant};
use super::visitor::Form;
use super::{Portal, conflict, frame};

const HERE: &str = "/rollouts/plan";

/// The fields of a plan in the address.
const FIELDS: [&str; 12] = [
    "hosts",
    "groups",
    "machines",
    "type",
    "at",
    "parallel",
    "pause",
    "window",
    "unavailable",
    "failures",
    "notice",
    "description",
];

#[derive(Template)]
#[template(path = "rollout_form.html")]
struct RolloutForm {
    fields: Vec<String>,
}

#[derive(Template)]
#[template(path = "rollout_foot.html")]
struct RolloutFoot<'a> {
    csrf: &'a str,
    fields: Vec<(&'static str, String)>,
    label: String,
    /// Why it cannot be scheduled; empty if it can.
    blocker: String,
    /// HTML.
    notes: Vec<String>,
    role_needed: String,
}

pub async fn render(context: &PageContext, query: &PageQuery, problems: &FieldErrors) -> PageContent {
    // The plan stands still while the page is open; only a reload computes it again.
    if context.mode == RenderMode::Update {
        return PageContent::new("Plan a rollout", Vec::new());
    }
    let mut problems = problems.clone();
    let plan = parse(query, &mut problems);
    let preview = match &plan {
        Some(plan) => preview(context, plan, &mut problems).await,
        None => None,
    };
    let form = RolloutForm { fields: render_fields(query, &problems) };
    let mut panels = vec![Panel::new("plan", "Plan", Vec::new()).with_html_before(html::render(&form))];
    let mut aside = Vec::new();
    if let (Some(plan), Some(found)) = (&plan, &preview) {
        let chart = Chart::new(context, plan, found);
        let ends = found.ends.map_or_else(String::new, |at| {
            format!(r#"<p class="q">Ends about {}</p>"#, words::time(forewarn_core::Timestamp(at.0)))
        });
        panels.push(
            Panel::new("order", "Order", Vec::new())
                .with_html_before(ends + &chart.render_order(severity_class(plan.kind)))
                .with_html_after(html::render(&foot(context, query, plan, found))),
        );
        aside.push(
            Panel::new("capacity", "Capacity, worst first", Vec::new()).with_html_before(chart.render_capacity()),
        );
        let warnings = render_warnings(context, found);
        if !warnings.is_empty() {
            aside.push(Panel::new("warnings", "Before you schedule", Vec::new()).with_html_before(warnings));
        }
    }
    PageContent::new("Plan a rollout", panels).with_lead(describe_targets(context, query)).with_aside(aside)
}

/// The address of the planner with these steps of a rollout and its rules. `None` without machines.
pub fn plan_again(region: &Region, rollout: &Rollout, steps: &[&RolloutStep]) -> Option<String> {
    let (mut hosts, mut machines) = (Vec::new(), Vec::new());
    for step in steps {
        match &step.target {
            StepTarget::Host(host) => hosts.push(host.to_string()),
            StepTarget::Machine(id) => machines.extend(region.machine(*id).map(|machine| machine.name.to_string())),
            StepTarget::Machines { machines: ids, .. } => {
                machines
                    .extend(ids.iter().filter_map(|id| region.machine(*id)).map(|machine| machine.name.to_string()));
            }
            // A group can only be planned as a whole.
            StepTarget::Domain { group, domain } => {
                let members = region.group(*group).into_iter().flat_map(|group| region.group_members(group));
                let of_domain = members.filter(|machine| machine.update_domain == *domain);
                machines.extend(of_domain.map(|machine| machine.name.to_string()));
            }
        }
    }
    if hosts.is_empty() && machines.is_empty() {
        return None;
    }
    let plan = &rollout.plan;
    let kind = match plan.action {
        RolloutAction::Freeze => RolloutType::Freeze,
        RolloutAction::Reboot => RolloutType::Reboot,
        RolloutAction::Redeploy => RolloutType::Redeploy,
        RolloutAction::Drain { .. } => RolloutType::Drain,
    };
    let span = |span: Duration| if span.is_zero() { String::new() } else { format_span(span) };
    let limit = |max: u32| if max == UNLIMITED { String::new() } else { max.to_string() };
    let windows: Vec<String> = plan.windows.iter().map(describe_window).collect();
    let fields = [
        ("hosts", hosts.join(",")),
        ("machines", machines.join(",")),
        ("type", kind.as_str().to_owned()),
        ("parallel", plan.parallel.to_string()),
        ("pause", span(plan.pause)),
        ("window", windows.join("; ")),
        ("unavailable", plan.unavailable_max.map_or_else(String::new, limit)),
        ("failures", limit(plan.failures_max)),
        ("notice", plan.notice.map_or_else(String::new, span)),
        ("description", plan.description.as_deref().unwrap_or_default().to_owned()),
    ];
    let query = fields.iter().fold(PageQuery::default(), |query, (name, value)| query.with(name, value));
    Some(query.address(HERE))
}

/// A window as the planner reads it.
pub fn describe_window(window: &forewarn_core::Window) -> String {
    let clock = |minute: u32| format!("{:02}:{:02}", minute / 60, minute % 60);
    let names = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    let days: Vec<&str> = names
        .into_iter()
        .enumerate()
        .filter(|(day, _)| window.days.contains(*day as u8))
        .map(|(_, name)| name)
        .collect();
    let days = if days.len() == 7 { String::new() } else { format!("{} ", days.join(",")) };
    let text = format!("{days}{}-{} {}", clock(window.start_minute), clock(window.end_minute), window.zone.name);
    MaintenanceWindow::parse(&text).map_or(text, |window| window.to_string())
}

fn severity_class(kind: RolloutType) -> &'static str {
    match kind {
        RolloutType::Freeze | RolloutType::Drain => "slate",
        RolloutType::Reboot => "amber",
        RolloutType::Redeploy => "red",
    }
}

fn names(text: &str) -> Vec<String> {
    text.split([',', ' ', '\n']).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn describe_targets(context: &PageContext, query: &PageQuery) -> String {
    let region = context.region();
    let hosts = names(query.text("hosts"));
    let known = hosts.iter().filter_map(|name| region.host(name));
    let machines: usize = known.map(|host| region.machines_on(&host.name).count()).sum();
    let others =
        [("groups", ", by update domain"), ("machines", ", in order")].map(|(field, how)| (query.text(field), how));
    let facts = match (hosts.len(), others.into_iter().find(|(names, _)| !names.is_empty())) {
        (0, None) => {
            "<span>Name hosts, groups or machines, or select them on the page of <a href=\"/hosts\">hosts</a>.</span>"
                .into()
        }
        (0, Some((names, how))) => format!("<span><b>{}</b>{how}</span>", words::escape_html(names)),
        (hosts, _) => format!(
            r#"<span><b>{}</b></span> <span><b>{}</b></span> <span><a href="/hosts">Change the selection</a></span>"#,
            count_of(hosts, "host"),
            count_of(machines, "machine")
        ),
    };
    format!(r#"<p class="crumbs"><a href="/hosts">Hosts</a> / Plan a rollout</p><p class="head-facts">{facts}</p>"#)
}

fn render_fields(query: &PageQuery, problems: &FieldErrors) -> Vec<String> {
    let of = |name, label| Field::new(name, label, query.text(name), problems);
    let kind = if query.text("type").is_empty() { "Reboot" } else { query.text("type") };
    let kinds = vec![
        ("Freeze", "Freeze: paused for seconds"),
        ("Reboot", "Reboot: restarted with the host"),
        ("Redeploy", "Redeploy: moved, temporary disks are lost"),
        ("Drain", "Drain: moved live where possible"),
    ];
    let fields = [
        of("hosts", "Hosts").with_hint("Names in order, separated by commas."),
        of("groups", "Or groups").with_hint("Each by update domain. Leave hosts empty."),
        of("machines", "Or machines").with_hint("Names in order. Leave hosts and groups empty."),
        Field::new("type", "Type", kind, problems).with_control(Control::Choice(kinds)),
        of("description", "Description or ticket").with_hint("Shown to machines."),
        of("at", "Not before")
            .with_control(Control::Time)
            .with_hint("The first step starts then. Default: as soon as the notice allows."),
        of("window", "Window").with_hint(
            "For example Sat,Sun 22:00-04:00 Europe/Berlin; UTC if no time zone is given. Default: any time.",
        ),
        of("notice", "Notice").with_hint("For example 30m. Default: the minimum for the type."),
        of("parallel", "In parallel").with_control(Control::Number).with_hint("Default: 1."),
        of("pause", "Pause between").with_hint("For example 20m. Default: none."),
        of("failures", "Failures to tolerate").with_control(Control::Number).with_hint("Default: 0."),
        of("unavailable", "Unavailable per group, at most")
            .with_control(Control::Number)
            .with_hint("Default: one update domain."),
    ];
    fields.iter().map(Field::render).collect()
}

/// The plan in the address. `None` if it has no targets, or an error.
fn parse(query: &PageQuery, problems: &mut FieldErrors) -> Option<NewRollout> {
    let [hosts, groups, machines] = ["hosts", "groups", "machines"].map(|field| names(query.text(field)));
    if hosts.is_empty() && groups.is_empty() && machines.is_empty() {
        return None;
    }
    let kind = match query.text("type") {
        "" => RolloutType::Reboot,
        word => {
            let all = [RolloutType::Freeze, RolloutType::Reboot, RolloutType::Redeploy, RolloutType::Drain];
            let found = all.into_iter().find(|kind| kind.as_str() == word);
            problems.take("type", found.ok_or_else(|| format!("Unknown type '{word}'.")))?
        }
    };
    let number = |name: &str, label: &'static str| parse_optional(query.text(name), |text| parse_number(text, label));
    let seconds = |name: &str, label: &'static str| parse_optional(query.text(name), |text| parse_seconds(label, text));
    let at = problems.take("at", parse_optional(query.text("at"), parse_time));
    let parallel = problems.take("parallel", number("parallel", "In parallel"));
    let pause = problems.take("pause", seconds("pause", "The pause"));
    let unavailable = problems.take("unavailable", number("unavailable", "Unavailable per group"));
    let failures = problems.take("failures", number("failures", "Failures"));
    let notice = problems.take("notice", seconds("notice", "The notice"));
    let windows = query.text("window").split(';').map(str::trim).filter(|text| !text.is_empty());
    let windows: Result<Vec<_>, String> = windows.map(MaintenanceWindow::parse).collect();
    let windows = problems.take("window", windows.map_err(|problem| format!("{problem}.")));
    let description = query.text("description");
    if description.chars().count() > TEXT_CHARS_MAX {
        problems.add("description", format!("The description is longer than {TEXT_CHARS_MAX} characters."));
    }
    if !problems.is_empty() {
        return None;
    }
    Some(NewRollout {
        hosts,
        groups,
        machines,
        at: at?,
        parallel: parallel?,
        pause_seconds: pause?,
        windows: windows?,
        max_unavailable: unavailable?,
        max_failures: failures?,
        notice_seconds: notice?,
        description: (!description.is_empty()).then(|| Text(description.to_owned())),
        ..NewRollout::of(kind)
    })
}

/// The expected course. Errors go to the field that they are about.
async fn preview(context: &PageContext, plan: &NewRollout, problems: &mut FieldErrors) -> Option<RolloutPreview> {
    let actions = context.portal.actions(context.visitor.principal());
    match actions.preview_rollout(plan.clone()).await {
        Ok(preview) => Some(preview),
        Err(error) => {
            problems.add(field_of(&error, plan), error.message);
            None
        }
    }
}

fn field_of(error: &ApiError, plan: &NewRollout) -> &'static str {
    let text = format!("{} {}", error.code, error.target.as_deref().unwrap_or_default()).to_lowercase();
    let words = [
        ("window", "window"),
        ("timezone", "window"),
        ("unavailable", "unavailable"),
        ("parallel", "parallel"),
        ("notice", "notice"),
        ("plantoofar", "at"),
        ("planinthepast", "at"),
        ("pause", "pause"),
        ("description", "description"),
    ];
    let found = words.iter().find(|(word, _)| text.contains(word)).map(|(_, field)| *field);
    let targets = [("hosts", &plan.hosts), ("groups", &plan.groups)];
    let named = targets.iter().find(|(_, names)| !names.is_empty()).map(|(field, _)| *field);
    found.or(named).unwrap_or("machines")
}

fn foot<'a>(
    context: &'a PageContext,
    query: &PageQuery,
    plan: &NewRollout,
    preview: &RolloutPreview,
) -> RolloutFoot<'a> {
    let steps = preview.steps.len();
    let noun = if plan.hosts.is_empty() { "step" } else { "host" };
    let waits = preview.waits.iter().take(3).map(|wait| {
        let at = words::time(forewarn_core::Timestamp(wait.at.0));
        format!("From {at}, it {}.", waits::render_wait(&wait.waits_for))
    });
    RolloutFoot {
        csrf: &context.visitor.session.csrf,
        fields: FIELDS.map(|name| (name, query.text(name).to_owned())).into(),
        label: format!("Schedule {}", count_of(steps, noun)),
        blocker: if preview.is_complete {
            String::new()
        } else {
            "Not every step is expected to end. Change the plan, or schedule it and resolve the wait later.".into()
        },
        notes: waits.collect(),
        role_needed: if context.visitor.is_allowed(Action::StartRollout) {
            String::new()
        } else {
            words::role_needed(Action::StartRollout.role())
        },
    }
}

/// Conflicts, and groups without a handler or with one that is silent.
fn render_warnings(context: &PageContext, preview: &RolloutPreview) -> String {
    let conflicts = preview.conflicts.iter().filter_map(|id| parse_operation_id(&id.to_string()).ok());
    let mut html = conflict::warn_of_operations(context.region(), &conflicts.collect::<Vec<_>>());
    let silent: Vec<String> =
        preview.groups.iter().filter(|group| !group.has_handler).map(|group| words::escape_html(&group.name)).collect();
    if !silent.is_empty() {
        html += &Callout {
            class: "c-amber",
            title: format!("{} without a handler", count_of(silent.len(), "group")),
            text: format!("{}: no notice, machines go down when their host does.", join_names(&silent)),
        }
        .render();
    }
    let stopped = find_stopped(context, preview);
    if !stopped.is_empty() {
        html += &Callout {
            class: "c-amber",
            title: format!("{} whose handlers have stopped polling", count_of(stopped.len(), "group")),
            text: format!("{}: events wait for the whole notice period.", join_names(&stopped)),
        }
        .render();
    }
    html
}

/// The groups that get notice, although none of their handlers polls. HTML.
fn find_stopped(context: &PageContext, preview: &RolloutPreview) -> Vec<String> {
    let fleet = fleet::list_groups(context);
    let is_planned = |group: &FleetGroup| preview.groups.iter().any(|planned| is_meant(group, planned));
    let stopped =
        fleet.iter().filter(|group| group.has_handler && group.up > 0 && group.polling == 0 && is_planned(group));
    stopped.map(|group| format!(r#"<a href="{}">{}</a>"#, group.href, words::escape_html(&group.name))).collect()
}

/// Schedules the plan that was previewed.
pub async fn submit(State(portal): State<Portal>, form: Form) -> Response {
    let query = FIELDS.iter().fold(PageQuery::default(), |query, name| query.with(name, form.text(name)));
    let context = PageContext::now(&portal, &form.visitor, RenderMode::Page);
    let mut problems = FieldErrors::default();
    let Some(plan) = parse(&query, &mut problems) else {
        if problems.is_empty() {
            problems.add("hosts", "Name at least one host.");
        }
        let content = render(&context, &query, &problems).await;
        return (StatusCode::UNPROCESSABLE_ENTITY, frame::render(&context, HERE, &content, "")).into_response();
    };
    match portal.actions(form.visitor.principal()).start_rollout(plan.clone()).await {
        Ok(rollout) => {
            let text = format!("Scheduled a rollout with {}.", count_of(rollout.steps.len(), "step"));
            let flash = Flash::new(text).with_link("/operations", "All operations");
            portal.shared.flashes.set(&form.visitor.cookie, flash);
            Redirect::to(&format!("/rollouts/{}", rollout.id)).into_response()
        }
        Err(error) => {
            let (status, message) = (error.status, error.message.clone());
            problems.add(field_of(&error, &plan), error.message);
            let content = render(&context, &query, &problems).await;
            (status, frame::render(&context, HERE, &content, &message)).into_response()
        }
    }
}
