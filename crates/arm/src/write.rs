//! Writing a resource, whether a request or a template asks for it: merging, locking, storing the body, identities.

use axum::response::{IntoResponse, Response};
use forewarn_core::{Guid, ResourceGroupRef};
use forewarn_store::{Attachment, Owner};
use forewarn_wire::arm::id::ResourceId;
use forewarn_wire::arm::merge;
use http::StatusCode;
use serde_json::Value;
use tokio::sync::MutexGuard;

use super::call::{Arm, BODY, Call};
use super::operations::OperationTicket;
use super::resource::not_found;
use super::{fields, group_records};
use forewarn_access::{MACHINE_ATTACHMENT, MachineIdentity};
use forewarn_api::error::ApiError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// Creates the resource, or merges into the existing one.
    Put,
    /// Changes an existing resource.
    Patch,
}

/// Defines the handlers `put` and `patch` of a resource type that has a `write` function. The argument is the status of the
/// response to a PUT that creates a resource, which is not the same for all types.
macro_rules! write_handlers {
    (new: $status:ident) => {
        pub async fn put(call: Call) -> Result<Response, ApiError> {
            let written = write(&call.arm, call.id(), &call.json()?, WriteMode::Put).await?;
            Ok(written.into_response(&call, http::StatusCode::$status))
        }

        pub async fn patch(call: Call) -> Result<Response, ApiError> {
            let written = write(&call.arm, call.id(), &call.json()?, WriteMode::Patch).await?;
            Ok(written.into_response(&call, http::StatusCode::OK))
        }
    };
}
pub(crate) use write_handlers;

impl WriteMode {
    /// The resource to change, or None if it is to be created.
    pub fn require_existing<T>(self, found: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
        match (found, self) {
            (Ok(found), _) => Ok(Some(found)),
            (Err(error), WriteMode::Patch) => Err(error),
            (Err(_), WriteMode::Put) => Ok(None),
        }
    }

    pub fn merge(self, existing: &Value, given: &Value) -> Value {
        match self {
            WriteMode::Put => merge::put(existing, given),
            WriteMode::Patch => merge::patch(existing, given),
        }
    }
}

/// Exclusive access to one resource while it is written.
pub struct WriteLock<'a> {
    /// The resource group, in its original spelling.
    pub home: ResourceGroupRef,
    _lock: MutexGuard<'a, ()>,
}

impl Arm {
    pub async fn lock_for_write(&self, id: &ResourceId) -> Result<WriteLock<'_>, ApiError> {
        let home = group_records::find_home(self, id).await?;
        Ok(WriteLock { home, _lock: self.lock(id).await })
    }
}

/// The body of a resource that is stored as an attachment of the region, with a change merged into it.
pub struct MergedRecord {
    pub body: Value,
    pub is_new: bool,
}

/// Merges a change into the stored resource. `check_new` runs only if there is none yet.
pub async fn merge_record(
    arm: &Arm,
    id: &ResourceId,
    record: String,
    given: &Value,
    mode: WriteMode,
    check_new: impl Future<Output = Result<(), ApiError>>,
) -> Result<MergedRecord, ApiError> {
    let existing = arm.read_attachment(Owner::Region, record).await?;
    match (&existing, mode) {
        (None, WriteMode::Patch) => return Err(not_found(id)),
        (None, WriteMode::Put) => check_new.await?,
        (Some(_), _) => {}
    }
    let mut body = mode.merge(existing.as_ref().unwrap_or(&Value::Null), given);
    fields::read_tags(&body)?;
    // The ID keeps its original spelling.
    let id_before = existing.as_ref().and_then(|existing| existing.get("id")).cloned();
    fields::put(&mut body, "id", id_before.unwrap_or_else(|| id.to_string().into()));
    Ok(MergedRecord { body, is_new: existing.is_none() })
}

/// The result of a write.
pub struct WriteResult {
    pub is_new: bool,
    /// As GET shows it.
    pub resource: Value,
    /// The operation that the write started, while it is running.
    pub pending: Option<OperationTicket>,
}

impl WriteResult {
    /// `new`: the status if the resource did not exist before.
    pub fn into_response(mut self, call: &Call, new: StatusCode) -> Response {
        let status = if self.is_new { new } else { StatusCode::OK };
        match self.pending.take() {
            Some(ticket) => {
                fields::put(&mut self.resource, "properties.provisioningState", "Updating");
                ticket.add_headers(call, (status, axum::Json(self.resource)).into_response())
            }
            None => {
                // With any other state, clients poll for a change without knowing where.
                fields::put(&mut self.resource, "properties.provisioningState", "Succeeded");
                (status, axum::Json(self.resource)).into_response()
            }
        }
    }
}

/// Properties that are rendered from the region and are not stored.
const COMPUTED: &[&str] = &[
    "id",
    "name",
    "type",
    "etag",
    "resources",
    "instanceId",
    "identity.principalId",
    "identity.tenantId",
    "properties.provisioningState",
    "properties.vmId",
    "properties.uniqueId",
    "properties.instanceView",
    "properties.latestModelApplied",
    "properties.virtualMachines",
];

/// The attachment that stores the body of `owner`.
pub fn body_attachment(owner: Owner, body: &Value) -> Attachment {
    let mut body = body.clone();
    COMPUTED.iter().for_each(|place| fields::remove(&mut body, place));
    Attachment::put(owner, BODY, body.to_string())
}

/// The managed identity that a resource is to have.
#[derive(Clone)]
pub struct WantedIdentity(Option<MachineIdentity>);

impl WantedIdentity {
    /// Reads the identity from the body; an existing identity is kept.
    pub fn from_body(
        arm: &Arm,
        body: &Value,
        before: Option<MachineIdentity>,
        derived_from: Guid,
    ) -> Result<WantedIdentity, ApiError> {
        let kind = fields::read_text(body, "identity.type")?.unwrap_or("None");
        let new = || MachineIdentity::derived(derived_from, arm.actions.tenant(), None);
        Ok(WantedIdentity(is_system(kind).then(|| before.unwrap_or_else(new))))
    }

    pub fn attachment(&self, owner: Owner) -> Attachment {
        match &self.0 {
            Some(identity) => identity.attached_to(owner),
            None => Attachment::remove(owner, MACHINE_ATTACHMENT),
        }
    }

    pub fn is_some(&self) -> bool {
        self.0.is_some()
    }
}

/// Renders the identity of a resource, whichever API assigned it.
pub fn render_identity(body: &mut Value, identity: Option<&MachineIdentity>) {
    let kind = fields::read_text(body, "identity.type").ok().flatten().unwrap_or("None").to_owned();
    match identity {
        Some(identity) => {
            let kind = if is_system(&kind) { kind } else { "SystemAssigned".to_owned() };
            fields::put(body, "identity.type", kind);
            fields::put(body, "identity.principalId", identity.principal_id.as_str());
            fields::put(body, "identity.tenantId", identity.tenant_id.as_str());
        }
        None if is_system(&kind) => fields::remove(body, "identity"),
        None => {}
    }
}

fn is_system(kind: &str) -> bool {
    kind.split(',').any(|kind| kind.trim().eq_ignore_ascii_case("SystemAssigned"))
}

impl Arm {
    pub async fn read_identity(&self, owner: Owner) -> Result<Option<MachineIdentity>, ApiError> {
        let text = self.read(move |reader| reader.attachment(owner, MACHINE_ATTACHMENT)).await?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }
}
