//! History rows as typed facts, and the timeline of an event made from them. This is the only place that decodes the words of a
//! row; `detail` has its JSON.

use std::borrow::Cow;

use forewarn_core::{
    Cause, EventId, EventKind, Guid, HostState, OperationResult, Outcome, Request, RolloutId, ScopeId, Source,
    StepState, Timestamp, Visibility,
};
use serde_json::Value;

use crate::contract::HistoryRow;
use crate::detail::{self, AppearedDetail, EventDetail, HostDetail, MachineDetail, OperationDetail, RolloutDetail};
use crate::kind::HistoryKind;
use crate::record::{Interner, RequestBody, Tagged};
use crate::text::{parse_guid, parse_iso};

/// The content of a history row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryFact {
    Appeared(EventAppeared),
    Approved { by: Actor },
    Started,
    Ended(Outcome),
    OperationEnded(OperationFact),
    MachineAdded(MachineFact),
    MachineRemoved(MachineFact),
    GroupOn,
    GroupOff,
    RolloutChanged(RolloutFact),
    HostChanged(HostFact),
    Audit { actor: String, action: String, target: String, detail: String },
}

/// An event as it appeared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventAppeared {
    pub kind: EventKind,
    /// None in rows of the first stored format.
    pub cause: Option<Cause>,
    pub source: Source,
    pub visibility: Visibility,
    pub not_before: Timestamp,
    pub duration_secs: i64,
    pub description: String,
    pub subscription: String,
}

/// The actor that approved an event or canceled an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    Guest(String),
    Management(String),
    Policy,
    /// From a newer version.
    Other(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationFact {
    pub requested_by: String,
    pub requested: Option<Timestamp>,
    pub subscription: String,
    /// None: from a newer version.
    pub request: Option<Request>,
    /// The rollout that requested it. Absent in rows of older versions.
    pub rollout: Option<RolloutId>,
    pub events: Vec<EventId>,
    pub result: OperationResult,
}

/// Where a machine belonged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineFact {
    pub vm_id: Option<Guid>,
    pub subscription: String,
    pub resource_group: String,
    pub group: Option<u64>,
}

/// A change of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutFact {
    pub rollout: Option<RolloutId>,
    /// `started`, `step-started`, `step-ended`, `step-retried`, `waiting`, `paused`, `resumed`, `stopped`, `failed` or `finished`.
    pub change: String,
    pub requested_by: String,
    pub failures: u64,
    /// The number of the step, from 0.
    pub step: Option<u64>,
    /// The state in which the step ended.
    pub step_state: Option<StepState>,
    /// The reason why the step failed, if it is known.
    pub failure: Option<Outcome>,
    pub host: Option<String>,
    pub group: Option<u64>,
    pub domain: Option<u64>,
    /// The machine of a step over single machines.
    pub machine: Option<u64>,
    /// The reason of a `waiting` rollout.
    pub waits_for: Option<String>,
}

/// A change of a host's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFact {
    pub host: String,
    /// None: from a newer version.
    pub state: Option<HostState>,
    pub reachable: bool,
}

impl HistoryRow {
    /// The typed content; None for rows of a kind that this version does not know.
    pub fn fact(&self) -> Option<HistoryFact> {
        Some(match HistoryKind::parse(&self.kind)? {
            HistoryKind::Appeared => HistoryFact::Appeared(read_appearance(self)?),
            HistoryKind::Approved => HistoryFact::Approved { by: self.actor() },
            HistoryKind::Started => HistoryFact::Started,
            HistoryKind::Ended => HistoryFact::Ended(self.ending()?),
            HistoryKind::OperationEnded => HistoryFact::OperationEnded(read_operation(self)),
            HistoryKind::MachineAdded => HistoryFact::MachineAdded(read_machine(self)),
            HistoryKind::MachineRemoved => HistoryFact::MachineRemoved(read_machine(self)),
            HistoryKind::GroupOn => HistoryFact::GroupOn,
            HistoryKind::GroupOff => HistoryFact::GroupOff,
            HistoryKind::RolloutChanged => HistoryFact::RolloutChanged(read_rollout(self)),
            HistoryKind::HostChanged => HistoryFact::HostChanged(read_host(self)),
            HistoryKind::Audit => HistoryFact::Audit {
                actor: self.actor.clone().unwrap_or_default(),
                action: self.outcome.clone().unwrap_or_default(),
                target: self.target.clone().unwrap_or_default(),
                detail: self.detail.clone(),
            },
        })
    }

