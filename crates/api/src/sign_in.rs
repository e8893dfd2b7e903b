//! Sign-in for Azure clients: the list of endpoints, the OpenID configuration, the token endpoint, and the certificate of
//! the server's own authority. These paths require no token; the token endpoint checks the client secret. They are not in
//! the OpenAPI document, because their format is defined elsewhere.

use std::collections::HashMap;

use axum::extract::{FromRequestParts, Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use forewarn_wire::sign_in as wire;
use http::request::Parts;
use http::{Method, StatusCode, header};
use serde_json::Value;

use super::Service;
use super::addresses::ManagementAddresses;
use super::error::{ApiError, ErrorCode};
use super::extract;
use forewarn_access::tls::now;
use forewarn_access::{AUDIENCE, Principal, Subject, TOKEN_SECS};
use forewarn_listener::Scheme;

/// Maximum size of a token request; a typical one has about 300 bytes.
const FORM_BYTES_MAX: usize = 16 * 1024;

/// Tenant names that stand for the only tenant.
const ANY_TENANT: [&str; 3] = ["common", "organizations", "adfs"];

/// Path, method and handler.
pub fn routes() -> Vec<(&'static str, Method, MethodRouter<Service>)> {
    vec![
        ("/ca.pem", Method::GET, get(get_authority)),
        ("/metadata/endpoints", Method::GET, get(get_endpoints)),
        ("/{tenant}/.well-known/openid-configuration", Method::GET, get(get_configuration)),
        ("/{tenant}/v2.0/.well-known/openid-configuration", Method::GET, get(get_configuration)),
        // Clients append a tenant to the login endpoint, which ends in /adfs.
        ("/adfs/{tenant}/.well-known/openid-configuration", Method::GET, get(get_configuration)),
        ("/adfs/{tenant}/v2.0/.well-known/openid-configuration", Method::GET, get(get_configuration)),
        ("/adfs/{tenant}/oauth2/token", Method::POST, post(issue_token)),
        ("/adfs/{tenant}/oauth2/v2.0/token", Method::POST, post(issue_token)),
        ("/{tenant}/oauth2/token", Method::POST, post(issue_token)),
        ("/{tenant}/oauth2/v2.0/token", Method::POST, post(issue_token)),
    ]
}

async fn get_authority(State(service): State<Service>) -> Result<Response, ApiError> {
    let found = service.addresses().https.as_ref().and_then(|(_, tls)| tls.authority());
    let pem = found.ok_or_else(|| {
        let message = "This server has no certificate authority of its own: it has no HTTPS listener, or it uses a configured certificate.";
        ApiError::new(ErrorCode::NotFound, message)
    })?;
    Ok(([(header::CONTENT_TYPE, "application/x-pem-file")], pem).into_response())
}

async fn get_endpoints(State(service): State<Service>, BaseUrl(base): BaseUrl, request: Request) -> Response {
    let query = form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes());
    let version = query.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("api-version")).map(|(_, value)| value);
    let tenant = service.access().sign_in().tenant();
    axum::Json(wire::endpoints(&base, tenant, version.as_deref())).into_response()
}

async fn get_configuration(
    State(service): State<Service>,
    Path(tenant): Path<String>,
    BaseUrl(base): BaseUrl,
) -> Result<Response, OAuthError> {
    // `/adfs/v2.0/…` is the newer path of the tenant `adfs`, and not a tenant below it.
    let tenant = if tenant == "v2.0" { "adfs" } else { service.known_tenant(&tenant)? };
    Ok(axum::Json(wire::openid_configuration(&base, tenant)).into_response())
}

