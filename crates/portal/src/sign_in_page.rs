//! The page for visitors without a session. Signing in returns to the requested page.

use askama::Template;
use axum::response::Html;
use forewarn_widgets::html;

use super::Portal;

/// Longest path that signing in returns to. The pages of the portal have shorter ones.
const BACK_BYTES_MAX: usize = 2048;

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage<'a> {
    /// The server requires no token, so a button is enough.
    open: bool,
    problem: &'a str,
    /// Host of the identity provider, if there is one.
    provider: Option<&'a str>,
    back: &'a str,
}

/// `problem` is an error message, or empty. `back` is the requested path.
pub fn render(portal: &Portal, problem: &str, back: &str) -> Html<String> {
    let access = portal.access();
    let provider = access.oidc().map(|oidc| oidc.provider_name());
    Html(html::render(&SignInPage { open: access.is_open(), problem, provider, back: check_back(back) }))
}

/// The path if it is one of this site that can be shown after signing in, else the overview.
pub fn check_back(path: &str) -> &str {
    let is_local = path.starts_with('/') && !path.starts_with("//") && !path.starts_with("/\\");
    let is_page = !path.starts_with("/portal/") && !path.starts_with("/api/");
    let is_plain = path.len() <= BACK_BYTES_MAX && path.bytes().all(|byte| (0x21..0x7f).contains(&byte));
    if is_local && is_page && is_plain { path } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signing_in_returns_to_pages_of_this_site_only() {
        for good in ["/", "/hosts", "/groups/3?from=20&sort=name", "/?q=a%20b"] {
            assert_eq!(check_back(good), good);
        }
        let long = format!("/{}", "x".repeat(BACK_BYTES_MAX));
        for wrong in
            ["", "hosts", "//evil", "/\\evil", "https://evil", "/a b", "/a\nb", "/portal/sign-out", "/api/v1", &long]
        {
            assert_eq!(check_back(wrong), "/", "{wrong}");
        }
    }
}
