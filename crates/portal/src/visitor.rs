//! Who is asking: the session behind the cookie, and forms that prove they are ours.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderMap, StatusCode, header};

use super::Portal;
use super::sign_in;
use forewarn_access::{Principal, Role};
use forewarn_access::{SESSION_SECS, Session};
use forewarn_api::Via;

/// How long a form may take to arrive.
const FORM_TIMEOUT: Duration = Duration::from_secs(30);

/// Somebody who is signed in.
#[derive(Clone, Debug)]
pub struct Visitor {
    pub session: Session,
    /// The cookie's value.
    pub cookie: String,
}

/// A form that a visitor has sent from one of our pages.
pub struct Form {
    pub visitor: Visitor,
    fields: Vec<(String, String)>,
}

impl Visitor {
    pub fn principal(&self) -> Principal {
        self.session.holder.principal.clone()
    }

    pub fn may(&self, role: Role) -> bool {
        self.session.holder.principal.role >= role
    }
}

impl FromRequestParts<Portal> for Visitor {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, service: &Portal) -> Result<Visitor, Response> {
        let found = cookie(&parts.headers, service.addresses().http).and_then(|cookie| {
            let session = service.access().session(&cookie)?;
            Some(Visitor { session, cookie })
        });
        found.ok_or_else(|| (StatusCode::UNAUTHORIZED, sign_in::page(service, "")).into_response())
    }
}

impl FromRequest<Portal> for Form {
    type Rejection = Response;

    async fn from_request(request: Request, service: &Portal) -> Result<Form, Response> {
        let (mut parts, body) = request.into_parts();
        let visitor = Visitor::from_request_parts(&mut parts, service).await?;
        let body = Bytes::from_request(Request::from_parts(parts, body), service);
        let late = |_| StatusCode::REQUEST_TIMEOUT.into_response();
        let bytes = tokio::time::timeout(FORM_TIMEOUT, body).await.map_err(late)?;
        let bytes = bytes.map_err(IntoResponse::into_response)?;
        let fields: Vec<(String, String)> = form_urlencoded::parse(&bytes).into_owned().collect();
        let form = Form { visitor, fields };
        if !form.visitor.session.accepts(form.text("csrf")) {
            let why = "The form is not one of this session's pages, so nothing was done. Go back, reload the page and try again.";
            return Err((StatusCode::FORBIDDEN, why).into_response());
        }
        Ok(form)
    }
}

impl Form {
    pub fn text(&self, name: &str) -> &str {
        self.first(name).trim()
    }

    /// As it was typed, with the line ends of a file.
    pub fn lines(&self, name: &str) -> String {
        self.first(name).replace("\r\n", "\n")
    }

    /// What was ticked of several.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.fields.iter().filter(|(found, _)| found == name).map(|(_, value)| value.as_str()).collect()
    }

    pub fn is_ticked(&self, name: &str) -> bool {
        self.fields.iter().any(|(found, _)| found == name)
    }

    fn first(&self, name: &str) -> &str {
        self.fields.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value.as_str())
    }
}

/// Cookies know no ports, so the name does: several servers on one machine do not sign each other out.
fn cookie_name(address: SocketAddr) -> String {
    format!("forewarn-{}", address.port())
}

fn cookie(headers: &HeaderMap, address: SocketAddr) -> Option<String> {
    let name = cookie_name(address);
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value.to_owned())
}

/// A header that sets the cookie, or takes it away when there is no value.
pub fn set_cookie(service: &Portal, via: Option<Via>, value: Option<&str>) -> String {
    let name = cookie_name(service.addresses().http);
    let secure = if via == Some(Via::Https) { "; Secure" } else { "" };
    let age = if value.is_some() { SESSION_SECS } else { 0 };
    let value = value.unwrap_or_default();
    format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age}{secure}")
}
