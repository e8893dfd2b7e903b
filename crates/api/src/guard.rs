//! Who may speak to the API at all: the right `Host`, the right `Origin`, the right token, the right role,
//! in this order. A page in somebody's browser can reach a loopback port; the first three keep it out.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::{self, HeaderMap};

use super::error::{ApiError, Refusal};
use super::{Doors, Service, Via, routes};
use forewarn_access::{Access, Needs, Principal, Role, Stranger, TokenIssuer, TokenRefusal, arm_needs, is_arm_path};

/// Where machines get tokens that the API takes.
pub fn token_issuer(access: &Access, doors: &Arc<Doors>) -> TokenIssuer {
    let doors = doors.clone();
    TokenIssuer {
        sign_in: access.sign_in().clone(),
        is_audience: Arc::new(move |audience| doors.is_audience(audience)),
    }
}

impl Doors {
    /// Whether an audience is the address of our https listener.
    pub fn is_audience(&self, audience: &str) -> bool {
        let Some((bound, tls)) = &self.https else { return false };
        let Some(host) = audience.trim_end_matches('/').strip_prefix("https://") else { return false };
        let port = host.parse::<http::uri::Authority>().ok().and_then(|authority| authority.port_u16());
        let is_proven = || bare_name(host).is_some_and(|name| tls.proves(&name));
        port.unwrap_or(443) == bound.port() && (is_our_host(host, *bound) || is_proven())
    }
}

pub async fn check(State(service): State<Service>, mut request: Request, next: Next) -> Result<Response, ApiError> {
    let doors = &service.0.parts.doors;
    check_door(&request, doors)?;
    let holder = service.0.parts.access.holder(bearer(request.headers()), |audience| doors.is_audience(audience));
    let admitted = match needs(&request) {
        Needs::Nothing => holder.ok(),
        Needs::Role(role) => {
            let holder = holder.map_err(|stranger| unknown(&stranger, request.uri().path()))?;
            check_role(&holder.principal, role)?;
            Some(holder)
        }
    };
    let principal = admitted.as_ref().map_or_else(Principal::anonymous, |holder| holder.principal.clone());
    request.extensions_mut().insert(principal);
    if let Some(holder) = admitted {
        request.extensions_mut().insert(holder);
    }
    Ok(next.run(request).await)
}

/// The right `Host`, the right `Origin`.
pub fn check_door(request: &Request, doors: &Doors) -> Result<(), ApiError> {
    check_host(request, doors)?;
    check_origin(request.headers())
}

/// The role alone, of somebody who is known already.
pub(super) async fn check_role_of(request: Request, next: Next) -> Result<Response, ApiError> {
    if let (Needs::Role(role), Some(principal)) = (needs(&request), request.extensions().get::<Principal>()) {
        check_role(principal, role)?;
    }
    Ok(next.run(request).await)
}

/// What the table of routes says, or the rule for everything else.
fn needs(request: &Request) -> Needs {
    let matched = request.extensions().get::<MatchedPath>();
    let listed = matched.and_then(|path| routes::needs(request.method(), path.as_str()));
    listed.unwrap_or_else(|| arm_needs(request.method(), request.uri().path()))
}

fn unknown(stranger: &Stranger, path: &str) -> ApiError {
    let refusal = if is_arm_path(path) { Refusal::AuthenticationFailed } else { Refusal::Unauthorized };
    let advice = "Send the header 'Authorization: Bearer <token>' with what is in the file 'token' of the data directory, or with a token that was got by signing in.";
    let message = match stranger {
        Stranger::NoToken => format!("A token is needed. {advice}"),
        Stranger::BadToken(TokenRefusal::Malformed) => format!("The token is not the right one. {advice}"),
        Stranger::BadToken(refusal) => format!("{refusal} Sign in again."),
    };
    ApiError::new(refusal, message)
}

