//! Signing in with the code of a link, with a token, or with a button on servers that require none; signing out. The
//! identity provider is in `sign_in_oidc`.

use std::collections::HashMap;

use askama::Template;
use axum::Extension;
use axum::body::to_bytes;
use axum::extract::{Query, Request, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use forewarn_widgets::html;
use http::{Method, StatusCode, header};

use super::visitor::{FORM_TIMEOUT, Form, Visitor, cookie_header};
use super::{Portal, sign_in_page};
use forewarn_access::Holder;
use forewarn_api::{ApiError, Scheme};

/// Size of a sign-in form: a token has at most a few kilobytes.
const FORM_BYTES_MAX: usize = 16 * 1024;

#[derive(Template)]
#[template(path = "signed_in.html")]
struct SignedInPage<'a> {
    back: &'a str,
}

/// Handles a sign-in link. Without a code, shows the sign-in page.
pub async fn sign_in_with_code(
    State(portal): State<Portal>,
    Extension(via): Extension<Scheme>,
    Query(query): Query<HashMap<String, String>>,
    request: Request,
) -> Response {
    // Previews of links in chats and mail send HEAD requests, which must not use up the link.
    let is_head = request.method() == Method::HEAD;
    let Some(code) = query.get("code").filter(|_| !is_head) else {
        let back = query.get("back").map_or("/", String::as_str);
        return sign_in_page::render(&portal, "", back).into_response();
    };
    match portal.redeem_link(code).await {
        Ok(Some(holder)) => begin_session(&portal, via, &holder, "/").await,
        Ok(None) => {
            portal.record_failed_sign_in(request.extensions(), "portal link").await;
            let problem = "This link has already been used or has expired. Create a new one with: forewarn portal";
            (StatusCode::UNAUTHORIZED, sign_in_page::render(&portal, problem, "/")).into_response()
        }
        Err(error) => show_error(&portal, &error, "/"),
    }
}

/// Handles the form: a token, or only the button on a server that requires none.
pub async fn sign_in_with_form(
    State(portal): State<Portal>,
    Extension(via): Extension<Scheme>,
    request: Request,
) -> Response {
    let extensions = request.extensions().clone();
    let body = tokio::time::timeout(FORM_TIMEOUT, to_bytes(request.into_body(), FORM_BYTES_MAX)).await;
    let bytes = match body {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => return StatusCode::PAYLOAD_TOO_LARGE.into_response(),
        Err(_) => return StatusCode::REQUEST_TIMEOUT.into_response(),
    };
    let fields: HashMap<String, String> = form_urlencoded::parse(&bytes).into_owned().collect();
    let field = |name: &str| fields.get(name).map_or("", String::as_str);
    let (access, back) = (portal.access(), field("back"));
    let holder = match field("token") {
        "" => access.open_holder(),
        token => access.token_holder(token, |audience| portal.addresses().accepts_audience(audience)),
    };
    if let Some(holder) = holder {
        return begin_session(&portal, via, &holder, back).await;
    }
    let problem = if field("token").is_empty() {
        "This server requires a token or a sign-in link. Create a link with: forewarn portal"
    } else {
        portal.record_failed_sign_in(&extensions, "portal token").await;
        "This token is not valid. Check that it is complete and has not expired or been replaced."
    };
    (StatusCode::UNAUTHORIZED, sign_in_page::render(&portal, problem, back)).into_response()
}

/// Reports whether the session is still valid. A script cannot see why its stream was closed.
pub async fn check_session(_: Visitor) -> StatusCode {
    StatusCode::NO_CONTENT
}

pub async fn sign_out(State(portal): State<Portal>, Extension(via): Extension<Scheme>, form: Form) -> Response {
    if let Err(error) = portal.end_session(&form.visitor.cookie).await {
        return show_error(&portal, &error, "/");
    }
    portal.shared.streams.close_session(&form.visitor.cookie);
    let cookie = cookie_header(&portal, Some(via), None);
    ([(header::SET_COOKIE, cookie)], Redirect::to("/portal/sign-in")).into_response()
}

/// Starts a session. Returns a page and not a redirect: the cookie is `SameSite=Strict`, and browsers do not send it after a
/// redirect that started on another site.
pub async fn begin_session(portal: &Portal, via: Scheme, holder: &Holder, back: &str) -> Response {
    let cookie = match portal.begin_session(holder).await {
        Ok(cookie) => cookie_header(portal, Some(via), Some(&cookie)),
        Err(error) => return show_error(portal, &error, back),
    };
    let principal = &holder.principal;
    tracing::info!(name = %principal.name, role = principal.role.as_str(), "signed in to the portal");
    let page = Html(html::render(&SignedInPage { back: sign_in_page::check_back(back) }));
    ([(header::SET_COOKIE, cookie), (header::CACHE_CONTROL, "no-store".into())], page).into_response()
}

/// The sign-in page with an error of the API, such as a cluster without a leader.
fn show_error(portal: &Portal, error: &ApiError, back: &str) -> Response {
    (error.status, sign_in_page::render(portal, &error.message, back)).into_response()
}
