//! A small region that contains every variant of every enum, and facts of every kind. Used by the conformance
//! suite and by the fixtures of old versions.
//!
//! The values are part of the stored fixtures and must not change.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use forewarn_core::*;

use crate::{Attachment, Audit, Batch, Owner};

/// 2026-01-01T00:00:00Z.
pub const START: Timestamp = Timestamp::from_secs(1_767_225_600);

/// All entities, in the order of their keys. They are consistent: `Region::load` accepts them.
pub fn entities() -> Vec<Entity> {
    let mut all = vec![meta(), host("host-a"), host("Host \"B\"")];
    all.extend(groups());
    all.extend((1..=MACHINES).map(scope));
    all.extend((1..=MACHINES).map(machine));
    all.extend(events());
    all.extend(operations());
    all.sort_by_key(Entity::key);
    all
}

pub fn meta() -> Entity {
    Entity::Meta(Meta {
        now: at(600),
        next_id: 100,
        next_seq: 50,
        resumed: at(590),
        downtime_ms: 12_345,
        pool_given: 7,
    })
}

pub fn host(name: &str) -> Entity {
    Entity::Host(Arc::new(Host { name: name.into() }))
}

pub fn at(secs: i64) -> Timestamp {
    START + Duration::from_secs(secs as u64)
}

// --- the fleet -----------------------------------------------------------------------------------

const MACHINES: u64 = 6;
const AVAILABILITY_SET: GroupId = GroupId(21);
const CLOUD_SERVICE: GroupId = GroupId(22);
const UNIFORM_SET: GroupId = GroupId(23);
const FLEXIBLE_SET: GroupId = GroupId(24);
const ROLLING_SET: GroupId = GroupId(25);

/// Machine `n`, from 1 to 6. The third is a standalone machine with default properties.
pub fn machine(n: u64) -> Entity {
    let plain = n == 3;
    Entity::Machine(Arc::new(Machine {
        id: MachineId(n),
        vm_id: Guid(0xa000 + u128::from(n)),
        name: format!("Machine-{n}").into(),
        home: home(),
        scope: ScopeId(n),
        seat: seat(n),
        host: (!plain).then(|| "host-a".into()),
        update_domain: n as u32 % 5,
        fault_domain: n as u32 % 2,
        zone: (!plain).then(|| "1".into()),
        priority: if n == 4 { Priority::Spot } else { Priority::Regular },
        eviction: if n == 4 { EvictionPolicy::Delete } else { EvictionPolicy::Deallocate },
        power: [Power::Running, Power::Stopped, Power::Deallocated][n as usize % 3],
        addresses: if plain { Vec::new() } else { addresses(n as u8) },
        terminate: (!plain).then(terminate),
        model: n,
        protected: n == 5,
        policy: (n == 6).then(|| policy(true)),
        details: if plain { Arc::default() } else { details(n) },
    }))
}

fn seat(n: u64) -> Seat {
    match n {
        1 => Seat::AvailabilitySet(AVAILABILITY_SET),
        2 => Seat::RoleInstance { service: CLOUD_SERVICE, role: "web".into() },
        4 => Seat::Instance { set: UNIFORM_SET, number: Some(4) },
        5 => Seat::Instance { set: FLEXIBLE_SET, number: None },
        _ => Seat::Standalone,
    }
}

fn home() -> Home {
    Home { subscription: "subscription-1".into(), resource_group: "Group-1".into() }
}

fn addresses(n: u8) -> Vec<Address> {
    vec![
        Address { network: "default".into(), ip: Ipv4Addr::new(10, 0, 0, n).into() },
        Address { network: "other".into(), ip: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n.into()).into() },
    ]
}

fn terminate() -> TerminateProfile {
    TerminateProfile { timeout: Duration::from_secs(300), text: "PT5M".into() }
}

fn policy(all: bool) -> EventsPolicy {
    EventsPolicy { approve_user_reboot: all, approve_user_redeploy: !all, approve_all_instances_down: all }
}

fn details(n: u64) -> Arc<Details> {
    Arc::new(Details {
        location: "nowhere".into(),
        size: "Standard_D2s_v5".into(),
        os_type: "Linux".into(),
        computer_name: format!("machine-{n}"),
        publisher: "somebody".into(),
        offer: "something".into(),
        sku: "22_04".into(),
        image_version: "1.2.3".into(),
        mac: format!("00224800000{n}"),
        tags: vec![("env".into(), "täst".into()), ("empty".into(), String::new())],
    })
}

fn groups() -> [Entity; 5] {
    use Orchestration::{Flexible, Uniform};
    use UpgradeMode::{Automatic, Manual, Rolling};
    [
        group(AVAILABILITY_SET, GroupKind::AvailabilitySet, vec![ScopeId(1)]),
        group(CLOUD_SERVICE, GroupKind::CloudService, vec![ScopeId(2)]),
        group(UNIFORM_SET, scale_set(Uniform, Manual, Some(100)), vec![ScopeId(4)]),
        group(FLEXIBLE_SET, scale_set(Flexible, Automatic, None), vec![ScopeId(5)]),
        group(ROLLING_SET, scale_set(Uniform, Rolling, None), Vec::new()),
    ]
}

