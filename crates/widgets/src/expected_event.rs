//! Expected events. Maintenance visits one update domain at a time, and only the current one has an event. The next ones are
//! shown as estimates; they come earlier if events are approved early.

use std::collections::BTreeMap;
use std::time::Duration;

use forewarn_core::{Machine, Operation, OperationState, Region, Request, Target, Timestamp};

/// Update domains shown per operation. Estimates for later ones are too uncertain.
const EXPECTED_MAX: usize = 3;

/// An update domain that has not been visited yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedEvent {
    pub domain: u32,
    pub from: Timestamp,
    pub due: Timestamp,
}

/// The next update domains of maintenance that is in progress.
pub fn find_expected(region: &Region, operation: &Operation) -> Vec<ExpectedEvent> {
    let rollout = region.rollout_of_maintenance(operation).filter(|rollout| rollout.is_live());
    let (Some(rollout), Request::Maintain { target, plan }) = (rollout, &operation.request) else {
        return Vec::new();
    };
    if operation.state != OperationState::Running || operation.canceled.is_some() {
        return Vec::new();
    }
    let mut domains: BTreeMap<u32, &Machine> = BTreeMap::new();
    for machine in machines_of(region, target).filter(|machine| machine.update_domain >= rollout.next_domain()) {
        domains.entry(machine.update_domain).or_insert(machine);
    }
    let settings = region.settings();
    let pause = settings.scaled(settings.update_domain_pause);
    let notice = plan.notice.map_or(settings.notice_min(plan.kind), |notice| settings.scaled(notice));
    let impact = Duration::from_secs(plan.duration_secs.and_then(|secs| u64::try_from(secs).ok()).unwrap_or(0));
    let live = operation.parts.iter().filter_map(|part| region.event(part.event)).filter(|event| event.is_live());
    let current = live.map(|event| event.not_before).max().unwrap_or(region.now());
    let mut begins = rollout.pause_end().unwrap_or(current + impact + pause);
    let expect = |(domain, machine): (u32, &Machine)| {
        let from = begins;
        let due = (from + if region.is_on(machine.scope) { notice } else { Duration::ZERO }).round_up_to_second();
        begins = due + impact + pause;
        ExpectedEvent { domain, from, due }
    };
    domains.into_iter().take(EXPECTED_MAX).map(expect).collect()
}

/// The existing machines of a target.
pub fn machines_of<'r>(region: &'r Region, target: &'r Target) -> Box<dyn Iterator<Item = &'r Machine> + 'r> {
    match target {
        Target::Machines(ids) => Box::new(ids.iter().filter_map(|id| region.machine(*id)).map(|machine| &**machine)),
        Target::Host(host) => Box::new(region.machines_on(host).map(|machine| &**machine)),
        Target::Group(id) => {
            let members = region.group(*id).into_iter().flat_map(|group| region.group_members(group));
            Box::new(members.map(|machine| &**machine))
        }
    }
}
