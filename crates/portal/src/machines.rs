//! The table of all machines.

use askama::Template;
use forewarn_core::{Machine, Power};
use forewarn_widgets::fragment::Fragment;
use forewarn_widgets::panel::{PageContent, Panel};
use forewarn_widgets::query::PageQuery;
use forewarn_widgets::severity::Severity;
use forewarn_widgets::table::{self, Column, SortOrder};
use forewarn_widgets::{address, words};

use super::fleet::{NextEvent, next_event};
use super::group_table;
use super::handler::{Handler, describe_poll};
use super::page_context::PageContext;

const HERE: &str = "/machines";

/// Rows per page.
const ROWS_MAX: usize = 100;

const COLUMNS: [Column; 7] = [
    Column { key: "name", label: "Name", class: "" },
    Column { key: "group", label: "Group", class: "" },
    Column { key: "host", label: "Host", class: "" },
    Column { key: "power", label: "Power", class: "" },
    Column { key: "next", label: "Next event", class: "" },
    Column { key: "", label: "Handler", class: "" },
    Column { key: "", label: "Last poll", class: "r" },
];

#[derive(Template)]
#[template(path = "fleet_machine_row.html")]
struct MachineLine<'a> {
    id: &'a str,
    sort: &'a str,
    name: String,
    href: String,
    group: Option<(String, String)>,
    host: Option<(String, String)>,
    power: &'static str,
    is_running: bool,
    next: Option<NextEvent>,
    severity: &'static str,
    handler: &'static str,
    class: &'static str,
    last_poll: String,
}

pub fn render(context: &PageContext, query: &PageQuery) -> PageContent {
    let region = context.region();
    let search = query.text("q").to_lowercase();
    let mut found: Vec<&Machine> = region
        .machines()
        .map(|machine| &**machine)
        .filter(|machine| search.is_empty() || machine.name.to_lowercase().contains(&search))
        .collect();
    let order = SortOrder::of(query, &COLUMNS, "name");
    let group =
        |machine: &Machine| machine.membership.group().and_then(|id| region.group(id)).map(|group| group.name.clone());
    match order.key {
        "group" => found.sort_by_cached_key(|machine| (group(machine), machine.name.to_lowercase())),
        "host" => found.sort_by_cached_key(|machine| (machine.host.clone(), machine.name.to_lowercase())),
        "power" => found.sort_by_key(|machine| machine.power == Power::Running),
        "next" => found.sort_by_cached_key(|machine| next_event(region, machine.id).map_or(i64::MAX, NextEvent::rank)),
        _ => found.sort_by_cached_key(|machine| machine.name.to_lowercase()),
    }
    if order.is_descending {
        found.reverse();
    }
    let from = query.number("from");
    let rows = found.iter().skip(from).take(ROWS_MAX).enumerate();
    let rows = rows.map(|(number, machine)| render_row(context, machine, number)).collect();
    let filter = format!(
        r#"<div class="filters-row"><form method="get" action="{HERE}" class="filter-form"><label class="vh" for="filter-name">Filter by name</label><input id="filter-name" type="search" name="q" value="{}" placeholder="Filter by name"> <button>Filter</button></form></div>"#,
        words::escape_html(query.text("q"))
    );
    let panel = Panel::new("machines", "Machines", rows)
        .with_table(table::render_head(&COLUMNS, order, query, HERE))
        .with_html_before(filter)
        .with_html_after(group_table::render_paging(query, HERE, from, ROWS_MAX, found.len()))
        .or_empty_text("No matching machines. Register one with: forewarn vm create NAME");
    PageContent::new("Machines", vec![panel])
}

fn render_row(context: &PageContext, machine: &Machine, number: usize) -> Fragment {
    let region = context.region();
    let (id, sort) = (format!("machine-{}", machine.id.0), table::row_key(number));
    let polls = Handler::of(context, machine.id);
    let (handler, class) = match (region.is_on(machine.scope), polls.is_polling) {
        (_, true) => ("polling", ""),
        (true, false) => ("connected in its group", "wait"),
        (false, false) => ("no handler", "idle"),
    };
    let next = next_event(region, machine.id);
    let group = machine.membership.group().and_then(|id| region.group(id));
    let line = MachineLine {
        id: &id,
        sort: &sort,
        name: words::machine_name(region, machine),
        href: address::of_machine(machine),
        group: group.map(|group| (region.group_label(group), address::of_group(group.id))),
        host: machine.host.as_ref().map(|host| (host.to_string(), address::of_host(host))),
        power: words::power(machine.power),
        is_running: machine.power == Power::Running,
        next,
        severity: next.map_or("", |next| Severity::of(next.kind).class()),
        handler,
        class,
        last_poll: describe_poll(context.now, polls.last_poll()),
    };
    Fragment::render(id.as_str(), sort.as_str(), &line)
}
