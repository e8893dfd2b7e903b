//! Signing in with the code of a link, or with a button on servers that require no token; signing out.

use std::collections::HashMap;

use askama::Template;
use axum::Extension;
use axum::extract::{Query, Request, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use http::{Method, StatusCode, header};

use super::visitor::{Form, Visitor, cookie_header};
use super::{Portal, html, sign_in_page};
use forewarn_access::Principal;
use forewarn_api::Via;

#[derive(Template)]
#[template(path = "signed_in.html")]
struct SignedInPage;

/// Handles a sign-in link. Without a code, shows the sign-in page.
pub async fn sign_in_with_code(
    State(portal): State<Portal>,
    Extension(via): Extension<Via>,
    Query(query): Query<HashMap<String, String>>,
    request: Request,
) -> Response {
    // Previews of links in chats and mail send HEAD requests, which must not use up the link.
    let is_head = request.method() == Method::HEAD;
    let Some(code) = query.get("code").filter(|_| !is_head) else {
        return sign_in_page::render(&portal, "").into_response();
    };
    match portal.access().begin_session(code) {
        Some((principal, cookie)) => start_session(&portal, via, &principal, &cookie),
        None => {
            portal.record_failed_sign_in(request.extensions(), "portal link").await;
            let problem = "This link has already been used or has expired. Create a new one with: forewarn portal";
            (StatusCode::UNAUTHORIZED, sign_in_page::render(&portal, problem)).into_response()
        }
    }
}

/// Handles the button of a server that requires no token.
pub async fn sign_in_without_token(State(portal): State<Portal>, Extension(via): Extension<Via>) -> Response {
    match portal.access().begin_open_session() {
        Some((principal, cookie)) => start_session(&portal, via, &principal, &cookie),
        None => {
            let problem = "This server requires a sign-in link. Create one with: forewarn portal";
            (StatusCode::UNAUTHORIZED, sign_in_page::render(&portal, problem)).into_response()
        }
    }
}

/// Reports whether the session is still valid. A script cannot see why its stream was closed.
pub async fn check_session(_: Visitor) -> StatusCode {
    StatusCode::NO_CONTENT
}

pub async fn sign_out(State(portal): State<Portal>, Extension(via): Extension<Via>, form: Form) -> Response {
    portal.access().end_session(&form.visitor.cookie);
    portal.shared.streams.close_session(&form.visitor.cookie);
    let cookie = cookie_header(&portal, Some(via), None);
    ([(header::SET_COOKIE, cookie)], Redirect::to("/portal/sign-in")).into_response()
}

/// Returns a page and not a redirect: the cookie is `SameSite=Strict`, and browsers do not send it after a redirect that
/// started on another site.
fn start_session(portal: &Portal, via: Via, principal: &Principal, cookie: &str) -> Response {
    let cookie = cookie_header(portal, Some(via), Some(cookie));
    tracing::info!(name = %principal.name, role = principal.role.word(), "signed in to the portal");
    let page = Html(html::render(&SignedInPage));
    ([(header::SET_COOKIE, cookie), (header::CACHE_CONTROL, "no-store".into())], page).into_response()
}
