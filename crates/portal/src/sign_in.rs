//! Signing in with the code of a link, or at once where no token is asked for; signing out.

use std::collections::HashMap;

use askama::Template;
use axum::Extension;
use axum::extract::{Query, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use http::{StatusCode, header};

use super::Portal;
use super::visitor::{Form, Visitor, set_cookie};
use forewarn_access::Principal;
use forewarn_api::Via;

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage<'a> {
    /// Whether a button is enough.
    open: bool,
    problem: &'a str,
}

#[derive(Template)]
#[template(path = "signed_in.html")]
struct SignedInPage;

/// The page for whoever is not signed in.
pub fn page(service: &Portal, problem: &str) -> Html<String> {
    rendered(&SignInPage { open: service.access().is_open(), problem })
}

/// A link that was followed. Without a code it is the sign-in page.
pub async fn with_code(
    State(service): State<Portal>,
    Extension(via): Extension<Via>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let Some(code) = query.get("code") else { return page(&service, "").into_response() };
    match service.access().begin_session(code) {
        Some((principal, cookie)) => begun(&service, via, &principal, &cookie),
        None => {
            let problem = "This link was used already, or is too old. Make another with: forewarn portal";
            (StatusCode::UNAUTHORIZED, page(&service, problem)).into_response()
        }
    }
}

/// The button of a server that asks nobody for a token.
pub async fn at_once(State(service): State<Portal>, Extension(via): Extension<Via>) -> Response {
    match service.access().begin_open_session() {
        Some((principal, cookie)) => begun(&service, via, &principal, &cookie),
        None => (StatusCode::UNAUTHORIZED, page(&service, "This server wants a link with a code.")).into_response(),
    }
}

/// Whether the visitor is still signed in: a stream that breaks does not say why.
pub async fn session(_: Visitor) -> StatusCode {
    StatusCode::NO_CONTENT
}

pub async fn out(State(service): State<Portal>, Extension(via): Extension<Via>, form: Form) -> Response {
    service.access().end_session(&form.visitor.cookie);
    service.shared.streams.end(&form.visitor.cookie);
    let cookie = set_cookie(&service, Some(via), None);
    ([(header::SET_COOKIE, cookie)], Redirect::to("/portal/sign-in")).into_response()
}

/// A page of its own and not a redirect: the cookie is for requests that come from our own pages, and a redirect
/// from elsewhere is none.
fn begun(service: &Portal, via: Via, principal: &Principal, cookie: &str) -> Response {
    let cookie = set_cookie(service, Some(via), Some(cookie));
    tracing::info!(name = %principal.name, role = principal.role.word(), "somebody has signed in at the portal");
    ([(header::SET_COOKIE, cookie), (header::CACHE_CONTROL, "no-store".into())], rendered(&SignedInPage))
        .into_response()
}

pub fn rendered(template: &impl Template) -> Html<String> {
    Html(template.render().unwrap_or_else(|error| {
        tracing::error!(%error, "a page cannot be rendered");
        String::new()
    }))
}
