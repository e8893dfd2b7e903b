//! Copies of a region on several servers: the contents of one record of a replicated log, its bytes, and the contract of a store
//! that applies such records.
//!
//! A record contains results, not commands: entities, numbered history rows and attachments. Servers with different versions
//! of the rules therefore cannot diverge. The bytes are a format number and one JSON object per line:
//!
//! ```text
//!   {"put":{"kind":"machine","key":"1","version":1,"body":{…}}}
//!   {"delete":{"kind":"event","key":"…"}}
//!   {"attach":{"kind":"machine","key":"1","name":"identity","value":"…"}}      without value: removed
//!   {"history":{"number":1,"at_ms":…,"kind":"appeared",…}}
//!   {"stamp":"BOOT 12 34"} {"clock":"real"} {"forget":7}
//! ```

use std::path::Path;
use std::sync::Arc;

use forewarn_core::{Entity, Key, Request, RolloutId, StepTarget, Target, Timestamp, Write};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::archive::{HistoryLine, RecordLine};
use crate::record::{self, Interner};
use crate::{Attachment, Batch, ClockKind, ClockStamp, HistoryRow, Owner, Store, StoreError};

/// The newest format of payloads that this program reads and writes. A payload has the oldest format that can express it, so
/// servers of an older version read all others.
pub const PAYLOAD_FORMAT: u8 = EPOCH_FORMAT;

/// The first format in which hosts have an epoch.
const EPOCH_FORMAT: u8 = 7;

/// The first format of servers that read sealed payloads. A sealed payload is this number and the sealed bytes of a payload in another
/// format. This crate has no keys, so it neither seals nor opens payloads.
pub const SEALED_FORMAT: u8 = 6;

/// The first format in which failed steps of rollouts are repeated, and remember the machines that failed.
const RETRY_FORMAT: u8 = 5;

/// The first format in which machines have a requested power state.
const POWER_FORMAT: u8 = 4;

/// The first format in which rollouts carry out maintenance by update domain, and have targets that do not follow from their steps.
const MAINTENANCE_FORMAT: u8 = 3;

/// The first format that has rollouts with a start time, and rollouts over single machines.
const MACHINE_STEPS_FORMAT: u8 = 2;

/// The format of payloads without anything newer.
pub const PAYLOAD_FORMAT_MIN: u8 = 1;

/// The oldest format that can express an entity.
pub fn payload_format(entity: &Entity) -> u8 {
    match entity {
        Entity::Rollout(rollout) if rollout.has_retries() || record::stores_failed_machines(rollout) => RETRY_FORMAT,
        Entity::Rollout(rollout) if rollout.operation.is_some() || record::stores_targets(rollout) => {
            MAINTENANCE_FORMAT
        }
        Entity::Rollout(rollout) => {
            let has_machine_steps = rollout.steps.iter().any(|step| matches!(step.target, StepTarget::Machine(_)));
            if rollout.plan.at.is_some() || has_machine_steps { MACHINE_STEPS_FORMAT } else { PAYLOAD_FORMAT_MIN }
        }
        Entity::Machine(machine) if machine.power_change().is_some() => POWER_FORMAT,
        Entity::Host(host) if host.epoch > 0 => EPOCH_FORMAT,
        Entity::Meta(_)
        | Entity::Host(_)
        | Entity::Group(_)
        | Entity::Scope(_)
        | Entity::Machine(_)
        | Entity::Event(_)
        | Entity::Operation(_) => PAYLOAD_FORMAT_MIN,
    }
}

/// A store that can be a server's copy of a replicated region.
pub trait Replicated: Store {
    /// The position of the last applied record, as the log writes it. None: the store does not belong to a cluster.
    fn position(&mut self) -> Result<Option<String>, StoreError>;

    /// Makes the store a copy that is at this position. Changes nothing else.
    fn set_position(&mut self, position: &str) -> Result<(), StoreError>;

    /// Stores the changes of consecutive records with the revision and position of the last one, atomically. `revision` is that of
    /// the first one, and the stored one must be the one before. Readers see the changes
    /// at once. A crash can lose changes since the last [`Replicated::sync`]: the log has them.
    fn apply(&mut self, revision: u64, position: &str, changes: &[Change]) -> Result<(), StoreError>;

    /// Makes all applied records durable.
    fn sync(&mut self) -> Result<(), StoreError>;

