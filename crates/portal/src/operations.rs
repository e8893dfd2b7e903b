//! The list of operations and rollouts: those that run, and those that ended within the last hour. Several can be approved or
//! canceled at once, after a confirmation.

use std::sync::Arc;

use askama::Template;
use axum::response::{IntoResponse, Redirect, Response};
use forewarn_api::{Action, parse_operation_id};
use forewarn_api_types::count_of;
use forewarn_core::{Guid, Operation, OperationId, OperationState, Region, Rollout};
use forewarn_render::name_operation;
use forewarn_widgets::fragment::Fragment;
use forewarn_widgets::panel::{PageContent, Panel};
use forewarn_widgets::query::PageQuery;
use forewarn_widgets::selection_bar::SelectionBar;
use forewarn_widgets::severity::Severity;
use forewarn_widgets::table::{self, Column, SortOrder};
use forewarn_widgets::waits::render_wait;
use forewarn_widgets::{address, words};

use super::action::ButtonStyle;
use super::bulk::{BulkNoun, BulkResult};
use super::confirm::Confirmation;
use super::page_context::PageContext;
use super::refusal::Refusal;
use super::timeline::Stage;
use super::visitor::Form;
use super::{bulk, frame, group_table, operation};
use forewarn_previews::preview::ApprovalTrial;
use forewarn_widgets::activity;
use forewarn_widgets::activity::{Activity, ActivityId};

const HERE: &str = "/operations";

/// Rows per page.
const ROWS_MAX: usize = 100;

const COLUMNS: [Column; 8] = [
    Column { key: "", label: "", class: "w4" },
    Column { key: "name", label: "Operation", class: "" },
    Column { key: "type", label: "Type", class: "" },
    Column { key: "state", label: "State", class: "" },
    Column { key: "machines", label: "Machines", class: "r" },
    Column { key: "", label: "Readiness", class: "" },
    Column { key: "by", label: "Requested by", class: "" },
    Column { key: "asked", label: "Requested", class: "r" },
];

#[derive(Template)]
#[template(path = "operation_row.html")]
struct OperationRow<'a> {
    id: &'a str,
    sort: &'a str,
    activity: &'a Activity,
    href: String,
    /// The ID for the selection; empty if the visitor can do nothing with it.
    value: String,
    is_selected: bool,
    /// HTML.
    state: String,
    machines: usize,
    /// HTML.
    meter: String,
    requested: String,
}

/// Rollouts are listed with operations.
pub async fn redirect() -> Redirect {
    Redirect::to(HERE)
}

