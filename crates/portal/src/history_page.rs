//! The history of the whole fleet, with filters.

use askama::Template;
use forewarn_core::Timestamp;
use forewarn_store::{HistoryKind, HistoryQuery};
use forewarn_widgets::html;
use forewarn_widgets::panel::PageContent;
use forewarn_widgets::query::PageQuery;

use super::history::{self, HistorySearch};
use super::page_context::PageContext;

/// Filters by kind: value, label, kinds of rows.
const KINDS: [(&str, &str, &[HistoryKind]); 6] = [
    ("", "Everything", &[]),
    ("events", "Events", &[HistoryKind::Appeared, HistoryKind::Approved, HistoryKind::Started, HistoryKind::Ended]),
    ("operations", "Operations and rollouts", &[HistoryKind::OperationEnded, HistoryKind::RolloutChanged]),
    ("hosts", "Hosts", &[HistoryKind::HostChanged]),
    (
        "machines",
        "Machines and handlers",
        &[HistoryKind::MachineAdded, HistoryKind::MachineRemoved, HistoryKind::GroupOn, HistoryKind::GroupOff],
    ),
    ("requests", "Requests", &[HistoryKind::Audit]),
];

/// Filters by age: value, label, hours.
const AGES: [(&str, &str, i64); 4] =
    [("", "Any time", 0), ("1", "Last hour", 1), ("24", "Last 24 hours", 24), ("168", "Last 7 days", 168)];

#[derive(Template)]
#[template(path = "history_filters.html")]
struct HistoryFilters<'a> {
    kinds: Vec<(&'static str, &'static str)>,
    kind: &'a str,
    ages: Vec<(&'static str, &'static str)>,
    age: &'a str,
    machine: &'a str,
    actor: &'a str,
}

pub async fn render(context: &PageContext, query: &PageQuery) -> PageContent {
    let (kind, age, machine) = (query.text("kind"), query.text("age"), query.text("machine"));
    let kinds = KINDS.iter().find(|(word, _, _)| *word == kind).map_or(&[][..], |(_, _, kinds)| kinds);
    let hours = AGES.iter().find(|(word, _, _)| *word == age).map_or(0, |(_, _, hours)| *hours);
    let wanted = HistoryQuery {
        kinds: kinds.to_vec(),
        machine: (!machine.is_empty()).then(|| machine.to_owned()),
        actor: Some(query.text("actor")).filter(|actor| !actor.is_empty()).map(str::to_owned),
        since: (hours > 0).then(|| Timestamp(context.now.0 - hours * 3_600_000)),
        ..HistoryQuery::default()
    };
    // An index finds the rows of a machine; the others are searched.
    let search = HistorySearch {
        indexed: wanted.machine.is_some().then(|| wanted.clone()),
        scanned: wanted.machine.is_none().then_some(wanted),
        is_wanted: |_: &_| true,
        here: "/history",
        query,
    };
    let panel = history::render_search_panel(context, &search).await;
    let filters = HistoryFilters {
        kinds: KINDS.map(|(word, label, _)| (word, label)).into(),
        kind,
        ages: AGES.map(|(word, label, _)| (word, label)).into(),
        age,
        machine,
        actor: query.text("actor"),
    };
    PageContent::new("History", vec![panel.with_html_before(html::render(&filters))])
}
