//! The actions of the management API: one typed function each, called by the HTTP handlers, the ARM API, the portal and
//! scenarios alike.
//!
//! ```text
//!  permit (role, from the table) ─▶ names → IDs ─▶ command with an audit entry ─▶ result
//! ```
//!
//! Each function first asks for a [`Permit`], which checks the role of the caller. Reading needs no function here: it takes
//! a snapshot.

mod clock;
mod enrollment;
mod events;
mod faults;
mod groups;
mod hosts;
mod identity;
mod machines;
mod maintenance;
mod operations;
mod rollouts;
mod scale_sets;
mod webhooks;

pub use groups::{GroupDeletion, PlainGroup, delete_action};
pub use hosts::Registration;
pub use machines::name_machines;
pub use maintenance::build_plan;
pub use scale_sets::{PLACEMENT_GROUP_DEFAULT, ZONES_MAX};

use forewarn_core::{Answer, Command, Guid, Rejection, Request};
use forewarn_render::render_operation;
use forewarn_store::{Attachment, Owner};

use super::Actions;
use super::action::{Action, AuditNote, Permit};
use super::dry_run::Execution;
use super::error::{ApiError, ErrorCode};
use super::guard::check_role;
use super::history::read_store;
use super::idempotency::DELETION_ATTACHMENT;
use forewarn_access::{Role, random_guid};
use forewarn_api_types::Operation;
use forewarn_engine::{AuditEntry, Bundle, CommittedBundle, SubmitResult};
use http::StatusCode;

impl Actions {
    /// Checks that the caller may perform an action.
    pub fn permit(&self, action: Action) -> Result<Permit, ApiError> {
        self.require(action.role())?;
        Ok(Permit::new(action))
    }

    /// Checks that the caller has a role.
    pub fn require(&self, role: Role) -> Result<(), ApiError> {
        check_role(&self.principal, role)
    }

    /// Runs the commands and writes the attachments in one commit: all or nothing. In a dry run, only the rules see the
    /// commands.
    pub async fn commit(
        &self,
        commands: Vec<Command>,
        note: AuditNote,
        attach: impl FnOnce(&[Answer]) -> Vec<Attachment> + Send + 'static,
    ) -> Result<CommittedBundle, ApiError> {
        if let Execution::Dry(trial) = &self.execution {
            return Ok(trial.run(self.engine(), &commands)?);
        }
        let bundle = Bundle { commands, audit: Some(self.audit(note)), attach: Box::new(attach) };
        Ok(self.engine().submit_all(bundle).await?)
    }

    /// Runs a command as the caller and records it in the audit trail. In a dry run, only the rules see it.
    pub(super) async fn submit(&self, command: Command, note: AuditNote) -> Result<SubmitResult, ApiError> {
        let CommittedBundle { answers, snapshot } = self.commit(vec![command], note, |_| Vec::new()).await?;
        Ok(SubmitResult { answer: answers.into_iter().next().unwrap_or(Answer::Done), snapshot })
    }

    /// An entry of the audit trail, made by the caller.
    pub(super) fn audit(&self, note: AuditNote) -> AuditEntry {
        note.by(self.principal.name.to_string())
    }

    /// Requests an operation.
    async fn start_operation(
        &self,
        request: Request,
        event: Option<forewarn_api_types::EventId>,
        note: AuditNote,
    ) -> Result<Operation, ApiError> {
        self.start_operation_with(request, event, note, Vec::new()).await
    }

    /// Requests a deletion. `instances` are those that the body of the request names.
    async fn start_deletion(
        &self,
        request: Request,
        event: Option<forewarn_api_types::EventId>,
        note: AuditNote,
        instances: &[String],
    ) -> Result<Operation, ApiError> {
        let attachments = self.request_key.iter().map(|key| key.deletion_attachment(instances)).collect();
        self.start_operation_with(request, event, note, attachments).await
    }

    /// The ID of a new operation or rollout.
    fn new_id(&self) -> Guid {
        self.request_key.as_ref().map_or_else(random_guid, |key| key.operation)
    }

    async fn start_operation_with(
        &self,
        request: Request,
        event: Option<forewarn_api_types::EventId>,
        note: AuditNote,
        attachments: Vec<Attachment>,
    ) -> Result<Operation, ApiError> {
        let requested = self.new_id();
        let event = event.map(|id| Guid(id.0));
        let command = Command::Request { operation: requested, by: self.principal_name(), request, event };
        let CommittedBundle { answers, snapshot } = self.commit(vec![command], note, |_| attachments).await?;
        let id = match answers.first() {
            Some(Answer::Operation(id)) => *id,
            Some(
                Answer::Done | Answer::Machine(_) | Answer::Group { .. } | Answer::Rollout(_) | Answer::Scaled { .. },
            )
            | None => requested,
        };
        let region = &snapshot.region;
        match region.operation(id) {
            Some(found) => Ok(render_operation(region, found)),
            None => Err(ApiError::new(
                ErrorCode::OperationNotFound,
                format!("Operation {id} has already finished. See the history."),
            )),
        }
    }

    /// The result of a deletion. A repeated request may find its target gone, or a new one of the same name, because the
    /// first one deleted it; it gets the operation of the first one.
    async fn or_repeated_deletion(
        &self,
        started: Result<Operation, ApiError>,
        instances: &[String],
    ) -> Result<Operation, ApiError> {
        match started {
            Err(error) if [StatusCode::NOT_FOUND, StatusCode::CONFLICT].contains(&error.status) => {
                self.find_repeated_deletion(instances).await?.ok_or(error)
            }
            started => started,
        }
    }

    /// The operation of the first request, if this one is the same with the same key. Another request with a key that
    /// was used for a deletion is refused.
    async fn find_repeated_deletion(&self, instances: &[String]) -> Result<Option<Operation>, ApiError> {
        let Some(key) = self.request_key.clone() else { return Ok(None) };
        let snapshot = self.engine().snapshot();
        let Some(operation) = snapshot.region.operation(key.operation) else { return Ok(None) };
        let owner = Owner::Operation(key.operation);
        let first = read_store(self, move |reader| reader.attachment(owner, DELETION_ATTACHMENT)).await?;
        if first != Some(key.hash_deletion(instances)) {
            return Err(Rejection::IdTaken(key.operation).into());
        }
        Ok(Some(render_operation(&snapshot.region, operation)))
    }
}
