//! Hosts as the API shows them.

use forewarn_api_types::{Host, HostPhase};
use forewarn_core as core;
use forewarn_core::{Contact, HostState, Name, Region};

use super::render_wait;
use crate::convert::Convert;

/// Maximum number of machines that a host lists.
const HOST_MACHINES_MAX: usize = 1000;

pub fn render_host(region: &Region, name: &Name) -> Host {
    let plain = std::sync::Arc::new(core::Host::new(name.clone()));
    let host = region.host(name).unwrap_or(&plain);
    let machines = || region.machines_on(name);
    let drain = region.drain_of(name);
    Host {
        name: name.to_string(),
        state: host.state.convert(),
        reachable: match host.contact {
            Contact::None => None,
            Contact::Confirmed { .. } => Some(true),
            Contact::Lost { .. } => Some(false),
        },
        agent: None,
        pool: host.pool.to_string(),
        labels: host.labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
        memory_mib: host.memory_mib,
        memory_used_mib: machines().map(|machine| u64::from(machine.memory_mib)).sum(),
        machine_count: machines().count() as u64,
        machines: machines().take(HOST_MACHINES_MAX).map(|machine| machine.name.to_string()).collect(),
        drain: drain.map(|operation| operation.id.convert()),
        waits_for: drain.and_then(|operation| operation.drain.as_ref()?.waits_for.as_ref()).map(render_wait),
        rollout: region.rollout_of_host(name).map(|rollout| rollout.id.convert()),
        fenced: None,
    }
}

impl Convert<HostPhase> for HostState {
    fn convert(self) -> HostPhase {
        match self {
            HostState::Active => HostPhase::Active,
            HostState::Draining => HostPhase::Draining,
            HostState::Drained => HostPhase::Drained,
            HostState::Failed => HostPhase::Failed,
        }
    }
}
