//! The planner of rollouts. The plan is in the address, so that it can be shared and going back keeps it. The preview comes from
//! the rules; exactly the plan that was previewed is scheduled.

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use forewarn_api::{Action, parse_operation_id};
use forewarn_api_types::{NewRollout, RolloutPreview, RolloutType, count_of, join_names};
use forewarn_widgets::callout::Callout;
use forewarn_widgets::field::FieldErrors;
use forewarn_widgets::html::RenderMode;
use forewarn_widgets::panel::{PageContent, Panel};
use forewarn_widgets::query::PageQuery;
use forewarn_widgets::{html, waits, words};
use http::StatusCode;

use super::flash::Flash;
use super::fleet::{self, FleetGroup};
use super::page_context::PageContext;
use super::rollout_chart::{Chart, is_meant};
use super::rollout_conflicts::{self, MOVED, PlanConflict};
use super::visitor::Form;
use super::{Portal, frame};
use forewarn_previews::rollout_fields::{FIELDS, HERE, field_of, names, parse, render_fields};
use forewarn_widgets::conflict;

/// The field that confirms that groups fall below their floors.
const BELOW_FLOOR: &str = "below-floor";

const UNCONFIRMED: &str = "A group falls below its floor. Change the plan, or confirm that next to the button.";

#[derive(Template)]
#[template(path = "rollout_form.html")]
struct RolloutForm {
    /// The fields of each section, as HTML.
    sections: Vec<(&'static str, Vec<String>)>,
}

#[derive(Template)]
#[template(path = "rollout_foot.html")]
struct RolloutFoot<'a> {
    csrf: &'a str,
    fields: Vec<(&'static str, String)>,
    label: String,
    /// Why it cannot be scheduled; empty if it can.
    blocker: String,
    conflict: Option<&'a PlanConflict>,
    /// The effect of the last change of the order. HTML, or empty.
    moved: String,
    /// The label and the address of a plan that may not have the conflict.
    fix: Option<(String, String)>,
    /// Consequences that the visitor confirms; empty if no group falls below its floor.
    confirm: String,
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
    let form = RolloutForm { sections: render_fields(context.region().settings(), query, &problems) };
    let mut panels = vec![Panel::new("plan", "Plan", Vec::new()).with_html_before(html::render(&form))];
    let mut aside = Vec::new();
    if let (Some(plan), Some(found)) = (&plan, &preview) {
        let chart = Chart::new(context, plan, found);
        let conflicts = rollout_conflicts::find(&chart, context.region(), context.now);
        let in_conflict = rollout_conflicts::machines_by_step(&conflicts);
        let fix =
            conflicts.first().and_then(|first| rollout_conflicts::find_fix(&chart, context.region(), query, first));
        let ends = found.ends.map_or_else(String::new, |at| {
            format!(r#"<p class="q">Ends about {}</p>"#, words::time(forewarn_core::Timestamp(at.0)))
        });
        panels.push(
            Panel::new("order", "Order", Vec::new())
                .with_html_before(ends + &chart.render_order(severity_class(plan.kind), &in_conflict))
                .with_html_after(html::render(&RolloutFoot {
                    fix,
                    moved: rollout_conflicts::describe_move(&chart, context.region(), query.text(MOVED)),
                    ..foot(context, query, (plan, found), &conflicts)
                })),
        );
        aside.push(
            Panel::new("capacity", "Capacity, worst first", Vec::new())
                .with_html_before(chart.render_capacity(&rollout_conflicts::groups_below(&conflicts))),
        );
        let warnings = render_warnings(context, found);
        if !warnings.is_empty() {
            aside.push(Panel::new("warnings", "Before you schedule", Vec::new()).with_html_before(warnings));
        }
    }
    PageContent::new("Plan a rollout", panels).with_lead(describe_targets(context, query)).with_aside(aside)
}

fn severity_class(kind: RolloutType) -> &'static str {
    match kind {
        RolloutType::Freeze | RolloutType::Drain => "slate",
        RolloutType::Reboot => "amber",
        RolloutType::Redeploy => "red",
    }
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

fn foot<'a>(
    context: &'a PageContext,
    query: &PageQuery,
    (plan, preview): (&NewRollout, &RolloutPreview),
    conflicts: &'a [PlanConflict],
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
        conflict: conflicts.first(),
        moved: String::new(),
        fix: None,
        confirm: confirm_floors(conflicts),
        notes: waits.collect(),
        role_needed: if context.visitor.is_allowed(Action::StartRollout) {
            String::new()
        } else {
            words::role_needed(Action::StartRollout.role())
        },
    }
}

/// A sentence that names the groups that fall below their floor. HTML.
fn confirm_floors(conflicts: &[PlanConflict]) -> String {
    let groups: Vec<String> = conflicts.iter().filter_map(PlanConflict::group).map(words::escape_html).collect();
    match groups.len() {
        0 => String::new(),
        1 => format!("Schedule even though {} falls below its floor", groups[0]),
        count => format!("Schedule even though {count} groups fall below their floors"),
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
            actions: Vec::new(),
        }
        .render();
    }
    let stopped = find_stopped(context, preview);
    if !stopped.is_empty() {
        html += &Callout {
            class: "c-amber",
            title: format!("{} whose handlers have stopped polling", count_of(stopped.len(), "group")),
            text: format!("{}: events wait for the whole notice period.", join_names(&stopped)),
            actions: Vec::new(),
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

/// Whether a group falls below its floor, which the visitor must confirm.
async fn breaks_floor(context: &PageContext, plan: &NewRollout) -> bool {
    let Some(preview) = preview(context, plan, &mut FieldErrors::default()).await else { return false };
    let chart = Chart::new(context, plan, &preview);
    rollout_conflicts::find(&chart, context.region(), context.now).iter().any(|conflict| conflict.group().is_some())
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
    if !form.is_checked(BELOW_FLOOR) && breaks_floor(&context, &plan).await {
        let content = render(&context, &query, &problems).await;
        return (StatusCode::UNPROCESSABLE_ENTITY, frame::render(&context, HERE, &content, UNCONFIRMED))
            .into_response();
    }
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
