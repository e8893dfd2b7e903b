//! Every scope with its machines, what is coming, what is under way.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use forewarn_core::{Event, Machine, Region, Scope, Status};

use super::page::{Drawn, Fragment, Panel, Scene};
use super::{timeline, words};

/// Scopes on one page: what a browser draws and a person scans without waiting.
const SCOPES_PER_PAGE: usize = 60;

/// A scope with more machines is shown as numbers; its own page lists them.
const CHIPS_MAX: usize = 48;

#[derive(Template)]
#[template(path = "counts.html")]
struct Counts {
    machines: usize,
    scopes: usize,
    listening: usize,
    scheduled: usize,
    started: usize,
    next: Option<String>,
}

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

#[derive(Template)]
#[template(path = "search.html")]
struct Search<'a> {
    search: &'a str,
    from: usize,
    shown: usize,
    all: usize,
    next: usize,
    before: usize,
}

pub async fn draw(scene: &Scene, search: &str, from: usize) -> Drawn {
    let region = scene.region();
    let mut found: Vec<(bool, words::ScopeName, &Arc<Scope>)> = region
        .scopes()
        .map(|scope| (scope.live.is_empty(), words::scope(region, scope), scope))
        .filter(|(_, name, scope)| search.is_empty() || is_found(region, name, scope, search))
        .collect();
    found.sort_by(|one, other| (one.0, &one.1.name, one.2.id).cmp(&(other.0, &other.1.name, other.2.id)));
    let all = found.len();
    let from = if from < all { from } else { 0 };
    let cards: Vec<Fragment> =
        found.into_iter().skip(from).take(SCOPES_PER_PAGE).map(|(_, name, scope)| card(region, name, scope)).collect();
    let search = Search {
        search,
        from,
        shown: cards.len(),
        all,
        next: from + SCOPES_PER_PAGE,
        before: from.saturating_sub(SCOPES_PER_PAGE),
    };
    let lives = timeline::lives(scene, |_, _| true, |_| true).await;
    let scopes = Panel::new("scopes", "Machines", cards).below(super::sign_in::rendered(&search).0);
    let panels = vec![
        Panel::one("counts", "At a glance", &counts(region)),
        timeline::panel(scene, &lives),
        scopes.or("No machine is found."),
    ];
    Drawn { title: "Overview".into(), lead: String::new(), panels }
}

fn is_found(region: &Region, name: &words::ScopeName, scope: &Scope, search: &str) -> bool {
    let search = search.to_lowercase();
    name.name.to_lowercase().contains(&search)
        || region.members(scope.id).any(|machine| machine.name.to_lowercase().contains(&search))
}

fn counts(region: &Region) -> Counts {
    let live = || region.events().filter(|event| event.is_live());
    let started = live().filter(|event| matches!(event.status, Status::Started { .. })).count();
    let scheduled = || live().filter(|event| event.status == Status::Scheduled);
    let next = scheduled().map(|event| event.not_before).min();
    Counts {
        machines: region.machines().len(),
        scopes: region.scopes().count(),
        listening: region.scopes().filter(|scope| region.is_on(scope.id)).count(),
        scheduled: scheduled().count(),
        started,
        next: next.map(|at| format!(r#"<span data-until="{}">{}</span>"#, at.0, words::time(at))),
    }
}

fn card(region: &Region, name: words::ScopeName, scope: &Scope) -> Fragment {
    let members: Vec<&Arc<Machine>> = region.members(scope.id).collect();
    let crowded = members.len() > CHIPS_MAX;
    let mut grid: BTreeMap<u32, BTreeMap<u32, Cell>> = BTreeMap::new();
    for machine in &members {
        let row = grid.entry(machine.update_domain).or_default();
        let fault_domain = machine.fault_domain;
        let cell = row.entry(fault_domain).or_insert(Cell { fault_domain, chips: Vec::new(), machines: 0, busy: 0 });
        cell.machines += 1;
        cell.busy += usize::from(region.events_of(machine.id).next().is_some());
        if !crowded {
            cell.chips.push(chip(region, machine));
        }
    }
    let rows =
        grid.into_iter().map(|(update_domain, cells)| Row { update_domain, cells: cells.into_values().collect() });
    let live = || scope.live.iter().filter_map(|id| region.event(*id));
    let started = live().filter(|event| matches!(event.status, Status::Started { .. })).count();
    let id = scope.id.0;
    let sort = format!("{}-{}-{id:012}", u8::from(scope.live.is_empty()), name.name);
    let card = Card {
        id,
        sort: sort.clone(),
        name,
        machines: members.len(),
        listening: region.is_on(scope.id),
        incarnation: scope.incarnation,
        scheduled: live().count() - started,
        started,
        rows: rows.collect(),
        crowded,
    };
    Fragment::of(format!("scope-{id}"), sort, &card)
}

pub fn chip(region: &Region, machine: &Machine) -> Chip {
    let events: Vec<&Arc<Event>> = region.events_of(machine.id).collect();
    let started = events.iter().find(|event| matches!(event.status, Status::Started { .. }));
    let (class, what) = match (started, events.first()) {
        (Some(event), _) => ("started", format!("{} under way", words::kind(event.kind))),
        (None, Some(event)) => ("scheduled", format!("{} scheduled", words::kind(event.kind))),
        (None, None) => match machine.power {
            forewarn_core::Power::Running => ("running", "running".to_owned()),
            forewarn_core::Power::Stopped | forewarn_core::Power::Deallocated => {
                ("off", words::power(machine.power).to_owned())
            }
        },
    };
    Chip {
        name: machine.name.to_string(),
        href: words::machine_href(machine),
        class,
        about: format!("{}: {what}", machine.name),
    }
}
