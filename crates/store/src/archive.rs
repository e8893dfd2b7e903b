//! Archives: the complete contents of a store as lines of JSON, for backups and for moving to another store.
//!
//! ```text
//!   {"archive":{"format":"forewarn","version":10,"revision":7,"clock":"real"}}
//!   {"record":{"kind":"machine","key":"1","version":1,"body":{…}}}                    entities
//!   {"attachment":{"kind":"machine","key":"1","name":"identity","value":"…"}}         attachments of entities
//!   {"history":{"number":1,"at_ms":…,"kind":"appeared",…}}                            history rows
//!   {"end":{"records":1,"attachments":1,"history":1}}                                 reveals a truncated archive
//! ```
//!
//! The sections come in this order. Archives of version 1, which have no attachments, can still be read.

use std::collections::HashSet;
use std::io::{BufRead, Read, Write};

use forewarn_core::{Entity, LoadError, MachineId, Region, Settings, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::record::{self, Interner};
use crate::text::parse_guid;
use crate::*;

/// The version in which archives are written. Records have their own version.
pub const VERSION: u32 = 10;

/// The oldest version that can be read.
const VERSION_MIN: u32 = 1;

/// Maximum length of a line. Longer than any record, even an operation with the maximum number of events.
pub const LINE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Number of entries in an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    pub records: u64,
    #[serde(default)]
    pub attachments: u64,
    pub history: u64,
}

/// Writes the complete contents of a store.
pub fn export(store: &mut dyn Store, out: impl Write) -> Result<Summary, StoreError> {
    let clock = store.clock_kind()?;
    let Loaded { revision, entities } = store.load()?;
    export_region(revision, clock, entities, &*store.reader(), out)
}

/// Writes a region and its history while the server is running. The region is the given one; the history is
/// read as it is at that time.
pub fn export_region(
    revision: u64,
    clock: Option<ClockKind>,
    entities: impl IntoIterator<Item = Entity>,
    reader: &dyn Reader,
    out: impl Write,
) -> Result<Summary, StoreError> {
    let mut out = Lines { out };
    let clock = clock.map(|kind| kind.as_str().to_string());
    out.write(&ArchiveLine::Archive(Header { format: FORMAT.into(), version: VERSION, revision, clock }))?;
    let mut summary = Summary::default();
    let mut owners = HashSet::from([Owner::Region]);
    for entity in entities {
        out.write_record(&record::encode(&entity))?;
        owners.extend(Owner::from_key(&entity.key()));
        summary.records += 1;
    }
    summary.attachments = out.write_attachments(reader, &owners)?;
    let mut query = HistoryQuery::default();
    loop {
        let rows = reader.history(&query)?;
        let Some(last) = rows.last() else { break };
        query.after = Some(last.number);
        summary.history += rows.len() as u64;
        for row in rows {
            out.write(&ArchiveLine::History(Box::new(HistoryLine::from(row))))?;
        }
    }
    out.write(&ArchiveLine::End(summary))?;
    out.out.flush().map_err(|error| StoreError::Io(error.into()))?;
    Ok(summary)
}

/// Fills an empty store from an archive. The whole archive is checked; if it has an error, the store stays
/// empty.
pub fn import(archive: impl BufRead, store: &mut dyn Store) -> Result<Summary, StoreError> {
    let Loaded { revision, entities } = store.load()?;
    if revision != 0 || !entities.is_empty() {
        return Err(StoreError::not_empty());
    }
    let mut archive = Archive { input: archive, number: 0, line: String::new() };
    let header = archive.read_header()?;
    let clock =
        header.clock.as_deref().map(ClockKind::parse).transpose().map_err(|error| archive.error_at_line(error))?;
    let (ImportedState { records, entities, attachments }, next) = archive.read_state()?;
    let mut next = Some(next);
    Region::load(Settings::default(), entities.iter().cloned()).map_err(|LoadError(reason)| {
        StoreError::Message(format!(
            "the records of the archive contradict each other: {reason}. Export the data again"
        ))
    })?;
    let mut summary = Summary { records, attachments: attachments.len() as u64, history: 0 };
    let contents = Contents { revision: header.revision, clock, entities, attachments };
    let mut last = None;
    let mut rows = std::iter::from_fn(|| {
        let line = next.take()?;
        archive.read_row(line, &mut next, &mut last, &mut summary).transpose()
    });
    store.restore(&contents, &mut rows)?;
    Ok(summary)
}

const FORMAT: &str = "forewarn";

#[derive(Serialize, Deserialize)]
enum ArchiveLine<'a> {
    #[serde(rename = "archive")]
    Archive(Header),
    #[serde(rename = "record", borrow)]
    Record(RecordLine<'a>),
    #[serde(rename = "attachment")]
    Attachment(AttachmentLine),
    #[serde(rename = "history")]
    History(Box<HistoryLine>),
    #[serde(rename = "end")]
    End(Summary),
}

