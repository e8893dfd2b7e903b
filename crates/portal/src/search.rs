//! Search over machines, groups, hosts, operations, rollouts, event IDs, vmIds, addresses, tags and tickets. Operations that the region
//! no longer has are found in the history by the words of their ticket, and like past events by ID. Without a match, it suggests
//! similar names.

use askama::Template;
use forewarn_api_types::join_names;
use forewarn_api_types::nearest::find_nearest;
use forewarn_core::{Guid, Region};
use forewarn_render::{describe_request, name_operation, name_rollout, read_past_operation};
use forewarn_store::{HistoryKind, HistoryQuery};
use forewarn_widgets::fragment::Fragment;
use forewarn_widgets::panel::{PageContent, Panel};
use forewarn_widgets::query::PageQuery;
use forewarn_widgets::table::{self, Column, SortOrder};
use forewarn_widgets::{address, words};
use forewarn_wire::guid;

use super::history;
use super::page_context::PageContext;
use forewarn_widgets::activity::ActivityId;

/// Results of each kind, the best ones. A longer text narrows the search.
const RESULTS_MAX: usize = 20;

/// Rows of the history that are searched for tickets: the steps of a rollout share theirs, and rollouts that the region has are
/// found without them.
const PAST_ROWS_MAX: u32 = 200;

/// Fewer characters are part of many IDs by chance.
const ID_CHARS_MIN: usize = 4;

/// Suggestions for a text without results.
const SUGGESTIONS_MAX: usize = 3;

const COLUMNS: [Column; 3] = [
    Column { key: "", label: "Name", class: "" },
    Column { key: "", label: "Kind", class: "" },
    Column { key: "", label: "Match", class: "" },
];

struct SearchResult {
    name: String,
    href: String,
    kind: String,
    matched: FieldMatch,
}

/// The field that matches, and how well: the best comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FieldMatch {
    rank: MatchRank,
    field: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MatchRank {
    Exact,
    Prefix,
    Contains,
}

#[derive(Template)]
#[template(path = "search_row.html")]
struct SearchRow<'a> {
    id: &'a str,
    sort: &'a str,
    result: &'a SearchResult,
}

pub async fn render(context: &PageContext, text: &str) -> PageContent {
    let region = context.region();
    let lowered = text.trim().to_lowercase();
    let (mut results, mut notes) = if lowered.is_empty() { (Vec::new(), Vec::new()) } else { find(region, &lowered) };
    if results.is_empty() {
        results = find_past(context, text.trim()).await;
    }
    if !lowered.is_empty() {
        results.extend(find_past_tickets(context, text.trim(), &mut notes).await);
    }
    let rows = results.iter().enumerate().map(|(number, result)| {
        let (id, sort) = (format!("result-{number}"), table::row_key(number));
        Fragment::render(id.as_str(), sort.as_str(), &SearchRow { id: &id, sort: &sort, result })
    });
    let order = SortOrder { key: "", is_descending: false };
    let lead = match (lowered.is_empty(), results.is_empty()) {
        (true, _) => "<p>Type a name, an ID, an address, a tag or a ticket.</p>".into(),
        (false, true) => suggest_names(region, &lowered),
        (false, false) if notes.is_empty() => String::new(),
        (false, false) => format!(
            r#"<p class="q">Best matches: {}. Type more characters to narrow the search.</p>"#,
            notes.join(", ")
        ),
    };
    let panel = Panel::new("results", "Results", rows.collect())
        .with_table(table::render_head(&COLUMNS, order, &PageQuery::default(), ""))
        .or_empty_text("Nothing matches.");
    PageContent::new(if lowered.is_empty() { "Search".into() } else { format!("Search: {}", text.trim()) }, vec![panel])
        .with_lead(lead)
}

/// The best results of each kind, and the kinds of which there are more: `20 of 312 machines`.
fn find(region: &Region, text: &str) -> (Vec<SearchResult>, Vec<String>) {
    let kinds: [(&str, Vec<SearchResult>); 5] = [
        ("groups", find_groups(region, text).collect()),
        ("hosts", find_hosts(region, text).collect()),
        ("operations", find_activities(region, text).collect()),
        ("machines", find_machines(region, text).collect()),
        ("events", find_events(region, text).collect()),
    ];
    let (mut results, mut notes) = (Vec::new(), Vec::new());
    for (noun, mut found) in kinds {
        if found.len() > RESULTS_MAX {
            notes.push(format!("{RESULTS_MAX} of {} {noun}", found.len()));
        }
        found.sort_by_key(|result| result.matched.rank);
        results.extend(found.into_iter().take(RESULTS_MAX));
    }
    results.sort_by_key(|result| result.matched.rank);
    (results, notes)
}