pub fn render(context: &PageContext, query: &PageQuery) -> PageContent {
    let region = context.region();
    let mut all = activity::collect_running(region);
    let running = all.len();
    all.extend(list_ended(region));
    let show = query.text("show");
    let mut found: Vec<&Activity> = all
        .iter()
        .filter(|activity| match show {
            "running" => activity.stage() != Stage::Finished,
            "ended" => activity.stage() == Stage::Finished,
            _ => true,
        })
        .collect();
    let order = SortOrder::of(query, &COLUMNS, "state");
    sort(&mut found, order);
    let from = query.number("from");
    let rows = found.iter().skip(from).take(ROWS_MAX).enumerate();
    let rows = rows.map(|(number, activity)| render_row(context, query, activity, number)).collect();
    let filters = [("", "All", all.len()), ("running", "Running", running), ("ended", "Ended", all.len() - running)]
        .map(|(word, label, number)| {
            format!(
                r#"<a href="{}" data-soft{}>{label} <span class="n">{number}</span></a>"#,
                query.with("show", word).with("from", "").address(HERE).replace('&', "&amp;"),
                if word == show { r#" aria-current="true""# } else { "" }
            )
        })
        .concat();
    let bar = SelectionBar {
        action: "/portal/operations",
        csrf: &context.visitor.session.csrf,
        back: &query.address(HERE),
        label: "Actions on selected operations",
        buttons: vec![("cancel", "Cancel…", ""), ("approve", "Approve…", "quiet-danger")],
    };
    let may = context.visitor.is_allowed(Action::Cancel);
    let foot = group_table::render_paging(query, HERE, from, ROWS_MAX, found.len());
    let panel = Panel::new("operation-list", "Operations and rollouts", rows)
        .with_table(table::render_head(&COLUMNS, order, query, HERE))
        .with_html_before(format!(r#"<div class="filters-row"><span class="seg">{filters}</span></div>"#))
        .with_html_after(foot + &if may { bar.render() } else { String::new() })
        .or_empty_text("No operations. Plan a rollout from the Hosts page, or start an action on a machine.");
    PageContent::new("Operations", vec![panel])
}

/// Operations and rollouts that ended and that the region still has.
fn list_ended(region: &Region) -> Vec<Activity> {
    let is_own_cause = |id: OperationId| activity::find_cause(region, id) == ActivityId::Operation(id);
    let ended = region.operations().filter(|one| one.state != OperationState::Running);
    let operations = ended.filter(|one| is_own_cause(one.id));
    // The rollout of maintenance is kept for longer than its operation, which is listed until then.
    let is_listed = |rollout: &Rollout| rollout.operation.is_some_and(|id| region.operation(id).is_some());
    let rollouts = region.rollouts().filter(|rollout| !rollout.is_live() && !is_listed(rollout));
    let rollouts = rollouts.map(|rollout| Activity::of_rollout(region, rollout));
    operations.map(|operation| Activity::of_operation(region, operation)).chain(rollouts).collect()
}

fn sort(found: &mut [&Activity], order: SortOrder<'_>) {
    match order.key {
        "name" => found.sort_by_cached_key(|activity| activity.title.to_lowercase()),
        "type" => found.sort_by_key(|activity| (activity.severity, activity.kind.as_str())),
        "machines" => found.sort_by_cached_key(|activity| std::cmp::Reverse(activity.machine_count())),
        "by" => found.sort_by_cached_key(|activity| activity.requested_by.to_lowercase()),
        "asked" => found.sort_by_key(|activity| std::cmp::Reverse(activity.requested_at)),
        _ => found.sort_by_key(|activity| match activity.stage() {
            Stage::InProgress => (0, activity.started().map_or(0, |at| at.0)),
            Stage::Scheduled => (1, activity.due().map_or(i64::MAX, |due| due.0)),
            Stage::Finished => (2, -activity.requested_at.0),
        }),
    }
    if order.is_descending {
        found.reverse();
    }
}

fn render_row(context: &PageContext, query: &PageQuery, activity: &Activity, number: usize) -> Fragment {
    let state = match activity.stage() {
        Stage::InProgress => {
            let class = if activity.severity == Severity::Slate { "wait" } else { "down" };
            format!(r#"<span class="st {class}">In progress</span>"#)
        }
        Stage::Scheduled => {
            let due = activity.due().map_or_else(
                || activity.waits_for.as_ref().map_or_else(String::new, |wait| format!(", {}", render_wait(wait))),
                |due| format!(", starts {}", words::countdown_at(due)),
            );
            format!(r#"<span class="st wait">Scheduled</span>{due}"#)
        }
        Stage::Finished => describe_end(context.region(), activity.id),
    };
    let (id, sort) = (activity.id.key(), table::row_key(number));
    let value = match (activity.id, activity.is_running && context.visitor.is_allowed(Action::Cancel)) {
        (ActivityId::Operation(id), true) => id.to_string(),
        (ActivityId::Operation(_) | ActivityId::Rollout(_), _) => String::new(),
    };
    let row = OperationRow {
        id: &id,
        sort: &sort,
        activity,
        href: activity.href(),
        is_selected: query.has_word("selected", &value),
        value,
        state,
        machines: activity.machine_count(),
        meter: activity.readiness().render(),
        requested: words::time(activity.requested_at),
    };
    Fragment::render(id.as_str(), sort.as_str(), &row)
}

fn describe_end(region: &Region, id: ActivityId) -> String {
    let (class, word) = match id {
        ActivityId::Operation(id) => match region.operation(id).map(|operation| &operation.state) {
            Some(OperationState::Ended { result: forewarn_core::OperationResult::Failed(_), .. }) => ("down", "Failed"),
            Some(OperationState::Ended { result: forewarn_core::OperationResult::Canceled { .. }, .. }) => {
                ("idle", "Canceled")
            }
            Some(OperationState::Ended { .. } | OperationState::Running) | None => ("", "Finished"),
        },
        ActivityId::Rollout(id) => match region.rollout(id).map(|rollout| &rollout.state) {
            Some(forewarn_core::RolloutState::Failed { .. }) => ("down", "Failed"),
            Some(forewarn_core::RolloutState::Stopped { .. }) => ("idle", "Stopped"),
            _ => ("", "Finished"),
        },
    };
    format!(r#"<span class="st {class}">{word}</span>"#)
}

/// Shows the confirmation page, or approves or cancels the selected operations if it was confirmed.
pub async fn perform(context: &PageContext, form: &Form) -> Result<Response, Refusal> {
    let region = context.region();
    let ids: Vec<Guid> = form.all("id").into_iter().filter_map(|id| parse_operation_id(id).ok()).collect();
    let found: Vec<_> = ids.iter().filter_map(|id| region.operation(*id)).collect();
    if found.is_empty() {
        return Err(Refusal::form("Select at least one operation that has not ended."));
    }
    let is_approval = form.text("act") == "approve";
    // The overview has the same buttons.
    let selected: Vec<String> = found.iter().map(|one| one.id.to_string()).collect();
    let back = bulk::select_rows(&address::check_own(form.text("back")), HERE, &selected);
    if !form.is_checked("confirmed") {
        let page = confirm(context, form, &found, &back).render();
        return Ok(frame::render(context, HERE, &page, "").into_response());
    }
    let actions = context.portal.actions(form.visitor.principal());
    let mut result = BulkResult::default();
    for one in &found {
        let done = match is_approval {
            true => actions.approve_operation(one.id).await,
            false => actions.cancel_operation(one.id).await,
        };
        let href = ActivityId::Operation(one.id).href();
        result.add(&name_operation(region, one), href, done.map(drop).map_err(Refusal::from));
    }
    let verb = if is_approval { "Approved" } else { "Canceled" };
    let flash = result.into_flash(verb, &BulkNoun { noun: "operation", list: HERE })?;
    context.portal.shared.flashes.set(&form.visitor.cookie, flash);
    Ok(Redirect::to(&back).into_response())
}

/// The confirmation of an approval or cancellation.
fn confirm<'a>(
    context: &'a PageContext,
    form: &'a Form,
    operations: &[&Arc<Operation>],
    back: &'a str,
) -> Confirmation<'a> {
    let (preview, act) = (context.preview(), form.text("act"));
    let many = count_of(operations.len(), "operation");
    let (verb, label, tone, previews) = if act == "approve" {
        let trials: Vec<_> = operations.iter().map(|one| preview.try_approval_of(one)).collect();
        let starting = trials.iter().flatten().map(ApprovalTrial::count_starting).sum();
        let describe = |trial: &Option<ApprovalTrial<'_>>| {
            trial.as_ref().map_or_else(|| "No approvals are missing.".into(), ApprovalTrial::describe)
        };
        let (label, tone) = operation::label_approval(starting);
        ("Approve", label, tone, trials.iter().map(describe).collect::<Vec<String>>())
    } else {
        let label = if operations.len() == 1 { "Cancel operation" } else { "Cancel operations" };
        let previews = operations.iter().map(|one| preview.describe_operation_cancellation(one));
        ("Cancel", label, ButtonStyle::Normal, previews.collect())
    };
    let names: Vec<String> = operations.iter().map(|one| name_operation(context.region(), one)).collect();
    Confirmation {
        title: match &names[..] {
            [name] => format!("{verb}: {name}?"),
            _ => format!("{verb} {many}?"),
        },
        previews: names.into_iter().zip(previews).collect(),
        action: "/portal/operations",
        fields: [("act", act)].into_iter().chain(form.all("id").into_iter().map(|id| ("id", id))).collect(),
        label: label.into(),
        tone,
        back,
        csrf: &context.visitor.session.csrf,
    }
}
