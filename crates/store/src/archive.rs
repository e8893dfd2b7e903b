//! Everything of a store as lines of JSON: to keep, to read, to move to another kind of store.
//!
//! ```text
//!   {"archive":{"format":"forewarn","version":2,"revision":7,"clock":"real"}}
//!   {"record":{"kind":"machine","key":"1","version":1,"body":{…}}}                    the state
//!   {"attachment":{"kind":"machine","key":"1","name":"identity","value":"…"}}         what rides along with it
//!   {"history":{"number":1,"at_ms":…,"kind":"appeared",…}}                            what happened
//!   {"end":{"records":1,"attachments":1,"history":1}}                                 so that half an archive is seen
//! ```
//!
//! Version 1 had no attachments, and is read.
//!
//! ```text
//!   header ─▶ records ─▶ attachments ─▶ history ─▶ end
//! ```

use std::collections::HashSet;
use std::io::{BufRead, Read, Write};

use forewarn_core::{Entity, LoadError, Region, Settings, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::record::{self, Interner};
use crate::text::parse_guid;
use crate::*;

/// The version that archives are written in. Records in them have versions of their own.
pub const VERSION: u32 = 3;

/// The oldest version that is read.
const VERSION_MIN: u32 = 1;

/// Longer than any record: a document's worth of events in one operation.
pub const LINE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What an archive holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    pub records: u64,
    #[serde(default)]
    pub attachments: u64,
    pub history: u64,
}

/// Writes everything that is in the store.
pub fn export(store: &mut dyn Store, out: impl Write) -> Result<Summary, StoreError> {
    let clock = store.clock_kind()?;
    let Loaded { revision, entities } = store.load()?;
    export_region(revision, clock, entities, &*store.reader(), out)
}

/// Writes a region and its history beside a running server: the region is the given one, history what
/// the reader finds by then.
pub fn export_region(
    revision: u64,
    clock: Option<ClockKind>,
    entities: impl IntoIterator<Item = Entity>,
    reader: &dyn Reader,
    out: impl Write,
) -> Result<Summary, StoreError> {
    let mut out = Lines { out };
    let clock = clock.map(|kind| kind.as_str().to_string());
    out.write(&Line::Archive(Header { format: FORMAT.into(), version: VERSION, revision, clock }))?;
    let mut summary = Summary::default();
    let mut owners = HashSet::from([Owner::Region]);
    for entity in entities {
        out.write_record(&record::encode(&entity))?;
        owners.extend(Owner::of(&entity.key()));
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
            out.write(&Line::History(Box::new(HistoryLine::from(row))))?;
        }
    }
    out.write(&Line::End(summary))?;
    out.out.flush().map_err(|error| StoreError::Io(error.into()))?;
    Ok(summary)
}

/// Fills an empty store with an archive. Everything is checked, and nothing stays when something is wrong.
pub fn import(archive: impl BufRead, store: &mut dyn Store) -> Result<Summary, StoreError> {
    let Loaded { revision, entities } = store.load()?;
    if revision != 0 || !entities.is_empty() {
        return Err(StoreError::not_empty());
    }
    let mut archive = Archive { input: archive, number: 0, line: String::new() };
    let header = archive.header()?;
    let clock = header.clock.as_deref().map(ClockKind::parse).transpose().map_err(|error| archive.wrong(error))?;
    let (State { entities, attachments }, next) = archive.state()?;
    let mut next = Some(next);
    Region::load(Settings::default(), entities.iter().cloned()).map_err(|LoadError(reason)| {
        StoreError::Message(format!("the records of the archive do not fit each other: {reason}"))
    })?;
    let mut summary = Summary { records: entities.len() as u64, attachments: attachments.len() as u64, history: 0 };
    let contents = Contents { revision: header.revision, clock, entities, attachments };
    let mut last = None;
    let mut rows = std::iter::from_fn(|| {
        let line = next.take()?;
        archive.row(line, &mut next, &mut last, &mut summary).transpose()
    });
    store.restore(&contents, &mut rows)?;
    Ok(summary)
}

const FORMAT: &str = "forewarn";

#[derive(Serialize, Deserialize)]
enum Line<'a> {
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
struct RecordLine<'a> {
    kind: String,
    key: String,
    version: u32,
    #[serde(borrow)]
    body: &'a RawValue,
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
struct HistoryLine {
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
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
    /// As text, so that it comes back byte for byte.
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
            actor: row.actor,
            target: row.target,
            outcome: row.outcome,
            detail: row.detail,
        }
    }
}

