//! What machines have asked of the metadata endpoint, kept beside the region: polls are too many to be
//! commands. Also where each machine's rate limit is counted.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use forewarn_core::{MachineId, Timestamp};

/// Machines that are remembered; beyond that, some are forgotten. As many as the region may have would
/// be 160 MB, so the fleet that polls one server is taken to be half of that.
pub const RECORDS_MAX: usize = 1 << 20;

/// Locks, so that cores seldom meet.
const SHARDS: usize = 64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestRecord {
    pub gets: u64,
    pub posts: u64,
    pub refused: u64,
    pub last_get: Option<Timestamp>,
    pub last_post: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Asking {
    Get,
    Post,
}

pub(crate) struct Requests {
    per_second: Option<u32>,
    shards: Vec<Mutex<HashMap<MachineId, Entry, BuildHasherDefault<IdHasher>>>>,
}

#[derive(Default)]
struct Entry {
    record: RequestRecord,
    bucket: Option<Bucket>,
}

/// A bucket that fills with the limit's rate and holds one second of it.
struct Bucket {
    tokens: f64,
    filled: Instant,
}

/// Over the limit: how many seconds until the next request is taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Limited(pub u32);

impl Requests {
    pub fn new(per_second: Option<u32>) -> Requests {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Requests { per_second: per_second.filter(|limit| *limit > 0), shards }
    }

    pub fn of(&self, machine: MachineId) -> Option<RequestRecord> {
        let shard = self.shard(machine).lock().unwrap_or_else(PoisonError::into_inner);
        shard.get(&machine).map(|entry| entry.record)
    }

    /// Notes a request, or says that it is one too many.
    pub fn note(&self, machine: MachineId, asking: Asking, now: Timestamp) -> Result<(), Limited> {
        let mut shard = self.shard(machine).lock().unwrap_or_else(PoisonError::into_inner);
        if shard.len() >= RECORDS_MAX / SHARDS && !shard.contains_key(&machine) {
            let any = shard.keys().next().copied();
            any.map(|any| shard.remove(&any));
        }
        let entry = shard.entry(machine).or_default();
        if let Some(limit) = self.per_second {
            let limited = take_token(entry.bucket.get_or_insert_with(|| Bucket::full(limit)), limit, Instant::now());
            if limited.is_err() {
                entry.record.refused += 1;
                return limited;
            }
        }
        match asking {
            Asking::Get => (entry.record.gets, entry.record.last_get) = (entry.record.gets + 1, Some(now)),
            Asking::Post => (entry.record.posts, entry.record.last_post) = (entry.record.posts + 1, Some(now)),
        }
        Ok(())
    }

    fn shard(&self, machine: MachineId) -> &Mutex<HashMap<MachineId, Entry, BuildHasherDefault<IdHasher>>> {
        &self.shards[machine.0 as usize % SHARDS]
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

/// Ids are small numbers given out in order: a multiplication spreads them well enough.
#[derive(Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, id: u64) {
        let mixed = (self.0 ^ id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
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
        requests.note(MachineId(1), Asking::Get, now).unwrap();
        requests.note(MachineId(1), Asking::Post, now).unwrap();
        let expected = RequestRecord { gets: 1, posts: 1, refused: 0, last_get: Some(now), last_post: Some(now) };
        assert_eq!(requests.of(MachineId(1)), Some(expected));
        assert_eq!(requests.of(MachineId(2)), None);
    }
}
