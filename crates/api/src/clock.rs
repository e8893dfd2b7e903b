//! The program's clock: shown always, moved only when it is manual.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use forewarn_core::{Event, Group, GroupKind, Operation, OperationState, Region, Status, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::error::{ApiError, Refusal};
use super::extract::{self, Body, NoQuery, Params};
use super::values::When;
use super::{Api, Note};
use forewarn_engine::clock::Kind;
use forewarn_engine::{ADVANCE_MAX, Advance, AdvanceError, SubmitError};

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Clock {
    pub kind: ClockWord,
    pub now: When,
    /// Notice, pauses and simulated impacts are divided by this.
    pub notice_scale: u32,
    /// When time alone changes something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_deadline: Option<When>,
    /// What that is, in words: `NotBefore of a Reboot of web_0`; `housekeeping` where no machine notices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_deadline_of: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub enum ClockWord {
    Real,
    Manual,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdvanceBy {
    #[schema(maximum = 43_200_000)]
    pub seconds: u64,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetTo {
    pub now: When,
}

pub async fn get(api: Api, Params(NoQuery {}): Params<NoQuery>) -> Response {
    shown(&api)
}

pub async fn advance(
    api: Api,
    Params(NoQuery {}): Params<NoQuery>,
    Body(body): Body<AdvanceBy>,
) -> Result<Response, ApiError> {
    let note = Note::new("clock.advance", "clock").with(serde_json::json!({ "seconds": body.seconds }));
    moved(&api, Advance::By(Duration::from_secs(body.seconds)), note).await
}

pub async fn set(api: Api, Params(NoQuery {}): Params<NoQuery>, Body(body): Body<SetTo>) -> Result<Response, ApiError> {
    let note = Note::new("clock.set", "clock").with(serde_json::json!({ "now": body.now }));
    moved(&api, Advance::To(body.now.0), note).await
}

/// Moving the clock is no command of the rules: it is noted before what comes of the move.
async fn moved(api: &Api, how: Advance, note: Note) -> Result<Response, ApiError> {
    let now = api.engine().now();
    let to = match how {
        Advance::By(span) => now + span,
        Advance::To(to) => to,
    };
    if !is_shown(to) {
        return Err(ApiError::new(Refusal::ClockTooFar, "The clock ends with the year 9999."));
    }
    if api.engine().clock_kind() == Kind::Manual && to >= now && to.since(now) <= ADVANCE_MAX {
        api.note(note).await?;
    }
    api.engine().advance(how).await?;
    Ok(shown(api))
}

fn is_shown(time: Timestamp) -> bool {
    time.as_secs() <= super::values::WHEN_SECS_MAX
}

fn shown(api: &Api) -> Response {
    let snapshot = api.engine().snapshot();
    let next = next(&snapshot.region, api.engine().next_report());
    extract::ok(Clock {
        kind: match api.engine().clock_kind() {
            Kind::Real => ClockWord::Real,
            Kind::Manual => ClockWord::Manual,
        },
        now: When(api.engine().now()),
        notice_scale: snapshot.region.settings().notice_scale,
        next_deadline: next.as_ref().map(|(at, _)| When(*at)),
        next_deadline_of: next.map(|(_, what)| what),
    })
}

/// The next deadline, of the rules or of the simulated driver, and what it is of.
pub fn next(region: &Region, simulated_end: Option<Timestamp>) -> Option<(Timestamp, String)> {
    match (region.next_deadline(), simulated_end) {
        (rules, Some(end)) if rules.is_none_or(|rules| end <= rules) => Some((end, end_words(region))),
        (rules, _) => rules.map(|at| (at, rules_words(region, at))),
    }
}

fn end_words(region: &Region) -> String {
    let mut under_way = region.wanted_effects();
    match (under_way.next(), under_way.next()) {
        (Some(event), None) => format!("the end of {}", words(event)),
        _ => "the end of an event that is under way".into(),
    }
}

fn rules_words(region: &Region, at: Timestamp) -> String {
    let due = |event: &&Arc<Event>| event.status == Status::Scheduled && event.not_before == at;
    if let Some(event) = region.events().find(due) {
        return format!("NotBefore of {}", words(event));
    }
    let resumes = |operation: &Arc<Operation>| {
        let resume = operation.rollout.as_ref().and_then(|rollout| rollout.resume);
        operation.state == OperationState::Running && resume == Some(at)
    };
    if region.operations().any(resumes) {
        return "the next update domain of a group under maintenance".into();
    }
    let upgrades = |group: &&Arc<Group>| match &group.kind {
        GroupKind::ScaleSet(set) => set.next_batch == Some(at),
        GroupKind::AvailabilitySet | GroupKind::CloudService => false,
    };
    match region.groups().find(upgrades) {
        Some(set) => format!("the next batch of the upgrade of {}", set.name),
        None => "housekeeping".into(),
    }
}

fn words(event: &Event) -> String {
    let names: Vec<&str> = event.resources.iter().take(NAMED_MAX).map(|resource| &*resource.name).collect();
    let more = match event.resources.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("a {:?} of {}{more}", event.kind, names.join(", "))
}

/// Machines that are named of an event; a host may have hundreds.
const NAMED_MAX: usize = 3;

impl From<AdvanceError> for ApiError {
    fn from(error: AdvanceError) -> Self {
        let message = error.to_string();
        match error {
            AdvanceError::RealClock => ApiError::new(Refusal::ClockIsReal, message),
            AdvanceError::Backwards { now } => {
                ApiError::new(Refusal::ClockBackwards, format!("{message} It shows {}.", When(now))).about("now")
            }
            AdvanceError::TooFar => ApiError::new(Refusal::ClockTooFar, message),
            AdvanceError::Unavailable => SubmitError::Unavailable.into(),
            AdvanceError::Busy => SubmitError::Busy.into(),
            AdvanceError::Stopping => SubmitError::Stopping.into(),
        }
    }
}
