//! Lists that page: `value` and, when there is more, `nextLink`.

use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::call::Call;
use forewarn_api::error::{ApiError, Refusal};

/// Entries of a page, unless `$top` asks for fewer. Clients follow `nextLink`.
pub const PAGE_MAX: usize = 1000;

/// The part of a list that a request asks for.
pub struct Wanted {
    pub limit: usize,
    /// What the last page ended with.
    pub after: Option<String>,
}

impl Wanted {
    pub fn of(call: &Call) -> Result<Wanted, ApiError> {
        let limit = match call.query("$top").map(str::parse::<usize>) {
            None => PAGE_MAX,
            Some(Ok(top)) if top >= 1 => top.min(PAGE_MAX),
            Some(_) => return Err(ApiError::query("$top", "it must be a whole number from 1")),
        };
        Ok(Wanted { limit, after: call.query("$skiptoken").map(str::to_owned) })
    }

    /// For lists in the order of numbers.
    pub fn after_number(&self) -> Result<Option<u64>, ApiError> {
        let wrong = |text: &String| {
            ApiError::new(Refusal::InvalidQuery, format!("'{text}' is not where a page ends. Follow 'nextLink'."))
                .about("$skiptoken")
        };
        self.after.as_ref().map(|text| text.parse().map_err(|_| wrong(text))).transpose()
    }

    /// Cuts off what is too much; the cursor of the last entry that stays, when something was.
    pub fn cut<T>(&self, found: &mut Vec<T>, cursor: impl Fn(&T) -> String) -> Option<String> {
        let more = found.len() > self.limit;
        found.truncate(self.limit);
        found.last().filter(|_| more).map(cursor)
    }
}

pub fn shown(call: &Call, value: Vec<Value>, next: Option<String>) -> Response {
    let mut page = json!({ "value": value });
    if let Some(next) = next {
        page["nextLink"] = call.url_with(&[("$skiptoken", next)]).into();
    }
    axum::Json(page).into_response()
}