#[derive(Serialize, Deserialize)]
struct Header {
    format: String,
    version: u32,
    revision: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    clock: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordLine<'a> {
    pub kind: String,
    pub key: String,
    pub version: u32,
    #[serde(borrow)]
    pub body: &'a RawValue,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AttachmentLine {
    kind: String,
    key: String,
    name: String,
    value: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryLine {
    number: u64,
    at_ms: i64,
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    joined: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    machines: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    machine_ids: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
    /// A string, so that the text is restored byte for byte.
    detail: String,
}

impl From<HistoryRow> for HistoryLine {
    fn from(row: HistoryRow) -> Self {
        HistoryLine {
            number: row.number,
            at_ms: row.at.0,
            kind: row.kind,
            event: row.event.map(|id| id.to_string()),
            operation: row.operation.map(|id| id.to_string()),
            joined: row.joined.iter().map(ToString::to_string).collect(),
            scope: row.scope,
            machines: row.machines,
            machine_ids: row.machine_ids.iter().map(|id| id.0).collect(),
            actor: row.actor,
            target: row.target,
            outcome: row.outcome,
            detail: row.detail,
        }
    }
}

impl HistoryLine {
    pub(crate) fn into_row(self) -> Result<HistoryRow, String> {
        let guid = |text: String| parse_guid(&text).ok_or_else(|| format!("'{text}' is not a GUID"));
        Ok(HistoryRow {
            number: self.number,
            at: Timestamp(self.at_ms),
            kind: self.kind,
            event: self.event.map(guid).transpose()?,
            operation: self.operation.map(guid).transpose()?,
            joined: self.joined.into_iter().map(guid).collect::<Result<_, _>>()?,
            scope: self.scope,
            machines: self.machines,
            machine_ids: self.machine_ids.into_iter().map(MachineId).collect(),
            actor: self.actor,
            target: self.target,
            outcome: self.outcome,
            detail: self.detail,
        })
    }
}

struct Lines<W> {
    out: W,
}

impl<W: Write> Lines<W> {
    fn write(&mut self, line: &ArchiveLine<'_>) -> Result<(), StoreError> {
        serde_json::to_writer(&mut self.out, line).map_err(|error| StoreError::Io(error.into()))?;
        self.out.write_all(b"\n").map_err(|error| StoreError::Io(error.into()))
    }

    fn write_record(&mut self, record: &record::Record) -> Result<(), StoreError> {
        let body = serde_json::from_str(&record.body).map_err(|error| StoreError::Io(error.into()))?;
        let (kind, key) = (record.kind.to_string(), record.key.clone());
        self.write(&ArchiveLine::Record(RecordLine { kind, key, version: record.version, body }))
    }

    /// Writes the attachments of the given owners and returns their number. Other owners may have been added
    /// since the region was read.
    fn write_attachments(&mut self, reader: &dyn Reader, owners: &HashSet<Owner>) -> Result<u64, StoreError> {
        let mut written = 0;
        let mut page = reader.all_attachments(None)?;
        while let Some(last) = page.last() {
            let next = reader.all_attachments(Some((last.owner, &last.name)))?;
            for Attachment { owner, name, value } in page {
                let Some(value) = value.filter(|_| owners.contains(&owner)) else { continue };
                let (kind, key) = owner.record_name();
                self.write(&ArchiveLine::Attachment(AttachmentLine { kind: kind.into(), key, name, value }))?;
                written += 1;
            }
            page = next;
        }
        Ok(written)
    }
}

struct Archive<R> {
    input: R,
    /// Number of the line that was read last.
    number: u64,
    line: String,
}

struct ImportedState {
    /// Number of records. Those of older versions can contain two entities.
    records: u64,
    entities: Vec<Entity>,
    attachments: Vec<Attachment>,
}

/// A line of the sections after records and attachments.
enum HistoryOrEnd {
    History(Box<HistoryLine>),
    End(Summary),
}

impl<R: BufRead> Archive<R> {
    fn read_header(&mut self) -> Result<Header, StoreError> {
        self.read_line()?;
        let header = match serde_json::from_str(&self.line) {
            Ok(ArchiveLine::Archive(header)) if header.format == FORMAT => header,
            _ => return Err(self.error_at_line("this is not a Forewarn archive")),
        };
        if !(VERSION_MIN..=VERSION).contains(&header.version) {
            return Err(self.error_at_line(format_args!(
                "the archive has version {}, but this program reads versions {VERSION_MIN} to {VERSION}",
                header.version
            )));
        }
        Ok(header)
    }

