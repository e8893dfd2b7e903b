//! The server's clock. A manual clock can be set and advanced; a real one can only be read.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use forewarn_core::{Event, Group, GroupKind, Operation, OperationState, Region, Status, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::error::{ApiError, ErrorCode};
use super::extract::{self, Body, NoQuery, Params};
use super::values::{EventType, When};
use super::{Api, AuditNote};
use forewarn_engine::clock::Kind;
use forewarn_engine::{ADVANCE_MAX, Advance, AdvanceError, SubmitError};

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Clock {
    pub kind: ClockMode,
    pub now: When,
    /// Divisor of notice periods, pauses and simulated impacts.
    pub notice_scale: u32,
    /// The next time at which something changes without a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_deadline: Option<When>,
    /// Description of that deadline: `NotBefore of a Reboot of web_0`, or `housekeeping` if it affects no machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_deadline_of: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub enum ClockMode {
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
    respond(&api)
}

pub async fn advance(
    api: Api,
    Params(NoQuery {}): Params<NoQuery>,
    Body(body): Body<AdvanceBy>,
) -> Result<Response, ApiError> {
    let note = AuditNote::new("clock.advance", "clock").with(serde_json::json!({ "seconds": body.seconds }));
    move_clock(&api, Advance::By(Duration::from_secs(body.seconds)), note).await
}

pub async fn set(api: Api, Params(NoQuery {}): Params<NoQuery>, Body(body): Body<SetTo>) -> Result<Response, ApiError> {
    let note = AuditNote::new("clock.set", "clock").with(serde_json::json!({ "now": body.now }));
    move_clock(&api, Advance::To(body.now.0), note).await
}

/// Moves the clock. The audit entry is written first, so that it precedes the events that result from the move.
async fn move_clock(api: &Api, advance: Advance, note: AuditNote) -> Result<Response, ApiError> {
    let now = api.engine().now();
    let to = match advance {
        Advance::By(span) => now + span,
        Advance::To(to) => to,
    };
    if !is_displayable(to) {
        return Err(ApiError::new(ErrorCode::ClockTooFar, "The clock cannot be set beyond the year 9999."));
    }
    if api.engine().clock_kind() == Kind::Manual && to >= now && to.since(now) <= ADVANCE_MAX {
        api.engine().note(api.audit(note)).await?;
    }
    api.engine().advance(advance).await?;
    Ok(respond(api))
}

fn is_displayable(time: Timestamp) -> bool {
    time.as_secs() <= super::values::WHEN_SECS_MAX
}

fn respond(api: &Api) -> Response {
    let snapshot = api.engine().snapshot();
    let next = next_deadline(&snapshot.region, api.engine().next_report());
    extract::ok(Clock {
        kind: match api.engine().clock_kind() {
            Kind::Real => ClockMode::Real,
            Kind::Manual => ClockMode::Manual,
        },
        now: When(api.engine().now()),
        notice_scale: snapshot.region.settings().notice_scale,
        next_deadline: next.as_ref().map(|(at, _)| When(*at)),
        next_deadline_of: next.map(|(_, description)| description),
    })
}

/// The next deadline of the rules or of the simulated driver, with a description.
pub fn next_deadline(region: &Region, simulated_end: Option<Timestamp>) -> Option<(Timestamp, String)> {
    match (region.next_deadline(), simulated_end) {
        (rules, Some(end)) if rules.is_none_or(|rules| end <= rules) => Some((end, describe_simulated_end(region))),
        (rules, _) => rules.map(|at| (at, describe_deadline(region, at))),
    }
}

fn describe_simulated_end(region: &Region) -> String {
    let mut in_progress = region.wanted_effects();
    match (in_progress.next(), in_progress.next()) {
        (Some(event), None) => format!("the end of {}", describe_event(event)),
        _ => "the end of an event in progress".into(),
    }
}

fn describe_deadline(region: &Region, at: Timestamp) -> String {
    let due = |event: &&Arc<Event>| event.status == Status::Scheduled && event.not_before == at;
    if let Some(event) = region.events().find(due) {
        return format!("NotBefore of {}", describe_event(event));
    }
    let resumes = |operation: &Arc<Operation>| {
        let resume = operation.rollout.as_ref().and_then(|rollout| rollout.resume);
        operation.state == OperationState::Running && resume == Some(at)
    };
    if region.operations().any(resumes) {
        return "the next update domain of a rollout".into();
    }
    let upgrades = |group: &&Arc<Group>| match &group.kind {
        GroupKind::ScaleSet(set) => set.next_batch == Some(at),
        GroupKind::AvailabilitySet | GroupKind::CloudService => false,
    };
    match region.groups().find(upgrades) {
        Some(set) => format!("the next upgrade batch of {}", set.name),
        None => "housekeeping".into(),
    }
}

fn describe_event(event: &Event) -> String {
    let names: Vec<&str> = event.resources.iter().take(NAMED_MAX).map(|resource| &*resource.name).collect();
    let more = match event.resources.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("a {} of {}{more}", EventType::from(event.kind).as_str(), names.join(", "))
}

/// Machines listed in the description of an event; a host can have hundreds.
const NAMED_MAX: usize = 3;

impl From<AdvanceError> for ApiError {
    fn from(error: AdvanceError) -> Self {
        let message = error.to_string();
        match error {
            AdvanceError::RealClock => ApiError::new(ErrorCode::ClockIsReal, message),
            AdvanceError::Backwards { now } => {
                ApiError::new(ErrorCode::ClockBackwards, format!("{message} It is now {}.", When(now)))
                    .with_target("now")
            }
            AdvanceError::TooFar => ApiError::new(ErrorCode::ClockTooFar, message),
            AdvanceError::Unavailable => SubmitError::Unavailable.into(),
            AdvanceError::Busy => SubmitError::Busy.into(),
            AdvanceError::Stopping => SubmitError::Stopping.into(),
        }
    }
}
