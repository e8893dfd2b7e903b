//! A server's own copy of a replicated region: applies entries to the store, then publishes the new snapshot.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::Arc;

use forewarn_cluster::encoding::{decode_position, encode_position};
use forewarn_cluster::{Entry, Key, Position, Replica, SealError};
use forewarn_core::{Region, Settings, Snapshot, Timestamp};
use forewarn_store::{
    Attachment, Batch, Change, ClockKind as StoredClock, Owner, Replicated, SEALED_FORMAT, StoreError, read_rules,
    rules_of,
};

use super::Transfer;
use crate::clock::{Clock, ClockSetting};
use crate::publish::{Publisher, publish_commits};

/// How far the clock of a follower may differ from the region's time.
const CLOCK_DIFFERENCE_MS_MAX: i64 = 500;

pub struct LocalCopy {
    contents: CopyContents,
    transfer: Transfer,
    /// The key of sealed payloads.
    pub key: Option<Arc<Key>>,
    /// This server's own commit in progress: it need not be decoded and replayed.
    pub pending: Option<PreparedCommit>,
}

/// A store, its region, and the publisher for readers.
pub struct CopyContents {
    pub store: Box<dyn Replicated>,
    pub newest: Arc<Snapshot>,
    /// The region's rules; those of the configuration while the region has none.
    pub settings: Settings,
    /// The rules in this server's configuration.
    pub configured: Settings,
    pub publisher: Arc<Publisher>,
    pub clock: Arc<Clock>,
    pub clock_kind: ClockSetting,
}

impl Deref for LocalCopy {
    type Target = CopyContents;

    fn deref(&self) -> &CopyContents {
        &self.contents
    }
}

impl DerefMut for LocalCopy {
    fn deref_mut(&mut self) -> &mut CopyContents {
        &mut self.contents
    }
}

/// How a payload is written to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealing {
    Clear,
    /// With the key, if the region has one.
    Sealed,
}

/// A commit of this server, whose result it already has.
pub struct PreparedCommit {
    payload: Vec<u8>,
    change: Change,
    region: Region,
}

impl LocalCopy {
    pub fn new(contents: CopyContents, transfer: Transfer, key: Option<Arc<Key>>) -> LocalCopy {
        LocalCopy { contents, transfer, key, pending: None }
    }

    /// The position of the copy; [`Position::START`] if the copy is new.
    pub fn position(&mut self) -> Result<Position, StoreError> {
        let Some(text) = self.store.position()? else { return Ok(Position::START) };
        decode_position(text.as_bytes()).map_err(|error| StoreError::Message(error.to_string()))
    }

    /// The payload of a commit. It is remembered until the commit has ended.
    pub fn prepare(&mut self, batch: Batch, region: Region, sealing: Sealing) -> Result<Vec<u8>, StoreError> {
        let change = Change::of_batch(batch, self.store.newest_row()?);
        self.prepare_change(change, region, sealing)
    }

    pub fn prepare_change(&mut self, change: Change, region: Region, sealing: Sealing) -> Result<Vec<u8>, StoreError> {
        let clock = self.store.clock_kind()?.is_none().then_some(self.clock_kind.stored());
        let change = Change { clock, ..change };
        let encoded = change.encode()?;
        let payload = match (sealing, &self.key) {
            (Sealing::Sealed, Some(key)) => seal(key, &encoded)?,
            (Sealing::Sealed | Sealing::Clear, _) => encoded,
        };
        self.pending = Some(PreparedCommit { payload: payload.clone(), change, region });
        Ok(payload)
    }

