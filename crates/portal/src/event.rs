//! The page of an event: details, lifecycle, machines, history; approve and cancel.

use std::collections::BTreeSet;
use std::sync::Arc;

use forewarn_api_types::join_names;
use forewarn_core::{Event, EventId, EventKind, Machine, MachineId, Operation, Request, Status};
use forewarn_store::{HistoryQuery, HistoryRow};
use forewarn_widgets::facts::Facts;
use forewarn_widgets::panel::{NotFound, PageContent, Panel};
use forewarn_widgets::{address, words};

use super::action::{Button, ButtonPanel, ButtonStyle};
use super::page_context::PageContext;
use super::{history, operation, timeline};
use forewarn_api::Action;
use forewarn_render::{name_operation, read_past_operation};
use forewarn_widgets::activity;

pub async fn render(context: &PageContext, id: EventId) -> Result<PageContent, NotFound> {
    let region = context.region();
    let query = HistoryQuery { event: Some(id), ..HistoryQuery::default() };
    let rows = history::render_panel(context, query.clone(), &address_of(id)).await;
    let event = region.event(id);
    if event.is_none() && rows.fragments.is_empty() {
        return Err(NotFound("This event does not exist, and the history has no record of it.".into()));
    }
    let events = timeline::find_events(context, |_, event| event.id == id, |row| row.event == Some(id)).await;
    let mut panels = Vec::new();
    if let Some(event) = event {
        panels.push(render_actions(context, event).without_frame());
        panels.push(Panel::with_content("facts", "Details", &list_facts(context, event)));
    }
    let mut title = format!("Event {}", words::event_name(id));
    match event {
        Some(event) => title = name_event(event.kind, event.resources.iter().map(|resource| resource.name.to_string())),
        None => {
            let past = history::read(context, query).await;
            let kind = past.iter().find_map(|row| Some((row, row.event_kind()?)));
            title = kind.map_or(title, |(row, kind)| name_event(kind, row.machines.iter().cloned()));
            panels.push(Panel::with_content("facts", "Details", &list_past_facts(context, id, &past).await));
        }
    }
    panels.push(timeline::render_panel(context, &events));
    panels.push(rows);
    Ok(PageContent {
        title,
        lead: "<p class=\"crumbs\"><a href=\"/operations\">Operations</a> / Event</p>".into(),
        panels,
        aside: Vec::new(),
    })
}

fn address_of(id: EventId) -> String {
    format!("/events/{}", words::event_name(id))
}

fn name_event(kind: EventKind, machines: impl Iterator<Item = String>) -> String {
    format!("{} of {}", kind.as_str(), join_names(machines))
}

