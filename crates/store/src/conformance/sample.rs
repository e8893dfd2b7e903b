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
    all.extend(full_hosts().map(|host| Entity::Host(Arc::new(host))));
    all.extend(rollouts().into_iter().map(|rollout| Entity::Rollout(Arc::new(rollout))));
    all.extend(groups());
    all.extend((1..=MACHINES).map(scope));
    all.extend((1..=MACHINES).map(machine));
    all.extend(events());
    all.extend(operations());
    all.sort_by_key(Entity::key);
    all
}

pub fn meta() -> Entity {
    Entity::Meta(RegionMeta {
        now: at(600),
        next_id: 100,
        next_seq: 50,
        resumed: at(590),
        downtime_ms: 12_345,
        revision: 77,
        pool_given: 7,
        term: 3,
    })
}

pub fn host(name: &str) -> Entity {
    Entity::Host(Arc::new(Host::new(name.into())))
}

/// Hosts with every state, and with every contact to an agent.
fn full_hosts() -> [Host; 3] {
    let plain = Host::new("host-c".into());
    let labels = [("rack".into(), "7".into()), ("zone".into(), "ä b".into())];
    let draining = Host {
        pool: "spare".into(),
        labels: labels.into_iter().collect(),
        memory_mib: Some(65_536),
        state: HostState::Draining,
        contact: Contact::Confirmed { revision: 70 },
        ..plain.clone()
    };
    let drained = Host { name: "host-d".into(), state: HostState::Drained, ..plain.clone() };
    let contact = Contact::Lost { since: at(580), revision: 60 };
    let failed = Host { name: "host-e".into(), state: HostState::Failed, contact, epoch: 2, ..plain };
    [draining, drained, failed]
}

const ROLLOUT_ID: RolloutId = Guid(0x7000);

/// Rollouts with every action, state, reason and step.
pub fn rollouts() -> Vec<Rollout> {
    let states = [
        RolloutState::Planned,
        RolloutState::Running,
        RolloutState::Waiting,
        RolloutState::Paused,
        RolloutState::Finished { at: at(560) },
        RolloutState::Stopped { at: at(561), by: "bob".into() },
        RolloutState::Failed { at: at(562) },
        RolloutState::Planned,
    ];
    let waits = [
        Wait::Window { opens: at(4000) },
        Wait::Pause { until: at(3000) },
        Wait::Availability { group: "web".into(), unavailable: 2, max: 3 },
        Wait::Capacity { machine: "Machine-1".into() },
        Wait::Approvals,
        Wait::Host("host-c".into()),
        Wait::Paused,
        Wait::Start { until: at(3600) },
    ];
    let actions = [
        RolloutAction::Freeze,
        RolloutAction::Reboot,
        RolloutAction::Redeploy,
        RolloutAction::Drain { to: Some("spare".into()), machines_parallel: 4, in_place: true },
    ];
    let rollout = |(n, (state, wait)): (usize, (RolloutState, Wait))| Rollout {
        id: Guid(ROLLOUT_ID.0 + n as u128),
        seq: 40 + n as u64,
        requested_by: "ann".into(),
        created: at(n as i64),
        plan: plan_of_rollout(actions[n % actions.len()].clone(), n == 0),
        state,
        targets: targets(n),
        operation: (n == 6).then(|| operation_id(12)),
        first_event: (n == 6).then(|| event_id(60)),
        steps: steps(n),
        waits_for: (n != 1).then_some(wait),
        failures: n as u32,
        paused_until: (n == 2).then(|| at(3000)),
        wake: (n == 0).then(|| at(4000)),
        requested: n as u64,
    };
    states.into_iter().zip(waits).enumerate().map(rollout).collect()
}

fn plan_of_rollout(action: RolloutAction, is_full: bool) -> RolloutPlan {
    let zone = Zone { name: "Europe/Berlin".into(), offsets: vec![(at(0), 3600), (at(7_500_000), 7200)] };
    let window = Window { days: Weekdays::new([5, 6]), start_minute: 1320, end_minute: 240, zone };
    RolloutPlan {
        action,
        at: is_full.then(|| at(4500)),
        parallel: 2,
        pause: Duration::from_secs(600),
        windows: if is_full { vec![window] } else { Vec::new() },
        unavailable_max: is_full.then_some(1),
        failures_max: 3,
        notice: is_full.then_some(Duration::from_secs(1800)),
        duration_secs: is_full.then_some(20),
        description: is_full.then(|| "TICKET-7".into()),
    }
}

fn targets(n: usize) -> RolloutTargets {
    let machines = (1..=6).map(MachineId).collect();
    match n {
        7 => RolloutTargets::Machines(machines),
        6 => RolloutTargets::MachinesByDomain(machines),
        0 => RolloutTargets::Groups(vec![AVAILABILITY_SET]),
        _ => RolloutTargets::Hosts((0..6).map(|k| format!("host-{n}-{k}").into()).collect()),
    }
}

