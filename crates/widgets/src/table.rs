//! The heads of sortable tables. The sort order is in the address: `sort=name`, or `sort=-name` for the reverse.

use askama::Template;

use super::html;
use super::query::PageQuery;

/// A column of a table.
#[derive(Clone, Copy)]
pub struct Column {
    /// The value in the address; empty for a column that cannot be sorted.
    pub key: &'static str,
    pub label: &'static str,
    pub class: &'static str,
}

/// The column that a table is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortOrder<'a> {
    pub key: &'a str,
    pub is_descending: bool,
}

#[derive(Template)]
#[template(path = "table_head.html")]
struct TableHead {
    cells: Vec<HeadCell>,
}

struct HeadCell {
    id: String,
    label: &'static str,
    class: &'static str,
    /// Empty for a column that cannot be sorted.
    href: String,
    /// The value of `aria-sort`, or empty.
    order: &'static str,
}

impl<'a> SortOrder<'a> {
    /// The order in a query. Unknown columns select the default.
    pub fn of(query: &'a PageQuery, columns: &[Column], default: &'a str) -> SortOrder<'a> {
        let text = query.text("sort");
        let key = text.strip_prefix('-').unwrap_or(text);
        let is_known = !key.is_empty() && columns.iter().any(|column| column.key == key);
        if is_known {
            SortOrder { key, is_descending: text.starts_with('-') }
        } else {
            SortOrder { key: default, is_descending: false }
        }
    }
}

/// The head of a table with links that sort it. A second click reverses the order.
pub fn render_head(columns: &[Column], order: SortOrder<'_>, query: &PageQuery, path: &str) -> String {
    let cell = |column: &Column| {
        let is_current = !column.key.is_empty() && column.key == order.key;
        let next = if is_current && !order.is_descending { format!("-{}", column.key) } else { column.key.to_owned() };
        HeadCell {
            id: format!("sort-{}", column.key),
            label: column.label,
            class: column.class,
            href: if column.key.is_empty() { String::new() } else { query.with("sort", &next).address(path) },
            order: match (is_current, order.is_descending) {
                (false, _) => "",
                (true, false) => "ascending",
                (true, true) => "descending",
            },
        }
    };
    html::render(&TableHead { cells: columns.iter().map(cell).collect() })
}

/// A number as a sort key, so that a row stays the same while others come and go.
pub fn number_key(number: i64) -> String {
    format!("{:020}", i128::from(number) - i128::from(i64::MIN))
}

/// A row number as a sort key. Rows are sorted on the server, and the page keeps their order.
pub fn row_key(number: usize) -> String {
    format!("{number:06}")
}