async fn issue_token(
    State(service): State<Service>,
    Path(tenant): Path<String>,
    request: Request,
) -> Result<Response, OAuthError> {
    service.known_tenant(&tenant)?;
    let extensions = request.extensions().clone();
    let (_, body) = extract::read_body(request, &service).await.map_err(|error| bad_request(error.message))?;
    if body.len() > FORM_BYTES_MAX {
        return Err(bad_request(format!("The form is larger than {FORM_BYTES_MAX} bytes.")));
    }
    let form: HashMap<String, String> = form_urlencoded::parse(&body).into_owned().collect();
    let field = |name: &str| form.get(name).map(String::as_str).filter(|value| !value.is_empty());
    check_grant(field("grant_type"))?;
    let Some(subject) = service.subject(field("client_id"), field("client_secret")) else {
        // The ID is not logged, because users sometimes put the secret there.
        service.record_failed_sign_in(&extensions, "client secret").await;
        return Err(unknown_client());
    };
    let audience = select_audience(service.addresses(), field("scope"), field("resource"))?;
    let issued = service.access().sign_in().issue(&subject, &audience, now(), TOKEN_SECS);
    tracing::info!(client = %subject.name, role = %subject.role.as_str(), "client signed in");
    let body = wire::token(&issued.token, TOKEN_SECS);
    Ok(([(header::CACHE_CONTROL, "no-store")], axum::Json(body)).into_response())
}

impl Service {
    /// Checks that a path names the tenant of this server.
    fn known_tenant<'t>(&self, tenant: &'t str) -> Result<&'t str, OAuthError> {
        let access = self.access();
        let is_ours = tenant.eq_ignore_ascii_case(access.sign_in().tenant()) || ANY_TENANT.contains(&tenant);
        let is_plain = tenant.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
        if is_ours || (access.is_open() && is_plain) {
            return Ok(tenant);
        }
        Err(bad_request(
            "Unknown tenant. See /metadata/endpoints for the tenant of this server, or use 'common' or 'adfs'.".into(),
        ))
    }

    fn subject(&self, id: Option<&str>, secret: Option<&str>) -> Option<Subject> {
        let access = self.access();
        if access.is_open() {
            let Principal { name, role } = Principal::owner();
            let client_id = id.unwrap_or(&name).to_owned();
            return Some(Subject { object_id: client_id.clone(), client_id, name: name.to_string(), role });
        }
        id.zip(secret).and_then(|(id, secret)| access.sign_in().client(id, secret))
    }
}

fn unknown_client() -> OAuthError {
    OAuthError {
        status: StatusCode::UNAUTHORIZED,
        error: "invalid_client",
        description: "Unknown client or wrong secret. See the file 'clients.json' in the data directory for clients and their secrets.".into(),
    }
}

fn check_grant(grant: Option<&str>) -> Result<(), OAuthError> {
    match grant {
        Some("client_credentials") => Ok(()),
        None => Err(bad_request("The field 'grant_type' is missing. Send client_credentials.".into())),
        Some(_) => Err(OAuthError {
            status: StatusCode::BAD_REQUEST,
            error: "unsupported_grant_type",
            description: "Only client credentials are supported. Send grant_type=client_credentials, client_id and client_secret.".into(),
        }),
    }
}

/// The audience of the requested token. Default: this server.
fn select_audience(
    addresses: &ManagementAddresses,
    scope: Option<&str>,
    resource: Option<&str>,
) -> Result<String, OAuthError> {
    let requested = scope.and_then(wire::resource_of_scope).or(resource);
    match (requested, scope) {
        (Some(requested), _) if addresses.accepts_audience(requested) => Ok(requested.to_owned()),
        (None, None) => Ok(AUDIENCE.to_owned()),
        (Some(_), _) | (None, Some(_)) => Err(OAuthError {
            status: StatusCode::BAD_REQUEST,
            error: "invalid_scope",
            description:
                "This server issues tokens only for itself. Use its HTTPS address followed by /.default as the scope."
                    .into(),
        }),
    }
}

/// The HTTPS URL of this server, with the host that the client used if it connected over HTTPS.
pub struct BaseUrl(pub String);

impl FromRequestParts<Service> for BaseUrl {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, service: &Service) -> Result<BaseUrl, ApiError> {
        let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        match (parts.extensions.get::<Scheme>(), host) {
            (Some(Scheme::Https), Some(host)) => Ok(BaseUrl(format!("https://{host}"))),
            (Some(Scheme::Https | Scheme::Http) | None, _) => {
                service.addresses().https_url().map(BaseUrl).ok_or_else(|| {
                    let message =
                        "Signing in requires an HTTPS listener. Start the server with --management-tls ADDRESS.";
                    ApiError::new(ErrorCode::NoHttps, message)
                })
            }
        }
    }
}

/// An error in OAuth's format.
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
