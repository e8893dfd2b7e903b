//! A simulated server: its machine, its copy on disk, and its clock.

use std::time::Duration;

use forewarn_cluster::machine::{Identity, LeadershipStart, Machine, Moment, Settings};
use forewarn_cluster::{Entry, Position, RecordKind};
use forewarn_core::{Region, Write};

use crate::checker::id_of;
use crate::region::RegionCopy;
use crate::rng::Rng;

/// The age of a copy up to which clients may see it.
const SHOWN_AGE_MAX: Duration = Duration::from_secs(10);

/// The copy: what was stored survives crashes of the process, and what was synced those of the computer.
#[derive(Clone, Debug)]
pub struct Disk {
    pub position: Position,
    pub entries: Vec<Entry>,
    pub copy: RegionCopy,
    /// The number of entries that survive a crash of the process, and the copy with them.
    stored: (usize, RegionCopy),
    /// The same for a crash of the computer.
    synced: (usize, RegionCopy),
    /// Entries that become durable until the next report.
    syncing: (usize, RegionCopy),
}

impl Disk {
    pub fn empty() -> Disk {
        Disk {
            position: Position::START,
            entries: Vec::new(),
            copy: RegionCopy::default(),
            stored: (0, RegionCopy::default()),
            synced: (0, RegionCopy::default()),
            syncing: (0, RegionCopy::default()),
        }
    }

    pub fn store(&mut self) {
        self.stored = (self.entries.len(), self.copy.clone());
    }

    /// Begins to make everything durable, which takes until the next call. Returns the last durable revision.
    pub fn sync(&mut self) -> u64 {
        let durable = std::mem::replace(&mut self.syncing, (self.entries.len(), self.copy.clone()));
        for place in [&mut self.stored, &mut self.synced] {
            if place.0 < durable.0 {
                *place = durable.clone();
            }
        }
        self.synced_revision()
    }

    /// Replaces everything by the copy of a peer. It is stored, but not synced yet.
    pub fn install(&mut self, mut copy: Disk) {
        copy.store();
        let last = |disk: &Disk| disk.entries.get(self.synced.0.wrapping_sub(1)).map(Entry::position);
        if last(self) == last(&copy) {
            copy.synced = self.synced.clone();
        }
        copy.syncing = copy.synced.clone();
        *self = copy;
    }

    /// The last revision that survives a crash of the computer.
    pub fn synced_revision(&self) -> u64 {
        self.synced.0.checked_sub(1).map_or(0, |last| self.entries[last].revision)
    }

    /// The process crashes.
    fn lose_memory(&mut self) {
        self.syncing = self.synced.clone();
        let (entries, copy) = self.stored.clone();
        self.entries.truncate(entries);
        self.copy = copy;
        self.position = self.entries.last().map_or(Position::START, Entry::position);
    }

    /// The computer crashes.
    pub fn lose_power(&mut self) {
        self.stored = self.synced.clone();
        self.lose_memory();
    }

    pub fn apply(&mut self, entry: &Entry, writes: &[Write]) -> Result<(), String> {
        // Written out: `Position::precedes` is under test.
        let Position { revision, term, hash } = self.position;
        if entry.revision != revision + 1 || entry.record.previous != hash || entry.record.term < term {
            return Err(format!("invariant \"one order everywhere\": {entry:?} applied after {:?}", self.position));
        }
        self.position = entry.position();
        self.entries.push(entry.clone());
        self.copy.apply(writes);
        Ok(())
    }

    /// The last request that changed the region.
    fn last_request(&self) -> Option<u64> {
        self.entries.iter().rev().find(|entry| entry.record.kind == RecordKind::Data).map(id_of)
    }
}

pub struct Node {
    pub name: String,
    /// None while crashed.
    pub machine: Option<Machine>,
    pub disk: Disk,
    /// The random number of the process.
    pub session: u64,
    /// Changes with every start, so that events of an earlier process can be told apart.
    pub process: u64,
    /// The number of the request under way, to tell late answers apart.
    pub waits_for: Option<u64>,
    pub paused_until: u64,
    pub cut_until: u64,
    /// Entries are being applied for a long time.
    pub is_hung: bool,
    /// Entries whose transaction has not been committed yet. A crash undoes it.
    pub uncommitted: Vec<Entry>,
    /// The client request in progress.
    pub request: Option<u64>,
    /// The region in memory, after this request.
    region: Option<(u64, Region)>,
    pub has_stopped: bool,
    /// When its first report reached the log.
    pub joined_at: u64,
    /// The highest revision that a client has seen at this server.
    pub shown: u64,
    /// Lost its disk, so that its last report is no longer true.
    pub was_wiped: bool,
    /// The region's time minus the time of this server's clock, once it has led.
    time_offset_ms: i64,
    clock_offset_ms: u64,
    /// Parts per thousand.
    clock_rate: u64,
}

