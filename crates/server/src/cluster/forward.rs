//! Forwards changes from a follower to the leader. The guard of this server has admitted the request before, and the leader
//! checks its credentials again.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use forewarn_api::{ApiError, BODY_BYTES_MAX, Scheme, check_host_and_origin, is_api_path, read_body};
use forewarn_engine::{LeaderAddress, SubmitError};
use forewarn_portal::Portal;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request as HttpRequest, StatusCode};
use tokio::time::{Instant, timeout};

use super::peer::{FORWARDED_BASE, FORWARDED_BY, NOT_LEADING, PeerError, REVISION};
use super::{Cluster, LEADER_POLL, LEADER_WAIT_MAX, LeaderLocation, PEER_PREFIX};

/// State that only the leader has, so that reading it needs the leader too.
const LEADER_PATHS: [&str; 3] = ["/api/v1/webhooks", "/api/v1/scenario-runs", "/api/v1/faults"];

/// Paths that change only sessions, which have a way to the leader of their own.
const LOCAL_PATHS: [&str; 1] = ["/api/v1/portal-links"];

/// Reads have an `Age` while the leader was last heard of longer ago than this. A takeover takes less.
const AGE_SHOWN_MIN: Duration = Duration::from_secs(3);

/// A leader that takes longer has probably been stopped.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// The same once another server leads: a deposed leader that is alive knows the outcome of its last commits immediately.
const DEPOSED_ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// The confirmation that the leader would show after a form.
const CONFIRMATION: HeaderName = HeaderName::from_static("forewarn-confirmation");

/// Headers of one connection.
const HOP_HEADERS: [header::HeaderName; 7] = [
    header::CONNECTION,
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::TE,
    header::TRAILER,
];

/// Middleware that lets the leader answer requests that change something.
pub async fn forward(State(cluster): State<Arc<Cluster>>, mut request: Request, next: Next) -> Response {
    let is_forwarded = request.headers().contains_key(FORWARDED_BY);
    let is_for_nodes = is_forwarded || request.uri().path().starts_with(PEER_PREFIX);
    if is_for_nodes && !cluster.is_from_node(request.extensions()) {
        return refuse_stranger();
    }
    if !needs_leader(request.method(), request.uri().path()) {
        let mut response = next.run(request).await;
        if let Some(age) = cluster.monitor.heartbeat_age().filter(|age| *age > AGE_SHOWN_MIN) {
            response.headers_mut().insert(header::AGE, age.as_secs().into());
        }
        return response;
    }
    if is_forwarded {
        restore_base(&mut request);
        return answer_forwarded(&cluster, request, next).await;
    }
    if cluster.engine.accepts_commands() {
        return next.run(request).await;
    }
    pass_on(&cluster, request, next).await
}

/// The scheme and host that the caller used.
fn base_of(parts: &Parts) -> Option<HeaderValue> {
    let scheme = match parts.extensions.get::<Scheme>()? {
        Scheme::Http => "http",
        Scheme::Https => "https",
    };
    let host = parts.headers.get(header::HOST)?.to_str().ok()?;
    HeaderValue::try_from(format!("{scheme}://{host}")).ok()
}

/// Restores the original scheme and host of a forwarded request: responses contain URLs, and the caller must find the server at them.
fn restore_base(request: &mut Request) {
    let Some(base) = request.headers_mut().remove(FORWARDED_BASE) else { return };
    let (scheme, host) = match base.to_str().ok().and_then(|base| base.split_once("://")) {
        Some(("http", host)) => (Scheme::Http, host),
        Some(("https", host)) => (Scheme::Https, host),
        Some(_) | None => return,
    };
    if let Ok(host) = HeaderValue::from_str(host) {
        request.headers_mut().insert(header::HOST, host);
        request.extensions_mut().insert(scheme);
    }
}

fn refuse_stranger() -> Response {
    let message = "Only servers of this region can use this, with a certificate of its authority.\n";
    (StatusCode::FORBIDDEN, message).into_response()
}

/// Middleware that lets the leader carry out the forms of the portal.
pub async fn forward_form(
    State((cluster, portal)): State<(Arc<Cluster>, Portal)>,
    request: Request,
    next: Next,
) -> Response {
    if !forewarn_portal::needs_leader(request.method(), request.uri().path()) {
        return next.run(request).await;
    }
    let headers = request.headers().clone();
    if headers.contains_key(FORWARDED_BY) {
        if !cluster.is_from_node(request.extensions()) {
            return refuse_stranger();
        }
        let mut response = answer_forwarded(&cluster, request, next).await;
        if let Some(confirmation) = portal.take_confirmation(&headers) {
            response.headers_mut().insert(CONFIRMATION, confirmation);
        }
        return response;
    }
    if cluster.engine.accepts_commands() {
        return next.run(request).await;
    }
    if let Err(error) = check_host_and_origin(&request, portal.addresses()) {
        return error.into_response();
    }
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_BYTES_MAX).await else { return StatusCode::PAYLOAD_TOO_LARGE.into_response() };
    if let Err(refusal) = portal.check_form(&parts, &body).await {
        return refusal;
    }
    let mut response = pass_on(&cluster, Request::from_parts(parts, Body::from(body)), next).await;
    if let Some(confirmation) = response.headers_mut().remove(CONFIRMATION) {
        portal.set_confirmation(&headers, &confirmation);
    }
    response
}

fn needs_leader(method: &Method, path: &str) -> bool {
    if path.starts_with(PEER_PREFIX) || LOCAL_PATHS.contains(&path) {
        return false;
    }
    let is_read = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    if !is_read {
        return is_api_path(path);
    }
    // Agents report the domains of their hosts to the leader.
    let is_domains = path.starts_with("/api/v1/hosts/") && path.ends_with("/domains");
    is_domains || LEADER_PATHS.iter().any(|leader| path.starts_with(leader))
}