    /// Begins to make everything durable up to `applied`, the revision of the last applied record, and returns the revision up to which
    /// everything is durable. A store without a thread of its own makes it durable immediately.
    fn sync_in_background(&mut self, applied: u64) -> Result<u64, StoreError> {
        self.sync().map(|()| applied)
    }

    /// The time and number of the newest history row, also if it was deleted; zero if there never was one.
    fn newest_row(&mut self) -> Result<(Timestamp, u64), StoreError>;

    /// The number of the last of up to `limit` history rows that are older than `before`. None: there are none.
    fn find_oldest(&mut self, before: Timestamp, limit: u32) -> Result<Option<u64>, StoreError>;

    /// Copies the store to files, next to the writer.
    fn copier(&self) -> Arc<dyn SnapshotWriter>;

    /// Replaces all contents by those of a copy, atomically, next to readers. The file may be changed.
    fn install(&mut self, copy: &Path) -> Result<(), StoreError>;
}

/// Writes consistent copies of a store.
pub trait SnapshotWriter: Send + Sync {
    /// Writes the complete contents, with revision and position, into a new file.
    fn copy_to(&self, file: &Path) -> Result<(), StoreError>;
}

/// The contents of one record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    pub writes: Vec<Write>,
    /// Applied after `writes`, in order.
    pub attachments: Vec<Attachment>,
    /// With their numbers, so that they are the same on every server.
    pub rows: Vec<HistoryRow>,
    pub stamp: Option<ClockStamp>,
    pub clock: Option<ClockKind>,
    /// Delete the history rows up to this number.
    pub forget_through: Option<u64>,
}

impl Change {
    /// The change that a batch makes to a store whose newest history row has this time and number.
    pub fn of_batch(batch: Batch, (last_at, last_number): (Timestamp, u64)) -> Change {
        let mut rows = crate::history::rows_of(&batch, last_at);
        for (row, number) in rows.iter_mut().zip(last_number + 1..) {
            row.number = number;
        }
        let Batch { writes, attachments, stamp, facts: _, audit: _ } = batch;
        Change { writes, attachments, rows, stamp, clock: None, forget_through: None }
    }

    /// The oldest format that can express the change.
    fn format(&self) -> u8 {
        let formats = self.writes.iter().map(|write| match write {
            Write::Put(entity) => payload_format(entity),
            Write::Delete(_) => PAYLOAD_FORMAT_MIN,
        });
        formats.max().unwrap_or(PAYLOAD_FORMAT_MIN)
    }

    pub fn encode(&self) -> Result<Vec<u8>, StoreError> {
        let mut bytes = vec![self.format()];
        for write in &self.writes {
            encode_write(&mut bytes, write)?;
        }
        for Attachment { owner, name, value } in &self.attachments {
            let (kind, key) = owner.record_name();
            let (kind, name, value) = (kind.to_owned(), name.clone(), value.clone());
            put_line(&mut bytes, &ReplicaLine::Attach(AttachLine { kind, key, name, value }))?;
        }
        for row in &self.rows {
            put_line(&mut bytes, &ReplicaLine::History(Box::new(HistoryLine::from(row.clone()))))?;
        }
        if let Some(stamp) = &self.stamp {
            put_line(&mut bytes, &ReplicaLine::Stamp(stamp.to_text()))?;
        }
        if let Some(clock) = self.clock {
            put_line(&mut bytes, &ReplicaLine::Clock(clock.as_str().to_owned()))?;
        }
        if let Some(through) = self.forget_through {
            put_line(&mut bytes, &ReplicaLine::Forget(through))?;
        }
        Ok(bytes)
    }

    /// Reads a payload. An empty one changes nothing.
    pub fn decode(bytes: &[u8]) -> Result<Change, StoreError> {
        let mut change = Change::default();
        let Some((format, text)) = bytes.split_first() else { return Ok(change) };
        if !(PAYLOAD_FORMAT_MIN..=PAYLOAD_FORMAT).contains(format) {
            return Err(StoreError::Message(format!(
                "a record of the region's log has format {format}, but this program reads formats {PAYLOAD_FORMAT_MIN} to \
                 {PAYLOAD_FORMAT}. Upgrade this server."
            )));
        }
        if *format == SEALED_FORMAT {
            return Err(invalid(&"it is sealed"));
        }
        let text = std::str::from_utf8(text).map_err(|error| invalid(&error))?;
        let mut interner = Interner::default();
        for line in text.lines() {
            change.decode_line(serde_json::from_str(line).map_err(|error| invalid(&error))?, &mut interner)?;
        }
        Ok(change)
    }

