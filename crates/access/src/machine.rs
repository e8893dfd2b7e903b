//! Managed identities of machines, stored as attachments.

use forewarn_core::{Guid, Machine, MachineId};
use forewarn_store::{Attachment, Owner, Reader, StoreError};
use serde::{Deserialize, Serialize};

use super::{Role, Subject};

/// The name of the attachment.
pub const ATTACHMENT: &str = "identity";

/// The role of a machine whose identity names none.
pub const ROLE_DEFAULT: Role = Role::Reader;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineIdentity {
    pub principal_id: String,
    pub tenant_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
}

impl MachineIdentity {
    /// The identity derived from a machine: assigning it twice gives the same identity.
    pub fn of(machine: &Machine, tenant: &str, role: Option<Role>) -> MachineIdentity {
        MachineIdentity::derived(machine.vm_id, tenant, role)
    }

    /// The identity derived from an ID, for a machine that does not exist yet or for a scale set.
    pub fn derived(from: Guid, tenant: &str, role: Option<Role>) -> MachineIdentity {
        /// Distinguishes this ID from others that are derived from the same one.
        const PRINCIPAL: u64 = 0x1d;
        MachineIdentity { principal_id: from.derive(PRINCIPAL).to_string(), tenant_id: tenant.to_owned(), role }
    }

    /// The identity that is attached to a machine. Blocking: it reads the store.
    pub fn read(reader: &dyn Reader, machine: MachineId) -> Result<Option<MachineIdentity>, StoreError> {
        let text = reader.attachment(Owner::Machine(machine), ATTACHMENT)?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    pub fn attachment(&self, machine: MachineId) -> Attachment {
        self.attached_to(Owner::Machine(machine))
    }

    pub fn attached_to(&self, owner: Owner) -> Attachment {
        let text = serde_json::to_string(self).expect("texts can be written as JSON");
        Attachment::put(owner, ATTACHMENT, text)
    }

    pub fn role(&self) -> Role {
        self.role.unwrap_or(ROLE_DEFAULT)
    }

    pub fn subject(&self, machine: &Machine) -> Subject {
        Subject {
            name: format!("machine:{}", machine.name),
            client_id: self.principal_id.clone(),
            object_id: self.principal_id.clone(),
            role: self.role(),
        }
    }
}
