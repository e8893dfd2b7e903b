//! Lists in pages: `value` and, if there is more, `nextLink`.

use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::call::Call;
use forewarn_api::error::{ApiError, ErrorCode};

/// Entries of one page, unless `$top` asks for fewer. Clients follow `nextLink`.
pub const PAGE_MAX: usize = 1000;

/// The requested page.
pub struct PageRequest {
    pub limit: usize,
    /// The cursor of the last entry of the previous page.
    pub after: Option<String>,
}

impl PageRequest {
    pub fn of(call: &Call) -> Result<PageRequest, ApiError> {
        let limit = match call.query("$top").map(str::parse::<usize>) {
            None => PAGE_MAX,
            Some(Ok(top)) if top >= 1 => top.min(PAGE_MAX),
            Some(_) => return Err(ApiError::query("$top", "must be a positive integer")),
        };
        Ok(PageRequest { limit, after: call.query("$skiptoken").map(str::to_owned) })
    }

    /// The cursor of a list that is ordered by number.
    pub fn after_number(&self) -> Result<Option<u64>, ApiError> {
        let invalid = |text: &String| {
            ApiError::new(ErrorCode::InvalidQuery, format!("'{text}' is not a valid $skiptoken. Follow 'nextLink'."))
                .with_target("$skiptoken")
        };
        self.after.as_ref().map(|text| text.parse().map_err(|_| invalid(text))).transpose()
    }

    /// Truncates the list to one page. Returns the cursor of its last entry if entries were cut off.
    pub fn cut<T>(&self, found: &mut Vec<T>, cursor: impl Fn(&T) -> String) -> Option<String> {
        let more = found.len() > self.limit;
        found.truncate(self.limit);
        found.last().filter(|_| more).map(cursor)
    }
}

/// Responds with one page.
pub fn respond(call: &Call, value: Vec<Value>, next: Option<String>) -> Response {
    let mut page = json!({ "value": value });
    if let Some(next) = next {
        page["nextLink"] = call.url_with(&[("$skiptoken", next)]).into();
    }
    axum::Json(page).into_response()
}
