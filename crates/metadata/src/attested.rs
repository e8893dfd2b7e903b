//! Attested data: a signed document that proves which machine asked for it.

use std::sync::Arc;

use forewarn_access::tls::now;
use forewarn_wire::attested::{self, AttestedView};
use forewarn_wire::error::MetadataError;

use super::instance::read_properties;
use super::request::{AttestedRequest, Endpoint};
use super::respond::CompletedRequest;
use super::response::Response;

pub async fn respond(endpoint: Arc<Endpoint>, request: AttestedRequest) -> CompletedRequest {
    match try_respond(&endpoint, &request).await {
        Ok(response) => response.into(),
        Err(refusal) => endpoint.responses.refusal(&refusal).into(),
    }
}

async fn try_respond(endpoint: &Endpoint, request: &AttestedRequest) -> Result<Response, MetadataError> {
    let AttestedRequest { machine, version, nonce } = request;
    let tls = endpoint.tls.as_ref().filter(|tls| tls.authority().is_some());
    let tls = tls.ok_or(MetadataError::AttestationUnavailable)?;
    let properties = read_properties(endpoint, machine.id).await?;
    let license_type = properties.as_ref().and_then(|properties| properties.get("licenseType")?.as_str());
    let view = AttestedView {
        nonce: nonce.as_deref(),
        vm_id: machine.vm_id.0,
        subscription_id: &machine.home.subscription,
        sku: &machine.details.sku,
        license_type: license_type.unwrap_or_default(),
        // Verifiers compare the document with their own clocks, as they do for tokens.
        now_unix_secs: now(),
    };
    let signed = tls.sign_document(&attested::content(*version, &view)).ok_or(MetadataError::Internal)?;
    Ok(endpoint.responses.json(attested::body(&signed)))
}