impl Node {
    pub fn new(name: &str, rng: &mut Rng) -> Node {
        Node {
            name: name.into(),
            machine: None,
            disk: Disk::empty(),
            session: 0,
            process: 0,
            waits_for: None,
            paused_until: 0,
            cut_until: 0,
            is_hung: false,
            uncommitted: Vec::new(),
            request: None,
            region: None,
            has_stopped: false,
            joined_at: 0,
            shown: 0,
            was_wiped: false,
            time_offset_ms: 0,
            clock_offset_ms: rng.below(1_000_000),
            clock_rate: 970 + rng.below(61),
        }
    }

    pub fn start(&mut self, session: u64, settings: Settings) {
        let identity =
            Identity { name: self.name.clone(), address: self.name.clone(), format: 1, content_format: 1, session };
        self.machine = Some(Machine::new(identity, settings, self.disk.position));
        self.session = session;
        self.process += 1;
        self.waits_for = None;
        self.is_hung = false;
        self.has_stopped = false;
    }

    /// Ends the process. The client whose request is in progress never gets an answer.
    pub fn crash(&mut self) {
        self.machine = None;
        self.process += 1;
        self.request = None;
        self.region = None;
        self.is_hung = false;
        self.uncommitted.clear();
        self.disk.lose_memory();
    }

    /// This server's clock at a true time.
    pub fn local(&self, true_ms: u64) -> Moment {
        Duration::from_millis(self.clock_offset_ms + true_ms * self.clock_rate / 1000)
    }

    /// The region's time, as the application of a leader has it.
    pub fn time_ms(&self, true_ms: u64) -> i64 {
        self.local(true_ms).as_millis() as i64 + self.time_offset_ms
    }

    /// Continues the region's time from the last heartbeat.
    pub fn continue_time(&mut self, true_ms: u64, lead: &LeadershipStart) {
        if let Some((heartbeat, elapsed)) = lead.last_heartbeat {
            self.time_offset_ms += heartbeat.time_ms + elapsed.as_millis() as i64 - self.time_ms(true_ms);
        }
    }

    /// The true time at which this server's clock shows a moment, rounded up.
    pub fn true_ms(&self, local: Moment) -> u64 {
        let ms = u64::try_from(local.as_millis()).unwrap_or(u64::MAX / 2000).min(u64::MAX / 2000);
        (ms.saturating_sub(self.clock_offset_ms) * 1000).div_ceil(self.clock_rate) + 1
    }

    /// The region as a leader has it: in memory, or from the copy after records of others.
    pub fn region(&self) -> Result<Region, String> {
        match &self.region {
            Some((id, region)) if self.disk.last_request() == Some(*id) => Ok(region.clone()),
            Some(_) | None => self.disk.copy.load(),
        }
    }

    /// A commit has begun, after which the region is this one.
    pub fn begin(&mut self, id: u64, region: Region) {
        self.request = Some(id);
        self.region = Some((id, region));
    }

    pub fn may_act(&self, true_ms: u64) -> bool {
        let machine = self.machine.as_ref().filter(|_| true_ms >= self.paused_until && !self.is_hung);
        machine.is_some_and(|machine| machine.may_act(self.local(true_ms)))
    }

    /// A client reads what this server shows. It must not see less than before.
    pub fn show(&mut self, true_ms: u64) -> Result<(), String> {
        let local = self.local(true_ms);
        let Some(machine) = self.machine.as_ref().filter(|_| true_ms >= self.paused_until) else { return Ok(()) };
        let revision = self.disk.position.revision;
        if machine.copy_age(local).is_none_or(|age| age > SHOWN_AGE_MAX) {
            return Ok(());
        }
        if revision < self.shown {
            return Err(format!("invariant \"copies never go back\": {} from {} to {revision}", self.name, self.shown));
        }
        self.shown = revision;
        Ok(())
    }

    pub fn is_leading(&self, true_ms: u64) -> bool {
        true_ms >= self.paused_until && self.machine.as_ref().is_some_and(Machine::is_leading)
    }
}
