//! What an operator may set about the rules. Settings come with the program, not with the store: they
//! may differ after a restart and touch only what happens from then on.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::model::{EventKind, Name};

#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Notice, pauses and simulated impacts are divided by this. 1 is the real thing.
    pub notice_scale: u32,
    /// A scope that asks for nothing for so long is off.
    pub idle_disable: Duration,
    /// Restart and redeploy operations with a Scheduled event in one subscription; 0: no limit.
    pub user_operations_max: u32,
    pub update_domain_pause: Duration,
    /// A driver that says nothing for so long has failed.
    pub driver_timeout: Duration,
    /// Addresses for machines that want one: network, first address, how many.
    pub pool: Pool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    pub network: Name,
    pub first: Ipv4Addr,
    pub count: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            notice_scale: 1,
            idle_disable: Duration::from_secs(24 * 3600),
            user_operations_max: 10,
            update_domain_pause: Duration::from_secs(30 * 60),
            driver_timeout: Duration::from_secs(3600),
            pool: Pool { network: "default".into(), first: Ipv4Addr::new(10, 64, 0, 4), count: 1 << 22 },
        }
    }
}

impl Settings {
    /// The least notice that an event of this kind gives. A deletion's is the machine's own.
    pub fn notice_min(&self, kind: EventKind) -> Duration {
        let secs = match kind {
            EventKind::Freeze | EventKind::Reboot => 15 * 60,
            EventKind::Redeploy => 10 * 60,
            EventKind::Preempt => 30,
            EventKind::Terminate => TERMINATE_SECS_MIN,
        };
        self.scaled(Duration::from_secs(secs))
    }

    pub fn scaled(&self, span: Duration) -> Duration {
        span / self.notice_scale.max(1)
    }
}

/// Terminate notification is 5 to 15 minutes long.
pub const TERMINATE_SECS_MIN: u64 = 5 * 60;
pub const TERMINATE_SECS_MAX: u64 = 15 * 60;

/// An event that is over can be approved again for so long without that being an error.
pub const ENDED_RETENTION: Duration = Duration::from_secs(3600);

/// How often the server reports, at the most, that a scope still asks. Part of what `idle_disable`
/// may be late by, so below an hour.
pub const SEEN_EVERY: Duration = Duration::from_secs(30 * 60);

/// How often the passing of time alone is written down while a scope is on, so that a crash does not
/// turn hours of running into downtime.
pub const PULSE_EVERY: Duration = Duration::from_secs(10 * 60);

/// Events of one scope that are not over. A document of so many is some 700 KB; every machine of the
/// scope would fetch it each time it changes.
pub const EVENTS_PER_SCOPE_MAX: usize = 2048;

/// Machines of one group: the largest scale set of the original has 1,000; a margin for tests.
pub const MACHINES_PER_GROUP_MAX: usize = 10_000;

/// Machines in the region. Loading and memory are measured up to here.
pub const MACHINES_MAX: usize = 2_000_000;

/// Update and fault domains of a group.
pub const DOMAINS_MAX: u32 = 100;

/// Names of machines, groups and hosts, in bytes.
pub const NAME_BYTES_MAX: usize = 128;

/// A description, in bytes.
pub const DESCRIPTION_BYTES_MAX: usize = 1024;

/// How far ahead maintenance may be planned.
pub const PLAN_AHEAD_MAX: Duration = Duration::from_secs(400 * 24 * 3600);

/// Requests for one event that joined each other.
pub const JOINED_MAX: usize = 100;

/// Ids in one approval.
pub const APPROVALS_MAX: usize = EVENTS_PER_SCOPE_MAX;
