//! Limits per source, so that one guest cannot starve another guest, another listener or the management side. The management
//! listeners use the same limits.
//!
//! ```text
//!   accept ─▶ total reached? ─yes─▶ refuse, or close an idle connection of the source with the most idle ones
//!               │ no
//!               ▼
//!             source at its limit? ─yes─▶ close its oldest idle connection; none idle ─▶ refuse
//!               │ no
//!               ▼
//!             admitted, until the admission is dropped
//! ```
//!
//! A source is the machine of a listener, a socket mark, or an address. Callers on a loopback listener with path prefixes that
//! are no machine themselves have no source: tests and benchmarks stand for thousands of machines there. Their held
//! requests count for the machine in the path.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forewarn_core::MachineId;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::Notify;

/// Connections of one source. A handler needs one; a guest with many tools needs a few.
pub const CONNECTIONS_PER_SOURCE_DEFAULT: usize = 64;

/// Requests of one source that wait for a change at the same time.
pub const HELD_PER_SOURCE_DEFAULT: usize = 8;

/// Descriptors that the metadata listeners leave to the rest of the program: two management listeners with 1,024 connections
/// each, and the store, webhooks and drivers.
const DESCRIPTORS_RESERVED: u64 = 2 * 1024 + 512;

/// The fewest connections in total, on a system that grants hardly any descriptors.
const TOTAL_MIN: usize = 256;

/// The most connections in total. With [`crate::CONNECTION_BYTES_MAX`] this bounds the memory of the endpoint.
pub const TOTAL_MAX: usize = 1 << 16;

/// A source is logged at most this often.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Sources that are remembered as logged. More sources at their limits than this are only counted.
const LOGGED_MAX: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub connections_per_source: usize,
    pub held_per_source: usize,
    pub total: usize,
    pub when_full: OverflowPolicy,
}

/// The treatment of a new connection when the total is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverflowPolicy {
    /// Refuse it. The cost does not depend on the number of sources.
    Refuse,
    /// Close the oldest connection of the source with the most idle ones; refuse the new one if there is none.
    EvictFromLargest,
}

/// Counters of reached limits. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct LimitCounters {
    pub connections_evicted: Counter,
    pub connections_refused: Counter,
    pub held_refused: Counter,
}

impl Limits {
    /// The total follows from the number of descriptors that the process can open.
    pub fn new(connections_per_source: usize, held_per_source: usize, descriptors: Option<u64>) -> Limits {
        let free = descriptors.map_or(u64::MAX, |all| all.saturating_sub(DESCRIPTORS_RESERVED));
        let total = usize::try_from(free).unwrap_or(usize::MAX).clamp(TOTAL_MIN, TOTAL_MAX);
        Limits { connections_per_source, held_per_source, total, when_full: OverflowPolicy::Refuse }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SourceKey {
    /// The machine that a listener was opened for.
    Listener(String),
    /// The mark that the host's firewall put on the connection.
    Mark(u32),
    Address(IpAddr),
    /// A Unix socket that is for no machine in particular.
    Socket(PathBuf),
    /// The machine in the path, for callers without a source of their own.
    Machine(MachineId),
}

impl fmt::Display for SourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourceKey::Listener(machine) => write!(f, "the listener of machine {machine}"),
            SourceKey::Mark(mark) => write!(f, "mark {mark:#x}"),
            SourceKey::Address(address) => write!(f, "{address}"),
            SourceKey::Socket(path) => write!(f, "unix:{}", path.display()),
            SourceKey::Machine(machine) => write!(f, "machine {}", machine.0),
        }
    }
}

/// The connections and held requests of all sources.
pub struct Sources {
    limits: Limits,
    /// The kind of listener, for log lines.
    listener: &'static str,
    counters: LimitCounters,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    total: usize,
    sources: HashMap<SourceKey, Usage>,
    /// When a source, or the total (None), was logged.
    logged: HashMap<Option<SourceKey>, Instant>,
}

#[derive(Default)]
struct Usage {
    /// Oldest first.
    connections: VecDeque<Arc<Activity>>,
    held: usize,
}