    fn decode_line(&mut self, line: ReplicaLine<'_>, interner: &mut Interner) -> Result<(), StoreError> {
        match line {
            ReplicaLine::Put(RecordLine { kind, key, version, body }) => {
                let entity = record::decode(&kind, &key, version, body.get(), interner)?;
                let rollout = record::decode_rollout(&kind, &key, body.get(), interner)?;
                // A server of an older version has no rollout for maintenance. Ours ends when it ends the operation.
                let ended = rollout_of_older_version(&entity).filter(|_| rollout.is_none());
                self.writes.push(Write::Put(entity));
                self.writes.extend(rollout.map(Write::Put).or(ended.map(|id| Write::Delete(Key::Rollout(id)))));
            }
            ReplicaLine::Delete(KeyLine { kind, key }) => {
                let key = record::key_of(&kind, &key).ok_or_else(|| invalid(&format!("unknown key {kind} '{key}'")))?;
                self.writes.push(Write::Delete(key));
            }
            ReplicaLine::Attach(AttachLine { kind, key, name, value }) => {
                let owner = Owner::from_record_name(&kind, &key);
                let owner = owner.ok_or_else(|| invalid(&format!("unknown owner {kind} '{key}'")))?;
                self.attachments.push(Attachment { owner, name, value });
            }
            ReplicaLine::History(line) => self.rows.push(line.into_row().map_err(|error| invalid(&error))?),
            ReplicaLine::Stamp(text) => self.stamp = ClockStamp::parse(&text),
            ReplicaLine::Clock(word) => self.clock = Some(ClockKind::parse(&word)?),
            ReplicaLine::Forget(through) => self.forget_through = Some(through),
        }
        Ok(())
    }
}

#[derive(Serialize, Deserialize)]
enum ReplicaLine<'a> {
    #[serde(rename = "put", borrow)]
    Put(RecordLine<'a>),
    #[serde(rename = "delete")]
    Delete(KeyLine),
    #[serde(rename = "attach")]
    Attach(AttachLine),
    #[serde(rename = "history")]
    History(Box<HistoryLine>),
    #[serde(rename = "stamp")]
    Stamp(String),
    #[serde(rename = "clock")]
    Clock(String),
    #[serde(rename = "forget")]
    Forget(u64),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyLine {
    kind: String,
    key: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AttachLine {
    kind: String,
    key: String,
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<String>,
}

fn encode_write(bytes: &mut Vec<u8>, write: &Write) -> Result<(), StoreError> {
    match write {
        Write::Put(entity) => {
            let record::Record { kind, key, version, body } = record::encode(entity);
            let body: &RawValue = serde_json::from_str(&body).map_err(|error| StoreError::Io(error.into()))?;
            put_line(bytes, &ReplicaLine::Put(RecordLine { kind: kind.to_owned(), key, version, body }))
        }
        Write::Delete(key) => {
            let (kind, key) = record::name_of(key);
            put_line(bytes, &ReplicaLine::Delete(KeyLine { kind: kind.to_owned(), key }))
        }
    }
}

/// The rollout of maintenance by update domain, if a version wrote the operation in which rollouts did not carry it out.
fn rollout_of_older_version(entity: &Entity) -> Option<RolloutId> {
    let Entity::Operation(operation) = entity else { return None };
    let by_domain = match &operation.request {
        Request::Maintain { target: Target::Machines(machines), .. } => machines.len() > 1,
        Request::Maintain { target: Target::Group(_), .. } => true,
        _ => false,
    };
    (by_domain && operation.rollout.is_none()).then_some(operation.id)
}

fn put_line(bytes: &mut Vec<u8>, line: &ReplicaLine<'_>) -> Result<(), StoreError> {
    serde_json::to_writer(&mut *bytes, line).map_err(|error| StoreError::Io(error.into()))?;
    bytes.push(b'\n');
    Ok(())
}

fn invalid(reason: &dyn std::fmt::Display) -> StoreError {
    StoreError::Message(format!("a record of the region's log cannot be read: {reason}"))
}

/// The error of a record that does not follow the stored revision.
pub(crate) fn out_of_order(found: u64, revision: u64) -> StoreError {
    StoreError::Message(format!("cannot apply record {revision} to a copy at revision {found}"))
}
