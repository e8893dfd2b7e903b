//! Machines that are down or soon will be, by cause. A deletion is intended, so its machines are counted separately.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use forewarn_api_types::count_of;
use forewarn_core::{
    Event, HostState, MachineId, Name, Operation, OperationId, Power, Region, Request, Status, Timestamp,
};
use forewarn_render::{ActivityId, find_cause, find_title};

use super::address;

/// Events that start within this time should be approved.
pub const SOON: Duration = Duration::from_secs(600);

/// Causes that are named one by one.
const CAUSES_MAX: usize = 4;

/// Kinds of causes. If a machine has several, the first one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CauseKind {
    HostFailure,
    Eviction,
    Rollout,
    Drain,
    Maintenance,
    Request,
    Deletion,
}

/// The reason why a machine is down.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    /// A host that is off.
    Host(Name),
    Activity(CauseKind, ActivityId),
}

/// Why and when a machine goes down or is deleted. If there are several reasons, the least one counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Outage {
    source: Source,
    at: Timestamp,
}

type Machines = BTreeMap<MachineId, Outage>;

#[derive(Default)]
pub struct Outages {
    down: Machines,
    /// Machines that go down within a few minutes.
    soon: Machines,
    /// Machines that are being deleted, or will be within a few minutes.
    deleted: Machines,
}

/// The machines of one cause, or of all causes of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CauseCount {
    pub machines: usize,
    /// For example `Restart of web`, or `7 restarts or redeploys`.
    pub cause: String,
    pub href: String,
    /// Whether all of them stay down until an operator acts.
    pub stays: bool,
}

/// Machines that go down or are deleted within a few minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upcoming {
    pub machines: usize,
    pub first: Timestamp,
    pub last: Timestamp,
}

impl Outages {
    pub fn of(region: &Region, now: Timestamp) -> Outages {
        let mut outages = Outages { down: find_stopped(region), ..Outages::default() };
        for event in region.events() {
            let Some(operation) = event.operations.first().copied() else { continue };
            let (is_started, at) = match &event.status {
                Status::Scheduled => (false, event.not_before),
                Status::Started { at } => (true, *at),
                Status::Ended { .. } => continue,
            };
            if !event.kind.has_impact() || !is_started && at > now + SOON {
                continue;
            }
            let outage = Outage { source: source_of(region, operation), at };
            for resource in event.resources.iter() {
                let is_deleted = region.machine(resource.machine).is_none_or(|machine| event.kind.deletes(machine));
                let machines = match (is_deleted, is_started) {
                    (true, _) => &mut outages.deleted,
                    (false, true) => &mut outages.down,
                    (false, false) => &mut outages.soon,
                };
                let known = machines.entry(resource.machine).or_insert_with(|| outage.clone());
                *known = outage.clone().min(known.clone());
            }
        }
        let Outages { down, soon, deleted } = &mut outages;
        soon.retain(|machine, _| !down.contains_key(machine) && !deleted.contains_key(machine));
        outages
    }

    pub fn down(&self) -> usize {
        self.down.len()
    }

    /// Machines that go down within a few minutes. `None` if there are none.
    pub fn soon(&self) -> Option<Upcoming> {
        find_span(&self.soon)
    }

    /// Machines that are being deleted, or will be within a few minutes. `None` if there are none.
    pub fn deleted(&self) -> Option<Upcoming> {
        find_span(&self.deleted)
    }

    /// The number of machines that this operation or rollout took down.
    pub fn down_by(&self, id: ActivityId) -> usize {
        let is_cause = |outage: &&Outage| matches!(outage.source, Source::Activity(_, cause) if cause == id);
        self.down.values().filter(is_cause).count()
    }

    /// Hosts that are off, each with the machines that are down because of it.
    pub fn stopped_by_host(&self) -> BTreeMap<&Name, Vec<MachineId>> {
        let mut hosts: BTreeMap<&Name, Vec<MachineId>> = BTreeMap::new();
        for (machine, outage) in &self.down {
            match &outage.source {
                Source::Host(host) => hosts.entry(host).or_default().push(*machine),
                Source::Activity(_, _) => {}
            }
        }
        hosts
    }

    /// The number of machines that are down because hardware failed or a host is off. All others are down for planned work.
    pub fn failed(&self) -> usize {
        self.down.values().filter(|outage| outage.is_failure()).count()
    }

    /// The causes of failures.
    pub fn list_failed(&self, region: &Region) -> Vec<CauseCount> {
        count_causes(region, self.down.values().filter(|outage| outage.is_failure()))
    }

    /// The causes of machines that are down for planned work.
    pub fn list_planned(&self, region: &Region) -> Vec<CauseCount> {
        count_causes(region, self.down.values().filter(|outage| !outage.is_failure()))
    }
}

impl Outage {
    fn is_failure(&self) -> bool {
        self.source.kind() == CauseKind::HostFailure
    }
}

