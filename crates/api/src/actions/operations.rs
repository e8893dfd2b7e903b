//! Approves and cancels operations.

use forewarn_api_types::Operation;
use forewarn_core as core;
use forewarn_core::settings::APPROVALS_MAX;
use forewarn_core::{
    ApprovalScope, Approver, Command, EventId, OperationId, OperationState, Region, Rejection, Status,
};
use forewarn_render::render_whole_operation;

use crate::Actions;
use crate::action::Action;
use crate::error::ApiError;

impl Actions {
    /// An operation with everything that is known about it.
    pub(crate) fn render_operation(&self, region: &Region, operation: &core::Operation) -> Operation {
        let handlers = self.service().handlers();
        render_whole_operation(region, operation, self.engine().now(), |machine| handlers.render(machine))
    }

    /// Cancels the part of an operation that has not started.
    pub async fn cancel_operation(&self, id: OperationId) -> Result<Operation, ApiError> {
        let note = self.permit(Action::Cancel)?.note(id.to_string());
        let done = self.submit(Command::Cancel { operation: id, by: self.principal_name() }, note).await?;
        let region = &done.snapshot.region;
        let operation = region.operation(id).ok_or(Rejection::UnknownOperation(id))?;
        Ok(self.render_operation(region, operation))
    }

    /// Approves every visible event of an operation that has not started, in one commit. Approving again changes nothing.
    pub async fn approve_operation(&self, id: OperationId) -> Result<Operation, ApiError> {
        let permit = self.permit(Action::ApproveOperation)?;
        let pending = find_unapproved(&self.engine().snapshot().region, id)?;
        let by = Approver::Management(self.principal_name());
        let approve = |events: &[EventId]| Command::Approve {
            by: by.clone(),
            within: ApprovalScope::Region,
            events: events.to_vec(),
        };
        let commands: Vec<Command> = pending.chunks(APPROVALS_MAX).map(approve).collect();
        let snapshot = if commands.is_empty() {
            self.engine().snapshot()
        } else {
            self.commit(commands, permit.note(id.to_string()), |_| Vec::new()).await?.snapshot
        };
        let operation = snapshot.region.operation(id).ok_or(Rejection::UnknownOperation(id))?;
        Ok(self.render_operation(&snapshot.region, operation))
    }
}

/// The events of a running operation that can be approved.
fn find_unapproved(region: &Region, id: OperationId) -> Result<Vec<EventId>, Rejection> {
    let operation = region.operation(id).ok_or(Rejection::UnknownOperation(id))?;
    if operation.state != OperationState::Running {
        return Err(Rejection::OperationEnded(id));
    }
    let events = operation.parts.iter().filter_map(|part| region.event(part.event));
    let unapproved =
        events.filter(|event| event.is_shown() && event.status == Status::Scheduled && event.approval.is_none());
    Ok(unapproved.map(|event| event.id).collect())
}
