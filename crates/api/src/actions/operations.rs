//! Cancels operations.

use forewarn_api_types::Operation;
use forewarn_core::{Command, OperationId, Rejection};

use crate::Actions;
use crate::action::Action;
use crate::error::ApiError;
use crate::render::render_operation;

impl Actions {
    /// Cancels the part of an operation that has not started.
    pub async fn cancel_operation(&self, id: OperationId) -> Result<Operation, ApiError> {
        let note = self.permit(Action::Cancel)?.note(id.to_string());
        let done = self.submit(Command::Cancel { operation: id, by: self.principal_name() }, note).await?;
        let region = &done.snapshot.region;
        let operation = region.operation(id).ok_or(Rejection::UnknownOperation(id))?;
        Ok(render_operation(region, operation))
    }
}
