//! One event: its life, whom it is about, what it comes from, and what can still be decided.

use forewarn_core::{Event, EventId, EventKind, Status};
use forewarn_store::HistoryQuery;

use super::machine::{Action, Facts, history_panel};
use super::page::{Drawn, Fragment, Missing, Panel, Scene};
use super::{timeline, words};
use crate::identity::Role;

pub async fn draw(scene: &Scene, id: EventId) -> Result<Drawn, Missing> {
    let region = scene.region();
    let history = HistoryQuery { event: Some(id), ..HistoryQuery::default() };
    let rows = history_panel(scene, history).await;
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
        None => "nobody yet".into(),
    };
    let source = match event.cause.source() {
        forewarn_core::Source::Platform => "Platform",
        forewarn_core::Source::User => "User",
    };
    let seen = if event.is_shown() { "yes" } else { "no: nobody in the scope asks for events" };
    let mut facts = vec![
        ("Status", status),
        ("Machines", words::resources(region, &event.resources)),
        ("Not before", words::time(event.not_before)),
        ("Appeared", words::time(event.appeared)),
        ("Approved by", approval),
        ("Cause", format!("{} ({source})", words::cause(event.cause))),
        ("Seen by its machines", seen.into()),
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

fn actions(scene: &Scene, event: &Event) -> Panel {
    let target = words::event_name(event.id);
    let back = format!("/events/{target}");
    let csrf = &scene.visitor.session.csrf;
    let allowed = scene.visitor.may(Role::Operator);
    let action = |act, label, foretold, danger| Action {
        act,
        target: &target,
        label,
        foretold,
        allowed,
        needs: Role::Operator,
        danger,
        csrf,
        back: &back,
    };
    let mut fragments = Vec::new();
    if event.status == Status::Scheduled {
        if event.approval.is_none() {
            fragments.push(Fragment::of(
                "do-approve",
                "0",
                &action("approve", "Approve", approve_sentence(scene, event), false),
            ));
        }
        if !matches!(event.kind, EventKind::Terminate | EventKind::Preempt) {
            let sentence =
                "What asked for it is cancelled: its events that have not started go, those that have finish."
                    .to_owned();
            fragments.push(Fragment::of("do-cancel", "1", &action("cancel", "Cancel", sentence, true)));
        }
    }
    Panel::new("actions", "Actions", fragments).or("Nothing can be decided any more.")
}

fn approve_sentence(scene: &Scene, event: &Event) -> String {
    let others =
        event.cohort.and_then(|cohort| scene.region().operation(cohort)).map_or(0, |cohort| cohort.parts.len());
    let names: Vec<String> = event.resources.iter().map(|resource| words::escaped(&resource.name)).collect();
    let kind = words::kind(event.kind);
    match (event.kind, others) {
        (EventKind::Terminate, _) => format!(
            "{kind} of {} goes ahead once the other deletions of this scope that wait are approved, due or gone.",
            words::few(&names)
        ),
        (_, 2..) => format!(
            "{kind} of {} starts when the other events of its host are approved too, or at its time.",
            words::few(&names)
        ),
        _ => format!(
            "{kind} of {} starts now instead of waiting for {}.",
            words::few(&names),
            words::time(event.not_before)
        ),
    }
}
