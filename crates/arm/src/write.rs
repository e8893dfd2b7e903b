//! What the writing of every resource has in common, whether a request or a template asks for it.

use axum::response::{IntoResponse, Response};
use forewarn_core::{Guid, Home};
use forewarn_store::{Attachment, Owner};
use forewarn_wire::arm::id::ResourceId;
use forewarn_wire::arm::merge;
use http::StatusCode;
use serde_json::Value;
use tokio::sync::MutexGuard;

use super::call::{Arm, BODY, Call};
use super::operations::Ticket;
use super::{fields, resource_groups};
use forewarn_access::{MACHINE_ATTACHMENT, MachineIdentity};
use forewarn_api::error::ApiError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Creates, or merges into what is there.
    Put,
    /// Changes what is there.
    Patch,
}

impl How {
    /// What there is to be changed; None: it is to be made.
    pub fn found<T>(self, found: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
        match (found, self) {
            (Ok(found), _) => Ok(Some(found)),
            (Err(error), How::Patch) => Err(error),
            (Err(_), How::Put) => Ok(None),
        }
    }

    pub fn merged(self, existing: &Value, given: &Value) -> Value {
        match self {
            How::Put => merge::put(existing, given),
            How::Patch => merge::patch(existing, given),
        }
    }
}

/// Leave to write one resource: nobody else does as long as this lives.
pub struct Turn<'a> {
    /// The resource group, as it is spelt.
    pub home: Home,
    _lock: MutexGuard<'a, ()>,
}

impl Arm {
    pub async fn turn(&self, id: &ResourceId) -> Result<Turn<'_>, ApiError> {
        let home = resource_groups::home(self, id).await?;
        Ok(Turn { home, _lock: self.lock(id).await })
    }
}

/// A resource that was written.
pub struct Written {
    pub is_new: bool,
    /// As GET shows it.
    pub resource: Value,
    /// What the writing has set off and is not over.
    pub pending: Option<Ticket>,
}

impl Written {
    pub fn into_response(mut self, call: &Call) -> Response {
        let status = if self.is_new { StatusCode::CREATED } else { StatusCode::OK };
        match self.pending.take() {
            Some(ticket) => {
                fields::put(&mut self.resource, "properties.provisioningState", "Updating");
                ticket.headed(call, (status, axum::Json(self.resource)).into_response())
            }
            None => {
                // Clients would wait for any other word to change, without being told where.
                fields::put(&mut self.resource, "properties.provisioningState", "Succeeded");
                (status, axum::Json(self.resource)).into_response()
            }
        }
    }
}

/// What is shown from the region and is of no use in a stored body.
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

/// The body of `owner`, to be stored.
pub fn stored(owner: Owner, body: &Value) -> Attachment {
    let mut body = body.clone();
    COMPUTED.iter().for_each(|place| fields::remove(&mut body, place));
    Attachment::put(owner, BODY, body.to_string())
}

/// Who a machine or a set is, when it asks for tokens.
#[derive(Clone)]
pub struct Identity(Option<MachineIdentity>);

impl Identity {
    /// What the body asks for; an identity that is there stays the same one.
    pub fn wanted(
        arm: &Arm,
        body: &Value,
        before: Option<MachineIdentity>,
        derived_from: Guid,
    ) -> Result<Identity, ApiError> {
        let kind = fields::text(body, "identity.type")?.unwrap_or("None");
        let new = || MachineIdentity::derived(derived_from, arm.api.tenant(), None);
        Ok(Identity(is_system(kind).then(|| before.unwrap_or_else(new))))
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

/// Shows who the resource is, whoever gave it its identity.
pub fn show_identity(body: &mut Value, identity: Option<&MachineIdentity>) {
    let kind = fields::text(body, "identity.type").ok().flatten().unwrap_or("None").to_owned();
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
    pub async fn identity(&self, owner: Owner) -> Result<Option<MachineIdentity>, ApiError> {
        let text = self.read(move |reader| reader.attachment(owner, MACHINE_ATTACHMENT)).await?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }
}
