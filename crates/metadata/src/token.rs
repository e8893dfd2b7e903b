//! Tokens for machines with a managed identity. Whether a machine has one is in the store, so the number of concurrent reads is
//! limited: a guest that asks in a loop delays only token requests.

use std::sync::Arc;

use forewarn_access::tls::now;
use forewarn_access::{MachineIdentity, TOKEN_SECS};
use forewarn_core::MachineId;
use forewarn_wire::error::Refusal;
use forewarn_wire::sign_in;

use super::request::{Endpoint, TokenRequest};
use super::respond::Completed;
use super::response::Response;

/// Concurrent reads. Each takes a thread for as long as the store needs to find one row.
pub const READS_MAX: usize = 4;

pub async fn issue(endpoint: Arc<Endpoint>, request: TokenRequest) -> Completed {
    match try_issue(&endpoint, request).await {
        Ok(response) => response.into(),
        Err(refusal) => endpoint.responses.refusal(&refusal).into(),
    }
}

async fn try_issue(endpoint: &Endpoint, request: TokenRequest) -> Result<Response, Refusal> {
    let TokenRequest { machine, resource, client_id } = request;
    let identity = read(endpoint, machine.id).await?.ok_or(Refusal::IdentityNotFound)?;
    if client_id.is_some_and(|id| !id.eq_ignore_ascii_case(&identity.principal_id)) {
        return Err(Refusal::IdentityNotFound);
    }
    let issued = endpoint.issuer.sign_in.issue(&identity.subject(&machine), &resource, now(), TOKEN_SECS);
    let claims = &issued.claims;
    let body = sign_in::machine_token(&issued.token, &claims.appid, &resource, claims.nbf, claims.exp);
    Ok(endpoint.responses.json(body.to_string().into_bytes()))
}

async fn read(endpoint: &Endpoint, machine: MachineId) -> Result<Option<MachineIdentity>, Refusal> {
    let _turn = endpoint.identity_reads.acquire().await.map_err(|_| Refusal::Internal)?;
    endpoint.source.identity(machine).await.map_err(|_| Refusal::Internal)
}