/// Answers a request of another server, with the revision that its copy must reach.
async fn answer_forwarded(cluster: &Cluster, request: Request, next: Next) -> Response {
    if !cluster.engine.accepts_commands() {
        let mut response = ApiError::from(SubmitError::NoLeader).into_response();
        response.headers_mut().insert(NOT_LEADING, HeaderValue::from_static("true"));
        return response;
    }
    let mut response = next.run(request).await;
    response.headers_mut().insert(REVISION, cluster.engine.snapshot().revision.into());
    response
}

/// Sends a request to the leader, or carries it out if this server becomes the leader meanwhile.
async fn pass_on(cluster: &Cluster, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let body = match read_body(Request::from_parts(parts.clone(), body), &()).await {
        Ok((_, body)) => body,
        Err(error) => return error.into_response(),
    };
    let until = Instant::now() + LEADER_WAIT_MAX;
    while let Some(leading) = cluster.find_leader(until).await {
        let leader = match leading {
            LeaderLocation::Here => return next.run(Request::from_parts(parts, Body::from(body))).await,
            LeaderLocation::At(leader) => leader,
        };
        match send(cluster, &leader, &parts, &body).await {
            Ok(Some(response)) => return response,
            Ok(None) => {}
            Err(PeerError::Connect(..)) => tracing::debug!(leader = leader.node, "the leader cannot be reached"),
            Err(error @ PeerError::Broken(..)) => {
                tracing::warn!(%error, "the outcome of a forwarded request is unknown");
                return ApiError::from(SubmitError::Unavailable).into_response();
            }
        }
        if Instant::now() >= until {
            break;
        }
        tokio::time::sleep(LEADER_POLL).await;
    }
    ApiError::from(SubmitError::NoLeader).into_response()
}

/// None: the server does not lead (any more), and nothing has happened.
async fn send(
    cluster: &Cluster,
    leader: &LeaderAddress,
    parts: &Parts,
    body: &Bytes,
) -> Result<Option<Response>, PeerError> {
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = HttpRequest::new(body.clone());
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = path.parse().map_err(|error| PeerError::Connect(leader.node.clone(), format!("{error}")))?;
    *request.headers_mut() = end_to_end(&parts.headers);
    request.headers_mut().remove(header::ORIGIN);
    request.headers_mut().remove(FORWARDED_BASE);
    request.headers_mut().extend(base_of(parts).map(|base| (FORWARDED_BASE, base)));
    let response = tokio::select! {
        response = cluster.peers.send(&leader.address, request) => response?,
        reason = give_up_on(cluster, &leader.node) => return Err(PeerError::Broken(leader.node.clone(), reason.into())),
    };
    if response.headers().contains_key(NOT_LEADING) {
        return Ok(None);
    }
    let (parts, body) = response.into_parts();
    if let Some(revision) = parts.headers.get(REVISION).and_then(|value| value.to_str().ok()?.parse().ok()) {
        cluster.wait_for_copy(revision).await;
    }
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = parts.status;
    *response.headers_mut() = end_to_end(&parts.headers);
    response.headers_mut().remove(REVISION);
    Ok(Some(response))
}

/// Waits for as long as a leader can take to answer. Returns the reason for giving up.
async fn give_up_on(cluster: &Cluster, leader: &str) -> &'static str {
    if timeout(ANSWER_TIMEOUT, cluster.wait_until_deposed(leader)).await.is_err() {
        return "timed out";
    }
    tokio::time::sleep(DEPOSED_ANSWER_TIMEOUT).await;
    "another server has taken over"
}

fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    HOP_HEADERS.iter().for_each(|name| drop(headers.remove(name)));
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forwarded_request_keeps_the_address_that_its_caller_used() {
        for (scheme, base) in [(Scheme::Http, "http://a:1"), (Scheme::Https, "https://a:1")] {
            let (mut parts, ()) = HttpRequest::new(()).into_parts();
            assert_eq!(base_of(&parts), None);
            parts.headers.insert(header::HOST, HeaderValue::from_static("a:1"));
            parts.extensions.insert(scheme);
            let sent = base_of(&parts).unwrap();
            assert_eq!(sent, base);
            let mut received = Request::new(Body::empty());
            received.headers_mut().insert(header::HOST, HeaderValue::from_static("leader:2"));
            received.headers_mut().insert(FORWARDED_BASE, sent);
            restore_base(&mut received);
            assert_eq!(received.headers()[header::HOST], "a:1");
            assert_eq!(received.extensions().get(), Some(&scheme));
        }
    }

    #[test]
    fn changes_and_the_leaders_own_state_need_the_leader() {
        for (method, path, expected) in [
            (Method::GET, "/api/v1/machines", false),
            (Method::HEAD, "/api/v1/machines", false),
            (Method::GET, "/api/v1/changes", false),
            (Method::POST, "/api/v1/machines", true),
            (Method::PUT, "/subscriptions/s/resourceGroups/g", true),
            (Method::GET, "/api/v1/webhooks/ops", true),
            (Method::GET, "/api/v1/hosts/h1", false),
            (Method::GET, "/api/v1/hosts/h1/domains", true),
            (Method::POST, "/api/v1/portal-links", false),
            (Method::POST, "/cluster/v1/guest", false),
            (Method::POST, "/tenant/oauth2/v2.0/token", false),
        ] {
            assert_eq!(needs_leader(&method, path), expected, "{method} {path}");
        }
    }
}
