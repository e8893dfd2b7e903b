//! The identity of a machine: with one it gets tokens for this API from its metadata endpoint.

use axum::response::{IntoResponse, Response};
use forewarn_core::MachineId;
use forewarn_store::{Attachment, Owner};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::error::{ApiError, Refusal};
use super::extract::{self, InGroup, OptionalBody, Params, Segment};
use super::{Api, Note, names};
use forewarn_access::{MACHINE_ATTACHMENT, MachineIdentity, Role};
use forewarn_engine::Bundle;

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// Who its tokens say that it is.
    pub principal_id: String,
    pub tenant_id: String,
    /// What its tokens let it do.
    pub role: Role,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewIdentity {
    /// `reader` when left out.
    pub role: Option<Role>,
}

pub async fn get(api: Api, Segment(name): Segment, Params(within): Params<InGroup>) -> Result<Response, ApiError> {
    let snapshot = api.engine().snapshot();
    let machine = names::machine(&snapshot.region, &name, within.group.as_deref())?;
    match read(&api, machine.id).await? {
        Some(identity) => Ok(extract::ok(Identity::of(&identity))),
        None => Err(none(&machine.name)),
    }
}

pub async fn put(
    api: Api,
    Segment(name): Segment,
    Params(within): Params<InGroup>,
    OptionalBody(body): OptionalBody<NewIdentity>,
) -> Result<Response, ApiError> {
    let snapshot = api.engine().snapshot();
    let machine = names::machine(&snapshot.region, &name, within.group.as_deref())?;
    let identity = MachineIdentity::of(&machine, api.tenant(), body.role);
    let note = Note::new("machine.identity", machine.name.as_ref())
        .with(serde_json::json!({ "role": identity.role().word() }));
    attach(&api, identity.attachment(machine.id), note).await?;
    Ok(extract::ok(Identity::of(&identity)))
}

pub async fn delete(api: Api, Segment(name): Segment, Params(within): Params<InGroup>) -> Result<Response, ApiError> {
    let snapshot = api.engine().snapshot();
    let machine = names::machine(&snapshot.region, &name, within.group.as_deref())?;
    if read(&api, machine.id).await?.is_none() {
        return Err(none(&machine.name));
    }
    let note = Note::new("machine.identity.remove", machine.name.as_ref());
    attach(&api, Attachment::remove(Owner::Machine(machine.id), MACHINE_ATTACHMENT), note).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn attach(api: &Api, attachment: Attachment, note: Note) -> Result<(), ApiError> {
    let attach = Box::new(move |_: &[forewarn_core::Answer]| vec![attachment]);
    api.engine().submit_all(Bundle { commands: Vec::new(), asked: Some(api.asked(note)), attach }).await?;
    Ok(())
}

async fn read(api: &Api, machine: MachineId) -> Result<Option<MachineIdentity>, ApiError> {
    api.engine().read(move |reader| MachineIdentity::read(reader, machine)).await.map_err(|error| {
        tracing::error!(%error, "an identity cannot be read");
        ApiError::new(Refusal::StoreUnreadable, "The identity cannot be read. The server's log says why.")
    })
}

fn none(machine: &str) -> ApiError {
    let message =
        format!("The machine '{machine}' has no identity. `forewarn vm identity assign`, or a PUT here, gives it one.");
    ApiError::new(Refusal::NotFound, message).about(machine)
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
