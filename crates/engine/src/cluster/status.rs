//! The state of a server in its cluster, for health checks, forwarding and operators. The writer's thread updates it; anyone
//! reads it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use forewarn_cluster::{BootClock, Clock as _};
use forewarn_core::Settings;
use tokio::sync::watch;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterRole {
    Leader,
    /// The copy is current.
    Follower,
    /// The copy is behind, or the log has not been read yet.
    CatchingUp,
}

impl ClusterRole {
    pub fn as_str(self) -> &'static str {
        match self {
            ClusterRole::Leader => "leader",
            ClusterRole::Follower => "follower",
            ClusterRole::CatchingUp => "catching-up",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderAddress {
    pub node: String,
    /// The address at which the other servers reach it.
    pub address: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterStatus {
    pub node: String,
    pub role: ClusterRole,
    /// None: there is no leader, or this server has not heard from it for too long.
    pub leader: Option<LeaderAddress>,
    pub term: u64,
    /// The last revision that this server has applied.
    pub revision: u64,
    /// Why the log cannot be used.
    pub problem: Option<String>,
    /// In which rules this server's configuration differs from the region, whose rules apply.
    pub rule_differences: Vec<String>,
}

/// Readers see the newest status; `changed` wakes those that wait for another one.
pub struct ClusterMonitor {
    status: ArcSwap<ClusterStatus>,
    changes: watch::Sender<u64>,
    /// The moment of the newest heartbeat whose revision the copy has, in milliseconds since boot; 0: none.
    heartbeat_ms: AtomicU64,
    /// The last moment for which this server knows that its copy was current, in milliseconds since boot; 0: none.
    current_ms: AtomicU64,
    configured: Settings,
}

impl ClusterMonitor {
    /// `configured`: the rules in this server's configuration.
    pub fn new(node: &str, revision: u64, configured: Settings) -> ClusterMonitor {
        let status = ClusterStatus {
            node: node.to_owned(),
            role: ClusterRole::CatchingUp,
            leader: None,
            term: 0,
            revision,
            problem: None,
            rule_differences: Vec::new(),
        };
        ClusterMonitor {
            status: ArcSwap::from_pointee(status),
            changes: watch::Sender::new(0),
            heartbeat_ms: AtomicU64::new(0),
            current_ms: AtomicU64::new(0),
            configured,
        }
    }

    /// The rules in this server's configuration.
    pub fn configured_rules(&self) -> &Settings {
        &self.configured
    }

    pub fn status(&self) -> Arc<ClusterStatus> {
        self.status.load_full()
    }

    /// Changes whenever role, leader, term, problem or rules do.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The time since the newest heartbeat of the leader whose revision the local copy has. None: there is none.
    pub fn heartbeat_age(&self) -> Option<Duration> {
        age_of(&self.heartbeat_ms)
    }

    pub fn record_heartbeat(&self, age: Duration) {
        record_age(&self.heartbeat_ms, age);
    }

    /// The time since the local copy was last known to have everything that was in the log. None: it never was.
    pub fn current_age(&self) -> Option<Duration> {
        age_of(&self.current_ms)
    }

    pub fn record_current(&self, age: Duration) {
        record_age(&self.current_ms, age);
    }

    pub fn publish(&self, status: ClusterStatus) {
        let before = self.status.load();
        if **before == status {
            return;
        }
        let is_news = ClusterStatus { revision: before.revision, ..status.clone() } != **before;
        self.status.store(Arc::new(status));
        if is_news {
            self.changes.send_modify(|number| *number += 1);
        }
    }
}

fn age_of(moment_ms: &AtomicU64) -> Option<Duration> {
    match moment_ms.load(Ordering::Relaxed) {
        0 => None,
        moment => Some(BootClock.now().saturating_sub(Duration::from_millis(moment))),
    }
}

fn record_age(moment_ms: &AtomicU64, age: Duration) {
    let moment = BootClock.now().saturating_sub(age);
    moment_ms.store(u64::try_from(moment.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
}
