//! Settings and limits of the rules. Settings are part of the configuration of a single server, which does not store them:
//! they may change at a restart, and then affect only what happens from then on. A cluster stores them with the region.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::model::{EventKind, SharedName};

#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Divisor for notice periods, pauses and simulated impacts. 1 means real time.
    pub notice_scale: u32,
    /// A scope turns off after this time without a request.
    pub idle_disable: Duration,
    /// Maximum number of restart and redeploy operations with a Scheduled event per subscription. 0: no limit.
    pub user_operations_max: u32,
    pub update_domain_pause: Duration,
    /// An event fails if its driver does not report within this time.
    pub driver_timeout: Duration,
    /// Whether hosts get an order for each machine, as with drivers of real machines. Then nothing else starts on a
    /// machine until its host has confirmed that the previous order has ended.
    pub machine_orders: bool,
    /// Addresses for machines that do not bring their own.
    pub pool: Pool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    pub network: SharedName,
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
            machine_orders: false,
            pool: Pool { network: "default".into(), first: Ipv4Addr::new(10, 64, 0, 4), count: 1 << 22 },
        }
    }
}

impl Settings {
    /// Minimum notice for events of this kind. For Terminate events the machine's own profile applies.
    pub fn notice_min(&self, kind: EventKind) -> Duration {
        let secs = match kind {
            EventKind::Freeze | EventKind::Reboot => 15 * 60,
            EventKind::Redeploy => 10 * 60,
            EventKind::Preempt => 30,
            EventKind::Terminate => TERMINATE_SECS_MIN,
            EventKind::SpotRebalanceRecommendation => 15 * 60,
        };
        self.scaled(Duration::from_secs(secs))
    }

    pub fn scaled(&self, span: Duration) -> Duration {
        span / self.notice_scale.max(1)
    }
}

/// Range of `notBeforeTimeout`: 5 to 15 minutes.
pub const TERMINATE_SECS_MIN: u64 = 5 * 60;
pub const TERMINATE_SECS_MAX: u64 = 15 * 60;

/// How long ended events and operations are kept. During this time, approving the event again is not an error.
pub const ENDED_RETENTION: Duration = Duration::from_secs(3600);

/// How long rollouts are kept after their end.
pub const ROLLOUT_RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);

/// Maximum number of rollouts that have not ended. Each is checked when capacity becomes free, which takes about 5 µs. Updating
/// a single machine is a rollout of its own, and hundreds of them can wait for the same night.
pub const ROLLOUTS_MAX: usize = 1_000;

/// Maximum number of steps of a rollout. A step is a host, or an update domain of a group.
pub const ROLLOUT_STEPS_MAX: usize = 5_000;

/// Maximum number of windows of a rollout.
pub const WINDOWS_MAX: usize = 20;

/// Maximum number of machines that a drain moves at a time.
pub const DRAIN_PARALLEL_MAX: u32 = 1_000;

/// A host whose agent has not confirmed its copy for this long is unreachable.
pub const HOST_SILENCE_MAX: Duration = Duration::from_secs(10);

/// Maximum number of labels of a host.
pub const LABELS_PER_HOST_MAX: usize = 64;

/// Maximum length of the value of a label, in bytes.
pub const LABEL_BYTES_MAX: usize = 256;

/// How often, at most, the server reports that a scope is still in use. `idle_disable` may be late by this
/// much, so it is less than an hour.
pub const SEEN_INTERVAL: Duration = Duration::from_secs(30 * 60);

/// How often the current time is stored while a scope is on, so that a crash does not count hours of uptime as
/// downtime.
pub const PULSE_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// How often the current time is stored while a notice period runs. After a crash, at most this much of the
/// notice that was given is given again.
pub const NOTICE_PULSE_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum number of events in one scope that have not ended. A document with this many is about 700 KB, and
/// every machine of the scope fetches it after each change.
pub const EVENTS_PER_SCOPE_MAX: usize = 2048;

/// Maximum number of machines in one group. The largest scale set in Azure has 1,000; the rest is for tests.
pub const MACHINES_PER_GROUP_MAX: usize = 10_000;

/// Maximum number of machines in the region. Loading time and memory are measured up to this number.
pub const MACHINES_MAX: usize = 2_000_000;

/// Maximum number of update domains and of fault domains in a group.
pub const DOMAINS_MAX: u32 = 100;

/// Maximum length of the name of a machine, group or host, in bytes.
pub const NAME_BYTES_MAX: usize = 128;

/// Maximum length of a description, in bytes.
pub const DESCRIPTION_BYTES_MAX: usize = 1024;

/// How far in advance maintenance may be planned.
pub const PLAN_AHEAD_MAX: Duration = Duration::from_secs(400 * 24 * 3600);

/// Maximum number of requests that share one event.
pub const JOINED_MAX: usize = 100;

/// Maximum number of event IDs in one approval.
pub const APPROVALS_MAX: usize = EVENTS_PER_SCOPE_MAX;
