//! The page of an operation: its cause, targets and progress, the machines that it waits for, and its events by group; approve
//! all, cancel.

use std::collections::BTreeSet;
use std::sync::Arc;

use askama::Template;
use forewarn_api::Action;
use forewarn_api_types::Operation as OperationSummary;
use forewarn_api_types::{WaitReason, count_of, join_names, split_ticket};
use forewarn_core::{
    Event, EventKind, GroupId, Operation, OperationId, OperationResult, OperationState, Region, Request, ScopeId,
    ScopeOwner, Status, Timestamp,
};
use forewarn_render::{
    GroupDip, describe_losses, find_conflicts, find_dips, read_past_operation, render_operation,
    render_operation_from_history, render_operation_groups,
};
use forewarn_store::{HistoryQuery, HistoryRow};
use forewarn_widgets::facts::Facts;
use forewarn_widgets::fragment::Fragment;
use forewarn_widgets::lane::clock_span;
use forewarn_widgets::page_head::{PageHead, Sentence};
use forewarn_widgets::panel::{NotFound, PageContent, Panel};
use forewarn_widgets::query::PageQuery;
use forewarn_widgets::readiness::Readiness;
use forewarn_widgets::table::{self, Column, SortOrder};
use forewarn_widgets::{html, waits, words};

use super::action::{Button, ButtonPanel, ButtonStyle};
use super::operation_lanes::{self, LaneView};
use super::operation_missing::name_scope;
use super::operation_progress::{find_expected_end, is_scheduled, machines_in};
use super::page_context::PageContext;
use super::unready::Unready;
use super::{activities, history, operation_missing, operation_progress};
use forewarn_previews::preview::Preview;
use forewarn_widgets::activity::{Activity, ActivityId, find_cause};
use forewarn_widgets::conflict;

/// Events that are linked in the row of a group.
const EVENTS_MAX: usize = 6;

/// Groups per page.
const GROUPS_MAX: usize = 200;

const GROUP_COLUMNS: [Column; 7] = [
    Column { key: "", label: "Group", class: "" },
    Column { key: "", label: "Kind", class: "" },
    Column { key: "", label: "Machines", class: "r" },
    Column { key: "", label: "Readiness", class: "" },
    Column { key: "", label: "Approved by", class: "" },
    Column { key: "", label: "Up then", class: "r" },
    Column { key: "", label: "Events", class: "" },
];

/// A link to an event, named after its machines.
struct EventLink {
    href: String,
    machines: String,
    status: &'static str,
    class: &'static str,
}

#[derive(Template)]
#[template(path = "operation_group_row.html")]
struct OperationGroupRow<'a> {
    id: &'a str,
    sort: &'a str,
    group: words::ScopeName,
    machines: usize,
    /// HTML.
    meter: String,
    approved_by: String,
    /// None for a standalone VM, and if no machine goes down.
    dip: Option<&'a GroupDip>,
    events: Vec<EventLink>,
    /// Number of events without a link, and the address of the page with all links.
    more: usize,
    all: String,
}