impl Usage {
    /// Removes the oldest idle connection and tells it to end.
    fn evict_idle(&mut self) -> bool {
        let idle = self.connections.iter().position(|other| other.is_idle());
        let evicted = idle.and_then(|idle| self.connections.remove(idle));
        evicted.inspect(|evicted| evicted.evicted.notify_one()).is_some()
    }

    fn is_empty(&self) -> bool {
        self.connections.is_empty() && self.held == 0
    }
}

/// The activity of one connection. Its own task writes it; the table reads it to find an idle connection.
#[derive(Default)]
pub struct Activity {
    /// Counts the beginnings and ends of requests: odd while one is being answered.
    beats: AtomicU64,
    /// Heads of requests that the client has sent.
    heads: AtomicU64,
    /// Requests that the service was called with.
    requests: AtomicU64,
    /// Whether the last byte that arrived ended a head.
    at_head_end: AtomicBool,
    /// Input arrived.
    pub input: Notify,
    /// The connection must end.
    pub evicted: Notify,
    /// The socket must be reset instead of closed.
    pub reset: AtomicBool,
    /// hyper waits for input, has sent everything it had, and has not begun to close the connection.
    pub is_quiet: AtomicBool,
}

impl Activity {
    pub fn phase(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    pub fn is_busy(beats: u64) -> bool {
        beats % 2 == 1
    }

    fn is_idle(&self) -> bool {
        !Activity::is_busy(self.phase())
    }

    /// Only the connection's own task counts, so this need not be one operation.
    pub fn advance_phase(&self, by: u64) {
        self.beats.store(self.phase() + by, Ordering::Relaxed);
    }

    pub fn begin_request(&self) {
        self.requests.store(self.requests.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Empty lines in a body look like the ends of heads; this subtracts them.
    pub fn skip_heads(&self, count: u64) {
        self.requests.store(self.requests.load(Ordering::Relaxed) + count, Ordering::Relaxed);
    }

    pub fn record_input(&self, heads: u64, at_head_end: bool) {
        self.heads.store(heads, Ordering::Relaxed);
        self.at_head_end.store(at_head_end, Ordering::Relaxed);
        self.input.notify_one();
    }

    /// A plain request arrived. Nothing waits for it.
    pub fn record_plain(&self, heads: u64) {
        self.heads.store(heads, Ordering::Relaxed);
        self.at_head_end.store(true, Ordering::Relaxed);
    }

    /// Whether the client has sent anything beyond the request that is being answered. While it has, the connection cannot be
    /// seen to close, so no request may be held on it.
    pub fn has_more_input(&self) -> bool {
        let (heads, requests) = (self.heads.load(Ordering::Relaxed), self.requests.load(Ordering::Relaxed));
        heads > requests || !self.at_head_end.load(Ordering::Relaxed)
    }
}

/// Why a connection was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionError {
    Source,
    Total,
}

impl Sources {
    pub fn new(limits: Limits, listener: &'static str, counters: LimitCounters) -> Sources {
        Sources { limits, listener, counters, table: Mutex::default() }
    }

    /// Admits a connection, or refuses it. `key`: None for callers without a limit of their own.
    pub fn admit(
        self: &Arc<Self>,
        key: Option<SourceKey>,
        activity: Arc<Activity>,
    ) -> Result<Admission, AdmissionError> {
        self.admit_with_reserve(key, activity, 0)
    }

    /// The same, for a caller that can use `reserve` connections beyond the total.
    pub fn admit_with_reserve(
        self: &Arc<Self>,
        key: Option<SourceKey>,
        activity: Arc<Activity>,
        reserve: usize,
    ) -> Result<Admission, AdmissionError> {
        let mut table = self.lock();
        if table.total >= self.limits.total + reserve {
            self.make_room_in_total(&mut table)?;
        }
        if let Some(key) = &key {
            self.make_room(&mut table, key)?;
            table.sources.entry(key.clone()).or_default().connections.push_back(activity.clone());
        }
        table.total += 1;
        Ok(Admission { sources: self.clone(), key, activity })
    }

    fn make_room_in_total(&self, table: &mut Table) -> Result<(), AdmissionError> {
        let has_room = match self.limits.when_full {
            OverflowPolicy::Refuse => false,
            OverflowPolicy::EvictFromLargest => table.evict_from_largest(),
        };
        if table.may_log(None) {
            let (limit, listener) = (self.limits.total, self.listener);
            tracing::warn!(limit, listener, "all connections are in use; idle ones may be closed, new ones refused");
        }
        self.count(has_room, AdmissionError::Total)
    }

    fn make_room(&self, table: &mut Table, key: &SourceKey) -> Result<(), AdmissionError> {
        let limit = self.limits.connections_per_source;
        let Some(usage) = table.sources.get_mut(key).filter(|usage| usage.connections.len() >= limit) else {
            return Ok(());
        };
        let has_room = usage.evict_idle();
        if table.may_log(Some(key)) {
            tracing::warn!(source = %key, limit, listener = self.listener, "source reached its connection limit; its idle connections are closed, others refused");
        }
        self.count(has_room, AdmissionError::Source)
    }

    /// Counts an eviction, or else the refusal.
    fn count(&self, has_room: bool, refusal: AdmissionError) -> Result<(), AdmissionError> {
        if has_room {
            self.counters.connections_evicted.inc();
            return Ok(());
        }
        self.counters.connections_refused.inc();
        Err(refusal)
    }

    /// Lets a request of this source be held until the slot is dropped. None: the source is at its limit.
    pub fn hold(self: &Arc<Self>, key: SourceKey) -> Option<HeldSlot> {
        let mut table = self.lock();
        let limit = self.limits.held_per_source;
        let usage = table.sources.entry(key.clone()).or_default();
        if usage.held < limit {
            usage.held += 1;
            return Some(HeldSlot { sources: self.clone(), key });
        }
        self.counters.held_refused.inc();
        if table.may_log(Some(&key)) {
            tracing::warn!(source = %key, limit, "source reached its limit of held requests; others are refused");
        }
        None
    }

    /// Releases what a source used, and removes its entry if nothing is left.
    fn release(&self, key: &SourceKey, change: impl FnOnce(&mut Usage)) {
        let mut table = self.lock();
        let Some(usage) = table.sources.get_mut(key) else { return };
        change(usage);
        if usage.is_empty() {
            table.sources.remove(key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn evict_from_largest(&mut self) -> bool {
        let count_idle = |usage: &Usage| usage.connections.iter().filter(|connection| connection.is_idle()).count();
        let largest = self.sources.values_mut().max_by_key(|usage| count_idle(usage));
        largest.is_some_and(Usage::evict_idle)
    }

    /// Whether a source, or the total (None), may be logged now.
    fn may_log(&mut self, key: Option<&SourceKey>) -> bool {
        let key = key.cloned();
        let is_recent = |at: &Instant| at.elapsed() < LOG_EVERY;
        if self.logged.get(&key).is_some_and(is_recent) {
            return false;
        }
        // Only a full table is searched: a refused source retries often.
        if self.logged.len() >= LOGGED_MAX {
            self.logged.retain(|_, at| is_recent(at));
        }
        let has_room = self.logged.len() < LOGGED_MAX;
        if has_room {
            self.logged.insert(key, Instant::now());
        }
        has_room
    }
}

/// A connection that counts for its source, for as long as this lives.
pub struct Admission {
    sources: Arc<Sources>,
    key: Option<SourceKey>,
    activity: Arc<Activity>,
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.sources.lock().total -= 1;
        if let Some(key) = &self.key {
            self.sources.release(key, |usage| {
                usage.connections.retain(|other| !Arc::ptr_eq(other, &self.activity));
            });
        }
    }
}

/// A held request that counts for its source, for as long as this lives.
pub struct HeldSlot {
    sources: Arc<Sources>,
    key: SourceKey,
}

impl Drop for HeldSlot {
    fn drop(&mut self) {
        self.sources.release(&self.key, |usage| usage.held -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(connections_per_source: usize, held_per_source: usize, total: usize) -> Arc<Sources> {
        let limits = Limits { connections_per_source, held_per_source, total, when_full: OverflowPolicy::Refuse };
        Arc::new(Sources::new(limits, "test", LimitCounters::default()))
    }

    fn guest(number: u8) -> SourceKey {
        SourceKey::Address(IpAddr::from([10, 0, 0, number]))
    }

    /// Admits a connection that is idle, or busy.
    fn open(sources: &Arc<Sources>, key: Option<SourceKey>, busy: bool) -> Result<Admission, AdmissionError> {
        let activity = Arc::new(Activity::default());
        activity.advance_phase(u64::from(busy));
        sources.admit(key, activity)
    }

    #[tokio::test]
    async fn the_oldest_idle_connection_makes_room_for_a_new_one() {
        let sources = sources(3, 8, 100);
        let busy = open(&sources, Some(guest(1)), true).unwrap();
        let oldest_idle = open(&sources, Some(guest(1)), false).unwrap();
        let idle = open(&sources, Some(guest(1)), false).unwrap();
        let _new = open(&sources, Some(guest(1)), false).unwrap();
        oldest_idle.activity.evicted.notified().await;
        let is_evicted = |admission: &Admission| {
            let mut evicted = std::pin::pin!(admission.activity.evicted.notified());
            evicted.as_mut().enable()
        };
        assert!(!is_evicted(&busy) && !is_evicted(&idle));
    }

    #[test]
    fn a_source_whose_connections_are_all_busy_is_refused_and_others_are_not() {
        let sources = sources(2, 8, 100);
        let held: Vec<_> = (0..2).map(|_| open(&sources, Some(guest(1)), true).unwrap()).collect();
        assert_eq!(open(&sources, Some(guest(1)), false).err(), Some(AdmissionError::Source));
        assert!(open(&sources, Some(guest(2)), false).is_ok());
        drop(held);
        assert!(open(&sources, Some(guest(1)), false).is_ok());
        assert!(sources.lock().sources.is_empty(), "a source that uses nothing is forgotten");
    }

    #[test]
    fn callers_without_a_source_count_only_for_the_total() {
        let sources = sources(1, 8, 3);
        let _held: Vec<_> = (0..3).map(|_| open(&sources, None, true).unwrap()).collect();
        assert_eq!(open(&sources, Some(guest(1)), false).err(), Some(AdmissionError::Total));
    }

    #[test]
    fn the_source_with_the_most_idle_connections_makes_room_when_the_total_is_reached() {
        let limits = Limits {
            connections_per_source: 8,
            held_per_source: 0,
            total: 3,
            when_full: OverflowPolicy::EvictFromLargest,
        };
        let sources = Arc::new(Sources::new(limits, "test", LimitCounters::default()));
        let _busy = [open(&sources, Some(guest(2)), true).unwrap(), open(&sources, Some(guest(2)), true).unwrap()];
        let _idle = open(&sources, Some(guest(1)), false).unwrap();
        let _new = open(&sources, Some(guest(3)), true).unwrap();
        assert_eq!(sources.counters.connections_evicted.get(), 1);
        assert_eq!(sources.lock().sources[&guest(1)].connections.len(), 0);
        assert_eq!(open(&sources, Some(guest(4)), true).err(), Some(AdmissionError::Total));
    }

    #[test]
    fn held_requests_are_limited_per_source() {
        let sources = sources(64, 2, 100);
        let held: Vec<_> = (0..2).map(|_| sources.hold(guest(1)).unwrap()).collect();
        assert!(sources.hold(guest(1)).is_none());
        assert!(sources.hold(guest(2)).is_some());
        assert_eq!(sources.counters.held_refused.get(), 1);
        drop(held);
        assert!(sources.hold(guest(1)).is_some());
    }

    #[test]
    fn a_source_is_logged_once_a_minute() {
        let mut table = Table::default();
        assert!(table.may_log(Some(&guest(1))));
        assert!(!table.may_log(Some(&guest(1))));
        assert!(table.may_log(Some(&guest(2))));
        assert!(table.may_log(None));
    }

    #[test]
    fn the_total_leaves_descriptors_to_management() {
        let total = |descriptors| Limits::new(64, 8, descriptors).total;
        assert_eq!(total(Some(20_000)), 20_000 - 2_560);
        assert_eq!(total(Some(1_024)), TOTAL_MIN);
        assert_eq!(total(None), TOTAL_MAX);
    }

    #[test]
    fn input_beyond_the_current_request_is_noticed() {
        let activity = Activity::default();
        activity.record_input(1, true);
        activity.begin_request();
        assert!(!activity.has_more_input());
        activity.record_input(1, false);
        assert!(activity.has_more_input(), "the beginning of another request");
        activity.record_input(2, true);
        assert!(activity.has_more_input(), "another request");
    }
}
