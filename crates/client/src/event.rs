//! An event as the client sees it. Known values are typed; unknown ones are kept as text.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::time::{Duration, SystemTime};

use forewarn_wire::document as wire;
use forewarn_wire::version::Version;
use serde_json::json;

/// Scheduled event that affects one or more machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// API version of the document that contains the event. Older versions have fewer fields.
    pub version: Version,
    /// Stays the same throughout the lifecycle of the event.
    pub id: EventId,
    pub status: EventStatus,
    pub kind: EventKind,
    /// Always `VirtualMachine` so far.
    pub resource_type: String,
    /// Affected machines. Use [`Event::affects`] to look for one.
    pub resources: Vec<Resource>,
    /// Earliest start, unless the event is approved. `None` once the event has started.
    pub not_before: Option<SystemTime>,
    /// Since 2019-04-01.
    pub description: Option<String>,
    /// Since 2019-08-01.
    pub source: Option<EventSource>,
    /// Expected interruption, since 2020-07-01; -1 if unknown.
    pub duration_secs: Option<i64>,
}

impl Event {
    /// Whether the event affects the machine with this `compute.name`.
    pub fn affects(&self, machine: &str) -> bool {
        self.resources.iter().any(|resource| resource.matches(machine))
    }

    /// Expected interruption, if the service knows it.
    pub fn duration(&self) -> Option<Duration> {
        self.duration_secs.and_then(|secs| u64::try_from(secs).ok()).map(Duration::from_secs)
    }

    /// `NotBefore` in the format of the service: an RFC 1123 time, or an empty string.
    pub fn not_before_text(&self) -> String {
        self.not_before.map(httpdate::fmt_http_date).unwrap_or_default()
    }

    /// Formats the event as compact JSON, with the keys and the order of the service. [`Event::parse`] reads it back.
    pub fn to_json(&self) -> String {
        let mut keys = vec![
            ("EventId", json!(self.id.as_str())),
            ("EventStatus", json!(self.status.as_str())),
            ("EventType", json!(self.kind.as_str())),
            ("ResourceType", json!(self.resource_type)),
            ("Resources", self.resources.iter().map(|resource| json!(resource.raw())).collect()),
            ("NotBefore", json!(self.not_before_text())),
        ];
        keys.extend(self.description.as_ref().map(|text| ("Description", json!(text))));
        keys.extend(self.source.as_ref().map(|source| ("EventSource", json!(source.as_str()))));
        keys.extend(self.duration_secs.map(|secs| ("DurationInSeconds", json!(secs))));
        // `serde_json::Map` would sort the keys.
        let pairs: Vec<String> = keys.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        format!("{{{}}}", pairs.join(","))
    }

    /// Keeps the values that an earlier document had and the current version does not show.
    pub(crate) fn with_gaps_filled_from(mut self, before: &Event) -> Event {
        self.description = self.description.or_else(|| before.description.clone());
        self.source = self.source.or_else(|| before.source.clone());
        self.duration_secs = self.duration_secs.or(before.duration_secs);
        self
    }
}

/// Event ID: a GUID. Compared without regard to case.
///
/// An ID is safe to use as a file name: it consists of letters, digits, `-`, `_` and `.`, and starts with a letter or a
/// digit.
///
/// ```
/// use forewarn_client::EventId;
///
/// assert_eq!(EventId::parse("a9a902a0"), EventId::parse("A9A902A0"));
/// assert_eq!(EventId::parse("../etc/passwd"), None);
/// ```
#[derive(Debug, Clone)]
pub struct EventId(String);

/// Longest event ID: more than any GUID has, and short enough for a file name.
pub const EVENT_ID_BYTES_MAX: usize = 128;

impl EventId {
    /// Parses an ID; `None` if it is invalid.
    pub fn parse(text: &str) -> Option<EventId> {
        let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        let rest = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        (first && rest && text.len() <= EVENT_ID_BYTES_MAX).then(|| EventId(text.to_owned()))
    }

    /// ID in the spelling of the service.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn uppercase_bytes(&self) -> impl Iterator<Item = u8> + '_ {
        self.0.bytes().map(|byte| byte.to_ascii_uppercase())
    }
}

