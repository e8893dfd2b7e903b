//! Where clients sign in: the list of endpoints, the OpenID configuration, the token endpoint, and the
//! certificate of our authority. All of it is open to whoever reaches the listener; what must be shown
//! is the secret in the request for a token. It is not part of the OpenAPI document: others wrote it.

use std::collections::HashMap;

use axum::extract::{FromRequestParts, Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use forewarn_wire::sign_in as wire;
use http::request::Parts;
use http::{Method, StatusCode, header};
use serde_json::Value;

use super::error::{ApiError, Refusal};
use super::extract;
use super::{Doors, Service, Via};
use forewarn_access::tls::{base_url, now};
use forewarn_access::{AUDIENCE, Principal, Subject, TOKEN_SECS, is_known_audience};

/// A request for a token has some 300 bytes.
const FORM_BYTES_MAX: usize = 16 * 1024;

/// Names of tenants that stand for the only one there is.
const ANY_TENANT: [&str; 3] = ["common", "organizations", "adfs"];

/// Path, method and handler.
pub fn routes() -> Vec<(&'static str, Method, MethodRouter<Service>)> {
    vec![
        ("/ca.pem", Method::GET, get(authority)),
        ("/metadata/endpoints", Method::GET, get(endpoints)),
        ("/{tenant}/.well-known/openid-configuration", Method::GET, get(configuration)),
        ("/{tenant}/v2.0/.well-known/openid-configuration", Method::GET, get(configuration)),
        ("/{tenant}/oauth2/token", Method::POST, post(token)),
        ("/{tenant}/oauth2/v2.0/token", Method::POST, post(token)),
    ]
}

async fn authority(State(service): State<Service>) -> Result<Response, ApiError> {
    let found = service.0.parts.doors.https.as_ref().and_then(|(_, tls)| tls.authority());
    let pem = found.ok_or_else(|| {
        let message = "This server has no authority of its own: it has no https listener, or shows a certificate that was given to it.";
        ApiError::new(Refusal::NotFound, message)
    })?;
    Ok(([(header::CONTENT_TYPE, "application/x-pem-file")], pem).into_response())
}

async fn endpoints(State(service): State<Service>, Base(base): Base, request: Request) -> Response {
    let query = form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes());
    let version = query.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("api-version")).map(|(_, value)| value);
    let tenant = service.0.parts.access.sign_in().tenant();
    axum::Json(wire::endpoints(&base, tenant, version.as_deref())).into_response()
}

async fn configuration(
    State(service): State<Service>,
    Path(tenant): Path<String>,
    Base(base): Base,
) -> Result<Response, OAuthError> {
    let tenant = service.known_tenant(&tenant)?;
    Ok(axum::Json(wire::openid_configuration(&base, tenant)).into_response())
}

async fn token(
    State(service): State<Service>,
    Path(tenant): Path<String>,
    request: Request,
) -> Result<Response, OAuthError> {
    service.known_tenant(&tenant)?;
    let (_, body) = extract::read(request, &service).await.map_err(|error| bad_request(error.message))?;
    if body.len() > FORM_BYTES_MAX {
        return Err(bad_request(format!("The form may have {FORM_BYTES_MAX} bytes.")));
    }
    let form: HashMap<String, String> = form_urlencoded::parse(&body).into_owned().collect();
    let field = |name: &str| form.get(name).map(String::as_str).filter(|value| !value.is_empty());
    check_grant(field("grant_type"))?;
    let subject = service.subject(field("client_id"), field("client_secret"))?;
    let audience = audience(&service.0.parts.doors, field("scope"), field("resource"))?;
    let issued = service.0.parts.access.sign_in().issue(&subject, &audience, now(), TOKEN_SECS);
    tracing::info!(client = %subject.name, role = %subject.role.word(), "a client has signed in");
    let body = wire::token(&issued.token, TOKEN_SECS);
    Ok(([(header::CACHE_CONTROL, "no-store")], axum::Json(body)).into_response())
}