pub async fn render(context: &PageContext, id: OperationId, query: &PageQuery) -> Result<PageContent, NotFound> {
    let wanted = HistoryQuery { operation: Some(id), ..HistoryQuery::default() };
    let rows = history::render_panel(context, wanted.clone(), &ActivityId::Operation(id).href()).await;
    let Some(operation) = context.region().operation(id) else {
        return render_past(context, rows, &history::read(context, wanted).await, id);
    };
    let events = events_of(context.region(), operation);
    let groups = render_operation_groups(context.region(), operation);
    let summary = OperationSummary { groups, ..render_operation(context.region(), operation) };
    let note = summary.description.clone().unwrap_or_default();
    let activity = Activity { note, ..Activity::of_operation(context.region(), operation) };
    let cause = find_cause(context.region(), id);
    let dips = find_dips(context.region(), context.now, cause, &events);
    let here = ActivityId::Operation(id).href();
    let view = LaneView::of(context, query, &here);
    let overlapping = find_conflicts(context.region(), cause, &events, &dips);
    let lanes = collect_lanes(context, view.window.begin(), id, &overlapping).await;
    let mut panels = vec![
        describe_state(context, operation, &summary, &events, &dips).into_panel(),
        render_actions(context, operation),
        operation_progress::render_panel(context, operation, &events),
    ];
    panels.push(conflict::render_panel(&conflict::warn_about(context.region(), cause, &events, &dips)));
    let timeline = operation_lanes::render_operation_lanes(context, &lanes, query, view);
    panels.push(Panel { title: "This and what overlaps".into(), ..timeline });
    panels.extend(operation_missing::render_panel(context, id, &events));
    panels.push(render_groups(context, id, query, &events, &dips));
    let facts = Panel::with_content("facts", "Details", &list_facts(operation, &summary, &events));
    let head = PageHead {
        parent: ("/operations", "Operations"),
        here: if activity.note.is_empty() { "Operation" } else { &activity.note },
        kind: activity.kind.as_str(),
        severity: activity.severity.class(),
        facts: list_head_facts(context, &activity),
    };
    Ok(PageContent::new(activity.title.clone(), panels).with_lead(html::render(&head)).with_aside(vec![facts, rows]))
}

/// The lanes of an operation, and of the activities that overlap with it.
async fn collect_lanes(
    context: &PageContext,
    since: Timestamp,
    id: OperationId,
    overlapping: &BTreeSet<ActivityId>,
) -> Vec<Activity> {
    let mut lanes = activities::collect(context, since).await;
    for lane in lanes.iter_mut().filter(|lane| !overlapping.contains(&lane.id)) {
        lane.events.retain(|event| event.operations.contains(&id));
    }
    lanes.retain(|lane| !lane.events.is_empty());
    lanes
}

/// An operation that ended more than an hour ago.
fn render_past(
    context: &PageContext,
    panel: Panel,
    rows: &[HistoryRow],
    id: OperationId,
) -> Result<PageContent, NotFound> {
    if rows.is_empty() {
        return Err(NotFound("This operation does not exist, and the history has no record of it.".into()));
    }
    let region = context.region();
    let lead = "<p>This operation has ended. Its details are in the history.</p>";
    let past = read_past_operation(id, rows).zip(render_operation_from_history(region, id, rows));
    let Some((operation, summary)) = past else {
        let lead = format!(r#"<p class="crumbs"><a href="/operations">Operations</a> / Operation</p>{lead}"#);
        return Ok(PageContent::new(format!("Operation {id}"), vec![panel]).with_lead(lead));
    };
    let note = summary.description.clone().unwrap_or_default();
    let activity = Activity { note, ..Activity::of_operation(region, &operation) };
    let head = PageHead {
        parent: ("/operations", "Operations"),
        here: "Operation",
        kind: activity.kind.as_str(),
        severity: activity.severity.class(),
        facts: list_head_facts(context, &activity),
    };
    let state = describe_state(context, &operation, &summary, &[], &[]).into_panel();
    let mut facts = list_facts(&operation, &summary, &[]);
    let fact = |label, text: Option<String>| text.map(|text| (label, words::escape_html(text)));
    facts.facts.retain(|(label, _)| *label != "Machines");
    facts.facts.extend(fact("Machines", Some(join_names(&summary.machines)).filter(|names| !names.is_empty())));
    facts.facts.extend(fact("Cause", summary.cause.map(|cause| cause.to_string())));
    facts.facts.extend(fact("Group", summary.group.clone()));
    facts.facts.extend(summary.ended.map(|at| ("Ended", words::time(Timestamp(at.0)))));
    let events = operation.parts.iter().enumerate().take(EVENTS_MAX).map(|(number, part)| {
        format!(r#"<a href="/events/{}">event {}</a>"#, words::event_name(part.event), number + 1)
    });
    facts.facts.push(("Events", events.collect::<Vec<_>>().join(", ")));
    facts.facts.retain(|(_, value)| !value.is_empty());
    let facts = Panel::with_content("facts", "Details", &facts);
    let content = PageContent::new(activity.title.clone(), vec![state, panel]).with_aside(vec![facts]);
    Ok(content.with_lead(html::render(&head) + lead))
}

fn events_of<'r>(region: &'r Region, operation: &Operation) -> Vec<&'r Arc<Event>> {
    operation.parts.iter().filter_map(|part| region.event(part.event)).collect()
}

