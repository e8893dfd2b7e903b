//! Managed identities of machines. A machine with an identity can get tokens for this API from its metadata endpoint.

use axum::response::{IntoResponse, Response};
use forewarn_core::MachineId;
use forewarn_store::{Attachment, Owner};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::error::{ApiError, ErrorCode};
use super::extract::{self, GroupQuery, OptionalBody, Params, Segment};
use super::{Api, AuditNote, names};
use forewarn_access::{MACHINE_ATTACHMENT, MachineIdentity, Role};
use forewarn_engine::Bundle;

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// ID of the principal in its tokens.
    pub principal_id: String,
    pub tenant_id: String,
    /// Role of its tokens.
    pub role: Role,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewIdentity {
    /// Default: reader.
    pub role: Option<Role>,
}

pub async fn get(api: Api, Segment(name): Segment, Params(within): Params<GroupQuery>) -> Result<Response, ApiError> {
    let snapshot = api.engine().snapshot();
    let machine = names::find_machine(&snapshot.region, &name, within.group.as_deref())?;
    match read_identity(&api, machine.id).await? {
        Some(identity) => Ok(extract::ok(Identity::of(&identity))),
        None => Err(no_identity(&machine.name)),
    }
}

pub async fn put(
    api: Api,
    Segment(name): Segment,
    Params(within): Params<GroupQuery>,
    OptionalBody(body): OptionalBody<NewIdentity>,
) -> Result<Response, ApiError> {
    let snapshot = api.engine().snapshot();
    let machine = names::find_machine(&snapshot.region, &name, within.group.as_deref())?;
    let identity = MachineIdentity::of(&machine, api.tenant(), body.role);
    let note = AuditNote::new("machine.identity", machine.name.as_ref())
        .with(serde_json::json!({ "role": identity.role().word() }));
    attach(&api, identity.attachment(machine.id), note).await?;
    Ok(extract::ok(Identity::of(&identity)))
}

pub async fn delete(
    api: Api,
    Segment(name): Segment,
    Params(within): Params<GroupQuery>,
) -> Result<Response, ApiError> {
    let snapshot = api.engine().snapshot();
    let machine = names::find_machine(&snapshot.region, &name, within.group.as_deref())?;
    if read_identity(&api, machine.id).await?.is_none() {
        return Err(no_identity(&machine.name));
    }
    let note = AuditNote::new("machine.identity.remove", machine.name.as_ref());
    attach(&api, Attachment::remove(Owner::Machine(machine.id), MACHINE_ATTACHMENT), note).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn attach(api: &Api, attachment: Attachment, note: AuditNote) -> Result<(), ApiError> {
    let attach = Box::new(move |_: &[forewarn_core::Answer]| vec![attachment]);
    api.engine().submit_all(Bundle { commands: Vec::new(), asked: Some(api.audit(note)), attach }).await?;
    Ok(())
}

async fn read_identity(api: &Api, machine: MachineId) -> Result<Option<MachineIdentity>, ApiError> {
    api.engine().read(move |reader| MachineIdentity::read(reader, machine)).await.map_err(|error| {
        tracing::error!(%error, "cannot read a machine identity");
        ApiError::new(ErrorCode::StoreUnreadable, "The identity cannot be read. See the server's log.")
    })
}

fn no_identity(machine: &str) -> ApiError {
    let message = format!("Machine '{machine}' has no identity. Assign one with `forewarn vm identity assign`.");
    ApiError::new(ErrorCode::NotFound, message).with_target(machine)
}

impl Identity {
    fn of(identity: &MachineIdentity) -> Identity {
        Identity {
            principal_id: identity.principal_id.clone(),
            tenant_id: identity.tenant_id.clone(),
            role: identity.role(),
        }
    }
}
