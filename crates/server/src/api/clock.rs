//! The program's clock: shown always, moved only when it is manual.

use std::time::Duration;

use axum::response::Response;
use forewarn_core::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::error::{ApiError, Refusal};
use super::extract::{self, Body, NoQuery, Params};
use super::values::When;
use super::{Api, Note};
use crate::clock::Kind;
use crate::engine::{ADVANCE_MAX, Advance, AdvanceError, SubmitError};

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
    extract::ok(Clock {
        kind: match api.engine().clock_kind() {
            Kind::Real => ClockWord::Real,
            Kind::Manual => ClockWord::Manual,
        },
        now: When(api.engine().now()),
        notice_scale: snapshot.region.settings().notice_scale,
        next_deadline: snapshot.region.next_deadline().map(When),
    })
}

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
