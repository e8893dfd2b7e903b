//! Approves and cancels events.

use forewarn_api_types::Event;
use forewarn_core::settings::APPROVALS_MAX;
use forewarn_core::{ApprovalScope, Approver, Command, EventId, Rejection};
use forewarn_render::render_event;
use forewarn_wire::guid;

use crate::Actions;
use crate::action::Action;
use crate::error::ApiError;
use crate::names::find_event;

impl Actions {
    /// Approves events of a part of the region, all or none.
    pub async fn approve_events(&self, within: ApprovalScope, ids: Vec<EventId>) -> Result<Vec<Event>, ApiError> {
        let permit = self.permit(Action::ApproveEvents)?;
        if ids.is_empty() {
            return Err(ApiError::field("events", "must contain at least one event"));
        }
        if ids.len() > APPROVALS_MAX {
            return Err(Rejection::TooManyApprovals.into());
        }
        let target = ids.iter().map(|id| guid::Upper(id.0).to_string()).collect::<Vec<_>>().join(", ");
        let by = Approver::Management(self.principal_name());
        let done = self.submit(Command::Approve { by, within, events: ids.clone() }, permit.note(target)).await?;
        let region = &done.snapshot.region;
        Ok(ids.iter().filter_map(|id| region.event(*id)).map(|event| render_event(region, event)).collect())
    }

    pub async fn approve_event(&self, id: EventId) -> Result<Event, ApiError> {
        let mut approved = self.approve_events(ApprovalScope::Region, vec![id]).await?;
        approved.pop().ok_or_else(|| Rejection::UnknownEvents(Vec::new()).into())
    }

    /// Cancels all operations that require this event.
    pub async fn cancel_event(&self, id: EventId) -> Result<Event, ApiError> {
        let note = self.permit(Action::Cancel)?.note(guid::Upper(id.0).to_string());
        let done = self.submit(Command::CancelEvent { event: id, by: self.principal_name() }, note).await?;
        let region = &done.snapshot.region;
        Ok(render_event(region, &*find_event(region, id)?))
    }
}