/// The operation or event with this ID that the region no longer has.
async fn find_past(context: &PageContext, text: &str) -> Vec<SearchResult> {
    let Some(id) = guid::parse(text).map(Guid) else { return Vec::new() };
    let matched = FieldMatch { rank: MatchRank::Exact, field: format!("ID {text}") };
    let one = |query: HistoryQuery| HistoryQuery { limit: Some(1), ..query };
    let event = history::read(context, one(HistoryQuery { event: Some(id), ..HistoryQuery::default() })).await;
    if let Some(row) = event.first() {
        let kind = row.event_kind().map_or("Event", |kind| kind.as_str());
        let name = format!("{kind} of {}", join_names(&row.machines));
        let href = format!("/events/{}", words::event_name(id));
        return vec![SearchResult { name, href, kind: "Event, ended".into(), matched }];
    }
    let query =
        HistoryQuery { operation: Some(id), kinds: vec![HistoryKind::OperationEnded], ..HistoryQuery::default() };
    let rows = history::read(context, one(query)).await;
    let title = |operation| name_operation(context.region(), &operation);
    let name = read_past_operation(id, &rows).map_or_else(|| format!("Operation {id}"), title);
    let href = ActivityId::Operation(id).href();
    let found = rows.first().map(|_| SearchResult { name, href, kind: "Operation, ended".into(), matched });
    found.into_iter().collect()
}

/// Operations that the region no longer has, by their tickets, the newest first. Those of a rollout that the region has are
/// steps of a result.
async fn find_past_tickets(context: &PageContext, text: &str, notes: &mut Vec<String>) -> Vec<SearchResult> {
    let region = context.region();
    let limit = Some(PAST_ROWS_MAX);
    let rows =
        history::read(context, HistoryQuery { ticket: Some(text.into()), limit, ..HistoryQuery::default() }).await;
    let past = rows.iter().rev().filter_map(|row| {
        let id = row.operation.filter(|id| region.operation(*id).is_none())?;
        let operation = read_past_operation(id, std::slice::from_ref(row))?;
        let is_step = operation.rollout.is_some_and(|rollout| region.rollout(rollout).is_some());
        (!is_step).then_some((id, operation))
    });
    let results = past.map(|(id, operation)| SearchResult {
        name: name_operation(region, &operation),
        href: ActivityId::Operation(id).href(),
        kind: "Operation, ended".into(),
        matched: FieldMatch {
            rank: MatchRank::Contains,
            field: format!("ticket {}", describe_request(region, &operation).unwrap_or_default()),
        },
    });
    let mut results: Vec<SearchResult> = results.collect();
    if results.len() > RESULTS_MAX {
        notes.push(format!("the newest {RESULTS_MAX} operations that have ended"));
        results.truncate(RESULTS_MAX);
    }
    results
}

/// The best match of these fields. An ID has to begin with the text.
fn match_field<'f>(fields: impl IntoIterator<Item = (&'f str, String)>, text: &str) -> Option<FieldMatch> {
    let judge = |label: &str, value: &str| {
        let (value, is_id) = (value.to_lowercase(), matches!(label, "ID" | "vmId"));
        // The value of a tag or label counts like the whole.
        let ends = value.split_once('=').is_some_and(|(_, end)| end == text);
        match () {
            () if is_id && text.len() < ID_CHARS_MIN => None,
            () if value == text || ends => Some(MatchRank::Exact),
            () if value.starts_with(text) => Some(MatchRank::Prefix),
            () if !is_id && value.contains(text) => Some(MatchRank::Contains),
            () => None,
        }
    };
    let found = fields.into_iter().filter_map(|(label, value)| Some((judge(label, &value)?, label, value)));
    let best = found.min_by_key(|(rank, _, _)| *rank);
    best.map(|(rank, label, value)| FieldMatch { rank, field: format!("{label} {value}") })
}

