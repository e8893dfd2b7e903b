//! Renders templates to HTML.

use askama::Template;

/// The purpose of rendered HTML. An open page computes positions and future times itself, so that updates stay the same while
/// time passes and need not be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenderMode {
    /// A complete page, which must also work without JavaScript.
    Page,
    /// An update of an open page.
    Update,
}

pub fn render(template: &impl Template) -> String {
    template.render().unwrap_or_else(|error| {
        tracing::error!(%error, "cannot render a template");
        String::new()
    })
}