    /// Reads all records and attachments, and the first line after them.
    fn read_state(&mut self) -> Result<(ImportedState, HistoryOrEnd), StoreError> {
        let mut interner = Interner::default();
        let mut entities: Vec<Entity> = Vec::new();
        let mut attachments: Vec<Attachment> = Vec::new();
        let mut keys = HashSet::new();
        loop {
            self.read_line()?;
            match self.parse_line()? {
                ArchiveLine::Archive(_) => return Err(self.error_at_line("unexpected second archive header")),
                ArchiveLine::Record(_) if !attachments.is_empty() => {
                    return Err(self.error_at_line("unexpected record after the attachments"));
                }
                ArchiveLine::Record(line) => {
                    if !keys.insert((line.kind.clone(), line.key.clone())) {
                        return Err(self.error_at_line(format_args!("duplicate record {} '{}'", line.kind, line.key)));
                    }
                    let entity = record::decode(&line.kind, &line.key, line.version, line.body.get(), &mut interner)
                        .map_err(|error| self.error_at_line(error))?;
                    entities.push(entity);
                    let rollout = record::decode_rollout(&line.kind, &line.key, line.body.get(), &mut interner)
                        .map_err(|error| self.error_at_line(error))?;
                    entities.extend(rollout);
                }
                ArchiveLine::Attachment(line) => {
                    let owned = line.kind == "meta" || keys.contains(&(line.kind.clone(), line.key.clone()));
                    let owner = Owner::from_record_name(&line.kind, &line.key).filter(|_| owned);
                    let owner =
                        owner.ok_or_else(|| self.error_at_line("the owner of the attachment is not in the archive"))?;
                    attachments.push(Attachment::put(owner, line.name, line.value));
                }
                ArchiveLine::History(line) => {
                    let records = keys.len() as u64;
                    return Ok((ImportedState { records, entities, attachments }, HistoryOrEnd::History(line)));
                }
                ArchiveLine::End(end) => {
                    let records = keys.len() as u64;
                    return Ok((ImportedState { records, entities, attachments }, HistoryOrEnd::End(end)));
                }
            }
        }
    }

    /// Converts a line to a row and reads the following line into `next`. Returns None at the end.
    fn read_row(
        &mut self,
        line: HistoryOrEnd,
        next: &mut Option<HistoryOrEnd>,
        last: &mut Option<(u64, Timestamp)>,
        summary: &mut Summary,
    ) -> Result<Option<HistoryRow>, StoreError> {
        let line = match line {
            HistoryOrEnd::History(line) => line,
            HistoryOrEnd::End(end) if end != *summary => return Err(self.incomplete_error(end, *summary)),
            HistoryOrEnd::End(_) => return self.expect_end().map(|()| None),
        };
        let row = line.into_row().map_err(|error| self.error_at_line(error))?;
        if last.is_some_and(|(number, at)| row.number <= number || row.at < at) {
            return Err(self.error_at_line("the history is out of order"));
        }
        *last = Some((row.number, row.at));
        summary.history += 1;
        *next = Some(self.read_history_or_end()?);
        Ok(Some(row))
    }

    fn read_history_or_end(&mut self) -> Result<HistoryOrEnd, StoreError> {
        self.read_line()?;
        match self.parse_line()? {
            ArchiveLine::Archive(_) => Err(self.error_at_line("unexpected second archive header")),
            ArchiveLine::Record(_) => Err(self.error_at_line("unexpected record after the history")),
            ArchiveLine::Attachment(_) => Err(self.error_at_line("unexpected attachment after the history")),
            ArchiveLine::History(line) => Ok(HistoryOrEnd::History(line)),
            ArchiveLine::End(end) => Ok(HistoryOrEnd::End(end)),
        }
    }

    fn expect_end(&mut self) -> Result<(), StoreError> {
        self.number += 1;
        match self.input.fill_buf() {
            Ok([]) => Ok(()),
            Ok(_) => Err(self.error_at_line("unexpected data after the end line")),
            Err(error) => Err(self.error_at_line(error)),
        }
    }

    fn read_line(&mut self) -> Result<(), StoreError> {
        self.line.clear();
        self.number += 1;
        let read = (&mut self.input).take(LINE_BYTES_MAX).read_line(&mut self.line);
        match read {
            Err(error) => Err(self.error_at_line(error)),
            Ok(_) if self.line.ends_with('\n') => Ok(()),
            Ok(length) if length as u64 == LINE_BYTES_MAX => Err(self.error_at_line("the line is too long")),
            Ok(_) => Err(self.error_at_line("the archive is incomplete: the end line is missing")),
        }
    }

    fn parse_line(&self) -> Result<ArchiveLine<'_>, StoreError> {
        serde_json::from_str(&self.line).map_err(|error| self.error_at_line(error))
    }

    fn incomplete_error(&self, expected: Summary, found: Summary) -> StoreError {
        self.error_at_line(format_args!(
            "the archive is incomplete: expected {} records, {} attachments and {} history rows, found {}, {} and {}",
            expected.records, expected.attachments, expected.history, found.records, found.attachments, found.history
        ))
    }

    fn error_at_line(&self, reason: impl std::fmt::Display) -> StoreError {
        StoreError::Message(format!("line {} of the archive: {reason}", self.number))
    }
}
