//! Tokens for machines that were given an identity. Whether one was is in the store, so this reads beside
//! the writer, and only so many at once: a guest that asks in a loop keeps nobody but itself waiting.

use std::sync::Arc;

use forewarn_core::MachineId;
use forewarn_wire::error::Refusal;
use forewarn_wire::sign_in;

use super::answer::Answer;
use super::service::{Shared, TokenRequest};
use forewarn_access::tls::now;
use forewarn_access::{MachineIdentity, TOKEN_SECS};

/// Each takes a thread for as long as the store needs to find one row.
pub const READS_MAX: usize = 4;

pub async fn token(shared: Arc<Shared>, request: TokenRequest) -> Answer {
    match token_or_refuse(&shared, request).await {
        Ok(answer) => answer,
        Err(refusal) => shared.answers.refusal(&refusal),
    }
}

async fn token_or_refuse(shared: &Shared, request: TokenRequest) -> Result<Answer, Refusal> {
    let TokenRequest { machine, resource, client_id } = request;
    let identity = read(shared, machine.id).await?.ok_or(Refusal::IdentityNotFound)?;
    if client_id.is_some_and(|id| !id.eq_ignore_ascii_case(&identity.principal_id)) {
        return Err(Refusal::IdentityNotFound);
    }
    let issued = shared.desk.sign_in.issue(&identity.subject(&machine), &resource, now(), TOKEN_SECS);
    let claims = &issued.claims;
    let body = sign_in::machine_token(&issued.token, &claims.appid, &resource, claims.nbf, claims.exp);
    Ok(shared.answers.json(body.to_string().into_bytes()))
}

async fn read(shared: &Shared, machine: MachineId) -> Result<Option<MachineIdentity>, Refusal> {
    let _turn = shared.identity_reads.acquire().await.map_err(|_| Refusal::Internal)?;
    shared.source.identity(machine).await.map_err(|_| Refusal::Internal)
}
