//! Machines that are down or soon will be, by cause. A deletion is intended, so its machines are counted separately.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use forewarn_core::{
    EventKind, HostState, MachineId, Name, Operation, OperationId, Power, Region, Request, Status, Timestamp,
};
use forewarn_widgets::address;
use forewarn_widgets::words::{self, count};

use super::activity;
use super::activity::{ActivityId, find_cause};

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

/// Machines with the first cause of each.
type Machines = BTreeMap<MachineId, Source>;

#[derive(Default)]
pub struct Outages {
    down: Machines,
    /// Machines that go down within a few minutes.
    soon: Machines,
    /// Machines that are being deleted, or will be within a few minutes.
    deleted: Machines,
}

/// The machines of one cause, or of all causes of one kind.
#[derive(Debug, PartialEq, Eq)]
pub struct CauseCount {
    pub machines: usize,
    /// For example `Restart of web`, or `7 restarts or redeploys`.
    pub cause: String,
    pub href: String,
}

impl Outages {
    pub fn of(region: &Region, now: Timestamp) -> Outages {
        let mut outages = Outages { down: find_stopped(region), ..Outages::default() };
        for event in region.events() {
            let Some(operation) = event.operations.first().copied() else { continue };
            let machines = match (&event.status, event.kind) {
                // A recommendation takes no machine down.
                (Status::Ended { .. }, _) | (_, EventKind::SpotRebalanceRecommendation) => continue,
                (Status::Scheduled, _) if event.not_before > now + SOON => continue,
                (Status::Scheduled | Status::Started { .. }, EventKind::Terminate) => &mut outages.deleted,
                (Status::Scheduled, _) => &mut outages.soon,
                (Status::Started { .. }, _) => &mut outages.down,
            };
            let source = source_of(region, operation);
            for resource in event.resources.iter() {
                let known = machines.entry(resource.machine).or_insert_with(|| source.clone());
                *known = source.clone().min(known.clone());
            }
        }
        let Outages { down, soon, deleted } = &mut outages;
        soon.retain(|machine, _| !down.contains_key(machine) && !deleted.contains_key(machine));
        outages
    }

    pub fn down(&self) -> usize {
        self.down.len()
    }

    pub fn soon(&self) -> usize {
        self.soon.len()
    }

    pub fn deleted(&self) -> usize {
        self.deleted.len()
    }

    /// The number of machines that this operation or rollout took down.
    pub fn down_by(&self, id: ActivityId) -> usize {
        self.down.values().filter(|source| matches!(source, Source::Activity(_, cause) if *cause == id)).count()
    }

    /// Hosts that are off, each with the machines that are down because of it.
    pub fn stopped_by_host(&self) -> BTreeMap<&Name, Vec<MachineId>> {
        let mut hosts: BTreeMap<&Name, Vec<MachineId>> = BTreeMap::new();
        for (machine, source) in &self.down {
            match source {
                Source::Host(host) => hosts.entry(host).or_default().push(*machine),
                Source::Activity(_, _) => {}
            }
        }
        hosts
    }

    pub fn list_down(&self, region: &Region) -> Vec<CauseCount> {
        count_causes(region, &self.down)
    }

    pub fn list_soon(&self, region: &Region) -> Vec<CauseCount> {
        count_causes(region, &self.soon)
    }

    pub fn list_deleted(&self, region: &Region) -> Vec<CauseCount> {
        count_causes(region, &self.deleted)
    }

    /// The group that most of the machines are in which go down soon or, if there are none, are down.
    pub fn find_most(&self, region: &Region) -> Option<(usize, words::ScopeName)> {
        let machines = if self.soon.is_empty() { &self.down } else { &self.soon };
        let mut scopes: BTreeMap<forewarn_core::ScopeId, usize> = BTreeMap::new();
        for machine in machines.keys().filter_map(|id| region.machine(*id)) {
            *scopes.entry(machine.scope).or_default() += 1;
        }
        if scopes.len() < 2 {
            return None;
        }
        let (scope, count) = scopes.into_iter().max_by_key(|(_, count)| *count).filter(|(_, count)| *count > 1)?;
        Some((count, words::scope(region, region.scope(scope)?)))
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
            Source::Activity(_, id) => activity::find_title(region, *id),
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
        count(causes, noun)
    }
}

/// The number of machines that are down. Every page and update has it, so it is computed without the causes.
pub fn count_down(region: &Region) -> usize {
    let started = region.wanted_effects().filter(|event| match event.kind {
        EventKind::Terminate | EventKind::SpotRebalanceRecommendation => false,
        EventKind::Freeze | EventKind::Reboot | EventKind::Redeploy | EventKind::Preempt => true,
    });
    let mut down: BTreeSet<MachineId> = started.flat_map(|event| &*event.resources).map(|one| one.machine).collect();
    down.extend(find_stopped(region).into_keys());
    down.len()
}

/// Machines that are stopped because their host is off.
fn find_stopped(region: &Region) -> Machines {
    let mut stopped = Machines::new();
    for host in region.hosts().filter(|host| host.state == HostState::Failed) {
        let machines = region.machines_on(&host.name).filter(|machine| machine.power == Power::Stopped);
        stopped.extend(machines.map(|machine| (machine.id, Source::Host(host.name.clone()))));
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

/// One row per cause, or per kind of cause if there are too many to read.
fn count_causes(region: &Region, machines: &Machines) -> Vec<CauseCount> {
    let mut sources: BTreeMap<&Source, usize> = BTreeMap::new();
    for source in machines.values() {
        *sources.entry(source).or_default() += 1;
    }
    let mut kinds: BTreeMap<CauseKind, Vec<(&Source, usize)>> = BTreeMap::new();
    for (source, machines) in &sources {
        kinds.entry(source.kind()).or_default().push((source, *machines));
    }
    for sources in kinds.values_mut() {
        sources.sort_by_cached_key(|(source, machines)| (Reverse(*machines), source.title(region)));
    }
    let each = |(source, machines): (&Source, usize)| CauseCount {
        machines,
        cause: source.title(region),
        href: source.href(),
    };
    if sources.len() <= CAUSES_MAX {
        return kinds.into_values().flatten().map(each).collect();
    }
    let all = |(kind, sources): (CauseKind, Vec<(&Source, usize)>)| match sources[..] {
        [one] => each(one),
        _ => CauseCount {
            machines: sources.iter().map(|(_, machines)| machines).sum(),
            cause: kind.describe_many(sources.len()),
            href: "/operations?show=running".into(),
        },
    };
    kinds.into_iter().map(all).collect()
}