impl Source {
    fn kind(&self) -> CauseKind {
        match self {
            Source::Host(_) => CauseKind::HostFailure,
            Source::Activity(kind, _) => *kind,
        }
    }

    fn href(&self) -> String {
        match self {
            Source::Host(host) => address::of_host(host),
            Source::Activity(_, id) => id.href(),
        }
    }

    fn title(&self, region: &Region) -> String {
        match self {
            Source::Host(host) => format!("Host {host} is off"),
            Source::Activity(_, id) => find_title(region, *id),
        }
    }
}

impl CauseKind {
    fn of(operation: &Operation) -> CauseKind {
        match &operation.request {
            Request::Fail { .. } => CauseKind::HostFailure,
            Request::Evict { .. } => CauseKind::Eviction,
            Request::Drain(_) => CauseKind::Drain,
            Request::Maintain { .. } | Request::PerformMaintenance { .. } => CauseKind::Maintenance,
            Request::Restart { .. } | Request::Redeploy { .. } | Request::RecommendRebalance { .. } => {
                CauseKind::Request
            }
            Request::Delete { .. } => CauseKind::Deletion,
        }
    }

    /// Several causes of this kind.
    fn describe_many(self, causes: usize) -> String {
        let noun = match self {
            CauseKind::HostFailure => "host failure",
            CauseKind::Eviction => "eviction",
            CauseKind::Rollout => "rollout",
            CauseKind::Drain => "drain",
            CauseKind::Maintenance => "maintenance operation",
            CauseKind::Request => "user request",
            CauseKind::Deletion => "deletion",
        };
        count_of(causes, noun)
    }
}

/// The number of machines that are down. Every page and update has it, so it is computed without the causes.
pub fn count_down(region: &Region) -> usize {
    let machines = |event: &Arc<Event>| {
        let kind = event.kind;
        let resources = event.resources.iter().filter_map(|resource| region.machine(resource.machine));
        let down = resources.filter(|machine| kind.has_impact() && !kind.deletes(machine));
        down.map(|machine| machine.id).collect::<Vec<_>>()
    };
    let mut down: BTreeSet<MachineId> = region.wanted_effects().flat_map(machines).collect();
    down.extend(find_stopped(region).into_keys());
    down.len()
}

/// Machines that are stopped because their host is off.
fn find_stopped(region: &Region) -> Machines {
    let mut stopped = Machines::new();
    for host in region.hosts().filter(|host| host.state == HostState::Failed) {
        let machines = region.machines_on(&host.name).filter(|machine| machine.power == Power::Stopped);
        let outage = Outage { source: Source::Host(host.name.clone()), at: region.now() };
        stopped.extend(machines.map(|machine| (machine.id, outage.clone())));
    }
    stopped
}

fn source_of(region: &Region, operation: OperationId) -> Source {
    let cause = find_cause(region, operation);
    let kind = match cause {
        ActivityId::Rollout(_) => CauseKind::Rollout,
        ActivityId::Operation(id) => region.operation(id).map_or(CauseKind::Request, |one| CauseKind::of(one)),
    };
    Source::Activity(kind, cause)
}

fn find_span(machines: &Machines) -> Option<Upcoming> {
    let times = || machines.values().map(|outage| outage.at);
    Some(Upcoming { machines: machines.len(), first: times().min()?, last: times().max()? })
}

/// One row per cause, or per kind of cause if there are too many to read.
fn count_causes<'o>(region: &Region, outages: impl Iterator<Item = &'o Outage>) -> Vec<CauseCount> {
    let mut sources: BTreeMap<&Source, usize> = BTreeMap::new();
    for outage in outages {
        *sources.entry(&outage.source).or_default() += 1;
    }
    let mut kinds: BTreeMap<CauseKind, Vec<CauseCount>> = BTreeMap::new();
    for (source, machines) in &sources {
        kinds.entry(source.kind()).or_default().push(CauseCount {
            machines: *machines,
            cause: source.title(region),
            href: source.href(),
            stays: matches!(source, Source::Host(_)),
        });
    }
    for causes in kinds.values_mut() {
        causes.sort_by_cached_key(|cause| (Reverse(cause.machines), cause.cause.clone()));
    }
    if sources.len() <= CAUSES_MAX {
        return kinds.into_values().flatten().collect();
    }
    kinds.into_iter().filter_map(|(kind, causes)| combine_causes(kind, causes)).collect()
}

/// The causes of one kind as one.
fn combine_causes(kind: CauseKind, mut causes: Vec<CauseCount>) -> Option<CauseCount> {
    if causes.len() == 1 {
        return causes.pop();
    }
    Some(CauseCount {
        machines: causes.iter().map(|cause| cause.machines).sum(),
        cause: kind.describe_many(causes.len()),
        href: "/operations?show=running".into(),
        stays: causes.iter().all(|cause| cause.stays),
    })
}