impl PartialEq for EventId {
    fn eq(&self, other: &EventId) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for EventId {}

impl Ord for EventId {
    fn cmp(&self, other: &EventId) -> Ordering {
        self.uppercase_bytes().cmp(other.uppercase_bytes())
    }
}

impl PartialOrd for EventId {
    fn partial_cmp(&self, other: &EventId) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for EventId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.uppercase_bytes().for_each(|byte| byte.hash(state));
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Status of an event in the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventStatus {
    /// The event waits for `NotBefore` or for an approval.
    Scheduled,
    /// The event is in progress.
    Started,
}

impl EventStatus {
    /// Value in the document.
    pub const fn as_str(self) -> &'static str {
        match self {
            EventStatus::Scheduled => "Scheduled",
            EventStatus::Started => "Started",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<EventStatus> {
        [EventStatus::Scheduled, EventStatus::Started]
            .into_iter()
            .find(|status| status.as_str().eq_ignore_ascii_case(text))
    }
}

/// Effect of an event on its machines; the `EventType` of the document.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// The machine pauses for a few seconds; nothing is lost.
    Freeze,
    /// The machine restarts.
    Reboot,
    /// The machine moves to another host; local disks are lost.
    Redeploy,
    /// A Spot machine is evicted.
    Preempt,
    /// The machine is deleted.
    Terminate,
    /// A type that this version of the library does not know.
    Other(String),
}

impl EventKind {
    /// Parses an `EventType`, in upper or lower case.
    pub fn parse(text: &str) -> EventKind {
        let known =
            [EventKind::Freeze, EventKind::Reboot, EventKind::Redeploy, EventKind::Preempt, EventKind::Terminate];
        let found = known.into_iter().find(|kind| kind.as_str().eq_ignore_ascii_case(text));
        found.unwrap_or_else(|| EventKind::Other(text.to_owned()))
    }

    /// Value in the document.
    pub fn as_str(&self) -> &str {
        match self {
            EventKind::Freeze => wire::Kind::Freeze.as_str(),
            EventKind::Reboot => wire::Kind::Reboot.as_str(),
            EventKind::Redeploy => wire::Kind::Redeploy.as_str(),
            EventKind::Preempt => wire::Kind::Preempt.as_str(),
            EventKind::Terminate => wire::Kind::Terminate.as_str(),
            EventKind::Other(text) => text,
        }
    }

    /// Whether documents of `version` show events of this kind, given that one was seen in `seen_in`.
    pub(crate) fn is_visible_in(&self, version: Version, seen_in: Version) -> bool {
        match wire::Kind::ALL.into_iter().find(|kind| kind.as_str() == self.as_str()) {
            Some(kind) => wire::is_shown(version, kind),
            None => version >= seen_in,
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Origin of an event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EventSource {
    /// The operator of the hosts.
    Platform,
    /// The owner of the machine.
    User,
    /// A source that this version of the library does not know.
    Other(String),
}

impl EventSource {
    /// Parses an `EventSource`, in upper or lower case.
    pub fn parse(text: &str) -> EventSource {
        let found = [EventSource::Platform, EventSource::User]
            .into_iter()
            .find(|word| word.as_str().eq_ignore_ascii_case(text));
        found.unwrap_or_else(|| EventSource::Other(text.to_owned()))
    }

    /// Value in the document.
    pub fn as_str(&self) -> &str {
        match self {
            EventSource::Platform => "Platform",
            EventSource::User => "User",
            EventSource::Other(text) => text,
        }
    }
}

/// Machine that an event affects.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Resource {
    raw: String,
    name_start: usize,
}

impl Resource {
    /// Creates a resource from a value in a document. Version 2017-03-01 puts an underscore before machine names.
    pub fn new(version: Version, raw: &str) -> Resource {
        let name_start = usize::from(version == Version::V2017_03_01 && raw.starts_with('_'));
        Resource { raw: raw.to_owned(), name_start }
    }

    /// Machine name, without the underscore of 2017-03-01.
    pub fn name(&self) -> &str {
        &self.raw[self.name_start..]
    }

    /// Value in the document.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// Whether this is the machine with that name. In 2017-03-01 role instances have no extra underscore, so a leading
    /// underscore can also be part of the name.
    pub fn matches(&self, machine: &str) -> bool {
        self.name().eq_ignore_ascii_case(machine) || self.raw.eq_ignore_ascii_case(machine)
    }
}
