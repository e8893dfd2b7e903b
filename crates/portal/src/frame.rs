//! The HTML around the content of every page: header, navigation, status of the connection.

use askama::Template;
use axum::response::Html;
use forewarn_engine::clock::Kind;

use super::html;
use super::panel::{PageContent, Panel};
use super::scene::Scene;

#[derive(Template)]
#[template(path = "page.html")]
struct Frame<'a> {
    title: &'a str,
    lead: &'a str,
    panels: &'a [Panel],
    name: &'a str,
    role: &'a str,
    csrf: &'a str,
    /// The address of this page, for the stream.
    here: &'a str,
    now_ms: i64,
    /// The revision that the page was rendered from.
    revision: u64,
    manual: bool,
    problem: &'a str,
    section: &'a str,
}

/// A complete page. `problem` is an error message above the content, or empty.
pub fn render(scene: &Scene, here: &str, content: &PageContent, problem: &str) -> Html<String> {
    let principal = &scene.visitor.session.holder.principal;
    Html(html::render(&Frame {
        title: &content.title,
        lead: &content.lead,
        panels: &content.panels,
        name: &principal.name,
        role: principal.role.word(),
        csrf: &scene.visitor.session.csrf,
        here,
        now_ms: scene.now.0,
        revision: scene.snapshot.revision,
        manual: scene.portal.engine().clock_kind() == Kind::Manual,
        problem,
        section: here.split(['/', '?']).nth(1).unwrap_or_default(),
    }))
}
