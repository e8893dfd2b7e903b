//! Turns a row of history into the message for a receiver, or into nothing if the row is not reported.
//!
//! A row contains little. The description of the event comes from the row of its appearance, or from the region if that row
//! has been pruned. Its resource comes from the region, or from the row of its removal if the machine has been deleted.

use forewarn_core::{
    EventId, EventKind, Outcome, Region, ResourceGroupRef, ScopeId, ScopeOwner, Source as CoreSource, Timestamp,
};
use forewarn_render::Convert;
use forewarn_store::{
    EventAppeared, EventTimeline, HistoryFact, HistoryKind, HistoryQuery, HistoryRow, Reader, StoreError,
};
use forewarn_wire::arm::compute::{ComputeResource, LOCATION_DEFAULT};
use forewarn_wire::cloudevent::{EventMessage, Stage};
use forewarn_wire::document::{Kind, Source};
use forewarn_wire::guid;

use super::message::Message;
use super::{Filter, rollout_message};
use forewarn_api_types::{EventType, Time, WebhookTopic};
use forewarn_metadata::{group_resource_id, machine_resource_id};

/// The kinds of rows that messages on a topic report, without the ends of drains, which come with a row about their host.
pub fn row_kinds(topic: WebhookTopic) -> &'static [HistoryKind] {
    match topic {
        WebhookTopic::Events => &[HistoryKind::Appeared, HistoryKind::Started, HistoryKind::Ended],
        WebhookTopic::Rollouts => &[HistoryKind::RolloutChanged, HistoryKind::HostChanged],
    }
}

/// Builds the message for a row. Blocking, because it reads history.
pub fn build_message(
    reader: &dyn Reader,
    region: &Region,
    row: &HistoryRow,
    filter: &Filter,
) -> Result<Option<Message>, StoreError> {
    let (Some(event), Some(stage)) = (row.event, stage_of(row)) else {
        let reported = filter.covers(WebhookTopic::Rollouts);
        return Ok(if reported { rollout_message::build_message(region, row) } else { None });
    };
    if !filter.covers(WebhookTopic::Events) {
        return Ok(None);
    }
    let kind = row.event_kind().map_or(Kind::Unknown, wire_kind);
    if !filter.matches(kind, stage, &row.machines) {
        return Ok(None);
    }
    let Some(facts) = read_facts(reader, region, row, event)? else { return Ok(None) };
    if stage == Stage::Scheduled && facts.begins_started {
        return Ok(None);
    }
    let resource = find_resource(reader, region, row, &facts)?;
    if !filter.matches_resource_group(&resource.resource_group) {
        return Ok(None);
    }
    let resources: Vec<&str> = row.machines.iter().map(String::as_str).collect();
    let message_id = event.derive(row.number);
    let described = EventMessage {
        message_id: message_id.0,
        time: &Time(row.at.0).to_string(),
        subscription: &facts.subscription,
        resource_id: &resource.resource_id,
        location: &resource.location,
        event_id: event.0,
        stage,
        kind: facts.kind,
        resources: &resources,
        not_before_unix_secs: Some(facts.not_before.as_secs()),
        description: &facts.description,
        source: facts.source,
        duration_secs: facts.duration_secs,
    };
    let id = guid::Lower(message_id.0).to_string();
    Ok(Some(Message { id, body: described.body(), at: row.at }))
}

/// A failed event is also reported as Completed, because subscribers need to know that it finished.
fn stage_of(row: &HistoryRow) -> Option<Stage> {
    match row.fact()? {
        HistoryFact::Appeared(_) => Some(Stage::Scheduled),
        HistoryFact::Started => Some(Stage::Started),
        HistoryFact::Ended(Outcome::Canceled { .. }) => Some(Stage::Canceled),
        HistoryFact::Ended(_) => Some(Stage::Completed),
        HistoryFact::Approved { .. }
        | HistoryFact::OperationEnded(_)
        | HistoryFact::MachineAdded(_)
        | HistoryFact::MachineRemoved(_)
        | HistoryFact::GroupOn
        | HistoryFact::GroupOff
        | HistoryFact::RolloutChanged(_)
        | HistoryFact::HostChanged(_)
        | HistoryFact::Audit { .. } => None,
    }
}

struct EventFacts {
    kind: Kind,
    subscription: String,
    not_before: Timestamp,
    description: String,
    source: Source,
    duration_secs: i64,
    /// The event was never visible as Scheduled.
    begins_started: bool,
}