fn steps(n: usize) -> Vec<RolloutStep> {
    use StepState::{Canceled, Failed, InProgress, Pending, Skipped, Succeeded};
    let states = [Pending, InProgress, Succeeded, Failed, Skipped, Canceled];
    let (is_drain, two) = (n % 4 == 3, vec![MachineId(1), MachineId(2)]);
    let step = |(k, state): (usize, StepState)| RolloutStep {
        target: match n {
            7 => StepTarget::Machine(MachineId(k as u64 + 1)),
            6 => StepTarget::Machines { domain: k as u32, machines: vec![MachineId(k as u64 + 1), MachineId(6)] },
            0 => StepTarget::Domain { group: AVAILABILITY_SET, domain: k as u32 },
            _ => StepTarget::Host(format!("host-{n}-{k}").into()),
        },
        state,
        operation: (k == 1).then(|| operation_id(11)),
        first_part: if (n, k) == (6, 1) { 2 } else { 0 },
        started: (k > 0).then(|| at(100 + k as i64)),
        ended: (k > 1).then(|| at(200 + k as i64)),
        withdrawn: k == 1,
        handled: if k == 1 && !is_drain { two.clone() } else { Vec::new() },
        failed: match (n, k) {
            (_, 1) if is_drain => two.clone(),
            (1, 3) => vec![MachineId(2)],
            _ => Vec::new(),
        },
        retry: ((n, k) == (1, 0)).then(|| operation_id(13)),
    };
    states.into_iter().enumerate().map(step).collect()
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
        membership: membership(n),
        host: (!plain).then(|| "host-a".into()),
        update_domain: n as u32 % 5,
        fault_domain: n as u32 % 2,
        zone: (!plain).then(|| "1".into()),
        priority: if n == 4 { Priority::Spot } else { Priority::Regular },
        eviction: if n == 4 { EvictionPolicy::Delete } else { EvictionPolicy::Deallocate },
        power: [Power::Running, Power::Stopped, Power::Deallocated][n as usize % 3],
        addresses: if plain { Addresses::default() } else { addresses(n as u8).into() },
        terminate: (!plain).then(terminate),
        model: n as u32,
        protected: n == 5,
        memory_mib: if n == 5 { 4096 } else { 0 },
        live_migratable: n != 5,
        policy: (n == 6).then(|| policy(true)),
        details: if plain { Arc::default() } else { details(n) },
        transfer: transfer(n),
    }))
}

fn transfer(n: u64) -> Option<Box<MachineTransfer>> {
    let change = |to, failure| Some(PowerChange { order: Guid(0xc0de + u128::from(n)), to, failure });
    let transfer = match n {
        4 => MachineTransfer { power_change: change(Power::Deallocated, None), ..MachineTransfer::default() },
        5 => MachineTransfer {
            power_change: change(Power::Stopped, Some("no answer".into())),
            ..MachineTransfer::default()
        },
        6 => {
            let claims = vec!["host-c".into()];
            let arriving = Some("host-b".into());
            MachineTransfer { withdrawn: Some(event_id(8)), arriving, claims, power_change: None }
        }
        _ => return None,
    };
    Some(Box::new(transfer))
}

fn membership(n: u64) -> Membership {
    match n {
        1 => Membership::AvailabilitySet(AVAILABILITY_SET),
        2 => Membership::RoleInstance { service: CLOUD_SERVICE, role: "web".into() },
        4 => Membership::Instance { set: UNIFORM_SET, number: Some(4) },
        5 => Membership::Instance { set: FLEXIBLE_SET, number: None },
        _ => Membership::Standalone,
    }
}

fn home() -> Arc<ResourceGroupRef> {
    Arc::new(ResourceGroupRef { subscription: "subscription-1".into(), resource_group: "Group-1".into() })
}

fn addresses(n: u8) -> Vec<Address> {
    vec![
        Address { network: "default".into(), ip: Ipv4Addr::new(10, 0, 0, n).into() },
        Address { network: "other".into(), ip: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n.into()).into() },
    ]
}

fn terminate() -> Arc<TerminateProfile> {
    Arc::new(TerminateProfile { timeout: Duration::from_secs(300), text: "PT5M".into() })
}

fn policy(all: bool) -> EventsPolicy {
    EventsPolicy { approve_user_reboot: all, approve_user_redeploy: !all, approve_all_instances_down: all }
}

