//! The groups of the fleet with their availability, next event and handlers. A standalone machine is a group of one.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use forewarn_core::{
    AvailabilityLimit, Event, EventKind, Group, GroupId, GroupKey, Machine, MachineId, Power, Region, Status, Timestamp,
};
use forewarn_widgets::{address, words};

use super::handler::Handler;
use super::page_context::PageContext;

pub struct FleetGroup {
    pub key: GroupKey,
    pub name: String,
    pub href: String,
    pub kind: String,
    pub machines: usize,
    /// Machines that run without impact.
    pub up: usize,
    pub next: Option<NextEvent>,
    /// Whether a handler has read the document, so that events get notice.
    pub has_handler: bool,
    /// Machines that are up and whose handler polls. Polls of a machine that is down are no longer current.
    pub polling: usize,
    pub last_poll: Option<Timestamp>,
    /// Its floor, computed on first use: most groups have all their machines up.
    floor: OnceLock<usize>,
    /// The strictest limit of the drains and rollouts in progress, computed on first use.
    limit: OnceLock<Option<AvailabilityLimit>>,
}

/// The event of a group that starts first, or is in progress.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NextEvent {
    pub kind: EventKind,
    /// `None`: in progress.
    pub due: Option<Timestamp>,
}

impl NextEvent {
    fn of(event: &Event) -> Option<NextEvent> {
        match event.status {
            Status::Scheduled => Some(NextEvent { kind: event.kind, due: Some(event.not_before) }),
            Status::Started { .. } => Some(NextEvent { kind: event.kind, due: None }),
            Status::Ended { .. } => None,
        }
    }

    /// Events in progress come first, then the next to start.
    pub fn rank(self) -> i64 {
        self.due.map_or(i64::MIN, |due| due.0)
    }
}

impl FleetGroup {
    /// The number of machines that must stay up.
    pub fn floor(&self, region: &Region) -> usize {
        let stays = |machine: &Machine| {
            let is_started = |event: &&Arc<Event>| matches!(event.status, Status::Started { .. });
            !region.events_of(machine.id).filter(is_started).any(|event| event.kind.deletes(machine))
        };
        *self.floor.get_or_init(|| region.find_floor(self.key, stays) as usize)
    }

    /// The strictest limit of the drains and rollouts in progress.
    pub fn limit(&self, region: &Region) -> Option<AvailabilityLimit> {
        *self.limit.get_or_init(|| region.find_strictest_limit(self.key))
    }

    /// The class of the number of machines that are up.
    pub fn class(&self, region: &Region, up: usize) -> &'static str {
        if up == self.machines { "green" } else { floor_class(up, self.floor(region)) }
    }
}

/// Red below the floor or without any machine, amber otherwise.
pub fn floor_class(up: usize, floor: usize) -> &'static str {
    if up == 0 || up < floor { "red" } else { "amber" }
}

/// Every group, by kind and name.
pub fn list_groups(context: &PageContext) -> Vec<FleetGroup> {
    let region = context.region();
    let affected = find_affected(region);
    let mut groups: BTreeMap<GroupKey, FleetGroup> = BTreeMap::new();
    for group in region.groups() {
        groups.insert(GroupKey::Group(group.id), blank_group(region, group));
    }
    for machine in region.machines() {
        let key = GroupKey::of(machine);
        let group = groups.entry(key).or_insert_with(|| blank_machine(region, machine));
        group.count(context, machine, affected.get(&machine.id).copied());
    }
    let mut groups: Vec<FleetGroup> = groups.into_values().collect();
    groups.sort_by_cached_key(|group| group.name.to_lowercase());
    groups
}

/// One group.
pub fn of_group(context: &PageContext, group: &Group) -> FleetGroup {
    let region = context.region();
    let mut found = blank_group(region, group);
    for machine in region.group_members(group) {
        found.count(context, machine, next_event(region, machine.id));
    }
    found
}

/// The event of a machine that is in progress, or the next to start.
pub fn next_event(region: &Region, machine: MachineId) -> Option<NextEvent> {
    region.events_of(machine).filter_map(|event| NextEvent::of(event)).min_by_key(|next| next.rank())
}

/// The first event of each machine that has one.
fn find_affected(region: &Region) -> BTreeMap<MachineId, NextEvent> {
    let mut first: BTreeMap<MachineId, NextEvent> = BTreeMap::new();
    for event in region.events() {
        let Some(next) = NextEvent::of(event) else { continue };
        for resource in event.resources.iter() {
            let known = first.entry(resource.machine).or_insert(next);
            if next.rank() < known.rank() {
                *known = next;
            }
        }
    }
    first
}

fn blank_group(region: &Region, group: &Group) -> FleetGroup {
    FleetGroup {
        key: GroupKey::Group(group.id),
        name: region.group_label(group),
        href: address::of_group(group.id),
        kind: words::group_kind(group).into(),
        has_handler: group.scopes.iter().any(|scope| region.is_on(*scope)),
        ..FleetGroup::blank()
    }
}

fn blank_machine(region: &Region, machine: &Machine) -> FleetGroup {
    FleetGroup {
        key: GroupKey::Machine(machine.id),
        name: words::machine_name(region, machine),
        href: address::of_machine(machine),
        kind: "Standalone VM".into(),
        has_handler: region.is_on(machine.scope),
        ..FleetGroup::blank()
    }
}

impl FleetGroup {
    fn blank() -> FleetGroup {
        FleetGroup {
            key: GroupKey::Group(GroupId(0)),
            name: String::new(),
            href: String::new(),
            kind: String::new(),
            machines: 0,
            up: 0,
            next: None,
            has_handler: false,
            polling: 0,
            last_poll: None,
            floor: OnceLock::new(),
            limit: OnceLock::new(),
        }
    }

    fn count(&mut self, context: &PageContext, machine: &Machine, next: Option<NextEvent>) {
        let in_progress = next.filter(|next| next.due.is_none() && next.kind.has_impact()).map(|next| next.kind);
        // A machine that is being deleted is not missing, as for the capacity of a scale set.
        self.machines += usize::from(!in_progress.is_some_and(|kind| kind.deletes(machine)));
        let is_up = machine.power == Power::Running && in_progress.is_none();
        self.up += usize::from(is_up);
        if let Some(next) = next
            && self.next.is_none_or(|known| next.rank() < known.rank())
        {
            self.next = Some(next);
        }
        let handler = Handler::of(context, machine.id);
        self.last_poll = self.last_poll.max(handler.last_poll());
        self.polling += usize::from(is_up && handler.is_polling);
    }
}
