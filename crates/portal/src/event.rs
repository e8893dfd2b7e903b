//! One event: its life, whom it is about, what it comes from, and what can still be decided.

use std::sync::Arc;

use forewarn_core::{Event, EventId, EventKind, Operation, Status};
use forewarn_store::HistoryQuery;

use super::action::{Actions, Button, Tone};
use super::machine::Facts;
use super::page::{Drawn, Missing, Panel, Scene};
use super::preview::Oracle;
use super::{history, timeline, words};
use forewarn_access::Role;

pub async fn draw(scene: &Scene, id: EventId) -> Result<Drawn, Missing> {
    let region = scene.region();
    let rows = history::panel(scene, HistoryQuery { event: Some(id), ..HistoryQuery::default() }).await;
    let event = region.event(id);
    if event.is_none() && rows.fragments.is_empty() {
        return Err(Missing("There is no such event, nor does the history know of one.".into()));
    }
    let lives = timeline::lives(scene, |_, event| event.id == id, |row| row.event == Some(id)).await;
    let mut panels = Vec::new();
    if let Some(event) = event {
        panels.push(Panel::one("facts", "Known", &facts(scene, event)));
        panels.push(actions(scene, event));
    }
    panels.push(timeline::panel(scene, &lives));
    panels.push(rows);
    let kind = event.map_or("Event", |event| words::kind(event.kind));
    let names: Vec<String> =
        event.map_or_else(Vec::new, |event| event.resources.iter().map(|resource| resource.name.to_string()).collect());
    let title = if names.is_empty() {
        format!("Event {}", words::event_name(id))
    } else {
        format!("{kind} of {}", words::few(&names))
    };
    Ok(Drawn { title, lead: "<p class=\"crumbs\"><a href=\"/\">Overview</a> / Event</p>".into(), panels })
}

fn facts(scene: &Scene, event: &Event) -> Facts {
    let region = scene.region();
    let until = format!(r#" <span class="count" data-until="{}"></span>"#, event.not_before.0);
    let status = match &event.status {
        Status::Scheduled => format!("<b>Scheduled</b>{until}"),
        Status::Started { at } => format!("<b>Started</b> {}", words::time(*at)),
        Status::Ended { at, outcome } => {
            format!("<b>{}</b> {}", words::escaped(timeline::ending(outcome)), words::time(*at))
        }
    };
    let approval = match &event.approval {
        Some(approval) => format!("{} {}", words::escaped(words::approver(&approval.by)), words::time(approval.at)),
        None if event.status == Status::Scheduled => "nobody yet".into(),
        None => "nobody".into(),
    };
    let source = match event.cause.source() {
        forewarn_core::Source::Platform => "Platform",
        forewarn_core::Source::User => "User",
    };
    let shown = match (event.is_shown(), event.is_live()) {
        (false, _) => "not shown: nobody in the scope asks for events".into(),
        (true, true) => format!("shown since {}", words::time(event.appeared)),
        (true, false) => format!("was shown from {}", words::time(event.appeared)),
    };
    let duration = match event.duration_secs {
        ..0 => "-1: not known".into(),
        secs => secs.to_string(),
    };
    let mut facts = vec![
        ("Status", status),
        ("Machines", words::resources(region, &event.resources)),
        ("Not before", words::time(event.not_before)),
        ("Appeared", words::time(event.appeared)),
        ("Approved by", approval),
        ("Cause", format!("{} ({source})", words::cause(event.cause))),
        ("Asked for by", askers(scene, event)),
        ("In the document", shown),
        ("DurationInSeconds", duration),
        ("EventId", format!("<code>{}</code>", words::event_name(event.id))),
    ];
    if !event.description.is_empty() {
        facts.push(("Description", words::escaped(&event.description)));
    }
    if let Some(scope) = region.scope(event.scope) {
        let name = words::scope(region, scope);
        facts.push(("Scope", format!(r#"<a href="{}">{}</a>"#, name.href, words::escaped(&name.name))));
    }
    Facts { facts }
}

fn askers(scene: &Scene, event: &Event) -> String {
    let operations = event.operations.iter().filter_map(|id| scene.region().operation(*id));
    words::few_of(operations.map(|one| format!("{} {}", words::escaped(&one.by), words::time(one.asked))))
}

fn actions(scene: &Scene, event: &Event) -> Panel {
    let target = words::event_name(event.id);
    let back = format!("/events/{target}");
    let oracle = Oracle::of(scene);
    let mut actions = Actions::new(scene, target, &back);
    if event.status == Status::Scheduled && event.approval.is_none() && event.is_shown() {
        let told = oracle.approve(event);
        actions = actions.button(Button::new("approve", "Approve", told, Role::Operator, Tone::Calm));
    }
    if event.status == Status::Scheduled && !matches!(event.kind, EventKind::Terminate | EventKind::Preempt) {
        actions = match host_operation(scene, event) {
            Some(whole) => {
                let (act, label) = ("cancel-operation", "Cancel the host operation");
                let button = Button::new(act, label, oracle.stop(whole), Role::Operator, Tone::Danger);
                actions.button_of(&whole.id.to_string(), button)
            }
            None => actions.button(Button::new("cancel", "Cancel", oracle.cancel(event), Role::Operator, Tone::Danger)),
        };
    }
    actions.panel().or("Nothing can be decided any more.")
}

/// One event of a host operation is not cancelled alone.
fn host_operation<'s>(scene: &'s Scene, event: &Event) -> Option<&'s Arc<Operation>> {
    let region = scene.region();
    let operation = region.operation(event.cohort?)?;
    let live = operation.parts.iter().filter_map(|part| region.event(part.event));
    let several = live.filter(|event| event.status == Status::Scheduled).nth(1).is_some();
    several.then_some(operation)
}
