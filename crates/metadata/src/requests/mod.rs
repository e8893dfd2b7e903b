//! What machines have asked of the metadata endpoint, kept beside the region: polls are too many to be
//! commands. Counts of all machines, the last requests of those that ask (`log`), how they poll (`rhythm`).
//! Also where each machine's rate limit is counted.

mod log;
mod rhythm;

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use forewarn_core::{EventId, MachineId, Timestamp};
use forewarn_wire::version::Version;

pub use log::{APPROVED_KEPT_MAX, REQUESTS_KEPT_MAX, RequestLog, RequestSeen};
pub use log::{Extra, kept};
pub use rhythm::Summary;

use crate::faults::{Met, Method};
use log::Logs;

/// Machines that are remembered. Each has a place by its number; of two that share one, the later asker
/// has it. As many as the region may have would be 96 MB, so the fleet that polls one server is taken to
/// be half of that.
pub const RECORDS_MAX: usize = 1 << 20;

/// Places that are made at once, when the first of them is needed.
const CHUNK: usize = 1 << 12;

/// Locks for the rate limit, so that cores seldom meet.
const SHARDS: usize = 64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestRecord {
    pub gets: u64,
    pub posts: u64,
    pub refused: u64,
    pub last_get: Option<Timestamp>,
    pub last_post: Option<Timestamp>,
}

/// A request on its way to the log.
#[derive(Debug)]
pub struct Passed {
    pub machine: MachineId,
    pub at: Timestamp,
    pub method: Method,
    pub version: Option<Version>,
    pub extra: Option<Box<Extra>>,
}

impl Passed {
    pub fn new(machine: MachineId, at: Timestamp, method: Method) -> Passed {
        Passed { machine, at, method, version: None, extra: None }
    }

    pub fn elsewhere(mut self, path: &str, version: Option<&str>) -> Passed {
        let extra = self.extra();
        extra.path = Some(kept(path));
        extra.version = version.map(kept);
        self
    }

    pub fn met(&mut self, faults: &[Met]) {
        self.extra().faults = faults.into();
    }

    pub fn approved(&mut self, events: &[EventId]) {
        self.extra().approved = events.iter().take(APPROVED_KEPT_MAX).copied().collect();
    }

    pub fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    fn is_poll(&self) -> bool {
        log::is_poll(self.method, self.extra.as_deref())
    }
}

pub struct Requests {
    per_second: Option<u32>,
    chunks: Vec<OnceLock<Box<[Place]>>>,
    buckets: Vec<Mutex<HashMap<MachineId, Bucket>>>,
    logs: Logs,
}

/// One machine's record, in one line of memory. Counters are for people to look at: nobody waits for
/// one to be exact while it changes.
#[derive(Default)]
struct Place {
    machine: AtomicU64,
    gets: AtomicU64,
    posts: AtomicU64,
    refused: AtomicU64,
    last_get: AtomicI64,
    last_post: AtomicI64,
}

/// A bucket that fills with the limit's rate and holds one second of it.
struct Bucket {
    tokens: f64,
    filled: Instant,
}

/// Over the limit: how many seconds until the next request is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limited(pub u32);

impl Requests {
    pub fn new(per_second: Option<u32>) -> Requests {
        Requests {
            per_second: per_second.filter(|limit| *limit > 0),
            chunks: (0..RECORDS_MAX / CHUNK).map(|_| OnceLock::new()).collect(),
            buckets: (0..SHARDS).map(|_| Mutex::default()).collect(),
            logs: Logs::new(),
        }
    }

    /// Writes down a request that is over; without a status when there was no answer.
    pub fn write(&self, passed: Passed, status: Option<u16>) {
        self.logs.write(passed, status);
    }

    /// The last requests of a machine, after the one with this number.
    pub fn log_of(&self, machine: MachineId, after: u64) -> RequestLog {
        self.logs.read(machine, after)
    }

    pub fn of(&self, machine: MachineId) -> Option<RequestRecord> {
        let place = self.place(machine);
        (place.machine.load(Ordering::Relaxed) == machine.0).then(|| place.record())
    }