fn group(id: GroupId, kind: GroupKind, scopes: Vec<ScopeId>) -> Entity {
    Entity::Group(Arc::new(Group {
        id,
        name: format!("Set-{}", id.0).into(),
        home: home(),
        kind,
        policy: policy(id == UNIFORM_SET),
        scopes,
        update_domains: 5,
        fault_domains: 2,
        seats_given: 9,
        leaving: id == ROLLING_SET,
    }))
}

fn scale_set(orchestration: Orchestration, upgrade_mode: UpgradeMode, placement_group_max: Option<u32>) -> GroupKind {
    let spot = orchestration == Orchestration::Uniform;
    GroupKind::ScaleSet(Box::new(ScaleSet {
        orchestration,
        upgrade_mode,
        capacity: 1,
        placement_group_max,
        zones: if spot { vec!["1".into(), "2".into()] } else { Vec::new() },
        model: SetModel {
            priority: if spot { Priority::Spot } else { Priority::Regular },
            eviction: EvictionPolicy::Delete,
            terminate: spot.then(terminate),
            details: details(0),
        },
        model_version: 3,
        next_batch: (upgrade_mode == UpgradeMode::Rolling).then(|| at(900)),
    }))
}

/// The scope of machine `n`.
pub fn scope(n: u64) -> Entity {
    let owner = match seat(n).group() {
        Some(group) => ScopeOwner::Group { group, part: 0 },
        None => ScopeOwner::Machine(MachineId(n)),
    };
    let switch = if n.is_multiple_of(2) { Switch::Off } else { Switch::On { seen: at(n as i64) } };
    Entity::Scope(Arc::new(Scope { id: ScopeId(n), owner, switch, incarnation: n * 10, live: Vec::new() }))
}

// --- events and operations -----------------------------------------------------------------------

/// Events with every status, type, cause and outcome.
pub fn events() -> Vec<Entity> {
    let ended = outcomes().map(|outcome| Status::Ended { at: at(500), outcome });
    let statuses = [Status::Scheduled, Status::Started { at: at(400) }].into_iter().chain(ended);
    statuses.enumerate().map(|(n, status)| Entity::Event(Arc::new(event(n as u64, status)))).collect()
}

pub fn event_id(n: u64) -> EventId {
    Guid(0xe000 + u128::from(n))
}

pub fn operation_id(n: u64) -> OperationId {
    Guid(0xf000 + u128::from(n))
}

fn outcomes() -> [Outcome; 7] {
    [
        Outcome::Completed,
        Outcome::Failed("no power".into()),
        Outcome::TimedOut,
        Outcome::Superseded,
        Outcome::NoEffect,
        Outcome::ResourceGone,
        Outcome::Canceled { by: "ann".into() },
    ]
}

/// Event `n` of machine `n % 6 + 1`, requested by operation `n` and, if `n` is odd, joined by `n + 100`.
pub fn event(n: u64, status: Status) -> Event {
    use EventKind::{Freeze, Preempt, Reboot, Redeploy, Terminate};
    let machine = n % MACHINES + 1;
    let joined = (n % 2 == 1).then(|| operation_id(n + 100));
    Event {
        id: event_id(n),
        seq: n + 1,
        subscription: home().subscription,
        scope: ScopeId(machine),
        kind: [Freeze, Reboot, Redeploy, Preempt, Terminate][n as usize % 5],
        cause: CAUSES[n as usize % CAUSES.len()],
        visibility: if n == 3 { Visibility::Hidden } else { Visibility::Shown },
        status,
        resources: [resource(machine)].into(),
        appeared: at(n as i64),
        not_before: at(900),
        notice_end: at(900),
        due: n == 1,
        approval: approver(n).map(|by| Approval { by, at: at(300) }),
        description: "Virtual machine is being paused".into(),
        duration_secs: n as i64 - 1,
        operations: std::iter::once(operation_id(n)).chain(joined).collect(),
        cohort: (n == 2).then(|| operation_id(2)),
        notice_scale: 60,
    }
}

const CAUSES: [Cause; 8] = [
    Cause::HostMaintenance,
    Cause::LiveMigration,
    Cause::UserRestart,
    Cause::UserRedeploy,
    Cause::SelfServiceMaintenance,
    Cause::HardwareFailure,
    Cause::Eviction,
    Cause::Deletion,
];

fn resource(machine: u64) -> Resource {
    let name = format!("Machine-{machine}").into();
    Resource { machine: MachineId(machine), name, role_instance: machine == 2 }
}

fn approver(n: u64) -> Option<Approver> {
    match n {
        1 => Some(Approver::Guest { machine: MachineId(2), name: "Machine-2".into() }),
        2 => Some(Approver::Management("bob".into())),
        4 => Some(Approver::Policy),
        _ => None,
    }
}