fn details(n: u64) -> Arc<Details> {
    let shared = SharedDetails {
        location: "nowhere".into(),
        size: "Standard_D2s_v5".into(),
        os_type: "Linux".into(),
        publisher: "somebody".into(),
        offer: "something".into(),
        sku: "22_04".into(),
        image_version: "1.2.3".into(),
        tags: [("env".into(), "täst".into()), ("empty".into(), "".into())].into(),
    };
    Arc::new(Details {
        computer_name: format!("machine-{n}").into(),
        mac: format!("00224800000{n}").into(),
        shared: Arc::new(shared),
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
    let owner = match membership(n).group() {
        Some(group) => ScopeOwner::Group { group, part: 0 },
        None => ScopeOwner::Machine(MachineId(n)),
    };
    let switch = if n.is_multiple_of(2) { EventsState::Off } else { EventsState::On { seen: at(n as i64) } };
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
    let attended = match &status {
        Status::Started { at } => *at,
        Status::Scheduled | Status::Ended { .. } => at(n as i64),
    };
    Event {
        id: event_id(n),
        seq: n + 1,
        subscription: home().subscription.clone(),
        scope: ScopeId(machine),
        kind: [Freeze, Reboot, Redeploy, Preempt, Terminate][n as usize % 5],
        cause: CAUSES[n as usize % CAUSES.len()],
        visibility: if n == 3 { Visibility::Hidden } else { Visibility::Shown },
        status,
        resources: [resource(machine)].into(),
        appeared: at(n as i64),
        not_before: at(900),
        notice_end: if n == 4 { at(950) } else { at(900) },
        notice: if n == 4 { Duration::from_secs(600) } else { at(900).since(at(n as i64)) },
        unseen: n == 4,
        revision: n,
        attended,
        due: n == 1,
        approval: approver(n).map(|by| Approval { by, at: at(300) }),
        description: "Virtual machine is being paused".into(),
        duration_secs: n as i64 - 1,
        operations: std::iter::once(operation_id(n)).chain(joined).collect(),
        cohort: (n == 2).then(|| operation_id(2)),
        moves: if n == 2 { vec![Move { machine: MachineId(machine), to: "host-b".into() }] } else { Vec::new() },
        notice_scale: 60,
        progress: progress(n, MachineId(machine)),
    }
}

fn progress(n: u64, machine: MachineId) -> Vec<MachineProgress> {
    match n {
        1 => vec![MachineProgress { machine, result: MachineResult::Done }],
        2 => vec![MachineProgress { machine, result: MachineResult::Failed("out of memory".into()) }],
        _ => Vec::new(),
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
        requested_by: "ann".into(),
        subscription: home().subscription.clone(),
        request,
        requested_at: at(n as i64),
        state: result.map_or(OperationState::Running, |result| OperationState::Ended { at: at(550), result }),
        parts: parts.into_iter().map(|outcome| OperationEvent { event: event_id(n), outcome }).collect(),
        drain: (n == 11).then(|| DrainProgress {
            settled: vec![MachineId(2)],
            waits_for: Some(Wait::Capacity { machine: "Machine-1".into() }),
        }),
        rollout: match n {
            0 | 10 => Some(operation_id(n)),
            11 => Some(ROLLOUT_ID),
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
        Request::Drain(DrainPlan {
            host: "host-c".into(),
            to: Some("spare".into()),
            parallel: 3,
            unavailable_max: Some(2),
            notice: Some(Duration::from_secs(1800)),
            in_place: true,
            description: Some("new disks".into()),
        }),
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
        stamp: None,
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
        machines: Vec::new(),
        detail: "{\"reason\":\"why not\"}".into(),
    }
}

const ROLLOUT_CHANGES: [RolloutChange; 9] = [
    RolloutChange::Started,
    RolloutChange::StepStarted { step: 1 },
    RolloutChange::StepEnded { step: 2, failure: None },
    RolloutChange::Waiting,
    RolloutChange::Paused,
    RolloutChange::Resumed,
    RolloutChange::Stopped,
    RolloutChange::Failed,
    RolloutChange::Finished,
];

/// Facts of every kind and outcome.
pub fn facts() -> Vec<Fact> {
    let live = Arc::new(event(1, Status::Started { at: at(400) }));
    let Entity::Machine(machine) = machine(3) else { unreachable!("it is a machine") };
    let mut all =
        vec![FactKind::ScopeOn(ScopeId(3)), FactKind::MachineAdded(machine.clone()), FactKind::Appeared(live.clone())];
    let approvers = [1, 2, 4].into_iter().filter_map(approver);
    all.extend(approvers.map(|by| FactKind::Approved { event: live.clone(), by }));
    all.push(FactKind::Started(live));
    all.extend(
        outcomes()
            .into_iter()
            .enumerate()
            .map(|(n, outcome)| FactKind::Ended(Arc::new(event(n as u64 + 2, Status::Ended { at: at(500), outcome })))),
    );
    all.extend(operations().into_iter().filter_map(|entity| match entity {
        Entity::Operation(operation) if operation.state != OperationState::Running => {
            Some(FactKind::OperationEnded(operation))
        }
        _ => None,
    }));
    all.extend([FactKind::MachineRemoved(machine), FactKind::ScopeOff(ScopeId(3))]);
    let rollout = Arc::new(rollouts().remove(0));
    all.extend(ROLLOUT_CHANGES.map(|change| FactKind::RolloutChanged { rollout: rollout.clone(), change }));
    all.extend(full_hosts().map(|host| FactKind::HostChanged(Arc::new(host))));
    all.into_iter().enumerate().map(|(n, what)| Fact { at: at(n as i64), what }).collect()
}
