//! Script and style, as they are in the program.

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};

const STYLE: &str = include_str!("assets/portal.css");
const SCRIPT: &str = include_str!("assets/portal.js");
const FORMS: &str = include_str!("assets/forms.js");
const TIMELINE: &str = include_str!("assets/timeline.js");
const ICON: &str = include_str!("assets/icon.svg");

pub async fn get(Path(file): Path<String>) -> Response {
    let (kind, text) = match file.as_str() {
        "portal.css" => ("text/css; charset=utf-8", STYLE),
        "portal.js" => ("text/javascript; charset=utf-8", SCRIPT),
        "forms.js" => ("text/javascript; charset=utf-8", FORMS),
        "timeline.js" => ("text/javascript; charset=utf-8", TIMELINE),
        "icon.svg" => ("image/svg+xml", ICON),
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    // After an update of the program the next page brings its own.
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], text).into_response()
}
