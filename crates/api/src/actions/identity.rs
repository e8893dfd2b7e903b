//! Assigns and removes managed identities. A machine with an identity can get tokens for this API from its metadata
//! endpoint.

use forewarn_access::{MACHINE_ATTACHMENT, MachineIdentity};
use forewarn_api_types::{Identity, NewIdentity};
use forewarn_core::MachineId;
use forewarn_store::{Attachment, Owner};

use crate::Actions;
use crate::action::Action;
use crate::audit_detail::AuditDetail;
use crate::error::{ApiError, ErrorCode};
use crate::names::MachineTarget;

impl Actions {
    pub async fn assign_identity(&self, target: &MachineTarget, new: NewIdentity) -> Result<Identity, ApiError> {
        let permit = self.permit(Action::AssignIdentity)?;
        let machine = self.find_machine(target)?;
        let identity = MachineIdentity::of(&machine, self.tenant(), new.role);
        let note = permit.note(machine.name.as_str()).with(AuditDetail::Identity { role: identity.role() });
        let attachment = identity.attachment(machine.id);
        self.commit(Vec::new(), note, move |_| vec![attachment]).await?;
        Ok(render_identity(&identity))
    }

    pub async fn remove_identity(&self, target: &MachineTarget) -> Result<(), ApiError> {
        let permit = self.permit(Action::RemoveIdentity)?;
        let machine = self.find_machine(target)?;
        if self.read_identity(machine.id).await?.is_none() {
            return Err(no_identity(&machine.name));
        }
        let removed = Attachment::remove(Owner::Machine(machine.id), MACHINE_ATTACHMENT);
        self.commit(Vec::new(), permit.note(machine.name.as_str()), move |_| vec![removed]).await.map(drop)
    }

    /// The identity of a machine.
    pub async fn get_identity(&self, target: &MachineTarget) -> Result<Identity, ApiError> {
        let machine = self.find_machine(target)?;
        match self.read_identity(machine.id).await? {
            Some(identity) => Ok(render_identity(&identity)),
            None => Err(no_identity(&machine.name)),
        }
    }

    async fn read_identity(&self, machine: MachineId) -> Result<Option<MachineIdentity>, ApiError> {
        self.engine().read(move |reader| MachineIdentity::read(reader, machine)).await.map_err(|error| {
            tracing::error!(%error, "cannot read a machine identity");
            ApiError::new(ErrorCode::StoreUnreadable, "The identity cannot be read. See the server's log.")
        })
    }
}

fn no_identity(machine: &str) -> ApiError {
    let message = format!("Machine '{machine}' has no identity. Assign one with `forewarn vm identity assign`.");
    ApiError::new(ErrorCode::NotFound, message).with_target(machine)
}

fn render_identity(identity: &MachineIdentity) -> Identity {
    Identity {
        principal_id: identity.principal_id.clone(),
        tenant_id: identity.tenant_id.clone(),
        role: identity.role(),
    }
}
