//! The table of groups, on the overview and on the page of all groups: availability, next event, handlers.

use std::cmp::Ordering;

use askama::Template;
use forewarn_core::GroupKey;
use forewarn_widgets::fragment::Fragment;
use forewarn_widgets::html;
use forewarn_widgets::panel::Panel;
use forewarn_widgets::query::PageQuery;
use forewarn_widgets::severity::Severity;
use forewarn_widgets::table::{self, Column, SortOrder};
use forewarn_widgets::words;

use super::fleet::{FleetGroup, NextEvent};
use super::handler::describe_poll;
use super::page_context::PageContext;

/// Rows per page.
pub const ROWS_MAX: usize = 100;

const COLUMNS: [Column; 6] = [
    Column { key: "name", label: "Name", class: "" },
    Column { key: "kind", label: "Kind", class: "" },
    Column { key: "up", label: "Up", class: "r" },
    Column { key: "next", label: "Next event", class: "" },
    Column { key: "handlers", label: "Handlers polling", class: "r" },
    Column { key: "poll", label: "Last poll", class: "r" },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupFilter {
    All,
    Affected,
    NoHandler,
}

#[derive(Template)]
#[template(path = "group_row.html")]
struct FleetGroupRow<'a> {
    id: &'a str,
    sort: &'a str,
    group: &'a FleetGroup,
    /// The class of the number of machines that are up.
    up_class: &'static str,
    /// Severity and name of the next event.
    badge: Option<(&'static str, &'static str)>,
    last_poll: String,
}

#[derive(Template)]
#[template(path = "group_filters.html")]
struct GroupFilters<'a> {
    /// Address, label, number, and whether it is selected.
    filters: Vec<(String, &'static str, usize, bool)>,
    path: &'a str,
    search: &'a str,
    others: Vec<(&'a str, &'a str)>,
}

impl GroupFilter {
    const EACH: [GroupFilter; 3] = [GroupFilter::All, GroupFilter::Affected, GroupFilter::NoHandler];

    fn parse(word: &str) -> GroupFilter {
        GroupFilter::EACH.into_iter().find(|each| each.as_str() == word).unwrap_or(GroupFilter::All)
    }

    fn as_str(self) -> &'static str {
        match self {
            GroupFilter::All => "",
            GroupFilter::Affected => "affected",
            GroupFilter::NoHandler => "no-handler",
        }
    }

    fn label(self) -> &'static str {
        match self {
            GroupFilter::All => "All",
            GroupFilter::Affected => "Affected",
            GroupFilter::NoHandler => "No handler",
        }
    }

    fn matches(self, group: &FleetGroup) -> bool {
        match self {
            GroupFilter::All => true,
            GroupFilter::Affected => group.next.is_some(),
            GroupFilter::NoHandler => !group.has_handler && group.machines > 0,
        }
    }
}

/// The panel of these groups. `rows_max` is the number of rows; `path` is the page that it is on.
pub fn render_panel(
    context: &PageContext,
    groups: &[FleetGroup],
    query: &PageQuery,
    path: &'static str,
    rows_max: usize,
) -> Panel {
    let filter = GroupFilter::parse(query.text("groups"));
    let search = query.text("q").to_lowercase();
    let order = SortOrder::of(query, &COLUMNS, "next");
    let is_found = |group: &&FleetGroup| {
        filter.matches(group) && (search.is_empty() || group.name.to_lowercase().contains(&search))
    };
    let mut found: Vec<&FleetGroup> = groups.iter().filter(is_found).collect();
    found.sort_by(|one, other| {
        let ordering = compare(one, other, order.key);
        if order.is_descending { ordering.reverse() } else { ordering }
    });
    let from = if path == "/" { 0 } else { query.number("from") };
    let shown = found.iter().skip(from).take(rows_max);
    let rows = shown.enumerate().map(|(number, group)| {
        let sort = sort_key(group, order).unwrap_or_else(|| table::row_key(number));
        render_row(context, group, &sort)
    });
    let rows = rows.collect();
    let count = |each: GroupFilter| groups.iter().filter(|group| each.matches(group)).count();
    let filters = GroupFilters {
        filters: GroupFilter::EACH
            .map(|each| {
                let href = query.with("groups", each.as_str()).with("from", "").address(path);
                (href, each.label(), count(each), each == filter)
            })
            .into(),
        path,
        search: query.text("q"),
        others: query.fields_except("q"),
    };
    Panel::new("groups", "Groups", rows)
        .with_table(table::render_head(&COLUMNS, order, query, path))
        .with_html_before(html::render(&filters))
        .with_html_after(render_foot(query, path, from, rows_max, found.len()))
        .or_empty_text("No matching groups.")
}

