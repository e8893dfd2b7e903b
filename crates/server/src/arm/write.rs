//! What the writing of every resource has in common, whether a request or a template asks for it.

use axum::response::{IntoResponse, Response};
use forewarn_store::{Attachment, Owner};
use forewarn_wire::arm::merge;
use http::StatusCode;
use serde_json::{Value, json};

use super::call::{BODY, Call};
use super::fields;
use super::operations::Ticket;
use crate::api::error::ApiError;
use crate::random::random_guid;

/// The tenant that everything is in.
pub const TENANT: &str = "00000000-0000-0000-0000-000000000001";

/// The attachment of a machine that may ask for tokens.
const IDENTITY: &str = "identity";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Creates, or merges into what is there.
    Put,
    /// Changes what is there.
    Patch,
}

impl How {
    pub fn merged(self, existing: &Value, given: &Value) -> Value {
        match self {
            How::Put => merge::put(existing, given),
            How::Patch => merge::patch(existing, given),
        }
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
pub struct Identity(Option<Value>);

impl Identity {
    /// What the body asks for; an identity that is there stays the same one.
    pub fn wanted(body: &Value, before: Option<Value>) -> Result<Identity, ApiError> {
        let kind = fields::text(body, "identity.type")?.unwrap_or("None");
        let system = kind.split(',').any(|kind| kind.trim().eq_ignore_ascii_case("SystemAssigned"));
        let new = || json!({ "principalId": random_guid().to_string(), "tenantId": TENANT });
        Ok(Identity(system.then(|| before.unwrap_or_else(new))))
    }

    pub fn attachment(&self, owner: Owner) -> Attachment {
        match &self.0 {
            Some(identity) => Attachment::put(owner, IDENTITY, identity.to_string()),
            None => Attachment::remove(owner, IDENTITY),
        }
    }

    pub fn is_some(&self) -> bool {
        self.0.is_some()
    }
}

impl super::call::Arm {
    pub async fn identity(&self, owner: Owner) -> Result<Option<Value>, ApiError> {
        self.attached(owner, IDENTITY).await
    }
}
