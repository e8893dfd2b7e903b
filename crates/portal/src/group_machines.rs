//! The table of the machines of a group: state with its reason, next event, readiness, last poll. Machines that are down come first,
//! then those with the next events. Selected machines can be acted upon.

use std::sync::Arc;

use askama::Template;
use forewarn_api::Action;
use forewarn_core::{Event, Group, GroupKind, HostState, Machine, Power, Region, Status};
use forewarn_widgets::fragment::Fragment;
use forewarn_widgets::panel::Panel;
use forewarn_widgets::query::PageQuery;
use forewarn_widgets::severity::Severity;
use forewarn_widgets::state::MachineState;
use forewarn_widgets::table::{self, Column, SortOrder};
use forewarn_widgets::{address, words};

use super::fleet::{NextEvent, next_event};
use super::handler::{Handler, describe_poll};
use super::page_context::PageContext;
use super::{group_table, selection};
use forewarn_widgets::activity::{find_cause, find_title};

/// Machines per page.
const MACHINES_PER_PAGE: usize = 200;

const COLUMNS: [Column; 9] = [
    Column { key: "", label: "", class: "w4 all" },
    Column { key: "name", label: "Machine", class: "" },
    Column { key: "host", label: "Host", class: "" },
    Column { key: "domain", label: "UD · FD", class: "" },
    Column { key: "state", label: "State", class: "" },
    Column { key: "next", label: "Next event", class: "" },
    Column { key: "", label: "Readiness", class: "" },
    Column { key: "poll", label: "Last poll", class: "r" },
    Column { key: "", label: "Model", class: "" },
];

#[derive(Template)]
#[template(path = "machine_row.html")]
struct MachineRow<'a> {
    id: &'a str,
    vm_id: String,
    sort: &'a str,
    name: String,
    href: String,
    host: Option<(String, String)>,
    domains: (u32, u32),
    state: MachineState,
    /// The class of its mark.
    mark: &'static str,
    /// Why it is down: a text and an address.
    reason: Option<(String, String)>,
    next: Option<NextCell>,
    /// Class and text.
    readiness: (&'static str, &'static str),
    last_poll: String,
    /// None for a group without a model.
    is_outdated: Option<bool>,
    protected: bool,
    /// Whether the visitor's role allows actions on it.
    selectable: bool,
}

struct NextCell {
    href: String,
    kind: &'static str,
    severity: &'static str,
    /// `None`: in progress.
    due: Option<i64>,
}

pub fn render_panel(context: &PageContext, group: &Group, query: &PageQuery, here: &str) -> Panel {
    let region = context.region();
    let order = SortOrder::of(query, &COLUMNS, "next");
    let mut members: Vec<&Arc<Machine>> = region.group_members(group).collect();
    sort(context, &mut members, order);
    let (all, from) = (members.len(), query.number("from"));
    let is_default = order == SortOrder { key: "next", is_descending: false };
    let shown = members.iter().skip(from).take(MACHINES_PER_PAGE).enumerate();
    let rows = shown.map(|(number, machine)| {
        // In the default order, a row does not depend on the others, so that few rows change with an event.
        let sort = if is_default { default_key(region, machine) } else { table::row_key(number) };
        render_row(context, group, machine, &sort)
    });
    let rows = rows.collect();
    let after = if all > MACHINES_PER_PAGE {
        group_table::render_paging(query, here, from, MACHINES_PER_PAGE, all)
    } else {
        String::new()
    };
    Panel::new("machines", "Machines", rows)
        .with_table(render_head(context, group, order, query, here))
        .with_html_after(after + &selection::render_buttons(context, group, here))
        .or_empty_text("No machines. Register one with: forewarn vm create NAME")
}

/// In ascending order, what needs a look comes first. Machines that are alike are sorted by update domain.
fn sort(context: &PageContext, members: &mut [&Arc<Machine>], order: SortOrder<'_>) {
    let region = context.region();
    members.sort_unstable_by_key(|machine| (machine.update_domain, machine.id));
    match order.key {
        "name" => members.sort_by_key(|machine| machine.id),
        "host" => members.sort_by(|one, other| one.host.cmp(&other.host)),
        "domain" => {}
        "state" => members.sort_by_key(|machine| MachineState::of(region, machine)),
        "poll" => members.sort_by_cached_key(|machine| Handler::of(context, machine.id).last_poll()),
        _ => {
            members.sort_by_cached_key(|machine| rank(region, machine));
        }
    }
    if order.is_descending {
        members.reverse();
    }
}