fn find_machines<'r>(region: &'r Region, text: &'r str) -> impl Iterator<Item = SearchResult> + 'r {
    region.machines().filter_map(move |machine| {
        let addresses = machine.addresses.iter().map(|address| ("address", address.ip.to_string()));
        let tags = machine.details.tags.iter().map(|(key, value)| ("tag", format!("{key}={value}")));
        let fields = [("name", machine.name.to_string()), ("vmId", guid::Lower(machine.vm_id.0).to_string())];
        Some(SearchResult {
            matched: match_field(fields.into_iter().chain(addresses).chain(tags), text)?,
            name: words::machine_name(region, machine),
            href: address::of_machine(machine),
            kind: "Machine".into(),
        })
    })
}

fn find_groups<'r>(region: &'r Region, text: &'r str) -> impl Iterator<Item = SearchResult> + 'r {
    region.groups().filter_map(move |group| {
        Some(SearchResult {
            matched: match_field([("name", group.name.to_string())], text)?,
            name: region.group_label(group),
            href: address::of_group(group.id),
            kind: words::group_kind(group).into(),
        })
    })
}

fn find_hosts<'r>(region: &'r Region, text: &'r str) -> impl Iterator<Item = SearchResult> + 'r {
    region.hosts().filter_map(move |host| {
        let labels = host.labels.iter().map(|(key, value)| ("label", format!("{key}={value}")));
        Some(SearchResult {
            matched: match_field([("name", host.name.to_string())].into_iter().chain(labels), text)?,
            name: host.name.to_string(),
            href: address::of_host(&host.name),
            kind: "Host".into(),
        })
    })
}

fn find_activities<'r>(region: &'r Region, text: &'r str) -> impl Iterator<Item = SearchResult> + 'r {
    let rollouts = region.rollouts().filter_map(move |rollout| {
        let fields = [("name", name_rollout(region, rollout)), ("ID", rollout.id.to_string())];
        Some(SearchResult {
            matched: match_field(fields, text)?,
            name: name_rollout(region, rollout),
            href: ActivityId::Rollout(rollout.id).href(),
            kind: "Rollout".into(),
        })
    });
    let operations = region.operations().filter_map(move |operation| {
        let fields = [
            ("title", name_operation(region, operation)),
            ("ticket", describe_request(region, operation).unwrap_or_default()),
            ("ID", operation.id.to_string()),
        ];
        Some(SearchResult {
            matched: match_field(fields, text)?,
            name: name_operation(region, operation),
            href: ActivityId::Operation(operation.id).href(),
            kind: "Operation".into(),
        })
    });
    rollouts.chain(operations)
}

fn find_events<'r>(region: &'r Region, text: &'r str) -> impl Iterator<Item = SearchResult> + 'r {
    region.events().filter_map(move |event| {
        let fields = [("ID", words::event_name(event.id)), ("description", event.description.to_string())];
        let names: Vec<String> = event.resources.iter().map(|one| one.name.to_string()).collect();
        Some(SearchResult {
            matched: match_field(fields, text)?,
            name: format!("{} of {}", event.kind.as_str(), join_names(&names)),
            href: format!("/events/{}", words::event_name(event.id)),
            kind: "Event".into(),
        })
    })
}

fn suggest_names(region: &Region, text: &str) -> String {
    let machines = region.machines().map(|machine| (machine.name.to_string(), address::of_machine(machine)));
    let groups = region.groups().map(|group| (group.name.to_string(), address::of_group(group.id)));
    let hosts = region.hosts().map(|host| (host.name.to_string(), address::of_host(&host.name)));
    let all: Vec<(String, String)> = groups.chain(hosts).chain(machines).collect();
    let mut links = Vec::new();
    let mut rest: Vec<&(String, String)> = all.iter().collect();
    while links.len() < SUGGESTIONS_MAX {
        let names = rest.iter().map(|(name, _)| name.as_str());
        let Some(found) = find_nearest(text, names) else { break };
        let Some(place) = rest.iter().position(|(name, _)| name == found) else { break };
        let (name, href) = rest.remove(place);
        links.push(format!(r#"<a href="{}">{}</a>"#, words::escape_html(href), words::escape_html(name)));
    }
    if links.is_empty() {
        return String::new();
    }
    format!("<p>Did you mean {}?</p>", join_names(&links))
}
