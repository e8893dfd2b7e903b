//! The page for visitors without a session.

use askama::Template;
use axum::response::Html;

use super::{Portal, html};

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage<'a> {
    /// The server requires no token, so a button is enough.
    open: bool,
    problem: &'a str,
}

/// `problem` is an error message, or empty.
pub fn render(portal: &Portal, problem: &str) -> Html<String> {
    Html(html::render(&SignInPage { open: portal.access().is_open(), problem }))
}
