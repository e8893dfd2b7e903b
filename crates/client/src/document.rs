//! The document: what it must have, and what is wrong with one that has not.
//!
//! Strict where a mistake would be acted upon (a status, an id, a time), generous where services and
//! emulators differ: keys that are not known are passed over, words may be in any case, and
//! `NotBefore` in either notation. One event that makes no sense makes the whole document an error,
//! because an event that is left out would look like one that is over.

use std::collections::BTreeSet;
use std::time::SystemTime;

use forewarn_wire::version::Version;
use serde_json::{Map, Value};

use crate::event::{Event, EventId, Kind, Resource, Source, Status};
use crate::time;

/// The list of events that a machine is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The version that was asked for.
    pub version: Version,
    /// Changes whenever the list does. It may begin anew: compare for equality, not for order.
    pub incarnation: u64,
    pub events: Vec<Event>,
}

impl Document {
    /// Reads the body of an answer to a request for this version.
    pub fn parse(version: Version, body: &[u8]) -> Result<Document, DocumentError> {
        let value = json(body)?;
        let keys = Keys::of(&value, "")?;
        let incarnation = keys.get("DocumentIncarnation", "a whole number", Value::as_u64)?;
        let list = keys.get("Events", "a list", Value::as_array)?;
        let mut events = Vec::with_capacity(list.len());
        let mut ids = BTreeSet::new();
        for (index, entry) in list.iter().enumerate() {
            let keys = Keys::of(entry, &format!("Events[{index}]"))?;
            let event = event(version, &keys)?;
            if !ids.insert(event.id.clone()) {
                return Err(keys.wrong("EventId", &format!("'{}' is there twice", event.id)));
            }
            events.push(event);
        }
        Ok(Document { version, incarnation, events })
    }
}

impl Event {
    /// Reads one event, such as [`Event::to_json`] writes.
    pub fn parse(version: Version, text: &str) -> Result<Event, DocumentError> {
        let value = json(text.as_bytes())?;
        event(version, &Keys::of(&value, "")?)
    }
}

/// Why an answer is not a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    #[error("the answer is not JSON (line {line}, column {column}): {start:?}")]
    NotJson { line: usize, column: usize, start: String },
    /// `at` is the place, for example `Events[2].NotBefore`.
    #[error("the document makes no sense: {at} {problem}")]
    Wrong { at: String, problem: String },
}

/// How much of a strange answer is repeated in the error.
const START_CHARS_MAX: usize = 60;

pub(crate) fn json(body: &[u8]) -> Result<Value, DocumentError> {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    serde_json::from_slice(body).map_err(|error| DocumentError::NotJson {
        line: error.line(),
        column: error.column(),
        start: String::from_utf8_lossy(body).chars().take(START_CHARS_MAX).collect(),
    })
}

fn event(version: Version, keys: &Keys<'_>) -> Result<Event, DocumentError> {
    let id = keys.text("EventId")?;
    let status = keys.text("EventStatus")?;
    let resources = keys.get("Resources", "a list", Value::as_array)?;
    let resource = |value: &Value| value.as_str().map(|shown| Resource::new(version, shown));
    let resources: Option<_> = resources.iter().map(resource).collect();
    Ok(Event {
        version,
        id: EventId::parse(id).ok_or_else(|| keys.wrong("EventId", &format!("{id:?} is not an id")))?,
        status: Status::parse(status)
            .ok_or_else(|| keys.wrong("EventStatus", &format!("{status:?} is neither Scheduled nor Started")))?,
        kind: Kind::parse(keys.text("EventType")?),
        resource_type: keys.optional("ResourceType", "a string", Value::as_str)?.unwrap_or("VirtualMachine").to_owned(),
        resources: resources.ok_or_else(|| keys.wrong("Resources", "has an entry that is not a string"))?,
        not_before: not_before(keys)?,
        description: keys.optional("Description", "a string", Value::as_str)?.map(str::to_owned),
        source: keys.optional("EventSource", "a string", Value::as_str)?.map(Source::parse),
        duration_secs: keys.optional("DurationInSeconds", "a whole number", Value::as_i64)?,
    })
}

fn not_before(keys: &Keys<'_>) -> Result<Option<SystemTime>, DocumentError> {
    match keys.optional("NotBefore", "a string", Value::as_str)?.unwrap_or_default().trim() {
        "" => Ok(None),
        text => time::parse(text)
            .map(Some)
            .ok_or_else(|| keys.wrong("NotBefore", &format!("{text:?} is a time neither of RFC 1123 nor of ISO 8601"))),
    }
}

/// The keys of an object, and where in the document they are.
struct Keys<'a> {
    map: &'a Map<String, Value>,
    at: String,
}

impl<'a> Keys<'a> {
    fn of(value: &'a Value, at: &str) -> Result<Keys<'a>, DocumentError> {
        match value.as_object() {
            Some(map) => Ok(Keys { map, at: at.to_owned() }),
            None => {
                let at = if at.is_empty() { "it" } else { at };
                Err(DocumentError::Wrong { at: at.to_owned(), problem: "is not an object".into() })
            }
        }
    }

    fn text(&self, key: &str) -> Result<&'a str, DocumentError> {
        self.get(key, "a string", Value::as_str)
    }

    fn get<T>(&self, key: &str, what: &str, read: fn(&'a Value) -> Option<T>) -> Result<T, DocumentError> {
        self.optional(key, what, read)?.ok_or_else(|| self.wrong(key, "is missing"))
    }

    /// A key that is null counts as one that is not there.
    fn optional<T>(&self, key: &str, what: &str, read: fn(&'a Value) -> Option<T>) -> Result<Option<T>, DocumentError> {
        match self.map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => read(value).map(Some).ok_or_else(|| self.wrong(key, &format!("is not {what}"))),
        }
    }

    fn wrong(&self, key: &str, problem: &str) -> DocumentError {
        let dot = if self.at.is_empty() { "" } else { "." };
        DocumentError::Wrong { at: format!("{}{dot}{key}", self.at), problem: problem.to_owned() }
    }
}
