//! Who may speak to the API at all: the right `Host`, the right `Origin`, the right token, in this
//! order. A page in somebody's browser can reach a loopback port; these three keep it out.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::{self, HeaderMap};

use super::error::{ApiError, Refusal};
use super::service::HEALTH_PATH;
use super::token::{Keeper, TokenError, random_token};
use super::{Api, Doors, Via};
use crate::config::{Auth, Config, StoreChoice};

/// How callers are told apart from strangers.
pub struct Access(Kind);

enum Kind {
    Open,
    Token(Keeper),
}

#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    #[error(
        "without a token the management address must be a loopback one, and {0} is not. Leave out --no-auth, or listen on 127.0.0.1"
    )]
    OpenToOthers(SocketAddr),
    #[error(transparent)]
    Token(#[from] TokenError),
}

/// What the configuration says, with the token read or made.
pub fn access(config: &Config) -> Result<Access, AccessError> {
    match (config.auth, &config.store) {
        (Auth::Off, _) if !config.management.ip().is_loopback() => Err(AccessError::OpenToOthers(config.management)),
        (Auth::Off, _) => Ok(Access(Kind::Open)),
        (Auth::Token, StoreChoice::Directory(dir)) => Ok(Access(Kind::Token(Keeper::in_directory(dir)?))),
        (Auth::Token, StoreChoice::Memory) => Ok(Access::fixed(random_token())),
    }
}

impl Access {
    /// A token that is kept nowhere, for programs that start a server inside themselves.
    pub fn fixed(token: String) -> Access {
        Access(Kind::Token(Keeper::Memory(token)))
    }

    fn admits(&self, headers: &HeaderMap) -> bool {
        match &self.0 {
            Kind::Open => true,
            Kind::Token(keeper) => bearer(headers).is_some_and(|token| keeper.accepts(token)),
        }
    }
}

pub async fn check(State(api): State<Api>, request: Request, next: Next) -> Result<Response, ApiError> {
    check_host(&request, &api.0.doors)?;
    check_origin(request.headers())?;
    if request.uri().path() != HEALTH_PATH && !api.0.access.admits(request.headers()) {
        let message = "A token is needed: send the header 'Authorization: Bearer <token>' with what is in the file 'token' of the data directory.";
        return Err(ApiError::new(Refusal::Unauthorized, message));
    }
    Ok(next.run(request).await)
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

    #[test]
    fn without_a_token_others_are_not_listened_to() {
        let config =
            |address: &str| Config { management: address.parse().unwrap(), auth: Auth::Off, ..Config::default() };
        assert!(access(&config("127.0.0.1:8170")).is_ok());
        assert!(access(&config("[::1]:8170")).is_ok());
        assert!(matches!(access(&config("0.0.0.0:8170")), Err(AccessError::OpenToOthers(_))));
        assert!(matches!(access(&config("10.0.0.1:8170")), Err(AccessError::OpenToOthers(_))));
    }
}
