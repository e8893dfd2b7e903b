//! Scripts, styles and images, embedded in the binary.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Name, media type, text.
const FILES: [(&str, &str, &str); 13] = [
    ("portal.css", "text/css; charset=utf-8", include_str!("assets/portal.css")),
    ("console.css", "text/css; charset=utf-8", include_str!("assets/console.css")),
    ("portal.js", SCRIPT, include_str!("assets/portal.js")),
    ("theme.js", SCRIPT, include_str!("assets/theme.js")),
    ("live.js", SCRIPT, include_str!("assets/live.js")),
    ("fragments.js", SCRIPT, include_str!("assets/fragments.js")),
    ("keys.js", SCRIPT, include_str!("assets/keys.js")),
    ("soft.js", SCRIPT, include_str!("assets/soft.js")),
    ("forms.js", SCRIPT, include_str!("assets/forms.js")),
    ("time.js", SCRIPT, include_str!("assets/time.js")),
    ("timeline.js", SCRIPT, include_str!("assets/timeline.js")),
    ("icon-down.svg", "image/svg+xml", include_str!("assets/icon-down.svg")),
    ("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
];

pub async fn get(Path(file): Path<String>, headers: HeaderMap) -> Response {
    let Some((_, kind, text)) = FILES.iter().find(|(name, _, _)| *name == file) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let tag = compute_etag(text);
    // Browsers revalidate each time, so that a new version of the server takes effect with the next page.
    let caching = [(header::ETAG, tag.clone()), (header::CACHE_CONTROL, "no-cache".into())];
    if headers.get(header::IF_NONE_MATCH).is_some_and(|held| held == tag.as_str()) {
        return (StatusCode::NOT_MODIFIED, caching).into_response();
    }
    (caching, [(header::CONTENT_TYPE, *kind)], *text).into_response()
}

fn compute_etag(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}