    /// Stores the changes of consecutive entries in one transaction, and publishes the region after the last one.
    fn try_apply(&mut self, entries: &[Entry]) -> Result<(), StoreError> {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return Ok(()) };
        let (changes, region) = self.prepare_changes(entries)?;
        for change in &changes {
            self.check_clock(change.clock)?;
        }
        self.store.apply(first.revision, &encode_position(&last.position()), &changes)?;
        let attachments = || changes.iter().flat_map(|change| &change.attachments);
        if attachments().any(|attachment| attachment.owner == Owner::Region) {
            self.publisher.note_region_attachments();
        }
        if self.has_rules(attachments())? {
            return self.reload();
        }
        let writes = changes.iter().flat_map(|change| &change.writes);
        self.newest = publish_commits(&self.publisher, &self.newest, last.revision, region, writes);
        self.clock.move_to(self.newest.region.now());
        Ok(())
    }

    /// The changes of entries, and the region after them. A commit of this server is neither decoded nor replayed.
    fn prepare_changes(&mut self, entries: &[Entry]) -> Result<(Vec<Change>, Region), StoreError> {
        let own = self.pending.take();
        if let ([entry], Some(PreparedCommit { payload, change, region })) = (entries, own)
            && payload == entry.record.payload
        {
            return Ok((vec![change], region));
        }
        let changes: Vec<Change> =
            entries.iter().map(|entry| self.decode(&entry.record.payload)).collect::<Result<_, _>>()?;
        let region = self.newest.region.replay(changes.iter().flat_map(|change| &change.writes))?;
        Ok((changes, region))
    }

    fn decode(&self, payload: &[u8]) -> Result<Change, StoreError> {
        let Some(sealed) = payload.strip_prefix(&[SEALED_FORMAT]) else { return Change::decode(payload) };
        let Some(key) = &self.key else {
            let problem = "the records of the region's log are encrypted. Start this server with --cluster-key";
            return Err(StoreError::Message(problem.into()));
        };
        Change::decode(&key.open_payload(sealed).map_err(seal_error)?)
    }

    fn has_rules<'a>(&self, attachments: impl Iterator<Item = &'a Attachment>) -> Result<bool, StoreError> {
        for attachment in attachments {
            if rules_of(attachment, &self.configured)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the region has no rules yet.
    pub fn needs_rules(&self) -> Result<bool, StoreError> {
        Ok(read_rules(&*self.store.reader(), &self.configured)?.is_none())
    }

    fn check_clock(&self, found: Option<StoredClock>) -> Result<(), StoreError> {
        let Some(found) = found.filter(|found| *found != self.clock_kind.stored()) else { return Ok(()) };
        Err(StoreError::Message(format!(
            "this region uses a {} clock. Start this server with --clock {0}",
            found.as_str()
        )))
    }

    fn install(&mut self, next: u64) -> Result<Position, String> {
        let file: PathBuf = (self.transfer)(next)?;
        let installed = self.store.install(&file).and_then(|()| self.reload());
        let _ = std::fs::remove_file(&file);
        installed.and_then(|()| self.position()).map_err(|error| error.to_string())
    }

    /// Loads the region from the store.
    pub fn reload(&mut self) -> Result<(), StoreError> {
        let found = self.store.clock_kind()?;
        self.check_clock(found)?;
        let rules = read_rules(&*self.store.reader(), &self.configured)?;
        self.settings = rules.unwrap_or_else(|| self.configured.clone());
        let loaded = self.store.load()?;
        let region = Region::load(self.settings.clone(), loaded.entities)?;
        self.newest = Arc::new(Snapshot { revision: loaded.revision, region });
        self.publisher.note_region_attachments();
        self.publisher.publish_reloaded(self.newest.clone());
        self.clock.move_to(self.newest.region.now());
        Ok(())
    }

    /// Sets a follower's clock to the region's time if they differ visibly. Smaller differences are those of the network.
    pub fn follow_time(&self, time: Timestamp) {
        if (self.clock.now().0 - time.0).abs() > CLOCK_DIFFERENCE_MS_MAX {
            self.clock.set(self.newest.region.now().max(time));
        }
    }

    /// History rows to delete, if there are any older than this.
    pub fn find_oldest(&mut self, before: Timestamp, limit: u32) -> Result<Option<u64>, StoreError> {
        self.store.find_oldest(before, limit)
    }
}

fn seal(key: &Key, payload: &[u8]) -> Result<Vec<u8>, StoreError> {
    let sealed = key.seal_payload(payload).map_err(seal_error)?;
    Ok([&[SEALED_FORMAT][..], &sealed].concat())
}

fn seal_error(error: SealError) -> StoreError {
    StoreError::Message(error.to_string())
}

impl Replica for LocalCopy {
    fn apply(&mut self, entries: &[Entry]) -> Result<(), String> {
        self.try_apply(entries).map_err(|error| error.to_string())
    }

    fn sync(&mut self) -> Result<u64, String> {
        let applied = self.newest.revision;
        self.store.sync_in_background(applied).map_err(|error| format!("cannot make the local copy durable: {error}"))
    }

    fn transfer(&mut self, next: u64) -> Result<Position, String> {
        self.install(next)
    }
}
