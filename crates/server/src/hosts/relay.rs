//! Requests of agents at a server that follows: the leader carries them out.
//!
//! ```text
//!  agent ──▶ follower ──/cluster/v1/hosts/…──▶ leader ─▶ the same handlers ─▶ engine
//!                ▲                                                              │
//!                └───────────── the local copy has the revision ◀───────────────┘
//! ```
//!
//! The follower passes on the fingerprint of the agent's certificate, and the leader decides which host that is.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use forewarn_api_types::host_link::{LinkRefusal, paths};
use forewarn_core::Name;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde::Serialize;

use super::heartbeats::Claim;
use super::links::Links;
use super::routes::{BODY_BYTES_MAX, DOMAINS_BYTES_MAX, Peer, Refused, admit};
use crate::cluster::{LeaderRequest, LeaderResponse};

/// The fingerprint of the certificate of the agent that makes a forwarded request.
const FINGERPRINT: HeaderName = HeaderName::from_static("forewarn-host-certificate");

/// The address of that agent.
const AGENT_ADDRESS: HeaderName = HeaderName::from_static("forewarn-host-address");

/// The revision that the follower's copy must reach before the agent gets its answer.
const REVISION: HeaderName = HeaderName::from_static("forewarn-revision");

/// The paths of agents at the leader, for other servers.
pub const PEER_PREFIX: &str = "/cluster/v1/hosts";

/// Paths that only servers use.
pub const CLAIM: &str = "/claim";
pub const RELEASE: &str = "/release";

/// Middleware of the listener for hosts: forwards the request to the leader if another server leads.
pub async fn relay(State(links): State<Arc<Links>>, request: Request, next: Next) -> Response {
    let is_stream = request.uri().path() == paths::STREAM;
    if is_stream || links.cluster.is_none() || links.engine.accepts_commands() {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let Some(peer) = parts.extensions.get::<Peer>() else { return refuse(LinkRefusal::Internal) };
    let bytes_max = if parts.uri.path() == paths::DOMAINS { DOMAINS_BYTES_MAX } else { BODY_BYTES_MAX };
    let Ok(body) = to_bytes(body, bytes_max).await else {
        let message = format!("the request has more than {bytes_max} bytes, or is incomplete");
        return refuse(LinkRefusal::Invalid { message });
    };
    let path = parts.uri.path().to_owned();
    match forward(&links, &path, peer, body.clone()).await {
        Some(response) => response,
        None => next.run(Request::from_parts(parts, Body::from(body))).await,
    }
}

/// Sends a request of an agent to the leader. None: this server leads.
async fn forward(links: &Links, path: &str, peer: &Peer, body: Bytes) -> Option<Response> {
    let cluster = links.cluster.as_ref()?;
    let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    headers.insert(FINGERPRINT, HeaderValue::from_str(&peer.fingerprint).ok()?);
    headers.insert(AGENT_ADDRESS, HeaderValue::from_str(&peer.address.to_string()).ok()?);
    // Repeating one of these could refuse to an agent what it was granted.
    let is_repeatable = ![paths::APPROVE, paths::REPORT, paths::RENEW].contains(&path);
    let request = LeaderRequest { path: format!("{PEER_PREFIX}{path}"), headers, body, is_repeatable };
    let answer = match cluster.send_to_leader(&request).await {
        LeaderResponse::Here => return None,
        LeaderResponse::By(answer) => answer,
        LeaderResponse::NoLeader => return Some(refuse(LinkRefusal::NoLeader)),
        LeaderResponse::Unknown => return Some(refuse(LinkRefusal::OutcomeUnknown)),
    };
    let revision = answer.headers().get(REVISION).and_then(|value| value.to_str().ok()?.parse().ok());
    // The answer to a heartbeat refers to nothing in the copy.
    if let Some(revision) = revision.filter(|_| answer.status().is_success() && path != paths::HEARTBEAT) {
        cluster.wait_for_copy(revision).await;
        if let Some(host) = links.access.host_of(&peer.fingerprint) {
            links.request_revision(&host.into(), revision);
        }
    }
    let mut response = Response::new(Body::from(answer.body().clone()));
    *response.status_mut() = answer.status();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Some(response)
}

/// Middleware of the leader's side: who makes the forwarded request, and which revision its result has.
pub async fn receive(State(links): State<Arc<Links>>, mut request: Request, next: Next) -> Response {
    if !links.engine.accepts_commands() {
        return StatusCode::MISDIRECTED_REQUEST.into_response();
    }
    let Some(peer) = peer_of(request.headers()) else { return StatusCode::BAD_REQUEST.into_response() };
    request.extensions_mut().insert(peer);
    let mut response = next.run(request).await;
    response.headers_mut().insert(REVISION, links.engine.snapshot().revision.into());
    response
}

fn peer_of(headers: &HeaderMap) -> Option<Peer> {
    let text = |name: HeaderName| headers.get(name)?.to_str().ok();
    let address: SocketAddr = text(AGENT_ADDRESS)?.parse().ok()?;
    Some(Peer { address, fingerprint: text(FINGERPRINT)?.to_owned() })
}

/// Has the leader admit an agent before it gets a stream.
pub async fn claim(links: &Links, host: &Name, claim: &Claim, peer: &Peer) -> Result<(), Refused> {
    if !links.engine.accepts_commands()
        && let Some(answer) = forward(links, CLAIM, peer, to_body(claim)).await
    {
        return read_refusal(answer).await;
    }
    admit(links, host, claim, peer).await
}

/// Tells the leader that a stream has ended. If that fails, the leader notices the silence of the agent.
pub async fn release(links: &Links, host: &Name, claim: &Claim, peer: &Peer) {
    let is_forwarded =
        !links.engine.accepts_commands() && forward(links, RELEASE, peer, to_body(claim)).await.is_some();
    if !is_forwarded {
        links.agents.release(host, claim);
    }
}

async fn read_refusal(answer: Response) -> Result<(), Refused> {
    if answer.status().is_success() {
        return Ok(());
    }
    let body = to_bytes(answer.into_body(), BODY_BYTES_MAX).await.unwrap_or_default();
    Err(Refused(serde_json::from_slice(&body).unwrap_or(LinkRefusal::Internal)))
}

fn to_body(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).unwrap_or_default().into()
}

fn refuse(refusal: LinkRefusal) -> Response {
    Refused(refusal).into_response()
}
