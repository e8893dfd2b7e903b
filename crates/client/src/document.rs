//! Parsing of the Scheduled Events document.
//!
//! The parser is strict where a mistake would be acted upon (status, ID, time) and lenient where services and emulators
//! differ: unknown keys are ignored, words are case-insensitive, and `NotBefore` may be in RFC 1123 or ISO 8601 format.
//! One invalid event makes the whole document invalid, because a missing event would look like one that has finished.

use std::collections::BTreeSet;
use std::time::SystemTime;

use forewarn_wire::version::Version;
use serde_json::{Map, Value};

use crate::event::{Event, EventId, EventKind, EventSource, EventStatus, Resource};
use crate::time;

/// List of the events that a machine can see.
///
/// ```
/// use forewarn_client::{Document, Version};
///
/// let body = br#"{"DocumentIncarnation":1,"Events":[]}"#;
/// assert_eq!(Document::parse(Version::V2020_07_01, body)?.events, []);
/// # Ok::<(), forewarn_client::DocumentError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// API version of the request.
    pub version: Version,
    /// Changes whenever the list does. The number can start over, so compare for equality, not for order.
    pub incarnation: u64,
    /// Events in the order of the service.
    pub events: Vec<Event>,
}

impl Document {
    /// Parses the body of a response to a request for this version.
    pub fn parse(version: Version, body: &[u8]) -> Result<Document, DocumentError> {
        let value = parse_json(body)?;
        let object = Object::of(&value, "")?;
        let incarnation = object.get("DocumentIncarnation", "a whole number", Value::as_u64)?;
        let list = object.get("Events", "a list", Value::as_array)?;
        let mut events = Vec::with_capacity(list.len());
        let mut ids = BTreeSet::new();
        for (index, entry) in list.iter().enumerate() {
            let object = Object::of(entry, &format!("Events[{index}]"))?;
            let event = parse_event(version, &object)?;
            if !ids.insert(event.id.clone()) {
                return Err(object.invalid("EventId", &format!("'{}' occurs twice", event.id)));
            }
            events.push(event);
        }
        Ok(Document { version, incarnation, events })
    }
}

impl Event {
    /// Parses one event, in the format of [`Event::to_json`].
    pub fn parse(version: Version, text: &str) -> Result<Event, DocumentError> {
        let value = parse_json(text.as_bytes())?;
        parse_event(version, &Object::of(&value, "")?)
    }
}

/// Error in the body of a response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    #[error("not JSON (line {line}, column {column}): {start:?}")]
    NotJson { line: usize, column: usize, start: String },
    /// `path` is the location of the value, for example `Events[2].NotBefore`.
    #[error("invalid document: {path} {problem}")]
    Invalid { path: String, problem: String },
}

/// Length of the excerpt of an invalid response that an error shows.
const START_CHARS_MAX: usize = 60;

pub(crate) fn parse_json(body: &[u8]) -> Result<Value, DocumentError> {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    serde_json::from_slice(body).map_err(|error| DocumentError::NotJson {
        line: error.line(),
        column: error.column(),
        start: String::from_utf8_lossy(body).chars().take(START_CHARS_MAX).collect(),
    })
}

fn parse_event(version: Version, object: &Object<'_>) -> Result<Event, DocumentError> {
    let id = object.get_text("EventId")?;
    let status = object.get_text("EventStatus")?;
    let resources = object.get("Resources", "a list", Value::as_array)?;
    let resource = |value: &Value| value.as_str().map(|raw| Resource::new(version, raw));
    let resources: Option<_> = resources.iter().map(resource).collect();
    Ok(Event {
        version,
        id: EventId::parse(id).ok_or_else(|| object.invalid("EventId", &format!("{id:?} is not a valid ID")))?,
        status: EventStatus::parse(status)
            .ok_or_else(|| object.invalid("EventStatus", &format!("{status:?} is neither Scheduled nor Started")))?,
        kind: EventKind::parse(object.get_text("EventType")?),
        resource_type: object
            .optional("ResourceType", "a string", Value::as_str)?
            .unwrap_or("VirtualMachine")
            .to_owned(),
        resources: resources.ok_or_else(|| object.invalid("Resources", "has an entry that is not a string"))?,
        not_before: parse_not_before(object)?,
        description: object.optional("Description", "a string", Value::as_str)?.map(str::to_owned),
        source: object.optional("EventSource", "a string", Value::as_str)?.map(EventSource::parse),
        duration_secs: object.optional("DurationInSeconds", "a whole number", Value::as_i64)?,
    })
}

fn parse_not_before(object: &Object<'_>) -> Result<Option<SystemTime>, DocumentError> {
    match object.optional("NotBefore", "a string", Value::as_str)?.unwrap_or_default().trim() {
        "" => Ok(None),
        text => time::parse(text).map(Some).ok_or_else(|| {
            object.invalid("NotBefore", &format!("{text:?} is neither an RFC 1123 nor an ISO 8601 time"))
        }),
    }
}

/// JSON object with its path in the document, for error messages.
struct Object<'a> {
    map: &'a Map<String, Value>,
    path: String,
}

impl<'a> Object<'a> {
    fn of(value: &'a Value, path: &str) -> Result<Object<'a>, DocumentError> {
        match value.as_object() {
            Some(map) => Ok(Object { map, path: path.to_owned() }),
            None => {
                let path = if path.is_empty() { "the top level" } else { path };
                Err(DocumentError::Invalid { path: path.to_owned(), problem: "is not an object".into() })
            }
        }
    }

    fn get_text(&self, key: &str) -> Result<&'a str, DocumentError> {
        self.get(key, "a string", Value::as_str)
    }

    fn get<T>(&self, key: &str, what: &str, read: fn(&'a Value) -> Option<T>) -> Result<T, DocumentError> {
        self.optional(key, what, read)?.ok_or_else(|| self.invalid(key, "is missing"))
    }

    /// Reads a key; `null` counts as missing.
    fn optional<T>(&self, key: &str, what: &str, read: fn(&'a Value) -> Option<T>) -> Result<Option<T>, DocumentError> {
        match self.map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => read(value).map(Some).ok_or_else(|| self.invalid(key, &format!("is not {what}"))),
        }
    }

    fn invalid(&self, key: &str, problem: &str) -> DocumentError {
        let dot = if self.path.is_empty() { "" } else { "." };
        DocumentError::Invalid { path: format!("{}{dot}{key}", self.path), problem: problem.to_owned() }
    }
}
