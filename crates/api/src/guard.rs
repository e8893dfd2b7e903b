//! The guard in front of every route. It checks, in this order, the `Host` header, the `Origin` header, the token and the
//! role. The first three keep out web pages: a page in a browser can reach a loopback port.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use forewarn_access::{AuthenticationError, Principal, RequiredAccess, Role, TokenRefusal, is_arm_path};
use http::Method;
use http::header::{self, HeaderMap};

use super::Service;
use super::addresses::{ManagementAddresses, is_own_host};
use super::error::{ApiError, ErrorCode};
use forewarn_listener::ConnectionUse;
use forewarn_listener::Scheme;

/// The access that each route requires, by path and method.
pub struct RouteAccess(HashMap<&'static str, Vec<(Method, RequiredAccess)>>);

impl RouteAccess {
    pub fn new(routes: impl IntoIterator<Item = (&'static str, Method, RequiredAccess)>) -> RouteAccess {
        let mut access: HashMap<_, Vec<_>> = HashMap::new();
        for (path, method, needs) in routes {
            access.entry(path).or_default().push((method, needs));
        }
        RouteAccess(access)
    }

    /// The access that a request requires: that of its route, or the general rule for paths outside the table.
    /// Requests to the ARM API are only authenticated here; its own table states the actions, and with them their roles.
    fn of(&self, request: &Request) -> RequiredAccess {
        let matched = request.extensions().get::<MatchedPath>();
        let listed = matched.and_then(|path| self.find(request.method(), path.as_str()));
        listed.unwrap_or_else(|| unlisted_needs(request.method(), request.uri().path()))
    }

    fn find(&self, method: &Method, path: &str) -> Option<RequiredAccess> {
        let method = if method == Method::HEAD { &Method::GET } else { method };
        self.0.get(path)?.iter().find(|(known, _)| known == method).map(|(_, needs)| *needs)
    }
}

fn unlisted_needs(method: &Method, path: &str) -> RequiredAccess {
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    match is_read {
        true if OPEN_PATHS.iter().any(|open| open.eq_ignore_ascii_case(path)) => RequiredAccess::Nothing,
        false if !is_arm_path(path) => RequiredAccess::Role(Role::Owner),
        true | false => RequiredAccess::Role(Role::Reader),
    }
}

/// Paths that ARM clients read before they have a token.
const OPEN_PATHS: [&str; 1] = ["/aliases.json"];

/// Middleware that admits requests from outside.
pub async fn check(
    State((service, access)): State<(Service, Arc<RouteAccess>)>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let addresses = service.addresses();
    check_host_and_origin(&request, addresses)?;
    // Another server has compared the audience with its own address before it forwarded the request.
    let is_forwarded = request.extensions().get::<ConnectionUse>().is_some_and(|connection| connection.is_node);
    let is_audience = |audience: &str| is_forwarded || addresses.is_audience(audience);
    let holder = service.access().holder(bearer_token(request.headers()), is_audience);
    let admitted = match access.of(&request) {
        RequiredAccess::Nothing => holder.ok(),
        RequiredAccess::Role(role) => {
            if let Err(AuthenticationError::BadToken(_)) = &holder {
                service.record_failed_sign_in(request.extensions(), "token").await;
            }
            let holder = holder.map_err(|stranger| unauthenticated(&stranger, request.uri().path()))?;
            check_role(&holder.principal, role)?;
            Some(holder)
        }
    };
    if let Some(holder) = admitted {
        ConnectionUse::protect(request.extensions());
        request.extensions_mut().insert(holder.principal.clone());
        request.extensions_mut().insert(holder);
    }
    Ok(next.run(request).await)
}

/// Refuses requests whose `Host` or `Origin` header does not name this server.
pub fn check_host_and_origin(request: &Request, addresses: &ManagementAddresses) -> Result<(), ApiError> {
    check_host(request, addresses)?;
    check_origin(request.headers())
}

fn unauthenticated(stranger: &AuthenticationError, path: &str) -> ApiError {
    let code = if is_arm_path(path) { ErrorCode::AuthenticationFailed } else { ErrorCode::Unauthorized };
    let advice = "Send the header 'Authorization: Bearer <token>' with the token from the file 'token' in the data directory, or with a token obtained by signing in.";
    let message = match stranger {
        AuthenticationError::NoToken => format!("This request requires a token. {advice}"),
        AuthenticationError::BadToken(TokenRefusal::Malformed) => format!("The token is not valid. {advice}"),
        AuthenticationError::BadToken(refusal) => format!("{refusal} Sign in again."),
    };
    ApiError::new(code, message)
}

pub fn check_role(principal: &Principal, required: Role) -> Result<(), ApiError> {
    if principal.role >= required {
        return Ok(());
    }
    let message = format!(
        "This action requires the role {}, but '{}' has the role {}. Use a token with a higher role.",
        required.as_str(),
        principal.name,
        principal.role.as_str()
    );
    Err(ApiError::new(ErrorCode::AuthorizationFailed, message))
}

fn bearer_token(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token.trim_ascii())
}

fn check_host(request: &Request, addresses: &ManagementAddresses) -> Result<(), ApiError> {
    let mut given = request.headers().get_all(header::HOST).iter();
    let host = given.next().and_then(|value| value.to_str().ok());
    let (bound, tls) = match (request.extensions().get::<Scheme>(), &addresses.https) {
        (Some(Scheme::Https), Some((bound, tls))) => (*bound, Some(tls)),
        (Some(Scheme::Https | Scheme::Http) | None, _) => (addresses.http, None),
    };
    let is_own = |host: &str| is_own_host(host, bound, tls);
    let in_header = host.is_some_and(is_own) && given.next().is_none();
    let in_uri = request.uri().authority().is_none_or(|authority| is_own(authority.as_str()));
    if in_header && in_uri {
        return Ok(());
    }
    let mut message =
        format!("The Host header must be localhost, a loopback address or the listener's address, {bound}.");
    if tls.is_some() {
        message.push_str(" Other names must be in the server's certificate: add them with --management-tls-name.");
    }
    Err(ApiError::new(ErrorCode::ForeignHost, message).with_target("Host"))
}

/// Browsers send the origin of the page that makes a request; only pages of this server are accepted.
fn check_origin(headers: &HeaderMap) -> Result<(), ApiError> {
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    for origin in headers.get_all(header::ORIGIN) {
        let origin = origin.to_str().unwrap_or_default();
        let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        if !authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host)) {
            let message = "The Origin header names another host. Pages of other sites cannot use this API.";
            return Err(ApiError::new(ErrorCode::ForeignOrigin, message).with_target("Origin"));
        }
    }
    Ok(())
}
