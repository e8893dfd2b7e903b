//! A scope as a card: its machines by update domain and fault domain, and what they are in for.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use forewarn_core::{Event, Machine, Power, Region, Scope, Status};

use super::page::Fragment;
use super::words;

/// A scope with more machines is shown as numbers; its own page lists them.
const CHIPS_MAX: usize = 48;

#[derive(Template)]
#[template(path = "scope.html")]
struct Card {
    id: u64,
    sort: String,
    name: words::ScopeName,
    machines: usize,
    listening: bool,
    incarnation: u64,
    scheduled: usize,
    started: usize,
    rows: Vec<Row>,
    /// Too many machines to show each.
    crowded: bool,
}

struct Row {
    update_domain: u32,
    cells: Vec<Cell>,
}

struct Cell {
    fault_domain: u32,
    chips: Vec<Chip>,
    machines: usize,
    busy: usize,
}

pub struct Chip {
    pub name: String,
    pub href: String,
    pub class: &'static str,
    pub about: String,
}

pub fn card(region: &Region, scope: &Scope) -> Fragment {
    let name = words::scope(region, scope);
    let members: Vec<&Arc<Machine>> = region.members(scope.id).collect();
    let crowded = members.len() > CHIPS_MAX;
    let live = || scope.live.iter().filter_map(|id| region.event(*id));
    let started = live().filter(|event| matches!(event.status, Status::Started { .. })).count();
    let id = scope.id.0;
    let sort = format!("{}-{id:012}", name.name.to_lowercase());
    let card = Card {
        id,
        sort: sort.clone(),
        name,
        machines: members.len(),
        listening: region.is_on(scope.id),
        incarnation: scope.incarnation,
        scheduled: live().count() - started,
        started,
        rows: rows(region, &members, crowded),
        crowded,
    };
    Fragment::of(format!("scope-{id}"), sort, &card)
}

fn rows(region: &Region, members: &[&Arc<Machine>], crowded: bool) -> Vec<Row> {
    let mut grid: BTreeMap<u32, BTreeMap<u32, Cell>> = BTreeMap::new();
    for machine in members {
        let row = grid.entry(machine.update_domain).or_default();
        let fault_domain = machine.fault_domain;
        let cell = row.entry(fault_domain).or_insert(Cell { fault_domain, chips: Vec::new(), machines: 0, busy: 0 });
        cell.machines += 1;
        cell.busy += usize::from(region.events_of(machine.id).next().is_some());
        if !crowded {
            cell.chips.push(chip(region, machine));
        }
    }
    grid.into_iter().map(|(update_domain, cells)| Row { update_domain, cells: cells.into_values().collect() }).collect()
}

pub fn chip(region: &Region, machine: &Machine) -> Chip {
    let events: Vec<&Arc<Event>> = region.events_of(machine.id).collect();
    let started = events.iter().find(|event| matches!(event.status, Status::Started { .. }));
    let (class, what) = match (started, events.first()) {
        (Some(event), _) => ("started", format!("{} under way", words::kind(event.kind))),
        (None, Some(event)) => ("scheduled", format!("{} scheduled", words::kind(event.kind))),
        (None, None) => match machine.power {
            Power::Running => ("running", "running".to_owned()),
            Power::Stopped | Power::Deallocated => ("off", words::power(machine.power).to_owned()),
        },
    };
    Chip {
        name: machine.name.to_string(),
        href: words::machine_href(machine),
        class,
        about: format!("{}: {what}", machine.name),
    }
}
