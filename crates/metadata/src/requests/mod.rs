//! The request record: the requests of machines to the metadata endpoint, kept beside the region because polls are too many to be
//! commands. Counts for all machines, the last requests of active ones (`log`), and how they poll (`summary`). The rate limit
//! of each machine is counted here too.

mod log;
mod summary;

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use forewarn_core::{EventId, MachineId, Timestamp};
use forewarn_wire::version::Version;

pub use log::{APPROVED_KEPT_MAX, REQUESTS_KEPT_MAX, RequestLog, RequestSeen};
pub use log::{RequestDetails, shorten};
pub use summary::PollSummary;

use crate::faults::{AppliedFault, Method};
use log::Logs;

/// Machines with counts. Each has a slot by its ID; of two machines that share a slot, the later caller has it. Slots for all
/// machines that a region can have would take 64 MB, so there are half as many.
pub const COUNTED_MACHINES_MAX: usize = 1 << 20;

/// Slots that are allocated together, when the first of them is needed.
const CHUNK: usize = 1 << 12;

/// Locks for the rate limit, so that cores rarely contend.
const SHARDS: usize = 64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    pub gets: u64,
    pub posts: u64,
    pub refused: u64,
    pub last_get: Option<Timestamp>,
    pub last_post: Option<Timestamp>,
}

/// A request on its way to the log.
#[derive(Debug)]
pub struct RequestEntry {
    pub machine: MachineId,
    pub at: Timestamp,
    pub method: Method,
    pub version: Option<Version>,
    /// The incarnation of the document that was sent or confirmed.
    pub incarnation: Option<u32>,
    pub extra: Option<Box<RequestDetails>>,
}

impl RequestEntry {
    pub fn new(machine: MachineId, at: Timestamp, method: Method) -> RequestEntry {
        RequestEntry { machine, at, method, version: None, incarnation: None, extra: None }
    }

    /// For a request of anything but the document.
    pub fn at_path(mut self, path: &str, version: Option<&str>) -> RequestEntry {
        let extra = self.details_mut();
        extra.path = Some(shorten(path));
        extra.version = version.map(shorten);
        self
    }

    pub fn set_faults(&mut self, faults: &[AppliedFault]) {
        self.details_mut().faults = faults.into();
    }

    pub fn set_approved(&mut self, events: &[EventId]) {
        self.details_mut().approved = events.iter().take(APPROVED_KEPT_MAX).copied().collect();
    }

    pub fn details_mut(&mut self) -> &mut RequestDetails {
        self.extra.get_or_insert_default()
    }

    fn is_poll(&self) -> bool {
        log::is_poll(self.method, self.extra.as_deref())
    }
}

pub struct Requests {
    per_second: Option<u32>,
    chunks: Vec<OnceLock<Box<[Slot]>>>,
    buckets: Vec<Mutex<HashMap<MachineId, Bucket>>>,
    logs: Logs,
}

/// The counts of one machine, within one cache line. They are for display, so relaxed order is enough, and a count may start over
/// after four billion requests.
#[derive(Default)]
#[repr(align(32))]
struct Slot {
    /// Tells apart the machines that share the slot. 0: free.
    owner: AtomicU32,
    gets: AtomicU32,
    posts: AtomicU32,
    refused: AtomicU32,
    last_get: AtomicI64,
    last_post: AtomicI64,
}

/// A token bucket that holds one second of the limit.
struct Bucket {
    tokens: f64,
    filled: Instant,
}

/// Over the limit: seconds until the next request is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimited(pub u32);

impl Requests {
    pub fn new(per_second: Option<u32>) -> Requests {
        Requests {
            per_second: per_second.filter(|limit| *limit > 0),
            chunks: (0..COUNTED_MACHINES_MAX / CHUNK).map(|_| OnceLock::new()).collect(),
            buckets: (0..SHARDS).map(|_| Mutex::default()).collect(),
            logs: Logs::new(),
        }
    }

    /// Records a finished request; without a status if there was no response.
    pub fn write(&self, entry: RequestEntry, status: Option<u16>) {
        self.logs.write(entry, status);
    }

    /// Records that a request of a machine is held until its document changes, or until this time.
    pub fn record_hold(&self, machine: MachineId, until: Timestamp) {
        self.logs.record_hold(machine, until);
    }

    /// The last requests of a machine after the one with this number, and how it polls.
    pub fn log_of(&self, machine: MachineId, after: u64) -> RequestLog {
        self.logs.read(machine, after)
    }

    /// The counts of a machine; None if it has sent no request.
    pub fn counts_of(&self, machine: MachineId) -> Option<RequestCounts> {
        let slot = self.slot(machine);
        (slot.owner.load(Ordering::Relaxed) == owner_tag(machine)).then(|| slot.counts())
    }

    /// Counts a request, unless it is over the rate limit.
    pub fn count(&self, machine: MachineId, method: Method, now: Timestamp) -> Result<(), RateLimited> {
        self.count_refused(machine)?;
        let slot = self.slot(machine);
        let (count, last) = match method {
            Method::Get => (&slot.gets, &slot.last_get),
            Method::Post => (&slot.posts, &slot.last_post),
        };
        count.fetch_add(1, Ordering::Relaxed);
        last.store(now.0, Ordering::Relaxed);
        Ok(())
    }

