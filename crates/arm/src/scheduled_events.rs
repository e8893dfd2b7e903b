//! The list of scheduled events: current ones from the region, finished ones from the newest page of history.

use std::collections::{BTreeMap, BTreeSet};

use axum::response::Response;
use forewarn_core::{ApprovalScope, Event, EventId, EventKind, Outcome, Region, ScopeOwner, Source, Status, Timestamp};
use forewarn_store::{EventTimeline, HISTORY_PAGE_MAX, HistoryKind, HistoryQuery, HistoryRow};
use forewarn_wire::guid;
use serde_json::{Value, json};

use super::acknowledge;
use super::call::Call;
use super::page::{self, PageRequest};
use super::resource::{is_in_group, is_same_resource_group};
use forewarn_api::error::ApiError;
use forewarn_api_types::{EventSource, EventType, Time};
use forewarn_render::Convert;

pub async fn list(call: Call) -> Result<Response, ApiError> {
    let request = PageRequest::of(&call)?;
    let snapshot = call.arm.snapshot();
    let region = &snapshot.region;
    let scopes = requested_scopes(region, &call)?;
    let query = HistoryQuery {
        kinds: vec![HistoryKind::Appeared, HistoryKind::Started, HistoryKind::Ended],
        newest: true,
        limit: Some(HISTORY_PAGE_MAX),
        ..HistoryQuery::default()
    };
    let rows = call.arm.read(move |reader| reader.history(&query)).await?;
    let timelines = timelines(rows.iter().filter(|row| row.scope.is_some_and(|scope| scopes.contains(&scope))));
    let mut found: BTreeMap<String, Value> =
        timelines.iter().map(|past| (sort_key(past.appeared, past.event), past_properties(past))).collect();
    for event in region.events().filter(|event| event.is_shown() && scopes.contains(&event.scope.0)) {
        found.insert(sort_key(event.appeared, event.id), properties(event));
    }
    let base = call.path.to_string();
    let after = request.after.as_deref();
    let rest = found.into_iter().filter(|(key, _)| after.is_none_or(|after| key.as_str() > after));
    let mut found: Vec<_> = rest.take(request.limit + 1).collect();
    let next = request.cut(&mut found, |(key, _)| key.clone());
    Ok(page::respond(&call, found.into_iter().map(|(_, event)| render(&base, event)).collect(), next))
}

/// The event groups whose events are requested.
fn requested_scopes(region: &Region, call: &Call) -> Result<BTreeSet<u64>, ApiError> {
    let is_extension = call.id().extension.is_some();
    if is_extension {
        let scopes = match acknowledge::resolve_scope(region, call.id())? {
            ApprovalScope::ScopeOf(machine) => {
                region.machine(machine).map(|machine| machine.scope.0).into_iter().collect()
            }
            ApprovalScope::Group(group) => {
                region.group(group).into_iter().flat_map(|it| &it.scopes).map(|it| it.0).collect()
            }
            ApprovalScope::Region => BTreeSet::new(),
        };
        return Ok(scopes);
    }
    let home = call.home();
    let in_group = is_in_group(call.id());
    let resource_group_of = |owner: ScopeOwner| match owner {
        ScopeOwner::Machine(machine) => region.machine(machine).map(|machine| &*machine.home),
        ScopeOwner::Group { group, .. } => region.group(group).map(|group| &*group.home),
    };
    let is_wanted = |owner: ScopeOwner| {
        resource_group_of(owner).is_some_and(|it| {
            it.subscription.eq_ignore_ascii_case(&home.subscription) && (!in_group || is_same_resource_group(it, &home))
        })
    };
    Ok(region.scopes().filter(|scope| is_wanted(scope.owner)).map(|scope| scope.id.0).collect())
}

fn render(base: &str, properties: Value) -> Value {
    let name = properties["EventId"].as_str().unwrap_or_default().to_owned();
    json!({
        "id": format!("{base}/{name}"),
        "name": name,
        "type": "Microsoft.Maintenance/scheduledevents",
        "properties": properties,
    })
}

fn properties(event: &Event) -> Value {
    let (status, ended) = match &event.status {
        Status::Scheduled => ("Scheduled", None),
        Status::Started { .. } => ("Started", None),
        Status::Ended { at, outcome } => (final_status(outcome), Some(*at)),
    };
    let not_before = match event.status {
        Status::Scheduled => Time(event.not_before.0).to_string(),
        Status::Started { .. } | Status::Ended { .. } => String::new(),
    };
    json!({
        "EventId": guid::Upper(event.id.0).to_string(),
        "EventStatus": status,
        "EventType": event_type(event.kind),
        "ResourceType": "VirtualMachine",
        "Resources": event.resources.iter().map(|resource| &*resource.name).collect::<Vec<_>>(),
        "NotBefore": not_before,
        "Description": &*event.description,
        "EventSource": event_source(event.cause.source()),
        "DurationInSeconds": event.duration_secs,
        "Approved": event.approval.is_some(),
        "Appeared": Time(event.appeared.0).to_string(),
        "Ended": ended.map(|at| Time(at.0).to_string()),
    })
}

/// As in Azure, an event that failed is also shown as Completed.
fn final_status(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Canceled { .. } => "Canceled",
        Outcome::Completed
        | Outcome::Failed(_)
        | Outcome::TimedOut
        | Outcome::Superseded
        | Outcome::NoEffect
        | Outcome::ResourceGone => "Completed",
    }
}

fn event_type(kind: EventKind) -> Value {
    let event_type: EventType = kind.convert();
    event_type.as_str().into()
}

fn event_source(source: Source) -> Value {
    let source: EventSource = source.convert();
    source.as_str().into()
}

/// Events are listed in the order of their appearance.
fn sort_key(appeared: Timestamp, event: EventId) -> String {
    format!("{:020}{}", appeared.0, guid::Upper(event.0))
}

/// The events in these rows, which are in order.
fn timelines<'a>(rows: impl Iterator<Item = &'a HistoryRow>) -> Vec<EventTimeline> {
    let mut found: BTreeMap<EventId, EventTimeline> = BTreeMap::new();
    for row in rows {
        let Some(event) = row.event else { continue };
        match found.get_mut(&event) {
            Some(timeline) => timeline.follow(row),
            None => found.extend(EventTimeline::begin(row).map(|timeline| (event, timeline))),
        }
    }
    found.into_values().collect()
}

/// A finished event that the region no longer has.
fn past_properties(past: &EventTimeline) -> Value {
    let status = match (&past.ended, past.started) {
        (Some((_, outcome)), _) => final_status(outcome),
        (None, Some(_)) => "Started",
        (None, None) => "Scheduled",
    };
    let not_before = match status {
        "Scheduled" => Time(past.appearance.not_before.0).to_string(),
        _ => String::new(),
    };
    let mut properties = json!({
        "EventId": guid::Upper(past.event.0).to_string(),
        "EventStatus": status,
        "EventType": event_type(past.appearance.kind),
        "ResourceType": "VirtualMachine",
        "Resources": past.machines,
        "NotBefore": not_before,
        "Description": past.appearance.description,
        "EventSource": event_source(past.appearance.source),
        "DurationInSeconds": past.appearance.duration_secs,
        "Appeared": Time(past.appeared.0).to_string(),
    });
    if let Some((at, _)) = &past.ended {
        properties["Ended"] = Time(at.0).to_string().into();
    }
    properties
}
