//! The signed-in visitor behind a request, and the forms that a visitor sends.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, header};

use super::{Portal, sign_in_page};
use forewarn_access::Principal;
use forewarn_access::{SESSION_SECS, Session};
use forewarn_api::{Action, ConnectionUse, Scheme};

/// Longest time for a form to arrive, so that slow clients do not hold connections.
pub const FORM_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub struct Visitor {
    pub session: Session,
    /// The value of the session cookie.
    pub cookie: String,
}

/// A form that carries the session's CSRF token.
pub struct Form {
    pub visitor: Visitor,
    fields: Vec<(String, String)>,
}

impl Visitor {
    pub fn principal(&self) -> Principal {
        self.session.holder.principal.clone()
    }

    /// Whether the visitor has the role that an action requires.
    pub fn is_allowed(&self, action: Action) -> bool {
        self.session.holder.principal.role >= action.role()
    }
}

impl FromRequestParts<Portal> for Visitor {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, portal: &Portal) -> Result<Visitor, Response> {
        Visitor::find(parts, portal).await
    }
}

impl Visitor {
    /// The visitor with the session cookie of a request, or the sign-in page.
    pub async fn find(parts: &Parts, portal: &Portal) -> Result<Visitor, Response> {
        if let Some(cookie) = read_cookie(portal, &parts.headers)
            && let Some(session) = portal.find_session(&cookie).await
        {
            ConnectionUse::protect(&parts.extensions);
            return Ok(Visitor { session, cookie });
        }
        let asked =
            if parts.method == Method::GET { parts.uri.path_and_query().map(|path| path.as_str()) } else { None };
        Err((StatusCode::UNAUTHORIZED, sign_in_page::render(portal, "", asked.unwrap_or("/"))).into_response())
    }
}

impl FromRequest<Portal> for Form {
    type Rejection = Response;

    async fn from_request(request: Request, portal: &Portal) -> Result<Form, Response> {
        let (mut parts, body) = request.into_parts();
        let visitor = Visitor::from_request_parts(&mut parts, portal).await?;
        let body = Bytes::from_request(Request::from_parts(parts, body), portal);
        let timed_out = |_| StatusCode::REQUEST_TIMEOUT.into_response();
        let bytes = tokio::time::timeout(FORM_TIMEOUT, body).await.map_err(timed_out)?;
        let bytes = bytes.map_err(IntoResponse::into_response)?;
        Form::check(visitor, &bytes).ok_or_else(refuse_foreign_form)
    }
}

pub fn refuse_foreign_form() -> Response {
    let why =
        "The form does not belong to this session, so nothing was changed. Go back, reload the page and try again.";
    (StatusCode::FORBIDDEN, why).into_response()
}

impl Form {
    /// A form that carries the CSRF token of the visitor's session.
    pub fn check(visitor: Visitor, body: &[u8]) -> Option<Form> {
        let form = Form { visitor, fields: form_urlencoded::parse(body).into_owned().collect() };
        form.visitor.session.accepts(form.text("csrf")).then_some(form)
    }

    /// The trimmed value of a field, empty if it is absent.
    pub fn text(&self, name: &str) -> &str {
        self.first(name).trim()
    }

    /// The value of a multi-line field, with Unix line endings.
    pub fn lines(&self, name: &str) -> String {
        self.first(name).replace("\r\n", "\n")
    }

    /// All values of a field that can occur more than once.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.fields.iter().filter(|(found, _)| found == name).map(|(_, value)| value.as_str()).collect()
    }

    pub fn is_checked(&self, name: &str) -> bool {
        self.fields.iter().any(|(found, _)| found == name)
    }

    fn first(&self, name: &str) -> &str {
        self.fields.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value.as_str())
    }
}

/// Cookies are shared by all ports of a host. The port in the name keeps servers on one host from signing each other out; the
/// servers of a region share their sessions and thereby the name.
fn cookie_name(portal: &Portal) -> String {
    match portal.region_sessions() {
        Some(sessions) => format!("forewarn-region-{}", sessions.region()),
        None => format!("forewarn-{}", portal.addresses().http.port()),
    }
}

pub fn read_cookie(portal: &Portal, headers: &HeaderMap) -> Option<String> {
    let name = cookie_name(portal);
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value.to_owned())
}

/// The value of a `Set-Cookie` header that sets the session cookie, or removes it if there is no value.
pub fn cookie_header(portal: &Portal, via: Option<Scheme>, value: Option<&str>) -> String {
    let name = cookie_name(portal);
    let secure = if via == Some(Scheme::Https) { "; Secure" } else { "" };
    let age = if value.is_some() { SESSION_SECS } else { 0 };
    let value = value.unwrap_or_default();
    format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age}{secure}")
}