/// The number of rows, and links to the others.
fn render_foot(query: &PageQuery, path: &str, from: usize, rows_max: usize, all: usize) -> String {
    let shown = all.saturating_sub(from).min(rows_max);
    if path == "/" {
        let link = if all > shown {
            format!(r#" <a href="{}">Show all {all}</a>"#, query.with("move", "").with("open", "").address("/groups"))
        } else {
            String::new()
        };
        return format!(r#"<p class="foot"><span>{shown} of {all}</span>{}</p>"#, link.replace('&', "&amp;"));
    }
    render_paging(query, path, from, rows_max, all)
}

/// Links to the previous and next rows of a long table.
pub fn render_paging(query: &PageQuery, path: &str, from: usize, rows_max: usize, all: usize) -> String {
    let shown = all.saturating_sub(from).min(rows_max);
    let link = |from: usize, label: &str| {
        let word = if from == 0 { String::new() } else { from.to_string() };
        format!(r#" <a href="{}">{label}</a>"#, query.with("from", &word).address(path).replace('&', "&amp;"))
    };
    let mut text = match shown {
        0 => format!("0 of {all}"),
        shown => format!("{} to {} of {all}", from + 1, from + shown),
    };
    if from > 0 {
        text += &link(from.saturating_sub(rows_max), "Previous");
    }
    if from + shown < all {
        text += &link(from + rows_max, "Next");
    }
    format!(r#"<p class="foot"><span>{text}</span></p>"#)
}

/// Ascending order puts what needs a look first, except for names.
fn compare(one: &FleetGroup, other: &FleetGroup, key: &str) -> Ordering {
    let polling = |group: &FleetGroup| {
        let share = (group.polling * 1_000_000).checked_div(group.up).unwrap_or(1_000_000);
        (group.has_handler, share)
    };
    match key {
        "name" => Ordering::Equal,
        "kind" => one.kind.cmp(&other.kind),
        "up" => up_share(one).cmp(&up_share(other)),
        "handlers" => polling(one).cmp(&polling(other)),
        "poll" => one.last_poll.cmp(&other.last_poll),
        _ => next_rank(one).cmp(&next_rank(other)),
    }
    .then_with(|| one.name.to_lowercase().cmp(&other.name.to_lowercase()))
}

/// The place of a group in the order of `compare`, independent of the other groups. `None` if the rows keep their original order.
fn sort_key(group: &FleetGroup, order: SortOrder<'_>) -> Option<String> {
    // Equal ranks are sorted by name, which has no reverse key.
    let rank = match (order.key, order.is_descending) {
        ("up", false) => up_share(group),
        ("next", false) => next_rank(group),
        (_, _) => return None,
    };
    Some(format!("{}-{}", table::number_key(rank), group.name.to_lowercase()))
}

/// Available machines per million.
fn up_share(group: &FleetGroup) -> i64 {
    (group.up * 1_000_000).checked_div(group.machines).unwrap_or(1_000_000) as i64
}

fn next_rank(group: &FleetGroup) -> i64 {
    group.next.map_or(i64::MAX, NextEvent::rank)
}

fn render_row(context: &PageContext, group: &FleetGroup, sort: &str) -> Fragment {
    let id = match group.key {
        GroupKey::Group(id) => format!("group-{}", id.0),
        GroupKey::Machine(id) => format!("single-{}", id.0),
    };
    let row = FleetGroupRow {
        id: &id,
        sort,
        group,
        up_class: group.class(context.region(), group.up),
        badge: group.next.map(|next| (Severity::of(next.kind).class(), words::event_kind(next.kind))),
        last_poll: describe_poll(context.now, group.last_poll),
    };
    Fragment::render(id.as_str(), sort, &row)
}