/// Operations with every request and every result.
pub fn operations() -> Vec<Entity> {
    let requests = requests();
    let running = requests.into_iter().enumerate().map(|(n, request)| operation(n as u64, request, None));
    let results = [
        OperationResult::Succeeded,
        OperationResult::Failed(Outcome::TimedOut),
        OperationResult::Canceled { by: "ann".into() },
    ];
    let ended = results.into_iter().enumerate().map(|(n, result)| {
        let restart = Request::Restart { machines: vec![MachineId(1)] };
        operation(n as u64 + 50, restart, Some(result))
    });
    running.chain(ended).map(|operation| Entity::Operation(Arc::new(operation))).collect()
}

pub fn operation(n: u64, request: Request, result: Option<OperationResult>) -> Operation {
    let parts = [None, Some(Outcome::Failed("no power".into()))];
    Operation {
        id: operation_id(n),
        by: "ann".into(),
        subscription: home().subscription,
        request,
        asked: at(n as i64),
        state: result.map_or(OperationState::Running, |result| OperationState::Ended { at: at(550), result }),
        parts: parts.into_iter().map(|outcome| Part { event: event_id(n), outcome }).collect(),
        rollout: match n {
            0 => Some(Rollout { next_domain: 2, resume: Some(at(700)) }),
            1 => Some(Rollout { next_domain: 3, resume: None }),
            _ => None,
        },
        canceled: (n == 2).then(|| "bob".into()),
    }
}

fn requests() -> Vec<Request> {
    let machine = MachineId(1);
    let full = Plan {
        kind: EventKind::Freeze,
        cause: Cause::LiveMigration,
        at: Some(at(1000)),
        notice: Some(Duration::from_millis(1_500)),
        duration_secs: Some(-1),
        description: Some("moves".into()),
    };
    let bare = Plan { at: None, notice: None, duration_secs: None, description: None, ..full.clone() };
    vec![
        Request::Maintain { target: Target::Group(AVAILABILITY_SET), plan: full },
        Request::Maintain { target: Target::Machines(vec![machine]), plan: bare.clone() },
        Request::Fail { target: Target::Host("host-a".into()), kind: EventKind::Redeploy },
        Request::Restart { machines: vec![machine] },
        Request::Redeploy { machines: vec![machine] },
        Request::PerformMaintenance { machines: vec![machine] },
        Request::Evict { machine: MachineId(4) },
        Request::Delete { machines: vec![machine, MachineId(2)], group: Some(AVAILABILITY_SET) },
        Request::Delete { machines: vec![MachineId(3)], group: None },
        Request::Restart { machines: vec![machine, MachineId(2)] },
        Request::Maintain { target: Target::Machines(vec![machine, MachineId(3)]), plan: bare },
    ]
}

// --- history -------------------------------------------------------------------------------------

/// A batch that stores all entities, with an audit row and a fact of every kind, one second apart.
pub fn batch() -> Batch {
    Batch {
        writes: entities().into_iter().map(Write::Put).collect(),
        facts: facts(),
        audit: vec![audit()],
        attachments: attachments(),
    }
}

/// Attachments with every kind of owner, in the order in which stores return them.
pub fn attachments() -> Vec<Attachment> {
    let operation = operations().pop().map(|entity| entity.key());
    let Some(Key::Operation(operation)) = operation else { unreachable!("it is an operation") };
    vec![
        Attachment::put(Owner::Group(UNIFORM_SET), "arm", "{\"sku\":{\"capacity\":2}}"),
        Attachment::put(Owner::Machine(MachineId(3)), "arm", "{}"),
        Attachment::put(Owner::Machine(MachineId(3)), "identity", "\"line\nbreak\""),
        Attachment::put(Owner::Region, "arm/group/Default", ""),
        Attachment::put(Owner::Operation(operation), "arm", "Ünïcode"),
    ]
}

pub fn audit() -> Audit {
    Audit {
        at: at(0),
        actor: "token:admin".into(),
        action: "restart".into(),
        target: "Machine-3".into(),
        detail: "{\"reason\":\"why not\"}".into(),
    }
}

/// Facts of every kind and outcome.
pub fn facts() -> Vec<Fact> {
    let live = Arc::new(event(1, Status::Started { at: at(400) }));
    let Entity::Machine(machine) = machine(3) else { unreachable!("it is a machine") };
    let mut all = vec![What::ScopeOn(ScopeId(3)), What::MachineAdded(machine.clone()), What::Appeared(live.clone())];
    let approvers = [1, 2, 4].into_iter().filter_map(approver);
    all.extend(approvers.map(|by| What::Approved { event: live.clone(), by }));
    all.push(What::Started(live));
    all.extend(
        outcomes()
            .into_iter()
            .enumerate()
            .map(|(n, outcome)| What::Ended(Arc::new(event(n as u64 + 2, Status::Ended { at: at(500), outcome })))),
    );
    all.extend(operations().into_iter().filter_map(|entity| match entity {
        Entity::Operation(operation) if operation.state != OperationState::Running => {
            Some(What::OperationEnded(operation))
        }
        _ => None,
    }));
    all.extend([What::MachineRemoved(machine), What::ScopeOff(ScopeId(3))]);
    all.into_iter().enumerate().map(|(n, what)| Fact { at: at(n as i64), what }).collect()
}
