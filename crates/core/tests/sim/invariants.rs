//! Invariants that hold after every step. Each has a name and is checked separately.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use forewarn_core::settings::{EVENTS_PER_SCOPE_MAX, JOINED_MAX, ROLLOUT_RETENTION, SEEN_INTERVAL};
use forewarn_core::*;

use crate::model::notice;
use crate::refusals::scale_set;

/// How long ended events and operations are kept.
const ENDED_RETENTION: Duration = Duration::from_secs(3600);

/// One step: an accepted command, or the passage of time.
pub struct Step<'a> {
    pub before: &'a Region,
    pub after: &'a Region,
    pub transition: &'a Transition,
    pub command: &'a Command,
}

/// Everything that was ever shown.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    events: BTreeMap<EventId, Shown>,
    /// The latest document of each scope. A separate invariant checks that incarnations only increase.
    documents: BTreeMap<ScopeId, (u64, Vec<Line>)>,
}

#[derive(Clone, Debug)]
struct Shown {
    event: Arc<Event>,
    stage: u32,
}

/// One event as a reader sees it.
type Line = (EventId, bool, Option<Timestamp>);

type Invariant = fn(&Step<'_>, &Memory) -> Result<(), String>;

const INVARIANTS: &[(&str, Invariant)] = &[
    ("at most one Started event per machine", one_started_per_machine),
    ("no start before notice without approval", no_early_start),
    ("recommendations end with approval or notice, and never start", recommendations_have_no_impact),
    ("one id, one kind, one list of Resources for life", event_identity_is_stable),
    ("status never goes backwards", never_backwards),
    ("the incarnation grows exactly with the list", incarnation_grows_with_list),
    ("one incarnation, one list", one_incarnation_one_list),
    ("the order of the document is stable", order_is_stable),
    ("Resources are of one update domain and one scope", one_domain_one_scope),
    ("only scopes that are on show events", only_on_scopes_show),
    ("no scope with a shown event goes off", no_off_with_events),
    ("NotBefore is a whole second and gives the least notice", notice_is_given),
    ("limits hold", limits_hold),
    ("the capacity of a set is what stays of it", capacity_is_what_stays),
    ("placement groups are filled from the lowest", placement_groups_are_filled),
    ("indexes agree with the entities", indexes_agree),
    ("nothing due is left", nothing_due_is_left),
    ("facts tell what changed", facts_tell_changes),
    ("effects tell what starts and stops", effects_tell_changes),
    ("operations and events point at each other", operations_and_events_agree),
    ("what is over is forgotten, and nothing else is", over_is_forgotten),
];

pub fn check(step: &Step<'_>, memory: &Memory) -> Result<(), String> {
    for (name, invariant) in INVARIANTS {
        invariant(step, memory).map_err(|what| format!("invariant \"{name}\": {what}"))?;
    }
    Ok(())
}

impl Memory {
    pub fn remember(&mut self, region: &Region) {
        self.events.retain(|id, _| region.event(*id).is_some());
        for event in region.events() {
            let shown = Shown { event: event.clone(), stage: stage(event) };
            self.events.insert(event.id, shown);
        }
        for scope in region.scopes().filter(|scope| scope.incarnation > 0) {
            self.documents.insert(scope.id, (scope.incarnation, list(region, scope.id)));
        }
    }
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

fn list(region: &Region, scope: ScopeId) -> Vec<Line> {
    region.document(scope).map(|event| line(event)).collect()
}

fn line(event: &Event) -> Line {
    let started = is_started(event);
    (event.id, started, (!started).then_some(event.not_before))
}

fn is_started(event: &Event) -> bool {
    matches!(event.status, Status::Started { .. })
}

fn stage(event: &Event) -> u32 {
    match event.status {
        Status::Scheduled => 0,
        Status::Started { .. } => 1,
        Status::Ended { .. } => 2,
    }
}

fn one_started_per_machine(step: &Step<'_>, _: &Memory) -> Result<(), String> {
    let mut taken = BTreeSet::new();
    for event in step.after.events().filter(|event| is_started(event)) {
        for resource in event.resources.iter().filter(|resource| step.after.machine(resource.machine).is_some()) {
            ensure(taken.insert(resource.machine), || format!("{} is in two Started events", resource.name))?;
        }
    }
    Ok(())
}

fn no_early_start(step: &Step<'_>, _: &Memory) -> Result<(), String> {
    for event in step.after.events().filter(|event| event.is_shown() && is_started(event)) {
        if step.before.event(event.id).is_some_and(|before| is_started(before)) {
            continue;
        }
        let had_notice = event.not_before.max(event.notice_end) <= step.after.now() && !event.unseen;
        let decided = event.approval.is_some() || had_notice;
        ensure(decided || event.cause == Cause::HardwareFailure, || format!("{} started early", event.id))?;
        let shared = event.cohort.is_some() || event.kind == EventKind::Terminate;
        let by_guest = matches!(event.approval.as_ref().map(|it| &it.by), Some(Approver::Guest { machine, .. })
            if step.after.machine(*machine).is_some_and(|machine| machine.scope != event.scope));
        ensure(!by_guest || shared, || format!("{} was approved by a machine of another scope", event.id))?;
    }
    Ok(())
}

fn recommendations_have_no_impact(step: &Step<'_>, _: &Memory) -> Result<(), String> {
    for event in step.after.events().filter(|event| event.kind == EventKind::SpotRebalanceRecommendation) {
        ensure(!is_started(event), || format!("{} is a recommendation, but has started", event.id))?;
        let is_completed = matches!(event.status, Status::Ended { outcome: Outcome::Completed, .. });
        let had_notice = event.not_before.max(event.notice_end) <= step.after.now() && !event.unseen;
        ensure(!is_completed || event.approval.is_some() || had_notice, || format!("{} ended early", event.id))?;
    }
    Ok(())
}

fn event_identity_is_stable(step: &Step<'_>, memory: &Memory) -> Result<(), String> {
    for event in step.after.events() {
        if let Some(Shown { event: first, .. }) = memory.events.get(&event.id) {
            let same = first.kind == event.kind
                && first.cause == event.cause
                && first.scope == event.scope
                && first.resources == event.resources
                && first.duration_secs == event.duration_secs
                && first.description == event.description;
            ensure(same, || format!("{} was another event before", event.id))?;
            let kept = first.not_before == event.not_before || !first.is_shown();
            ensure(kept, || format!("{} has another NotBefore", event.id))?;
        }
    }
    Ok(())
}

fn never_backwards(step: &Step<'_>, memory: &Memory) -> Result<(), String> {
    for event in step.after.events() {
        if let Some(shown) = memory.events.get(&event.id) {
            ensure(shown.stage <= stage(event), || format!("{} went backwards", event.id))?;
            let unsaid = shown.event.approval.is_some() && event.approval.is_none() && shown.event.is_shown();
            ensure(!unsaid, || format!("{} lost its approval", event.id))?;
            ensure(!shown.event.is_shown() || event.is_shown(), || format!("{} was hidden again", event.id))?;
        }
    }
    Ok(())
}

fn incarnation_grows_with_list(step: &Step<'_>, _: &Memory) -> Result<(), String> {
    for scope in step.after.scopes() {
        let old = step.before.scope(scope.id);
        let was = old.map_or(0, |old| old.incarnation);
        let changed = list(step.before, scope.id) != list(step.after, scope.id);
        let turned_on = step.after.is_on(scope.id) && was == 0;
        let expected = match (turned_on, changed) {
            (true, _) => 1,
            (false, true) => was + 1,
            (false, false) => was,
        };
        ensure(scope.incarnation == expected, || {
            let number = scope.id.0;
            format!("scope {number} went from {was} to {}, expected {expected} (changed: {changed})", scope.incarnation)
        })?;
    }
    Ok(())
}

fn one_incarnation_one_list(step: &Step<'_>, memory: &Memory) -> Result<(), String> {
    for scope in step.after.scopes() {
        if let Some((incarnation, shown)) = memory.documents.get(&scope.id) {
            let same = *incarnation != scope.incarnation || *shown == list(step.after, scope.id);
            ensure(same, || format!("scope {} showed another list as {}", scope.id.0, scope.incarnation))?;
        }
    }
    Ok(())
}

fn order_is_stable(step: &Step<'_>, _: &Memory) -> Result<(), String> {
    for scope in step.after.scopes() {
        let before: Vec<EventId> = step.before.document(scope.id).map(|event| event.id).collect();
        let after: Vec<EventId> = step.after.document(scope.id).map(|event| event.id).collect();
        let kept: Vec<EventId> = before.into_iter().filter(|id| after.contains(id)).collect();
        ensure(after.starts_with(&kept), || format!("scope {}: {kept:?} became {after:?}", scope.id.0))?;
        let seqs: Vec<u64> = step.after.document(scope.id).map(|event| event.seq).collect();
        ensure(seqs.is_sorted_by(|one, two| one < two), || format!("scope {} is not in order", scope.id.0))?;
    }
    Ok(())
}

fn one_domain_one_scope(step: &Step<'_>, memory: &Memory) -> Result<(), String> {
    for event in step.after.events().filter(|event| !memory.events.contains_key(&event.id)) {
        let machines: Vec<_> = event.resources.iter().filter_map(|it| step.after.machine(it.machine)).collect();
        let domains: BTreeSet<u32> = machines.iter().map(|machine| machine.update_domain).collect();
        ensure(domains.len() <= 1, || format!("{} is of update domains {domains:?}", event.id))?;
        ensure(machines.iter().all(|it| it.scope == event.scope), || format!("{} is of two scopes", event.id))?;
        let ids: Vec<_> = event.resources.iter().map(|it| it.machine).collect();
        ensure(ids.is_sorted_by(|one, two| one < two), || format!("{} lists {ids:?}", event.id))?;
        ensure(!ids.is_empty(), || format!("{} is about nothing", event.id))?;
    }
    Ok(())
}

fn only_on_scopes_show(step: &Step<'_>, _: &Memory) -> Result<(), String> {
    for scope in step.after.scopes() {
        let on = step.after.is_on(scope.id);
        ensure(on || step.after.document(scope.id).next().is_none(), || format!("scope {} is off", scope.id.0))?;
        let waiting = |id: &&EventId| {
            step.after.event(**id).is_some_and(|it| !it.is_shown() && it.status == Status::Scheduled && !it.due)
        };
        ensure(!on || !scope.live.iter().any(|id| waiting(&id)), || format!("scope {} hides work", scope.id.0))?;
    }
    Ok(())
}

fn no_off_with_events(step: &Step<'_>, _: &Memory) -> Result<(), String> {
    for scope in step.after.scopes().filter(|scope| step.before.is_on(scope.id) && !step.after.is_on(scope.id)) {
        ensure(matches!(step.command, Command::Tick | Command::Resume), || "a command turned a scope off".into())?;
        let shows =
            step.before.document(scope.id).any(|event| step.after.event(event.id).is_some_and(|it| it.is_live()));
        ensure(!shows, || format!("scope {} went off", scope.id.0))?;
    }
    Ok(())
}

fn notice_is_given(step: &Step<'_>, memory: &Memory) -> Result<(), String> {
    let settings = step.after.settings();
    for event in step.after.events().filter(|event| event.is_shown() && event.is_live()) {
        let known = memory.events.get(&event.id).is_some_and(|shown| shown.event.is_shown());
        if known || event.cause == Cause::HardwareFailure {
            continue;
        }
        let at = event.not_before;
        ensure(at.0 % 1000 == 0, || format!("{} starts within a second", event.id))?;
        let least = step.after.now() + notice(settings, event.kind);
        ensure(at >= least, || format!("{}: {at:?} is before {least:?}", event.id))?;
    }
    Ok(())
}

fn limits_hold(step: &Step<'_>, _: &Memory) -> Result<(), String> {
    for scope in step.after.scopes() {
        ensure(scope.live.len() <= EVENTS_PER_SCOPE_MAX, || format!("scope {} is too full", scope.id.0))?;
    }
    for event in step.after.events() {
        ensure(event.operations.len() <= JOINED_MAX, || format!("{} was joined too often", event.id))?;
    }
    for group in step.after.groups() {
        let most = scale_set(group).and_then(|set| set.placement_group_max);
        for scope in &group.scopes {
            let count = step.after.members(*scope).count();
            ensure(most.is_none_or(|most| count <= most as usize), || format!("scope {} has {count}", scope.0))?;
        }
    }
    Ok(())
}

fn capacity_is_what_stays(step: &Step<'_>, _: &Memory) -> Result<(), String> {
    for group in step.after.groups() {
        let Some(set) = scale_set(group) else { continue };
        let goes = |machine: &Machine| step.after.events_of(machine.id).any(|it| it.kind == EventKind::Terminate);
        let stay = step.after.group_members(group).filter(|machine| !goes(machine)).count();
        ensure(set.capacity as usize == stay, || format!("{}: {} wanted, {stay} stay", group.name, set.capacity))?;
    }
    Ok(())
}

fn placement_groups_are_filled(step: &Step<'_>, _: &Memory) -> Result<(), String> {
    let grew = |id: MachineId| step.before.machine(id).is_none();
    for machine in step.after.machines().rev().take_while(|machine| grew(machine.id)) {
        let Some(group) = machine.membership.group().and_then(|group| step.after.group(group)) else { continue };
        let Some(most) = scale_set(group).and_then(|set| set.placement_group_max) else { continue };
        for scope in group.scopes.iter().take_while(|scope| **scope != machine.scope) {
            let full = step.after.members(*scope).count() >= most as usize;
            ensure(full, || format!("{} is not in the lowest placement group with room", machine.name))?;
        }
    }
    Ok(())
}

fn indexes_agree(step: &Step<'_>, _: &Memory) -> Result<(), String> {
    let region = step.after;
    let mut live: BTreeMap<MachineId, Vec<EventId>> = BTreeMap::new();
    for event in region.events().filter(|event| event.is_live()) {
        for resource in event.resources.iter() {
            live.entry(resource.machine).or_default().push(event.id);
        }
    }
    for machine in region.machines() {
        machine_is_found(region, machine)?;
        let events = live.remove(&machine.id).unwrap_or_default();
        let found = region.events_of(machine.id).map(|event| event.id);
        ensure(found.eq(events), || format!("events of {}", machine.name))?;
    }
    for gone in step.before.machines().filter(|machine| region.machine(machine.id).is_none()) {
        let vm_id_left = region.machine_by_vm_id(gone.vm_id).is_some_and(|id| id == gone.id);
        ensure(!vm_id_left, || format!("{} is gone but found by its vmId", gone.name))?;
        let left =
            gone.addresses.iter().any(|address| region.machine_by_address(address).is_some_and(|it| it.id == gone.id));
        ensure(!left, || format!("{} is gone but found by its address", gone.name))?;
        ensure(region.events_of(gone.id).all(|event| event.resources.len() > 1), || {
            format!("{} is gone but has events of its own", gone.name)
        })?;
    }
    for group in region.groups() {
        ensure(region.group_by_name(&group.home, &group.name, GroupType::of(group)) == Some(group.id), || {
            format!("group {}", group.name)
        })?;
    }
    for scope in region.scopes() {
        let members = region.machines().filter(|machine| machine.scope == scope.id).map(|machine| machine.id);
        ensure(members.eq(region.members(scope.id).map(|machine| machine.id)), || format!("members {}", scope.id.0))?;
        let mut live: Vec<_> = region.events().filter(|it| it.is_live() && it.scope == scope.id).collect();
        live.sort_by_key(|event| event.seq);
        ensure(live.iter().map(|event| event.id).eq(scope.live.iter().copied()), || format!("live {}", scope.id.0))?;
    }
    for host in region.hosts() {
        let there = region.machines().filter(|machine| machine.host.as_ref() == Some(&host.name)).map(|it| it.id);
        ensure(there.eq(region.machines_on(&host.name).map(|it| it.id)), || format!("machines on {}", host.name))?;
    }
    let started: BTreeSet<EventId> = region.events().filter(|event| is_started(event)).map(|event| event.id).collect();
    let wanted: Vec<EventId> = region.wanted_effects().map(|event| event.id).collect();
    ensure(wanted.len() == started.len() && started == wanted.into_iter().collect(), || "wanted effects".into())?;
    let (ours, theirs) = (next_deadline(region), region.next_deadline());
    ensure(ours == theirs, || format!("next deadline is {theirs:?}, by the entities {ours:?}"))
}

fn machine_is_found(region: &Region, machine: &Machine) -> Result<(), String> {
    let within: Name = match &machine.membership {
        Membership::RoleInstance { service, .. } => {
            region.group(*service).map(|group| group.name.clone()).unwrap_or_default()
        }
        Membership::Standalone | Membership::AvailabilitySet(_) | Membership::Instance { .. } => {
            machine.home.resource_group.clone()
        }
    };
    let found = match region.machine_by_name(&machine.name, Some(&within)) {
        MachineLookup::One(id) => id == machine.id,
        MachineLookup::Many(ids) => ids.contains(&machine.id),
        MachineLookup::Nothing => false,
    };
    ensure(found, || format!("{} is not found by its name", machine.name))?;
    let here = region.machine_at(&machine.home, &machine.name.to_uppercase()).map(|found| found.id);
    let is_role_instance = matches!(machine.membership, Membership::RoleInstance { .. });
    ensure(is_role_instance || here == Some(machine.id), || format!("{} is not found at home", machine.name))?;
    ensure(region.machine_by_vm_id(machine.vm_id) == Some(machine.id), || format!("vmId of {}", machine.name))?;
    for address in machine.addresses.iter() {
        let found = region.machine_by_address(address).map(|it| it.id);
        ensure(found == Some(machine.id), || format!("address of {}", machine.name))?;
    }
    Ok(())
}

/// The next deadline of the entities themselves, without the pulse.
pub fn next_event_deadline(region: &Region) -> Option<Timestamp> {
    let settings = region.settings();
    let events = region.events().filter_map(|event| match event.status {
        Status::Scheduled => (!event.due && !event.unseen).then_some(event.not_before.max(event.notice_end)),
        Status::Started { .. } => Some(event.attended.max(region.meta().resumed) + settings.driver_timeout),
        Status::Ended { at, .. } => Some(at + ENDED_RETENTION),
    });
    let operations = region.operations().filter_map(|operation| match operation.state {
        OperationState::Running => None,
        OperationState::Ended { at, .. } => Some(at + ENDED_RETENTION),
    });
    let batches = region.groups().filter_map(|group| scale_set(group).and_then(|set| set.next_batch));
    let rollouts = region.rollouts().filter_map(|rollout| match rollout.ended_at() {
        Some(at) => Some(at + ROLLOUT_RETENTION),
        None => rollout.wake,
    });
    events.chain(operations).chain(batches).chain(rollouts).min()
}

fn next_deadline(region: &Region) -> Option<Timestamp> {
    let settings = region.settings();
    let idle = region.scopes().filter_map(|scope| match scope.switch {
        EventsState::On { seen } => {
            let idle_at = seen + settings.idle_disable + SEEN_INTERVAL;
            Some(Timestamp(idle_at.0 + region.meta().downtime_ms))
        }
        EventsState::Off => None,
    });
    let idle = idle.min();
    [next_event_deadline(region), idle].into_iter().flatten().min()
}

fn nothing_due_is_left(step: &Step<'_>, _: &Memory) -> Result<(), String> {
    let late = step.after.next_deadline().filter(|at| *at <= step.after.now());
    ensure(late.is_none(), || format!("{late:?} is not after {:?}", step.after.now()))
}

fn facts_tell_changes(step: &Step<'_>, _: &Memory) -> Result<(), String> {
    let mut recorded: Vec<(&str, Guid)> = Vec::new();
    let (mut came, mut went) = (Vec::new(), Vec::new());
    for fact in &step.transition.facts {
        match &fact.what {
            FactKind::Appeared(event) => recorded.push(("appeared", event.id)),
            FactKind::Approved { event, .. } => recorded.push(("approved", event.id)),
            FactKind::Started(event) => recorded.push(("started", event.id)),
            FactKind::Ended(event) => recorded.push(("ended", event.id)),
            FactKind::OperationEnded(operation) => recorded.push(("over", operation.id)),
            FactKind::MachineAdded(machine) => came.push(machine.id),
            FactKind::MachineRemoved(machine) => went.push(machine.id),
            FactKind::RolloutChanged { .. }
            | FactKind::HostChanged(_)
            | FactKind::ScopeOn(_)
            | FactKind::ScopeOff(_) => {}
        }
    }
    let count = |what: &str, id: Guid| recorded.iter().filter(|one| **one == (what, id)).count();
    for event in step.after.events() {
        let before = step.before.event(event.id);
        let (stage_before, shown_before) = before.map_or((0, false), |it| (stage(it), it.is_shown()));
        let ended = usize::from(stage(event) == 2 && stage_before < 2);
        ensure(count("ended", event.id) == ended, || format!("the end of {} was recorded {ended} times", event.id))?;
        let appeared = event.is_shown() && !shown_before && event.is_live();
        ensure(!appeared || count("appeared", event.id) == 1, || format!("{} appeared without a fact", event.id))?;
        let approved = event.approval.is_some() && before.is_none_or(|before| before.approval.is_none());
        ensure(approved || count("approved", event.id) == 0, || format!("{} was not approved", event.id))?;
    }
    for operation in step.after.operations() {
        let running = |operation: &Operation| operation.state == OperationState::Running;
        let over = !running(operation) && step.before.operation(operation.id).is_none_or(|it| running(it));
        ensure(count("over", operation.id) == usize::from(over), || format!("the end of operation {}", operation.id))?;
    }
    let added = step.after.machines().filter(|it| step.before.machine(it.id).is_none()).map(|it| it.id);
    ensure(added.eq(came.iter().copied()), || format!("machines that came: {came:?}"))?;
    went.sort();
    let removed = step.before.machines().filter(|it| step.after.machine(it.id).is_none()).map(|it| it.id);
    ensure(removed.eq(went.iter().copied()), || format!("machines that went: {went:?}"))
}

fn effects_tell_changes(step: &Step<'_>, _: &Memory) -> Result<(), String> {
    let (mut begin, mut stop) = (BTreeSet::new(), BTreeSet::new());
    for effect in &step.transition.effects {
        match effect {
            Effect::Begin(event) => drop(begin.insert(event.id)),
            Effect::Stop(id) => drop(stop.insert(*id)),
        }
    }
    let was = |id: EventId| step.before.event(id).is_some_and(|it| is_started(it));
    for event in step.after.events() {
        let begins = is_started(event) && !was(event.id);
        ensure(!begins || begin.contains(&event.id), || format!("no begin effect for {}", event.id))?;
        let reported = matches!(step.command, Command::Report { event: about, .. } if *about == event.id);
        let stops = !event.is_live() && was(event.id) && !reported;
        ensure(!stops || stop.contains(&event.id), || format!("no stop effect for {}", event.id))?;
    }
    Ok(())
}

fn operations_and_events_agree(step: &Step<'_>, _: &Memory) -> Result<(), String> {
    let region = step.after;
    for event in region.events().filter(|event| event.is_live()) {
        ensure(!event.operations.is_empty(), || format!("no operation requested {}", event.id))?;
        for id in &event.operations {
            let waits = |part: &OperationEvent| part.event == event.id && part.outcome.is_none();
            let known = region.operation(*id).is_some_and(|it| it.parts.iter().any(waits));
            ensure(known, || format!("{} is of operation {id}, which does not wait for it", event.id))?;
        }
    }
    for operation in region.operations().filter(|it| it.state == OperationState::Running) {
        let rollout = operation.rollout.and_then(|id| region.rollout(id));
        let goes_on = rollout.is_some_and(|it| it.operation == Some(operation.id) && it.is_live());
        let resumes = goes_on || operation.drain.is_some();
        let open = operation.parts.iter().filter(|part| part.outcome.is_none());
        let mut open = open.map(|part| region.event(part.event).is_some_and(|event| event.is_live()));
        ensure(resumes || open.any(|live| live), || format!("operation {} waits for nothing", operation.id))?;
    }
    Ok(())
}

fn over_is_forgotten(step: &Step<'_>, memory: &Memory) -> Result<(), String> {
    let now = step.after.now();
    for event in step.after.events() {
        let stale = matches!(event.status, Status::Ended { at, .. } if at + ENDED_RETENTION <= now);
        ensure(!stale, || format!("{} ended long ago and is still kept", event.id))?;
    }
    for event in step.before.events().filter(|event| step.after.event(event.id).is_none()) {
        let stale = matches!(event.status, Status::Ended { at, .. } if at + ENDED_RETENTION <= now);
        ensure(stale, || format!("{} was forgotten too early", event.id))?;
    }
    let _ = memory;
    Ok(())
}
