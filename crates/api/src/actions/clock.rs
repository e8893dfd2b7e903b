//! Sets and advances a manual clock. A real clock can only be read.

use std::time::Duration;

use forewarn_api_types::{AdvanceClock, Clock, ClockMode, SetClock, TIME_SECS_MAX};
use forewarn_core::Timestamp;
use forewarn_engine::ClockKind;
use forewarn_engine::{ADVANCE_MAX, Advance, AdvanceError, SubmitError};
use forewarn_render::Convert;

use crate::Actions;
use crate::action::{Action, AuditNote};
use crate::audit_detail::AuditDetail;
use crate::deadline::next_deadline;
use crate::error::{ApiError, ErrorCode};

impl Actions {
    pub async fn advance_clock(&self, by: AdvanceClock) -> Result<Clock, ApiError> {
        let note =
            self.permit(Action::AdvanceClock)?.note("clock").with(AuditDetail::ClockAdvance { seconds: by.seconds });
        self.move_clock(Advance::By(Duration::from_secs(by.seconds)), note).await
    }

    pub async fn set_clock(&self, to: SetClock) -> Result<Clock, ApiError> {
        let note = self.permit(Action::SetClock)?.note("clock").with(AuditDetail::ClockSetting { now: to.now });
        self.move_clock(Advance::To(to.now.convert()), note).await
    }

    pub fn get_clock(&self) -> Clock {
        let snapshot = self.engine().snapshot();
        let next = next_deadline(&snapshot.region, self.engine().next_report());
        Clock {
            kind: match self.engine().clock_kind() {
                ClockKind::Real => ClockMode::Real,
                ClockKind::Manual => ClockMode::Manual,
            },
            now: self.engine().now().convert(),
            notice_scale: snapshot.region.settings().notice_scale,
            next_deadline: next.as_ref().map(|(at, _)| at.convert()),
            next_deadline_of: next.map(|(_, description)| description),
        }
    }

    /// Moves the clock. The audit entry is written first, so that it precedes the events that result from the move.
    async fn move_clock(&self, advance: Advance, note: AuditNote) -> Result<Clock, ApiError> {
        let now = self.engine().now();
        let to = match advance {
            Advance::By(span) => now + span,
            Advance::To(to) => to,
        };
        if !is_displayable(to) {
            return Err(ApiError::new(ErrorCode::ClockTooFar, "The clock cannot be set beyond the year 9999."));
        }
        if self.engine().clock_kind() == ClockKind::Manual && to >= now && to.since(now) <= ADVANCE_MAX {
            self.engine().note(self.audit(note)).await?;
        }
        self.engine().advance(advance).await?;
        Ok(self.get_clock())
    }
}

fn is_displayable(time: Timestamp) -> bool {
    time.as_secs() <= TIME_SECS_MAX
}

impl From<AdvanceError> for ApiError {
    fn from(error: AdvanceError) -> Self {
        let message = error.to_string();
        match error {
            AdvanceError::RealClock => ApiError::new(ErrorCode::ClockIsReal, message),
            AdvanceError::Backwards { now } => ApiError::new(
                ErrorCode::ClockBackwards,
                format!("{message} It is now {}.", forewarn_api_types::Time(now.0)),
            )
            .with_target("now"),
            AdvanceError::TooFar => ApiError::new(ErrorCode::ClockTooFar, message),
            AdvanceError::Unavailable => SubmitError::Unavailable.into(),
            AdvanceError::Busy => SubmitError::Busy.into(),
            AdvanceError::Stopping => SubmitError::Stopping.into(),
        }
    }
}