    /// Counts a request only for the rate limit.
    pub fn count_refused(&self, machine: MachineId) -> Result<(), RateLimited> {
        let slot = self.slot(machine);
        slot.claim(machine);
        let Some(limit) = self.per_second else { return Ok(()) };
        self.take_token(machine, limit).inspect_err(|_| {
            slot.refused.fetch_add(1, Ordering::Relaxed);
        })
    }

    fn take_token(&self, machine: MachineId, limit: u32) -> Result<(), RateLimited> {
        let shard = &self.buckets[machine.0 as usize % SHARDS];
        let mut buckets = shard.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= COUNTED_MACHINES_MAX / SHARDS && !buckets.contains_key(&machine) {
            let any = buckets.keys().next().copied();
            any.map(|any| buckets.remove(&any));
        }
        take_token(buckets.entry(machine).or_insert_with(|| Bucket::full(limit)), limit, Instant::now())
    }

    fn slot(&self, machine: MachineId) -> &Slot {
        let index = machine.0 as usize % COUNTED_MACHINES_MAX;
        let chunk = self.chunks[index / CHUNK].get_or_init(|| (0..CHUNK).map(|_| Slot::default()).collect());
        &chunk[index % CHUNK]
    }
}

fn owner_tag(machine: MachineId) -> u32 {
    (machine.0 / COUNTED_MACHINES_MAX as u64 + 1) as u32
}

impl Slot {
    /// Assigns the slot to a machine, and clears it if it was another's.
    fn claim(&self, machine: MachineId) {
        let owner = owner_tag(machine);
        if self.owner.load(Ordering::Relaxed) != owner {
            self.owner.store(owner, Ordering::Relaxed);
            [&self.gets, &self.posts, &self.refused].iter().for_each(|count| count.store(0, Ordering::Relaxed));
            [&self.last_get, &self.last_post].iter().for_each(|last| last.store(0, Ordering::Relaxed));
        }
    }

    fn counts(&self) -> RequestCounts {
        let time = |last: &AtomicI64| Some(Timestamp(last.load(Ordering::Relaxed))).filter(|at| at.0 != 0);
        RequestCounts {
            gets: self.gets.load(Ordering::Relaxed).into(),
            posts: self.posts.load(Ordering::Relaxed).into(),
            refused: self.refused.load(Ordering::Relaxed).into(),
            last_get: time(&self.last_get),
            last_post: time(&self.last_post),
        }
    }
}

impl Bucket {
    fn full(limit: u32) -> Bucket {
        Bucket { tokens: f64::from(limit), filled: Instant::now() }
    }
}

fn take_token(bucket: &mut Bucket, limit: u32, now: Instant) -> Result<(), RateLimited> {
    let limit = f64::from(limit);
    let gained = now.saturating_duration_since(bucket.filled).as_secs_f64() * limit;
    bucket.tokens = (bucket.tokens + gained).min(limit);
    bucket.filled = now;
    if bucket.tokens < 1.0 {
        let wait = (1.0 - bucket.tokens) / limit;
        return Err(RateLimited(wait.ceil().max(1.0) as u32));
    }
    bucket.tokens -= 1.0;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_bucket_allows_its_rate_and_no_more() {
        let start = Instant::now();
        let mut bucket = Bucket { tokens: 5.0, filled: start };
        let taken = (0..10).filter(|_| take_token(&mut bucket, 5, start).is_ok()).count();
        assert_eq!(taken, 5);
        assert_eq!(take_token(&mut bucket, 5, start), Err(RateLimited(1)));
        let later = start + Duration::from_millis(400);
        let taken = (0..10).filter(|_| take_token(&mut bucket, 5, later).is_ok()).count();
        assert_eq!(taken, 2);
    }

    #[test]
    fn no_slot_spans_two_cache_lines() {
        assert_eq!(64 % size_of::<Slot>(), 0);
    }

    #[test]
    fn requests_are_counted_by_machine() {
        let requests = Requests::new(None);
        let now = Timestamp::from_secs(5);
        requests.count(MachineId(1), Method::Get, now).unwrap();
        requests.count(MachineId(1), Method::Post, now).unwrap();
        let expected = RequestCounts { gets: 1, posts: 1, refused: 0, last_get: Some(now), last_post: Some(now) };
        assert_eq!(requests.counts_of(MachineId(1)), Some(expected));
        assert_eq!(requests.counts_of(MachineId(2)), None);
    }

    #[test]
    fn of_two_machines_that_share_a_slot_the_later_has_it() {
        let requests = Requests::new(None);
        let other = MachineId(1 + COUNTED_MACHINES_MAX as u64);
        requests.count(MachineId(1), Method::Post, Timestamp::from_secs(5)).unwrap();
        requests.count(other, Method::Get, Timestamp::from_secs(6)).unwrap();
        assert_eq!(requests.counts_of(MachineId(1)), None);
        let record = requests.counts_of(other).unwrap();
        assert_eq!((record.gets, record.posts, record.last_post), (1, 0, None));
    }
}