    /// The type of the event that the row is about.
    pub fn event_kind(&self) -> Option<EventKind> {
        EventKind::from_tag(&detail::read::<EventDetail<'_>>(self).kind)
    }

    /// The cause of the event that the row is about.
    pub fn event_cause(&self) -> Option<Cause> {
        Cause::from_tag(&detail::read::<EventDetail<'_>>(self).cause)
    }

    /// The outcome of the event whose end the row records.
    pub fn event_outcome(&self) -> Option<Outcome> {
        match self.fact()? {
            HistoryFact::Ended(outcome) => Some(outcome),
            HistoryFact::Appeared(_)
            | HistoryFact::Approved { .. }
            | HistoryFact::Started
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

    fn actor(&self) -> Actor {
        Actor::parse(self.actor.as_deref().unwrap_or_default())
    }

    fn ending(&self) -> Option<Outcome> {
        let reason = || detail::read::<EventDetail<'_>>(self).reason.as_deref().unwrap_or_default().into();
        outcome(self.outcome.as_deref()?, reason, || self.actor().into_name().as_str().into())
    }
}

impl Actor {
    fn parse(text: &str) -> Actor {
        match text.split_once(':') {
            Some(("guest", name)) => Actor::Guest(name.to_owned()),
            Some(("management", name)) => Actor::Management(name.to_owned()),
            None if text == "policy" => Actor::Policy,
            Some(_) | None => Actor::Other(text.to_owned()),
        }
    }

    /// The name without its role.
    pub fn into_name(self) -> String {
        match self {
            Actor::Guest(name) | Actor::Management(name) | Actor::Other(name) => name,
            Actor::Policy => "policy".to_owned(),
        }
    }
}

fn outcome(
    word: &str,
    reason: impl FnOnce() -> forewarn_core::Name,
    by: impl FnOnce() -> forewarn_core::Name,
) -> Option<Outcome> {
    Some(match word {
        "completed" => Outcome::Completed,
        "failed" => Outcome::Failed(reason()),
        "timed-out" => Outcome::TimedOut,
        "superseded" => Outcome::Superseded,
        "no-effect" => Outcome::NoEffect,
        "resource-gone" => Outcome::ResourceGone,
        "canceled" => Outcome::Canceled { by: by() },
        _ => return None,
    })
}

fn read_appearance(row: &HistoryRow) -> Option<EventAppeared> {
    let detail: AppearedDetail<'_> = detail::read(row);
    Some(EventAppeared {
        kind: EventKind::from_tag(&detail.kind)?,
        cause: Cause::from_tag(&detail.cause),
        source: Source::from_tag(&detail.source).unwrap_or(Source::Platform),
        visibility: Visibility::from_tag(&detail.visibility).unwrap_or(Visibility::Shown),
        not_before: parse_iso(&detail.not_before).unwrap_or(row.at),
        duration_secs: detail.duration_secs,
        description: detail.description.into_owned(),
        subscription: detail.subscription.into_owned(),
    })
}

fn read_rollout(row: &HistoryRow) -> RolloutFact {
    let detail: RolloutDetail<'_> = detail::read(row);
    let reason = || detail.reason.as_deref().unwrap_or_default().into();
    RolloutFact {
        rollout: row.target.as_deref().and_then(parse_guid),
        change: row.outcome.clone().unwrap_or_default(),
        failures: detail.failures,
        machine: detail.machine,
        step: detail.step,
        step_state: detail.step_state.as_deref().and_then(StepState::from_tag),
        failure: detail.failure.as_deref().and_then(|word| outcome(word, reason, || "".into())),
        requested_by: detail.by.into_owned(),
        host: detail.host.map(Cow::into_owned),
        group: detail.group,
        domain: detail.domain,
        waits_for: detail.waits_for.map(Cow::into_owned),
    }
}

fn read_host(row: &HistoryRow) -> HostFact {
    HostFact {
        host: row.target.clone().unwrap_or_default(),
        state: HostState::from_tag(row.outcome.as_deref().unwrap_or_default()),
        reachable: detail::read::<HostDetail<'_>>(row).reachable,
    }
}

fn read_operation(row: &HistoryRow) -> OperationFact {
    let detail: OperationDetail<'_> = detail::read(row);
    OperationFact {
        requested: parse_iso(&detail.asked),
        request: read_request(&detail.request),
        rollout: detail.rollout.as_deref().and_then(parse_guid),
        events: detail.events.iter().filter_map(|id| parse_guid(id)).collect(),
        result: operation_result(row, detail.because.as_deref()),
        requested_by: detail.by.into_owned(),
        subscription: detail.subscription.into_owned(),
    }
}

fn operation_result(row: &HistoryRow, because: Option<&str>) -> OperationResult {
    let by = || row.actor().into_name().as_str().into();
    match row.outcome.as_deref() {
        Some("succeeded") => OperationResult::Succeeded,
        Some("canceled") => OperationResult::Canceled { by: by() },
        Some(_) | None => {
            let because = because.and_then(|word| outcome(word, || "".into(), by));
            OperationResult::Failed(because.unwrap_or(Outcome::Failed("".into())))
        }
    }
}

fn read_request(request: &Value) -> Option<Request> {
    let text = request.to_string();
    let body: RequestBody<'_> = serde_json::from_str(&text).ok()?;
    Some(body.into_request(&mut Interner::default()))
}

fn read_machine(row: &HistoryRow) -> MachineFact {
    let detail: MachineDetail<'_> = detail::read(row);
    MachineFact {
        vm_id: parse_guid(&detail.vm_id),
        subscription: detail.subscription.into_owned(),
        resource_group: detail.resource_group.into_owned(),
        group: detail.group,
    }
}

/// The lifecycle of one event, as history records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventTimeline {
    pub event: EventId,
    pub scope: Option<ScopeId>,
    /// Names of the affected machines.
    pub machines: Vec<String>,
    pub appeared: Timestamp,
    pub appearance: EventAppeared,
    pub approved: Option<(Timestamp, Actor)>,
    pub started: Option<Timestamp>,
    pub ended: Option<(Timestamp, Outcome)>,
}

impl EventTimeline {
    /// From the rows of one event, oldest first. None without the row of its appearance.
    pub fn from_rows<'a>(rows: impl IntoIterator<Item = &'a HistoryRow>) -> Option<EventTimeline> {
        let mut timeline = None;
        for row in rows {
            match &mut timeline {
                None => timeline = EventTimeline::begin(row),
                Some(timeline) => timeline.follow(row),
            }
        }
        timeline
    }

    /// From the rows of an event that its machines never saw, oldest first. History does not record its appearance; its first
    /// row stands for it. None if that row does not say its type.
    pub fn from_hidden_rows(rows: &[HistoryRow]) -> Option<EventTimeline> {
        let first = rows.first()?;
        let cause = first.event_cause();
        let appearance = EventAppeared {
            kind: first.event_kind()?,
            cause,
            source: cause.map_or(Source::Platform, Cause::source),
            visibility: Visibility::Hidden,
            not_before: first.at,
            duration_secs: -1,
            description: String::new(),
            subscription: String::new(),
        };
        let mut timeline = EventTimeline::new(first, appearance)?;
        rows.iter().for_each(|row| timeline.follow(row));
        Some(timeline)
    }

    /// Begins with the row of an appearance; None for other rows.
    pub fn begin(row: &HistoryRow) -> Option<EventTimeline> {
        let Some(HistoryFact::Appeared(appearance)) = row.fact() else { return None };
        EventTimeline::new(row, appearance)
    }

    fn new(row: &HistoryRow, appearance: EventAppeared) -> Option<EventTimeline> {
        Some(EventTimeline {
            event: row.event?,
            scope: row.scope.map(ScopeId),
            machines: row.machines.clone(),
            appeared: row.at,
            appearance,
            approved: None,
            started: None,
            ended: None,
        })
    }

    /// Adds a later row of the same event.
    pub fn follow(&mut self, row: &HistoryRow) {
        match row.fact() {
            Some(HistoryFact::Approved { by }) => self.approved = Some((row.at, by)),
            Some(HistoryFact::Started) => self.started = Some(row.at),
            Some(HistoryFact::Ended(outcome)) => self.ended = Some((row.at, outcome)),
            Some(
                HistoryFact::Appeared(_)
                | HistoryFact::OperationEnded(_)
                | HistoryFact::MachineAdded(_)
                | HistoryFact::MachineRemoved(_)
                | HistoryFact::GroupOn
                | HistoryFact::GroupOff
                | HistoryFact::RolloutChanged(_)
                | HistoryFact::HostChanged(_)
                | HistoryFact::Audit { .. },
            )
            | None => {}
        }
    }

    /// Whether the event was never Scheduled: it started in the moment it appeared, without notice or approved by policy.
    pub fn began_started(&self) -> bool {
        let without_notice = self.appearance.not_before <= self.appeared;
        let by_policy = self.approved == Some((self.appeared, Actor::Policy));
        self.started == Some(self.appeared) && (without_notice || by_policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forewarn_core::MachineId;

    fn row(kind: HistoryKind, at: i64, detail: &str) -> HistoryRow {
        HistoryRow {
            number: 1,
            at: Timestamp::from_secs(at),
            kind: kind.as_str().to_owned(),
            event: Some(Guid(7)),
            operation: None,
            joined: Vec::new(),
            scope: Some(3),
            machines: vec!["web".to_owned()],
            machine_ids: Vec::new(),
            actor: None,
            target: None,
            outcome: None,
            detail: detail.to_owned(),
        }
    }

    fn appeared(at: i64, not_before: &str) -> HistoryRow {
        let detail = format!(
            r#"{{"type":"Reboot","cause":"user-restart","source":"User","visibility":"shown","not_before":"{not_before}",
                "duration_secs":-1,"description":"d","subscription":"s"}}"#
        );
        row(HistoryKind::Appeared, at, &detail)
    }

    #[test]
    fn a_timeline_follows_an_event_to_its_end() {
        let approved = HistoryRow { actor: Some("guest:web".into()), ..row(HistoryKind::Approved, 20, "{}") };
        let started = row(HistoryKind::Started, 20, "{}");
        let ended = HistoryRow { outcome: Some("failed".into()), ..row(HistoryKind::Ended, 30, r#"{"reason":"no"}"#) };
        let rows = [appeared(10, "1970-01-01T00:15:10.000Z"), approved, started, ended];
        let timeline = EventTimeline::from_rows(&rows).unwrap();
        assert_eq!(timeline.appearance.kind, EventKind::Reboot);
        assert_eq!(timeline.appearance.not_before, Timestamp::from_secs(910));
        assert_eq!(timeline.approved, Some((Timestamp::from_secs(20), Actor::Guest("web".into()))));
        assert_eq!(timeline.started, Some(Timestamp::from_secs(20)));
        assert_eq!(timeline.ended, Some((Timestamp::from_secs(30), Outcome::Failed("no".into()))));
        assert!(!timeline.began_started());
        assert_eq!(EventTimeline::from_rows(&rows[1..]), None, "the appearance is missing");
    }

    #[test]
    fn the_timeline_of_an_event_that_was_never_seen_begins_with_its_first_row() {
        let started = row(HistoryKind::Started, 20, r#"{"type":"Redeploy","cause":"user-redeploy"}"#);
        let ended = HistoryRow { outcome: Some("completed".into()), ..row(HistoryKind::Ended, 30, "{}") };
        let timeline = EventTimeline::from_hidden_rows(&[started, ended.clone()]).unwrap();
        let (at, EventAppeared { kind, source, visibility, .. }) = (timeline.appeared, timeline.appearance);
        assert_eq!((kind, source, visibility), (EventKind::Redeploy, Source::User, Visibility::Hidden));
        assert_eq!((at, timeline.started), (Timestamp::from_secs(20), Some(Timestamp::from_secs(20))));
        assert_eq!(timeline.ended, Some((Timestamp::from_secs(30), Outcome::Completed)));
        assert_eq!(EventTimeline::from_hidden_rows(&[ended]), None, "its type is unknown");
        assert_eq!(EventTimeline::from_hidden_rows(&[]), None);
    }

    #[test]
    fn an_event_without_notice_begins_started() {
        let started = row(HistoryKind::Started, 10, "{}");
        let at_once = [appeared(10, "1970-01-01T00:00:10.000Z"), started.clone()];
        assert!(EventTimeline::from_rows(&at_once).unwrap().began_started());
        let policy = HistoryRow { actor: Some("policy".into()), ..row(HistoryKind::Approved, 10, "{}") };
        let by_policy = [appeared(10, "1970-01-01T00:15:10.000Z"), policy, started.clone()];
        assert!(EventTimeline::from_rows(&by_policy).unwrap().began_started());
        let guest = HistoryRow { actor: Some("guest:web".into()), ..row(HistoryKind::Approved, 10, "{}") };
        let by_guest = [appeared(10, "1970-01-01T00:15:10.000Z"), guest, started];
        assert!(!EventTimeline::from_rows(&by_guest).unwrap().began_started());
    }

    #[test]
    fn an_operation_keeps_its_request_and_result() {
        let detail = r#"{"by":"ann","asked":"1970-01-01T00:00:05.000Z","subscription":"s","request":{"restart":{"machine":4}},"rollout":"00000000-0000-0000-0000-000000000008",
            "events":["00000000-0000-0000-0000-000000000007"],"because":"timed-out"}"#;
        let ended = HistoryRow { outcome: Some("failed".into()), ..row(HistoryKind::OperationEnded, 9, detail) };
        let Some(HistoryFact::OperationEnded(operation)) = ended.fact() else { panic!("not an operation") };
        assert_eq!(operation.requested_by, "ann");
        assert_eq!(operation.requested, Some(Timestamp::from_secs(5)));
        assert_eq!(operation.request, Some(Request::Restart { machines: vec![MachineId(4)] }));
        assert_eq!(operation.rollout, Some(Guid(8)));
        assert_eq!(operation.events, [Guid(7)]);
        assert_eq!(operation.result, OperationResult::Failed(Outcome::TimedOut));
    }

    #[test]
    fn rows_of_unknown_kinds_have_no_fact() {
        let unknown = HistoryRow { kind: "other".into(), ..row(HistoryKind::Started, 1, "{}") };
        assert_eq!(unknown.fact(), None);
    }
}