fn check_role(principal: &Principal, needed: Role) -> Result<(), ApiError> {
    if principal.role >= needed {
        return Ok(());
    }
    let message = format!(
        "This needs the role {}, and '{}' has the role {}. Sign in as somebody who may.",
        needed.word(),
        principal.name,
        principal.role.word()
    );
    Err(ApiError::new(Refusal::AuthorizationFailed, message))
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token.trim_ascii())
}

/// A name that an attacker's server resolves to our address is not one of ours.
fn check_host(request: &Request, doors: &Doors) -> Result<(), ApiError> {
    let mut named = request.headers().get_all(header::HOST).iter();
    let host = named.next().and_then(|value| value.to_str().ok());
    let (bound, tls) = match (request.extensions().get::<Via>(), &doors.https) {
        (Some(Via::Https), Some((bound, tls))) => (*bound, Some(tls)),
        (Some(Via::Https | Via::Http) | None, _) => (doors.http, None),
    };
    // Who called a name over https was shown a certificate for it, which no attacker's name has.
    let is_proven = |host: &str| tls.is_some_and(|tls| bare_name(host).is_some_and(|name| tls.proves(&name)));
    let is_ours = |host: &str| is_our_host(host, bound) || is_proven(host);
    let in_header = host.is_some_and(is_ours) && named.next().is_none();
    let in_uri = request.uri().authority().is_none_or(|authority| is_ours(authority.as_str()));
    if in_header && in_uri {
        return Ok(());
    }
    let message = format!(
        "The Host header must name a loopback address, localhost, or the address {bound} that is listened on. Call the server by one of these."
    );
    Err(ApiError::new(Refusal::ForeignHost, message).about("Host"))
}

fn is_our_host(host: &str, bound: SocketAddr) -> bool {
    let Some(bare) = bare_name(host) else { return false };
    match bare.parse::<IpAddr>() {
        // Who listens everywhere is called by any address, and an address cannot be resolved to another.
        Ok(ip) => ip.is_loopback() || bound.ip().is_unspecified() || ip == bound.ip(),
        Err(_) => bare.eq_ignore_ascii_case("localhost"),
    }
}

/// A name or an address, without port and brackets.
fn bare_name(host: &str) -> Option<String> {
    let authority = host.parse::<http::uri::Authority>().ok().filter(|authority| !authority.as_str().contains('@'))?;
    let name = authority.host();
    Some(name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name).to_owned())
}

/// Browsers say which page is asking; only one that we served ourselves may.
fn check_origin(headers: &HeaderMap) -> Result<(), ApiError> {
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    for origin in headers.get_all(header::ORIGIN) {
        let origin = origin.to_str().unwrap_or_default();
        let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        if !authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host)) {
            let message = "The Origin header is not of this host. Pages of other sites may not use the API.";
            return Err(ApiError::new(Refusal::ForeignOrigin, message).about("Origin"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_and_the_address_that_is_listened_on_are_ours() {
        let cases: [(&str, &str, bool); 16] = [
            ("127.0.0.1:8170", "127.0.0.1:8170", true),
            ("127.0.0.1:8170", "127.0.0.1", true),
            ("127.0.0.1:8170", "127.8.7.6:1", true),
            ("127.0.0.1:8170", "localhost:8170", true),
            ("127.0.0.1:8170", "LOCALHOST", true),
            ("127.0.0.1:8170", "[::1]:8170", true),
            ("127.0.0.1:8170", "10.0.0.1:8170", false),
            ("127.0.0.1:8170", "evil.example:8170", false),
            ("127.0.0.1:8170", "localhost.evil.example", false),
            ("127.0.0.1:8170", "127.0.0.1.evil.example", false),
            ("127.0.0.1:8170", "x@localhost", false),
            ("127.0.0.1:8170", "", false),
            ("10.0.0.1:8170", "10.0.0.1:8170", true),
            ("10.0.0.1:8170", "10.0.0.2:8170", false),
            ("0.0.0.0:8170", "10.0.0.2:8170", true),
            ("0.0.0.0:8170", "evil.example", false),
        ];
        for (bound, host, ours) in cases {
            assert_eq!(is_our_host(host, bound.parse().unwrap()), ours, "{host} at {bound}");
        }
    }
}