/// None if no machine has seen the event; then it is not reported either.
fn read_facts(
    reader: &dyn Reader,
    region: &Region,
    row: &HistoryRow,
    event: EventId,
) -> Result<Option<EventFacts>, StoreError> {
    let query = HistoryQuery {
        event: Some(event),
        kinds: vec![HistoryKind::Appeared, HistoryKind::Approved, HistoryKind::Started],
        limit: Some(BEGINNING_ROWS),
        ..HistoryQuery::default()
    };
    let rows = reader.history(&query)?;
    if let Some(timeline) = EventTimeline::from_rows(&rows) {
        let is_earlier = rows.iter().any(|first| first.at == timeline.appeared && first.number <= row.number);
        return Ok(is_earlier.then(|| EventFacts::of_timeline(timeline)));
    }
    let shown = region.event(event).filter(|event| event.is_shown());
    Ok(shown.map(|event| EventFacts {
        kind: wire_kind(event.kind),
        subscription: event.subscription.to_string(),
        not_before: event.not_before,
        description: event.description.to_string(),
        source: wire_source(event.cause.source()),
        duration_secs: event.duration_secs,
        begins_started: false,
    }))
}

/// Enough rows for the beginning of an event: it appears, is approved and starts.
const BEGINNING_ROWS: u32 = 8;

impl EventFacts {
    fn of_timeline(timeline: EventTimeline) -> EventFacts {
        let begins_started = timeline.began_started();
        let EventAppeared { kind, source, not_before, duration_secs, description, subscription, .. } =
            timeline.appearance;
        let (kind, source) = (wire_kind(kind), wire_source(source));
        EventFacts { kind, subscription, not_before, description, source, duration_secs, begins_started }
    }
}

fn wire_kind(kind: EventKind) -> Kind {
    let event_type: EventType = kind.convert();
    event_type.into()
}

fn wire_source(source: CoreSource) -> Source {
    match source {
        CoreSource::Platform => Source::Platform,
        CoreSource::User => Source::User,
    }
}

struct EventResource {
    resource_id: String,
    resource_group: String,
    location: String,
}

/// The resource whose document contains the event.
fn find_resource(
    reader: &dyn Reader,
    region: &Region,
    row: &HistoryRow,
    facts: &EventFacts,
) -> Result<EventResource, StoreError> {
    let scope = row.scope.and_then(|scope| region.scope(ScopeId(scope)));
    let owned = scope.and_then(|scope| match scope.owner {
        ScopeOwner::Machine(machine) => {
            let machine = region.machine(machine)?;
            Some((machine_resource_id(region, machine), &*machine.home))
        }
        ScopeOwner::Group { group, .. } => {
            let group = region.group(group)?;
            Some((group_resource_id(group), &*group.home))
        }
    });
    if let (Some((resource_id, home)), Some(scope)) = (owned, scope) {
        let mut located = region.members(scope.id).map(|machine| machine.details.location.to_string());
        let location = located.find(|location| !location.is_empty());
        return Ok(EventResource {
            resource_id,
            resource_group: home.resource_group.to_string(),
            location: location.unwrap_or_else(|| LOCATION_DEFAULT.into()),
        });
    }
    find_deleted_resource(reader, row, facts)
}

fn find_deleted_resource(
    reader: &dyn Reader,
    row: &HistoryRow,
    facts: &EventFacts,
) -> Result<EventResource, StoreError> {
    let name = row.machines.first().cloned().unwrap_or_default();
    let query = HistoryQuery {
        machine: Some(name.clone()),
        kinds: vec![HistoryKind::MachineAdded, HistoryKind::MachineRemoved],
        newest: true,
        limit: Some(REMOVALS_LOOKED_AT),
        ..HistoryQuery::default()
    };
    let rows = reader.history(&query)?;
    let resource_group =
        rows.iter().rev().filter(|found| found.scope == row.scope).find_map(|found| match found.fact()? {
            HistoryFact::MachineAdded(machine) | HistoryFact::MachineRemoved(machine) => Some(machine.resource_group),
            HistoryFact::Appeared(_)
            | HistoryFact::Approved { .. }
            | HistoryFact::Started
            | HistoryFact::Ended(_)
            | HistoryFact::OperationEnded(_)
            | HistoryFact::GroupOn
            | HistoryFact::GroupOff
            | HistoryFact::RolloutChanged(_)
            | HistoryFact::HostChanged(_)
            | HistoryFact::Audit { .. } => None,
        });
    let resource_group = resource_group.unwrap_or_default();
    let home = ResourceGroupRef {
        subscription: facts.subscription.as_str().into(),
        resource_group: resource_group.as_str().into(),
    };
    Ok(EventResource {
        resource_id: ComputeResource::VirtualMachine(&name).id(&home.subscription, &home.resource_group),
        resource_group: home.resource_group.to_string(),
        location: LOCATION_DEFAULT.into(),
    })
}

/// Rows to search for the removal of a machine whose name was reused since.
const REMOVALS_LOOKED_AT: u32 = 100;
