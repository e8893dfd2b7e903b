//! Forms of a server that follows in a cluster: the leader carries them out, and this server shows the result.
//!
//! ```text
//!  form ─▶ session, CSRF token ──HTTP──▶ leader: session, CSRF token, role ─▶ action
//!             next page ◀─── confirmation ◀──────┘
//! ```

use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method};

use super::Portal;
use super::flash::Flash;
use super::visitor::{Form, Visitor, read_cookie, refuse_foreign_form};

/// Forms that this server handles itself: signing in and out changes sessions, which have a way to the leader of their own.
const LOCAL_PATHS: [&str; 2] = ["/portal/sign-in", "/portal/sign-out"];

/// Whether a request to the portal changes something that only the leader can change.
pub fn needs_leader(method: &Method, path: &str) -> bool {
    *method == Method::POST && !LOCAL_PATHS.contains(&path)
}

impl Portal {
    /// Refuses a form without a session or without its CSRF token.
    pub async fn check_form(&self, parts: &Parts, body: &[u8]) -> Result<(), Response> {
        let visitor = Visitor::find(parts, self).await?;
        Form::check(visitor, body).map(drop).ok_or_else(refuse_foreign_form)
    }

    /// The confirmation that the next page of this session would show, for the server that forwarded the form.
    pub fn take_confirmation(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let flash = self.shared.flashes.take(&read_cookie(self, headers)?)?;
        HeaderValue::from_bytes(&flash.encode()).ok()
    }

    /// Shows a confirmation of the leader on the next page of this session.
    pub fn set_confirmation(&self, headers: &HeaderMap, confirmation: &HeaderValue) {
        if let (Some(cookie), Some(flash)) = (read_cookie(self, headers), Flash::decode(confirmation.as_bytes())) {
            self.shared.flashes.set(&cookie, flash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_need_the_leader_but_signing_in_and_out_does_not() {
        assert!(needs_leader(&Method::POST, "/portal/act") && needs_leader(&Method::POST, "/groups/3"));
        assert!(!needs_leader(&Method::GET, "/groups/3"));
        assert!(!needs_leader(&Method::POST, "/portal/sign-in") && !needs_leader(&Method::POST, "/portal/sign-out"));
    }
}
