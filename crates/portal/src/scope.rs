//! The card of an event group: its machines by update domain and fault domain, with their events.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use forewarn_core::{Event, Machine, Power, Region, Scope, Status};

use super::fragment::Fragment;
use super::{address, words};

/// Groups with more machines show counts; their own page lists the machines.
const CHIPS_MAX: usize = 48;

#[derive(Template)]
#[template(path = "scope.html")]
struct ScopeCard {
    id: u64,
    sort: String,
    name: words::ScopeName,
    machines: usize,
    has_handler: bool,
    incarnation: u64,
    scheduled: usize,
    started: usize,
    rows: Vec<DomainRow>,
    /// Too many machines to show each of them.
    crowded: bool,
}

/// An update domain.
struct DomainRow {
    update_domain: u32,
    cells: Vec<DomainCell>,
}

/// A fault domain of an update domain.
struct DomainCell {
    fault_domain: u32,
    chips: Vec<Chip>,
    machines: usize,
    /// Machines with events.
    busy: usize,
}

/// A small link to a machine that shows its status.
pub struct Chip {
    pub name: String,
    pub href: String,
    pub class: &'static str,
    pub title: String,
}

pub fn render_card(region: &Region, scope: &Scope) -> Fragment {
    let name = words::scope(region, scope);
    let members: Vec<&Arc<Machine>> = region.members(scope.id).collect();
    let crowded = members.len() > CHIPS_MAX;
    let live = || scope.live.iter().filter_map(|id| region.event(*id));
    let started = live().filter(|event| matches!(event.status, Status::Started { .. })).count();
    let id = scope.id.0;
    let sort = format!("{}-{id:012}", name.name.to_lowercase());
    let card = ScopeCard {
        id,
        sort: sort.clone(),
        name,
        machines: members.len(),
        has_handler: region.is_on(scope.id),
        incarnation: scope.incarnation,
        scheduled: live().count() - started,
        started,
        rows: group_by_domain(region, &members, crowded),
        crowded,
    };
    Fragment::render(format!("scope-{id}"), sort, &card)
}

fn group_by_domain(region: &Region, members: &[&Arc<Machine>], crowded: bool) -> Vec<DomainRow> {
    let mut grid: BTreeMap<u32, BTreeMap<u32, DomainCell>> = BTreeMap::new();
    for machine in members {
        let row = grid.entry(machine.update_domain).or_default();
        let fault_domain = machine.fault_domain;
        let cell =
            row.entry(fault_domain).or_insert(DomainCell { fault_domain, chips: Vec::new(), machines: 0, busy: 0 });
        cell.machines += 1;
        cell.busy += usize::from(region.events_of(machine.id).next().is_some());
        if !crowded {
            cell.chips.push(chip_of(region, machine));
        }
    }
    grid.into_iter()
        .map(|(update_domain, cells)| DomainRow { update_domain, cells: cells.into_values().collect() })
        .collect()
}

/// The chip of a machine.
pub fn chip_of(region: &Region, machine: &Machine) -> Chip {
    let events: Vec<&Arc<Event>> = region.events_of(machine.id).collect();
    let started = events.iter().find(|event| matches!(event.status, Status::Started { .. }));
    let (class, what) = match (started, events.first()) {
        (Some(event), _) => ("started", format!("{} in progress", event.kind.as_str())),
        (None, Some(event)) => ("scheduled", format!("{} scheduled", event.kind.as_str())),
        (None, None) => match machine.power {
            Power::Running => ("running", "running".to_owned()),
            Power::Stopped | Power::Deallocated => ("off", words::power(machine.power).to_owned()),
        },
    };
    Chip {
        name: machine.name.to_string(),
        href: address::of_machine(machine),
        class,
        title: format!("{}: {what}", machine.name),
    }
}
