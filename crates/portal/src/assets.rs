//! Script and style, as they are in the program.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Name, media type, text.
const FILES: [(&str, &str, &str); 10] = [
    ("portal.css", "text/css; charset=utf-8", include_str!("assets/portal.css")),
    ("portal.js", SCRIPT, include_str!("assets/portal.js")),
    ("theme.js", SCRIPT, include_str!("assets/theme.js")),
    ("live.js", SCRIPT, include_str!("assets/live.js")),
    ("fragments.js", SCRIPT, include_str!("assets/fragments.js")),
    ("chunks.js", SCRIPT, include_str!("assets/chunks.js")),
    ("forms.js", SCRIPT, include_str!("assets/forms.js")),
    ("time.js", SCRIPT, include_str!("assets/time.js")),
    ("timeline.js", SCRIPT, include_str!("assets/timeline.js")),
    ("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
];

pub async fn get(Path(file): Path<String>, headers: HeaderMap) -> Response {
    let Some((_, kind, text)) = FILES.iter().find(|(name, _, _)| *name == file) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let tag = tag(text);
    // After an update of the program the next page brings its own; until then the browser need not fetch it again.
    let known = [(header::ETAG, tag.clone()), (header::CACHE_CONTROL, "no-cache".into())];
    if headers.get(header::IF_NONE_MATCH).is_some_and(|asked| asked == tag.as_str()) {
        return (StatusCode::NOT_MODIFIED, known).into_response();
    }
    (known, [(header::CONTENT_TYPE, *kind)], *text).into_response()
}

fn tag(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}