impl Service {
    /// The name of the tenant in the paths of this request.
    fn known_tenant<'t>(&self, tenant: &'t str) -> Result<&'t str, OAuthError> {
        let access = &self.0.parts.access;
        let is_ours = tenant.eq_ignore_ascii_case(access.sign_in().tenant()) || ANY_TENANT.contains(&tenant);
        let is_plain = tenant.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
        if is_ours || (access.is_open() && is_plain) {
            return Ok(tenant);
        }
        Err(bad_request(
            "There is no such tenant. /metadata/endpoints says which one there is; 'common' and 'adfs' stand for it."
                .into(),
        ))
    }

    fn subject(&self, id: Option<&str>, secret: Option<&str>) -> Result<Subject, OAuthError> {
        let access = &self.0.parts.access;
        if access.is_open() {
            let Principal { name, role } = Principal::owner();
            let client_id = id.unwrap_or(&name).to_owned();
            return Ok(Subject { object_id: client_id.clone(), client_id, name: name.to_string(), role });
        }
        let known = id.zip(secret).and_then(|(id, secret)| access.sign_in().client(id, secret));
        known.ok_or_else(|| {
            // The id is not logged: people mistake one field for the other.
            tracing::warn!("a client could not sign in");
            OAuthError {
                status: StatusCode::UNAUTHORIZED,
                error: "invalid_client",
                description: "The client is not known, or the secret is not its own. Clients and secrets are in the file 'clients.json' of the data directory.".into(),
            }
        })
    }
}

fn check_grant(grant: Option<&str>) -> Result<(), OAuthError> {
    match grant {
        Some("client_credentials") => Ok(()),
        None => Err(bad_request("The field 'grant_type' is missing. Send client_credentials.".into())),
        Some(_) => Err(OAuthError {
            status: StatusCode::BAD_REQUEST,
            error: "unsupported_grant_type",
            description: "Signing in is with a client and its secret: send grant_type=client_credentials, client_id and client_secret.".into(),
        }),
    }
}

/// Whom the token shall be for; us, when nobody is named.
fn audience(doors: &Doors, scope: Option<&str>, resource: Option<&str>) -> Result<String, OAuthError> {
    let named = scope.and_then(wire::resource_of_scope).or(resource);
    match (named, scope) {
        (Some(named), _) if doors.takes_tokens_for(named) => Ok(named.to_owned()),
        (None, None) => Ok(AUDIENCE.to_owned()),
        (Some(_), _) | (None, Some(_)) => Err(OAuthError {
            status: StatusCode::BAD_REQUEST,
            error: "invalid_scope",
            description: "Tokens are only for this server: the scope is its https address followed by /.default."
                .into(),
        }),
    }
}

impl Doors {
    /// Whether a token for this audience opens anything here.
    pub fn takes_tokens_for(&self, audience: &str) -> bool {
        is_known_audience(audience) || self.is_audience(audience)
    }

    /// Where the https listener is, as a URL.
    pub fn https_url(&self) -> Option<String> {
        self.https.as_ref().map(|(bound, _)| base_url(*bound))
    }
}

/// The https address of this server, as the client calls it when it is there already.
pub struct Base(pub String);

impl FromRequestParts<Service> for Base {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, service: &Service) -> Result<Base, ApiError> {
        let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        match (parts.extensions.get::<Via>(), host) {
            (Some(Via::Https), Some(host)) => Ok(Base(format!("https://{host}"))),
            (Some(Via::Https | Via::Http) | None, _) => service.0.parts.doors.https_url().map(Base).ok_or_else(|| {
                let message = "This server has no https listener, and those who sign in need one. Start it with --management-tls ADDRESS.";
                ApiError::new(Refusal::NoHttps, message)
            }),
        }
    }
}

/// A refusal as OAuth's clients expect it.
struct OAuthError {
    status: StatusCode,
    error: &'static str,
    description: String,
}

fn bad_request(description: String) -> OAuthError {
    OAuthError { status: StatusCode::BAD_REQUEST, error: "invalid_request", description }
}

impl IntoResponse for OAuthError {
    fn into_response(self) -> Response {
        let body: Value = wire::refusal(self.error, &self.description);
        (self.status, [(header::CACHE_CONTROL, "no-store")], axum::Json(body)).into_response()
    }
}
