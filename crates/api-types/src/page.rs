//! Lists, in pages, and bodies without fields.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page<T> {
    pub value: Vec<T>,
    /// Cursor of the next page; omitted on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// A list that is always returned whole.
    pub fn complete(value: Vec<T>) -> Page<T> {
        Page { value, next: None }
    }

    /// The first `limit` entries. If there are more, `next` is the cursor of the last one.
    pub fn split_off<E>(
        entries: impl Iterator<Item = E>,
        limit: usize,
        cursor: impl Fn(&E) -> String,
        render: impl Fn(&E) -> T,
    ) -> Page<T> {
        let mut taken: Vec<E> = entries.take(limit + 1).collect();
        let more = taken.len() > limit;
        taken.truncate(limit);
        let next = taken.last().filter(|_| more).map(cursor);
        Page { value: taken.iter().map(render).collect(), next }
    }
}

/// A body without fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EmptyBody {}