fn rank(region: &Region, machine: &Machine) -> i64 {
    if is_on_failed_host(region, machine) {
        return i64::MIN;
    }
    next_event(region, machine.id).map_or(i64::MAX, NextEvent::rank)
}

/// Whether the machine is stopped because its host is off, and not on request.
fn is_on_failed_host(region: &Region, machine: &Machine) -> bool {
    let host = machine.host.as_ref().and_then(|host| region.host(host));
    machine.power == Power::Stopped && host.is_some_and(|host| host.state == HostState::Failed)
}

/// Why a machine is down, with the page of the cause.
fn find_reason(region: &Region, machine: &Machine) -> Option<(String, String)> {
    if let Some(host) = machine.host.as_ref().filter(|_| is_on_failed_host(region, machine)) {
        return Some((format!("Host {host} is off"), address::of_host(host)));
    }
    let started = region.events_of(machine.id).find(|event| matches!(event.status, Status::Started { .. }))?;
    let cause = find_cause(region, *started.operations.first()?);
    Some((find_title(region, cause), cause.href()))
}

fn default_key(region: &Region, machine: &Machine) -> String {
    let rank = table::number_key(rank(region, machine));
    format!("{rank}-{:04}-{:012}", machine.update_domain, machine.id.0)
}

fn render_head(context: &PageContext, group: &Group, order: SortOrder<'_>, query: &PageQuery, here: &str) -> String {
    let columns = if latest_model(group).is_some() { &COLUMNS[..] } else { &COLUMNS[..COLUMNS.len() - 1] };
    let head = table::render_head(columns, order, query, here);
    if !context.visitor.is_allowed(Action::RestartMachine) {
        return head;
    }
    let all = r#"<input type="checkbox" id="select-all" form="selection" aria-label="Select all machines">"#;
    head.replacen(r#"<span class="vh">Select</span>"#, all, 1)
}

fn render_row(context: &PageContext, group: &Group, machine: &Machine, sort: &str) -> Fragment {
    let region = context.region();
    let id = format!("machine-{}", machine.id.0);
    let handler = Handler::of(context, machine.id);
    let event = first_event(region, machine);
    let state = MachineState::of(region, machine);
    let row = MachineRow {
        id: &id,
        vm_id: machine.vm_id.to_string(),
        sort,
        name: machine.name.to_string(),
        href: address::of_machine(machine),
        host: machine.host.as_ref().map(|host| (host.to_string(), address::of_host(host))),
        domains: (machine.update_domain, machine.fault_domain),
        mark: if is_on_failed_host(region, machine) { "down" } else { state.class() },
        reason: find_reason(region, machine),
        next: event.map(|event| NextCell {
            href: format!("/events/{}", words::event_name(event.id)),
            kind: words::event_kind(event.kind),
            severity: Severity::of(event.kind).class(),
            due: (event.status == Status::Scheduled).then_some(event.not_before.0),
        }),
        readiness: event.map_or(("qq none", "–"), |event| describe_readiness(event)),
        // A machine that is down does not poll, so its last poll says nothing about now.
        last_poll: if state.is_down() { "–".into() } else { describe_poll(context.now, handler.last_poll()) },
        state,
        is_outdated: latest_model(group).map(|latest| machine.model != latest),
        protected: machine.protected,
        selectable: context.visitor.is_allowed(Action::RestartMachine),
    };
    Fragment::render(id.as_str(), sort, &row)
}

/// The event in progress, or the next to start.
fn first_event<'r>(region: &'r Region, machine: &Machine) -> Option<&'r Arc<Event>> {
    region.events_of(machine.id).min_by_key(|event| match event.status {
        Status::Started { .. } | Status::Ended { .. } => i64::MIN,
        Status::Scheduled => event.not_before.0,
    })
}

fn describe_readiness(event: &Event) -> (&'static str, &'static str) {
    match (&event.status, event.is_shown(), event.approval.is_some()) {
        (Status::Started { .. } | Status::Ended { .. }, _, _) => ("qq none", "–"),
        (Status::Scheduled, false, _) => ("q", "no handler"),
        (Status::Scheduled, true, true) => ("green", "ready"),
        (Status::Scheduled, true, false) => ("amber", "not ready"),
    }
}

fn latest_model(group: &Group) -> Option<u32> {
    match &group.kind {
        GroupKind::ScaleSet(set) => Some(set.model_version),
        GroupKind::AvailabilitySet | GroupKind::CloudService => None,
    }
}