    /// Notes a request, or says that it is one too many.
    pub fn note(&self, machine: MachineId, method: Method, now: Timestamp) -> Result<(), Limited> {
        let place = self.place(machine);
        place.claim(machine);
        if let Some(limit) = self.per_second
            && let Err(limited) = self.take_token(machine, limit)
        {
            place.refused.fetch_add(1, Ordering::Relaxed);
            return Err(limited);
        }
        let (count, last) = match method {
            Method::Get => (&place.gets, &place.last_get),
            Method::Post => (&place.posts, &place.last_post),
        };
        count.fetch_add(1, Ordering::Relaxed);
        last.store(now.0, Ordering::Relaxed);
        Ok(())
    }

    fn take_token(&self, machine: MachineId, limit: u32) -> Result<(), Limited> {
        let shard = &self.buckets[machine.0 as usize % SHARDS];
        let mut buckets = shard.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= RECORDS_MAX / SHARDS && !buckets.contains_key(&machine) {
            let any = buckets.keys().next().copied();
            any.map(|any| buckets.remove(&any));
        }
        take_token(buckets.entry(machine).or_insert_with(|| Bucket::full(limit)), limit, Instant::now())
    }

    fn place(&self, machine: MachineId) -> &Place {
        let place = machine.0 as usize % RECORDS_MAX;
        let chunk = self.chunks[place / CHUNK].get_or_init(|| (0..CHUNK).map(|_| Place::default()).collect());
        &chunk[place % CHUNK]
    }
}

impl Place {
    /// Makes the place this machine's, empty if it was another's.
    fn claim(&self, machine: MachineId) {
        if self.machine.load(Ordering::Relaxed) != machine.0 {
            self.machine.store(machine.0, Ordering::Relaxed);
            [&self.gets, &self.posts, &self.refused].iter().for_each(|count| count.store(0, Ordering::Relaxed));
            [&self.last_get, &self.last_post].iter().for_each(|last| last.store(0, Ordering::Relaxed));
        }
    }

    fn record(&self) -> RequestRecord {
        let time = |last: &AtomicI64| Some(Timestamp(last.load(Ordering::Relaxed))).filter(|at| at.0 != 0);
        RequestRecord {
            gets: self.gets.load(Ordering::Relaxed),
            posts: self.posts.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
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

fn take_token(bucket: &mut Bucket, limit: u32, now: Instant) -> Result<(), Limited> {
    let limit = f64::from(limit);
    let gained = now.saturating_duration_since(bucket.filled).as_secs_f64() * limit;
    bucket.tokens = (bucket.tokens + gained).min(limit);
    bucket.filled = now;
    if bucket.tokens < 1.0 {
        let wait = (1.0 - bucket.tokens) / limit;
        return Err(Limited(wait.ceil().max(1.0) as u32));
    }
    bucket.tokens -= 1.0;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_bucket_gives_its_rate_and_no_more() {
        let begun = Instant::now();
        let mut bucket = Bucket { tokens: 5.0, filled: begun };
        let taken = (0..10).filter(|_| take_token(&mut bucket, 5, begun).is_ok()).count();
        assert_eq!(taken, 5);
        assert_eq!(take_token(&mut bucket, 5, begun), Err(Limited(1)));
        let later = begun + Duration::from_millis(400);
        let taken = (0..10).filter(|_| take_token(&mut bucket, 5, later).is_ok()).count();
        assert_eq!(taken, 2);
    }

    #[test]
    fn requests_are_counted_by_machine() {
        let requests = Requests::new(None);
        let now = Timestamp::from_secs(5);
        requests.note(MachineId(1), Method::Get, now).unwrap();
        requests.note(MachineId(1), Method::Post, now).unwrap();
        let expected = RequestRecord { gets: 1, posts: 1, refused: 0, last_get: Some(now), last_post: Some(now) };
        assert_eq!(requests.of(MachineId(1)), Some(expected));
        assert_eq!(requests.of(MachineId(2)), None);
    }

    #[test]
    fn of_two_that_share_a_place_the_later_has_it() {
        let requests = Requests::new(None);
        let other = MachineId(1 + RECORDS_MAX as u64);
        requests.note(MachineId(1), Method::Post, Timestamp::from_secs(5)).unwrap();
        requests.note(other, Method::Get, Timestamp::from_secs(6)).unwrap();
        assert_eq!(requests.of(MachineId(1)), None);
        let record = requests.of(other).unwrap();
        assert_eq!((record.gets, record.posts, record.last_post), (1, 0, None));
    }
}
