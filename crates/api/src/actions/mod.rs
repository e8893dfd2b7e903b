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
pub use hosts::Registered;
pub use machines::name_machines;
pub use maintenance::plan_of;
pub use scale_sets::{PLACEMENT_GROUP_DEFAULT, ZONES_MAX};

use forewarn_core::{Answer, Command, Guid, Request};
use forewarn_store::Attachment;

use super::Actions;
use super::action::{Action, AuditNote, Permit};
use super::dry_run::Execution;
use super::error::{ApiError, ErrorCode};
use super::guard::check_role;
use super::render::render_operation;
use forewarn_access::{Role, random_guid};
use forewarn_api_types::Operation;
use forewarn_engine::{AuditEntry, Bundle, CommittedBundle, Done};
use http::StatusCode;

impl Actions {
    /// Checks that the caller may perform an action.
    pub fn permit(&self, action: Action) -> Result<Permit, ApiError> {
        self.require(action.role())?;
        Ok(Permit::new(action))
    }

    /// Checks that the caller has a role.
    pub fn require(&self, role: Role) -> Result<(), ApiError> {
        check_role(&self.1, role)
    }

    /// Runs the commands and writes the attachments in one commit: all or nothing. In a dry run, only the rules see the
    /// commands.
    pub async fn commit(
        &self,
        commands: Vec<Command>,
        note: AuditNote,
        attach: impl FnOnce(&[Answer]) -> Vec<Attachment> + Send + 'static,
    ) -> Result<CommittedBundle, ApiError> {
        if let Execution::Dry(trial) = &self.2 {
            return Ok(trial.run(self.engine(), &commands)?);
        }
        let bundle = Bundle { commands, asked: Some(self.audit(note)), attach: Box::new(attach) };
        Ok(self.engine().submit_all(bundle).await?)
    }

    /// Runs a command as the caller and records it in the audit trail. In a dry run, only the rules see it.
    pub(super) async fn submit(&self, command: Command, note: AuditNote) -> Result<Done, ApiError> {
        let CommittedBundle { answers, snapshot } = self.commit(vec![command], note, |_| Vec::new()).await?;
        Ok(Done { answer: answers.into_iter().next().unwrap_or(Answer::Done), snapshot })
    }

    /// An entry of the audit trail, made by the caller.
    pub(super) fn audit(&self, note: AuditNote) -> AuditEntry {
        note.by(self.1.name.to_string())
    }

    /// Requests an operation.
    async fn start_operation(
        &self,
        request: Request,
        event: Option<forewarn_api_types::EventId>,
        note: AuditNote,
    ) -> Result<Operation, ApiError> {
        let requested = self.3.unwrap_or_else(random_guid);
        let event = event.map(|id| Guid(id.0));
        let command = Command::Request { operation: requested, by: self.principal_name(), request, event };
        let done = self.submit(command, note).await?;
        let id = match done.answer {
            Answer::Operation(id) => id,
            Answer::Done | Answer::Machine(_) | Answer::Group { .. } | Answer::Rollout(_) | Answer::Scaled { .. } => {
                requested
            }
        };
        let region = &done.snapshot.region;
        match region.operation(id) {
            Some(found) => Ok(render_operation(region, found)),
            None => Err(ApiError::new(
                ErrorCode::OperationNotFound,
                format!("Operation {id} has already finished. See the history."),
            )),
        }
    }

    /// The result of a deletion. A repeated request may find its target gone because the first one deleted it; it gets the
    /// operation of the first one.
    fn or_repeated_deletion(&self, result: Result<Operation, ApiError>) -> Result<Operation, ApiError> {
        result.or_else(|error| {
            let is_gone = error.status == StatusCode::NOT_FOUND;
            self.find_repeated_deletion().filter(|_| is_gone).ok_or(error)
        })
    }

    fn find_repeated_deletion(&self) -> Option<Operation> {
        let snapshot = self.engine().snapshot();
        let operation = snapshot.region.operation(self.3?)?;
        let is_deletion = matches!(operation.request, Request::Delete { .. });
        is_deletion.then(|| render_operation(&snapshot.region, operation))
    }
}