fn list_head_facts(context: &PageContext, activity: &Activity) -> Vec<String> {
    let mut facts = Vec::new();
    let (ticket, note) = split_ticket(&activity.note);
    facts.extend(ticket.map(|ticket| format!("Ticket <b>{}</b>", words::escape_html(ticket))));
    if !note.is_empty() {
        facts.push(format!("<b>{}</b>", words::escape_html(note)));
    }
    facts.push(format!(
        "{} by <b>{}</b> {}",
        activity.request_verb(),
        words::escape_html(context.name_requester(&activity.requested_by)),
        words::time(activity.requested_at)
    ));
    facts
}

/// The machines of a deletion are not down, but deleted as requested.
fn is_deletion(operation: &Operation) -> bool {
    matches!(operation.request, Request::Delete { .. })
}

/// A recommendation takes no machine down.
fn has_impact(event: &Event) -> bool {
    event.kind != EventKind::SpotRebalanceRecommendation
}

fn is_started(event: &Event) -> bool {
    matches!(event.status, Status::Started { .. })
}

/// The state in one sentence, with what it waits for.
fn describe_state(
    context: &PageContext,
    operation: &Operation,
    summary: &OperationSummary,
    events: &[&Arc<Event>],
    dips: &[GroupDip],
) -> Sentence {
    let mut parts = Vec::new();
    match &operation.state {
        OperationState::Ended { result, .. } => parts.push(match result {
            OperationResult::Succeeded => r#"<span class="green">Finished</span>"#.into(),
            OperationResult::Failed(outcome) => {
                format!(r#"<span class="red">Failed: {}</span>"#, words::outcome_word(outcome).to_lowercase())
            }
            OperationResult::Canceled { by } => format!("Canceled by {}", words::escape_html(by)),
        }),
        OperationState::Running => {
            let down = machines_in(events, |event| is_started(event) && has_impact(event));
            let due = events.iter().filter(|event| is_scheduled(event)).map(|event| event.not_before).min();
            if down > 0 {
                let verb = if is_deletion(operation) { "being deleted" } else { "down" };
                parts.push(format!(r#"<span class="red">{} {verb}</span>"#, count_of(down, "machine")));
            }
            if let Some(due) = due {
                parts.push(format!("Starts {}", words::countdown_at(due)));
            }
            if down == 0 && due.is_none() {
                parts.push("In progress".into());
            }
            parts.extend(describe_losses(dips).map(words::escape_html));
            let below = dips.iter().filter(|dip| dip.is_below() && !dip.is_shrinking);
            let worst = below.min_by_key(|dip| dip.reserve()).map(GroupDip::describe);
            parts.extend(worst.map(|worst| format!(r#"<span class="red">{}</span>"#, words::escape_html(worst))));
            parts.push(describe_readiness(context, events));
            // Missing approvals are counted by machine, as in the rest of the page.
            let waits = summary.waits_for.iter().filter(|wait| wait.reason != WaitReason::Approvals);
            parts.extend(waits.map(waits::render_wait));
            parts.extend(describe_delay(context, events));
        }
    }
    Sentence::of(parts)
}

/// The machines that are not ready for scheduled events, out of all that will go down. HTML.
fn describe_readiness(context: &PageContext, events: &[&Arc<Event>]) -> String {
    let all = machines_in(events, |event| is_scheduled(event) && has_impact(event));
    let unready = Unready::of(context, events.iter().copied(), |_| true);
    match (all, unready.count()) {
        (0, _) => String::new(),
        (all, 0) => format!(r#"<span class="green">{all} of {all} ready</span>"#),
        (all, missing) => {
            let names = words::escape_html(unready.describe());
            format!(r#"<span class="amber">{missing} of {all} not ready: {names}</span>"#)
        }
    }
}

/// The time by which the events in progress are late.
fn describe_delay(context: &PageContext, events: &[&Arc<Event>]) -> Option<String> {
    let late = events.iter().filter_map(|event| match event.status {
        Status::Started { at } if event.duration_secs > 0 => {
            let end = at + std::time::Duration::from_secs(event.duration_secs as u64);
            (end < context.now).then(|| context.now.since(end).as_secs())
        }
        Status::Started { .. } | Status::Scheduled | Status::Ended { .. } => None,
    });
    late.max().map(|secs| format!(r#"<span class="red">{} longer than planned</span>"#, clock_span(secs)))
}

fn render_actions(context: &PageContext, operation: &Arc<Operation>) -> Panel {
    let id = operation.id.to_string();
    let preview = context.preview();
    let mut actions = ButtonPanel::new(context, &id, ActivityId::Operation(operation.id).href());
    let can_cancel = operation.state == OperationState::Running && operation.canceled.is_none();
    if can_cancel {
        let label = format!("Cancel {}", Activity::of_operation(context.region(), operation).kind.noun());
        actions = actions.button(cancel_button(&preview, operation, label));
    }
    // After the button that prevents harm, as on the overview.
    if let Some(trial) = preview.try_approval_of(operation) {
        let (label, tone) = label_approval(trial.count_starting());
        actions =
            actions.button(Button::new("approve-operation", label, trial.describe(), Action::ApproveEvents, tone));
    }
    actions.into_panel().without_frame()
}

/// The label and style of an approval that starts the impact on this number of machines at once.
pub fn label_approval(starting: usize) -> (&'static str, ButtonStyle) {
    match starting {
        0 => ("Approve", ButtonStyle::Primary),
        _ => ("Approve and start now", ButtonStyle::Danger),
    }
}

/// A button that cancels an operation, or says why that is not possible.
pub fn cancel_button(preview: &Preview<'_>, operation: &Arc<Operation>, label: impl Into<String>) -> Button {
    let label = label.into();
    let button = |text| Button::new("cancel-operation", label.as_str(), text, Action::Cancel, ButtonStyle::Normal);
    match preview.find_cancel_obstacle(operation) {
        Some(obstacle) => button(obstacle).with_disabled(),
        None => button(preview.describe_operation_cancellation(operation)),
    }
}

fn render_groups(
    context: &PageContext,
    id: OperationId,
    query: &PageQuery,
    events: &[&Arc<Event>],
    dips: &[GroupDip],
) -> Panel {
    let here = ActivityId::Operation(id).href();
    let region = context.region();
    let scopes: BTreeSet<ScopeId> = events.iter().map(|event| event.scope).collect();
    let mut rows = Vec::new();
    for (number, scope) in scopes.iter().take(GROUPS_MAX).enumerate() {
        let of_scope: Vec<&Arc<Event>> = events.iter().filter(|event| event.scope == *scope).copied().collect();
        let (key, sort) = (scope.0.to_string(), table::row_key(number));
        let id = format!("events-{key}");
        let shown = if query.has_word("events", &key) { of_scope.len() } else { EVENTS_MAX };
        let approvers: BTreeSet<String> =
            of_scope.iter().filter_map(|event| Some(words::approver(&event.approval.as_ref()?.by))).collect();
        let names: Vec<String> = approvers.into_iter().collect();
        let row = OperationGroupRow {
            id: &id,
            sort: &sort,
            group: name_scope(region, *scope),
            machines: machines_in(&of_scope, |_| true),
            meter: Readiness::of(of_scope.iter().map(|event| &***event)).render(),
            approved_by: join_names(&names),
            dip: find_group(region, *scope).and_then(|group| dips.iter().find(|dip| dip.id == group)),
            events: of_scope.iter().take(shown).map(|event| link_event(event)).collect(),
            more: of_scope.len().saturating_sub(shown),
            all: query.with_toggled("events", &key).address(&here),
        };
        rows.push(Fragment::render(id.as_str(), sort.as_str(), &row));
    }
    let order = SortOrder { key: "", is_descending: false };
    Panel::new("events", "Events by group", rows)
        .with_table(table::render_head(&GROUP_COLUMNS, order, &PageQuery::default(), ""))
        .or_empty_text("No events yet.")
}

fn find_group(region: &Region, scope: ScopeId) -> Option<GroupId> {
    match region.scope(scope)?.owner {
        ScopeOwner::Group { group, .. } => Some(group),
        ScopeOwner::Machine(_) => None,
    }
}

fn link_event(event: &Event) -> EventLink {
    EventLink {
        href: format!("/events/{}", words::event_name(event.id)),
        machines: join_names(event.resources.iter().map(|resource| resource.name.to_string())),
        status: words::status(event),
        class: match event.status {
            Status::Scheduled => "scheduled",
            Status::Started { .. } => "started",
            Status::Ended { .. } => "off",
        },
    }
}

fn list_facts(operation: &Operation, summary: &OperationSummary, events: &[&Arc<Event>]) -> Facts {
    let causes: BTreeSet<&str> = events.iter().map(|event| words::cause(event.cause)).collect();
    let descriptions: BTreeSet<&str> = events.iter().map(|event| &*event.description).collect();
    let links: Vec<String> = find_hosts(summary).into_iter().map(words::host_link).collect();
    let (by, is_failure) =
        (words::escape_html(&operation.requested_by), matches!(operation.request, Request::Fail { .. }));
    let mut facts = vec![
        ("Operation", format!("<code>{}</code>", operation.id)),
        ("Cause", causes.into_iter().map(str::to_owned).collect::<Vec<_>>().join(", ")),
        if is_failure { ("Simulated by", by) } else { ("Requested by", by) },
        (if is_failure { "Simulated" } else { "Requested" }, words::time(operation.requested_at)),
        ("Machines", machines_in(events, |_| true).to_string()),
    ];
    // Machines without a handler are not ready, but nothing waits for them.
    let approvals = summary.waits_for.iter().filter(|wait| wait.reason == WaitReason::Approvals);
    let start = events.iter().filter(|event| is_scheduled(event)).map(|event| event.not_before).min();
    let until = start.map_or_else(String::new, |at| format!(" until {}", words::time(at)));
    let names = approvals.map(|wait| format!("approval of {}{until}", words::escape_html(join_names(&wait.machines))));
    facts.extend(names.map(|names| ("Waits for", names)));
    facts.extend(start.map(|at| ("Not before", words::time(at))));
    facts.extend(find_expected_end(events).map(|at| ("Expected end", words::about(at))));
    let (ticket, note) = split_ticket(summary.description.as_deref().unwrap_or_default());
    facts.extend(ticket.map(|ticket| ("Ticket", words::escape_html(ticket))));
    facts.push(("Description", words::escape_html(note)));
    let read: Vec<String> = descriptions.into_iter().filter(|text| !text.is_empty()).map(words::escape_html).collect();
    if !read.is_empty() {
        facts.push(("Shown to machines", join_names(&read)));
    }
    if !links.is_empty() {
        facts.push(("Hosts", join_names(&links)));
    }
    if let Some(rollout) = operation.rollout {
        let href = ActivityId::Rollout(rollout).href();
        facts.push(("Rollout", format!(r#"<a href="{href}">{rollout}</a>"#)));
    }
    facts.retain(|(_, value)| !value.is_empty());
    Facts { facts }
}

fn find_hosts(summary: &OperationSummary) -> BTreeSet<&str> {
    let events = summary.groups.iter().flat_map(|group| &group.events);
    events.flat_map(|event| &event.hosts).chain(&summary.host).map(String::as_str).collect()
}
