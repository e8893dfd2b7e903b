//! Tokens for machines with a managed identity. Whether a machine has one is in the store, so the number of concurrent reads is
//! limited: a guest that requests tokens in a loop delays only token requests. A host agent has no store and lets its server issue
//! them.

use std::sync::Arc;

use forewarn_access::tls::now;
use forewarn_access::{MachineIdentity, TOKEN_SECS, TokenIssuer};
use forewarn_core::MachineId;
use forewarn_wire::error::MetadataError;
use forewarn_wire::sign_in;
use serde_json::Value;

use super::request::Endpoint;
use super::respond::CompletedRequest;
use super::response::Response;
use super::source::{HOST_RETRY_AFTER_SECS, TokenError, TokenRequest};

/// Concurrent reads. Each takes a thread for as long as the store needs to find one row.
pub const READS_MAX: usize = 4;

pub async fn issue(endpoint: Arc<Endpoint>, request: TokenRequest) -> CompletedRequest {
    match try_issue(&endpoint, request).await {
        Ok(response) => response.into(),
        Err(refusal) => endpoint.responses.refusal(&refusal).into(),
    }
}

async fn try_issue(endpoint: &Endpoint, request: TokenRequest) -> Result<Response, MetadataError> {
    let body = match endpoint.source.forward_token(&request) {
        Some(forwarded) => forwarded.await.map_err(|error| refuse(error, &request.resource))?,
        None => {
            let identity = read(endpoint, request.machine.id).await?;
            issue_token(&endpoint.issuer, &request, identity)?
        }
    };
    Ok(endpoint.responses.json(body.to_string().into_bytes()))
}

/// Issues a token to a machine, or refuses it. The body of the response.
///
/// # Errors
///
/// If the machine does not have the requested identity.
pub fn issue_token(
    issuer: &TokenIssuer,
    request: &TokenRequest,
    identity: Option<MachineIdentity>,
) -> Result<Value, MetadataError> {
    let TokenRequest { machine, resource, client_id } = request;
    let identity = identity.ok_or(MetadataError::IdentityNotFound)?;
    if client_id.as_ref().is_some_and(|id| !id.eq_ignore_ascii_case(&identity.principal_id)) {
        return Err(MetadataError::IdentityNotFound);
    }
    let issued = issuer.sign_in.issue(&identity.subject(machine), resource, now(), TOKEN_SECS);
    let claims = &issued.claims;
    Ok(sign_in::machine_token(&issued.token, &claims.appid, resource, claims.nbf, claims.exp))
}

fn refuse(error: TokenError, resource: &str) -> MetadataError {
    match error {
        TokenError::IdentityNotFound => MetadataError::IdentityNotFound,
        TokenError::ResourceUnknown => MetadataError::ResourceUnknown { given: resource.to_owned() },
        TokenError::Unreachable => MetadataError::ServerUnreachable { retry_after_secs: HOST_RETRY_AFTER_SECS },
        TokenError::Internal => MetadataError::Internal,
    }
}

async fn read(endpoint: &Endpoint, machine: MachineId) -> Result<Option<MachineIdentity>, MetadataError> {
    let _turn = endpoint.identity_reads.acquire().await.map_err(|_| MetadataError::Internal)?;
    endpoint.source.identity(machine).await.map_err(|_| MetadataError::Internal)
}