/// An event that the region no longer has. The hosts are those where its machines are now.
async fn list_past_facts(context: &PageContext, id: EventId, rows: &[HistoryRow]) -> Facts {
    let region = context.region();
    let mut operations = Vec::new();
    for operation in rows.iter().filter_map(|row| row.operation).collect::<BTreeSet<_>>() {
        let query = HistoryQuery { operation: Some(operation), ..HistoryQuery::default() };
        let ended = read_past_operation(operation, &history::read(context, query).await);
        let found = region.operation(operation).map(|found| (**found).clone()).or(ended);
        let title = found.map_or_else(|| operation.to_string(), |found| name_operation(region, &found));
        let href = activity::ActivityId::Operation(operation).href();
        operations.push(format!(r#"<a href="{href}">{}</a>"#, words::escape_html(title)));
    }
    let ids: BTreeSet<MachineId> = rows.iter().flat_map(|row| row.machine_ids.iter().copied()).collect();
    let machines: Vec<&Arc<Machine>> = ids.iter().filter_map(|id| region.machine(*id)).collect();
    let links = machines.iter().map(|machine| {
        format!(r#"<a href="{}">{}</a>"#, address::of_machine(machine), words::escape_html(&machine.name))
    });
    let hosts: BTreeSet<_> = machines.iter().filter_map(|machine| machine.host.clone()).collect();
    let end = rows.iter().find_map(|row| Some((row.at, row.event_outcome()?)));
    let end = end.map(|(at, outcome)| {
        format!("<b>{}</b> {}", words::escape_html(timeline::describe_outcome(&outcome)), words::time(at))
    });
    let mut facts = vec![
        ("Status", end.unwrap_or_default()),
        ("Machines", join_names(links)),
        ("Cause", rows.iter().find_map(HistoryRow::event_cause).map_or("", words::cause).to_owned()),
        ("Operation", join_names(operations)),
        ("Host", join_names(hosts.iter().map(|host| words::host_link(host)))),
        ("EventId", format!("<code>{}</code>", words::event_name(id))),
    ];
    facts.retain(|(_, value)| !value.is_empty());
    Facts { facts }
}

fn list_facts(context: &PageContext, event: &Event) -> Facts {
    let region = context.region();
    let status = match &event.status {
        Status::Scheduled => format!("<b>Scheduled</b>, starts {}", words::countdown_at(event.not_before)),
        Status::Started { at } => format!("<b>In progress</b> since {}", words::time(*at)),
        Status::Ended { at, outcome } => {
            format!("<b>{}</b> {}", words::escape_html(timeline::describe_outcome(outcome)), words::time(*at))
        }
    };
    let approval = match &event.approval {
        Some(approval) => format!("{} {}", words::escape_html(words::approver(&approval.by)), words::time(approval.at)),
        None if event.status == Status::Scheduled => "not approved yet".into(),
        None => "not approved".into(),
    };
    let source = match event.cause.source() {
        forewarn_core::Source::Platform => "Platform",
        forewarn_core::Source::User => "User",
    };
    let shown = match (event.is_shown(), event.is_live()) {
        (false, _) => "not shown: no handler is connected".into(),
        (true, true) => format!("shown since {}", words::time(event.appeared)),
        (true, false) => format!("was shown from {}", words::time(event.appeared)),
    };
    let duration = match event.duration_secs {
        ..0 => "-1 (unknown)".into(),
        secs => secs.to_string(),
    };
    let mut facts = vec![
        ("Status", status),
        ("Machines", words::resource_links(region, &event.resources)),
        ("Not before", words::time(event.not_before)),
        ("Appeared", words::time(event.appeared)),
        ("Approved by", approval),
        ("Cause", format!("{} ({source})", words::cause(event.cause))),
        (requester_label(context, event), requesters(context, event)),
        ("Operation", operation_links(context, event)),
        ("In the document", shown),
        ("DurationInSeconds", duration),
        ("EventId", format!("<code>{}</code>", words::event_name(event.id))),
    ];
    if !event.description.is_empty() {
        facts.push(("Description", words::escape_html(&event.description)));
    }
    if let Some(scope) = region.scope(event.scope) {
        let name = words::scope(region, scope);
        facts.push(("Event group", format!(r#"<a href="{}">{}</a>"#, name.href, words::escape_html(&name.name))));
    }
    let machines = event.resources.iter().filter_map(|resource| region.machine(resource.machine));
    let hosts: BTreeSet<_> = machines.filter_map(|machine| machine.host.clone()).collect();
    if !hosts.is_empty() {
        facts.push(("Host", join_names(hosts.iter().map(|host| words::host_link(host)))));
    }
    facts.retain(|(_, value)| !value.is_empty());
    Facts { facts }
}

fn find_operations<'s>(context: &'s PageContext, event: &Event) -> impl Iterator<Item = &'s Arc<Operation>> {
    event.operations.iter().filter_map(|id| context.region().operation(*id))
}

fn requester_label(context: &PageContext, event: &Event) -> &'static str {
    let is_failure = |one: &Arc<Operation>| matches!(one.request, Request::Fail { .. });
    if find_operations(context, event).any(is_failure) { "Simulated by" } else { "Requested by" }
}

fn requesters(context: &PageContext, event: &Event) -> String {
    join_names(
        find_operations(context, event)
            .map(|one| format!("{} {}", words::escape_html(&one.requested_by), words::time(one.requested_at))),
    )
}

fn operation_links(context: &PageContext, event: &Event) -> String {
    join_names(find_operations(context, event).map(|one| {
        let title = words::escape_html(name_operation(context.region(), one));
        format!(r#"<a href="{}">{title}</a>"#, activity::ActivityId::Operation(one.id).href())
    }))
}

fn render_actions(context: &PageContext, event: &Event) -> Panel {
    let target = words::event_name(event.id);
    let back = format!("/events/{target}");
    let preview = context.preview();
    let mut actions = ButtonPanel::new(context, target, &back);
    if event.status == Status::Scheduled && event.approval.is_none() && event.is_shown() {
        let consequences = preview.describe_approval(event);
        actions =
            actions.button(Button::new("approve", "Approve", consequences, Action::ApproveEvents, ButtonStyle::Normal));
    }
    if event.status == Status::Scheduled {
        let firm = find_operations(context, event).find(|one| preview.find_cancel_obstacle(one).is_some());
        actions = match (host_operation(context, event), firm) {
            (Some(whole), _) => {
                let button = operation::cancel_button(&preview, whole, "Cancel host operation");
                actions.button_for(&whole.id.to_string(), button)
            }
            (None, Some(firm)) => actions.button(operation::cancel_button(&preview, firm, "Cancel")),
            (None, None) => {
                let consequences = preview.describe_cancellation(event);
                actions.button(Button::new("cancel", "Cancel", consequences, Action::Cancel, ButtonStyle::Normal))
            }
        };
    }
    actions.into_panel().or_empty_text("No actions available.")
}

/// The host operation of an event. Its events cannot be canceled one by one.
fn host_operation<'s>(context: &'s PageContext, event: &Event) -> Option<&'s Arc<Operation>> {
    let region = context.region();
    let operation = region.operation(event.cohort?)?;
    let live = operation.parts.iter().filter_map(|part| region.event(part.event));
    let several = live.filter(|event| event.status == Status::Scheduled).nth(1).is_some();
    several.then_some(operation)
}
