//! Signing in with an OpenID Connect provider: sends the browser there, and receives it again.

use std::collections::HashMap;

use axum::Extension;
use axum::extract::{Query, Request, State};
use axum::response::{IntoResponse, Redirect, Response};
use http::{HeaderMap, StatusCode, header};

use super::sign_in::begin_session;
use super::{Portal, sign_in_page};
use forewarn_access::oidc::{ATTEMPT_SECS, CALLBACK_PATH, Callback, OidcError};
use forewarn_api::Scheme;

/// Sends the browser to the provider.
pub async fn begin(
    State(portal): State<Portal>,
    Extension(via): Extension<Scheme>,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    let back = sign_in_page::check_back(query.get("back").map_or("/", String::as_str));
    let Some(oidc) = portal.access().oidc().cloned() else { return without_provider(&portal) };
    match oidc.begin(&base_url(&headers, via), back).await {
        Ok(started) => {
            let cookie = attempt_cookie(&portal, via, Some(&started.cookie));
            let no_store = (header::CACHE_CONTROL, "no-store".to_owned());
            ([(header::SET_COOKIE, cookie), no_store], Redirect::to(&started.url)).into_response()
        }
        Err(error) => show_failure(&portal, StatusCode::BAD_GATEWAY, &error, back),
    }
}

/// Receives the browser from the provider.
pub async fn finish(
    State(portal): State<Portal>,
    Extension(via): Extension<Scheme>,
    Query(mut query): Query<HashMap<String, String>>,
    request: Request,
) -> Response {
    let Some(oidc) = portal.access().oidc().cloned() else { return without_provider(&portal) };
    let mut take = |name: &str| query.remove(name);
    let callback = Callback {
        code: take("code"),
        state: take("state"),
        error: take("error"),
        error_description: take("error_description"),
    };
    let cookie = find_attempt(&portal, request.headers());
    let finished = match oidc.finish(cookie.as_deref(), callback).await {
        Ok(finished) => finished,
        Err(error) => {
            portal.record_failed_sign_in(request.extensions(), "identity provider").await;
            let status = match &error {
                OidcError::Provider(_) => StatusCode::BAD_GATEWAY,
                OidcError::NoRole { .. } => StatusCode::FORBIDDEN,
                OidcError::NotStarted | OidcError::Refused(_) | OidcError::Invalid(_) => StatusCode::UNAUTHORIZED,
            };
            return show_failure(&portal, status, &error, "/");
        }
    };
    let mut response = begin_session(&portal, via, &finished.holder, &finished.back).await;
    // The attempt is used up.
    if let Ok(cookie) = attempt_cookie(&portal, via, None).parse() {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

fn show_failure(portal: &Portal, status: StatusCode, error: &OidcError, back: &str) -> Response {
    tracing::warn!(%error, "a sign-in with the identity provider failed");
    (status, sign_in_page::render(portal, &error.to_string(), back)).into_response()
}

fn without_provider(portal: &Portal) -> Response {
    let problem = "This server has no identity provider. Sign in with a token or a link.";
    (StatusCode::NOT_FOUND, sign_in_page::render(portal, problem, "/")).into_response()
}

/// Scheme and host at which the browser reached this server. The host was checked before.
fn base_url(headers: &HeaderMap, via: Scheme) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    match via {
        Scheme::Https => format!("https://{host}"),
        Scheme::Http => format!("http://{host}"),
    }
}

fn attempt_name(portal: &Portal) -> String {
    format!("forewarn-oidc-{}", portal.addresses().http.port())
}

/// `SameSite=Lax`, because the browser comes from another site.
fn attempt_cookie(portal: &Portal, via: Scheme, value: Option<&str>) -> String {
    let secure = if via == Scheme::Https { "; Secure" } else { "" };
    let age = if value.is_some() { ATTEMPT_SECS } else { 0 };
    let (name, value) = (attempt_name(portal), value.unwrap_or_default());
    format!("{name}={value}; Path={CALLBACK_PATH}; HttpOnly; SameSite=Lax; Max-Age={age}{secure}")
}

fn find_attempt(portal: &Portal, headers: &HeaderMap) -> Option<String> {
    let name = attempt_name(portal);
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value.to_owned())
}