impl HistoryLine {
    fn into_row(self) -> Result<HistoryRow, String> {
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
    fn write(&mut self, line: &Line<'_>) -> Result<(), StoreError> {
        serde_json::to_writer(&mut self.out, line).map_err(|error| StoreError::Io(error.into()))?;
        self.out.write_all(b"\n").map_err(|error| StoreError::Io(error.into()))
    }

    fn write_record(&mut self, record: &record::Record) -> Result<(), StoreError> {
        let body = serde_json::from_str(&record.body).map_err(|error| StoreError::Io(error.into()))?;
        let (kind, key) = (record.kind.to_string(), record.key.clone());
        self.write(&Line::Record(RecordLine { kind, key, version: record.version, body }))
    }

    /// Those of the given owners: others have come since the region was looked at. Returns how many.
    fn write_attachments(&mut self, reader: &dyn Reader, owners: &HashSet<Owner>) -> Result<u64, StoreError> {
        let mut written = 0;
        let mut page = reader.all_attachments(None)?;
        while let Some(last) = page.last() {
            let next = reader.all_attachments(Some((last.owner, &last.name)))?;
            for Attachment { owner, name, value } in page {
                let Some(value) = value.filter(|_| owners.contains(&owner)) else { continue };
                let (kind, key) = owner.name();
                self.write(&Line::Attachment(AttachmentLine { kind: kind.into(), key, name, value }))?;
                written += 1;
            }
            page = next;
        }
        Ok(written)
    }
}

struct Archive<R> {
    input: R,
    /// Of the line that was read last.
    number: u64,
    line: String,
}

struct State {
    entities: Vec<Entity>,
    attachments: Vec<Attachment>,
}

/// A line after the state.
enum After {
    History(Box<HistoryLine>),
    End(Summary),
}

impl<R: BufRead> Archive<R> {
    fn header(&mut self) -> Result<Header, StoreError> {
        self.read()?;
        let header = match serde_json::from_str(&self.line) {
            Ok(Line::Archive(header)) if header.format == FORMAT => header,
            _ => return Err(self.wrong("this is not an archive of Forewarn")),
        };
        if !(VERSION_MIN..=VERSION).contains(&header.version) {
            return Err(self.wrong(format_args!(
                "the archive is of version {}, and this program knows {VERSION_MIN} to {VERSION}",
                header.version
            )));
        }
        Ok(header)
    }

    /// All records and attachments, and the line after them.
    fn state(&mut self) -> Result<(State, After), StoreError> {
        let mut interner = Interner::default();
        let mut entities: Vec<Entity> = Vec::new();
        let mut attachments: Vec<Attachment> = Vec::new();
        let mut keys = HashSet::new();
        loop {
            self.read()?;
            match self.parse()? {
                Line::Archive(_) => return Err(self.wrong("a second archive begins here")),
                Line::Record(_) if !attachments.is_empty() => {
                    return Err(self.wrong("a record among attachments: records come first"));
                }
                Line::Record(line) => {
                    if !keys.insert((line.kind.clone(), line.key.clone())) {
                        return Err(self.wrong(format_args!("a second record {} '{}'", line.kind, line.key)));
                    }
                    let entity = record::decode(&line.kind, &line.key, line.version, line.body.get(), &mut interner)
                        .map_err(|error| self.wrong(error))?;
                    entities.push(entity);
                }
                Line::Attachment(line) => {
                    let owned = line.kind == "meta" || keys.contains(&(line.kind.clone(), line.key.clone()));
                    let owner = Owner::named(&line.kind, &line.key).filter(|_| owned);
                    let owner = owner.ok_or_else(|| self.wrong("the attachment belongs to nothing in the archive"))?;
                    attachments.push(Attachment::put(owner, line.name, line.value));
                }
                Line::History(line) => return Ok((State { entities, attachments }, After::History(line))),
                Line::End(end) => return Ok((State { entities, attachments }, After::End(end))),
            }
        }
    }

    /// The row of a line, after which `next` is the line that follows. None at the end.
    fn row(
        &mut self,
        line: After,
        next: &mut Option<After>,
        last: &mut Option<(u64, Timestamp)>,
        summary: &mut Summary,
    ) -> Result<Option<HistoryRow>, StoreError> {
        let line = match line {
            After::History(line) => line,
            After::End(end) if end != *summary => return Err(self.incomplete(end, *summary)),
            After::End(_) => return self.finish().map(|()| None),
        };
        let row = line.into_row().map_err(|error| self.wrong(error))?;
        if last.is_some_and(|(number, at)| row.number <= number || row.at < at) {
            return Err(self.wrong("history is not in order"));
        }
        *last = Some((row.number, row.at));
        summary.history += 1;
        *next = Some(self.after()?);
        Ok(Some(row))
    }

    fn after(&mut self) -> Result<After, StoreError> {
        self.read()?;
        match self.parse()? {
            Line::Archive(_) => Err(self.wrong("a second archive begins here")),
            Line::Record(_) => Err(self.wrong("a record among history: records come first")),
            Line::Attachment(_) => Err(self.wrong("an attachment among history: attachments come first")),
            Line::History(line) => Ok(After::History(line)),
            Line::End(end) => Ok(After::End(end)),
        }
    }

    fn finish(&mut self) -> Result<(), StoreError> {
        self.number += 1;
        match self.input.fill_buf() {
            Ok([]) => Ok(()),
            Ok(_) => Err(self.wrong("there is more after the end line")),
            Err(error) => Err(self.wrong(error)),
        }
    }

    fn read(&mut self) -> Result<(), StoreError> {
        self.line.clear();
        self.number += 1;
        let read = (&mut self.input).take(LINE_BYTES_MAX).read_line(&mut self.line);
        match read {
            Err(error) => Err(self.wrong(error)),
            Ok(_) if self.line.ends_with('\n') => Ok(()),
            Ok(length) if length as u64 == LINE_BYTES_MAX => Err(self.wrong("the line is too long")),
            Ok(_) => Err(self.wrong("the archive ends before its end line: it is not complete")),
        }
    }

    fn parse(&self) -> Result<Line<'_>, StoreError> {
        serde_json::from_str(&self.line).map_err(|error| self.wrong(error))
    }

    fn incomplete(&self, said: Summary, found: Summary) -> StoreError {
        self.wrong(format_args!(
            "the archive should have {} records, {} attachments and {} rows of history, but has {}, {} and {}",
            said.records, said.attachments, said.history, found.records, found.attachments, found.history
        ))
    }

    fn wrong(&self, reason: impl std::fmt::Display) -> StoreError {
        StoreError::Message(format!("line {} of the archive: {reason}", self.number))
    }
}
