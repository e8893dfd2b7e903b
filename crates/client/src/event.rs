//! One event, as a client sees it: typed where the words are known, as it came where they are not.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::time::{Duration, SystemTime};

use forewarn_wire::document as wire;
use forewarn_wire::version::Version;
use serde_json::json;

/// Something that is going to happen, or happens, to machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The version of the document that it was read from: older ones have fewer fields.
    pub version: Version,
    /// The same for the whole life of the event.
    pub id: EventId,
    pub status: Status,
    pub kind: Kind,
    /// `VirtualMachine`, so far.
    pub resource_type: String,
    /// The machines that it is about. Ask [`Event::concerns`] rather than compare.
    pub resources: Vec<Resource>,
    /// It does not start earlier, unless it is approved. `None` once it has started.
    pub not_before: Option<SystemTime>,
    /// Since 2019-04-01.
    pub description: Option<String>,
    /// Since 2019-08-01.
    pub source: Option<Source>,
    /// Since 2020-07-01, as it came: -1 when the service does not know.
    pub duration_secs: Option<i64>,
}

impl Event {
    /// Whether the event is about the machine whose `compute.name` this is.
    pub fn concerns(&self, machine: &str) -> bool {
        self.resources.iter().any(|resource| resource.is(machine))
    }

    /// How long the machine will be interrupted, if the service says so.
    pub fn duration(&self) -> Option<Duration> {
        self.duration_secs.and_then(|secs| u64::try_from(secs).ok()).map(Duration::from_secs)
    }

    /// `NotBefore` as the service writes it: RFC 1123, or the empty string.
    pub fn not_before_text(&self) -> String {
        self.not_before.map(httpdate::fmt_http_date).unwrap_or_default()
    }

    /// The event as the service shows it: the same keys in the same order, compact. With
    /// [`Event::version`] it reads back through [`Event::parse`].
    pub fn to_json(&self) -> String {
        let mut keys = vec![
            ("EventId", json!(self.id.as_str())),
            ("EventStatus", json!(self.status.as_str())),
            ("EventType", json!(self.kind.as_str())),
            ("ResourceType", json!(self.resource_type)),
            ("Resources", self.resources.iter().map(|resource| json!(resource.shown())).collect()),
            ("NotBefore", json!(self.not_before_text())),
        ];
        keys.extend(self.description.as_ref().map(|text| ("Description", json!(text))));
        keys.extend(self.source.as_ref().map(|source| ("EventSource", json!(source.as_str()))));
        keys.extend(self.duration_secs.map(|secs| ("DurationInSeconds", json!(secs))));
        // A map of serde_json sorts its keys, and programs read ours in the order of the service.
        let pairs: Vec<String> = keys.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        format!("{{{}}}", pairs.join(","))
    }

    /// What is known of this event from before and is not shown in its present version stays known.
    pub(crate) fn with_what_was_known(mut self, before: &Event) -> Event {
        self.description = self.description.or_else(|| before.description.clone());
        self.source = self.source.or_else(|| before.source.clone());
        self.duration_secs = self.duration_secs.or(before.duration_secs);
        self
    }
}

/// The id of an event: a GUID, as it was shown, and compared without regard to case.
///
/// It is safe to use as a file's name: letters, digits, `-`, `_` and `.`, the first of them a letter
/// or a digit.
#[derive(Debug, Clone)]
pub struct EventId(String);

/// Longer than any GUID, with braces and all; short enough for a file's name.
pub const EVENT_ID_BYTES_MAX: usize = 128;

impl EventId {
    /// `None` when no service would write such an id.
    pub fn parse(text: &str) -> Option<EventId> {
        let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        let rest = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        (first && rest && text.len() <= EVENT_ID_BYTES_MAX).then(|| EventId(text.to_owned()))
    }

    /// As the service wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn folded(&self) -> impl Iterator<Item = u8> + '_ {
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
        self.folded().cmp(other.folded())
    }
}

impl PartialOrd for EventId {
    fn partial_cmp(&self, other: &EventId) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for EventId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.folded().for_each(|byte| byte.hash(state));
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    Scheduled,
    Started,
}

impl Status {
    pub const fn as_str(self) -> &'static str {
        match self {
            Status::Scheduled => "Scheduled",
            Status::Started => "Started",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Status> {
        [Status::Scheduled, Status::Started].into_iter().find(|status| status.as_str().eq_ignore_ascii_case(text))
    }
}

/// What happens to the machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Stands still for seconds; nothing is lost.
    Freeze,
    Reboot,
    /// Moves to another host; local disks are lost.
    Redeploy,
    /// A Spot machine is taken away.
    Preempt,
    /// A machine of a scale set is deleted.
    Terminate,
    /// A word that this program does not know yet.
    Other(String),
}

impl Kind {
    pub fn parse(text: &str) -> Kind {
        let known = [Kind::Freeze, Kind::Reboot, Kind::Redeploy, Kind::Preempt, Kind::Terminate];
        let found = known.into_iter().find(|kind| kind.as_str().eq_ignore_ascii_case(text));
        found.unwrap_or_else(|| Kind::Other(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        match self {
            Kind::Freeze => "Freeze",
            Kind::Reboot => "Reboot",
            Kind::Redeploy => "Redeploy",
            Kind::Preempt => "Preempt",
            Kind::Terminate => "Terminate",
            Kind::Other(text) => text,
        }
    }

    /// Whether documents of this version show events of this kind, one of which was seen in
    /// `seen_in`: a version that never shows them does not tell that they are over.
    pub(crate) fn is_shown(&self, version: Version, seen_in: Version) -> bool {
        match self {
            Kind::Freeze => wire::is_shown(version, wire::Kind::Freeze),
            Kind::Reboot => wire::is_shown(version, wire::Kind::Reboot),
            Kind::Redeploy => wire::is_shown(version, wire::Kind::Redeploy),
            Kind::Preempt => wire::is_shown(version, wire::Kind::Preempt),
            Kind::Terminate => wire::is_shown(version, wire::Kind::Terminate),
            Kind::Other(_) => version >= seen_in,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Who wants it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    Platform,
    User,
    /// A word that this program does not know yet.
    Other(String),
}

impl Source {
    pub fn parse(text: &str) -> Source {
        let found = [Source::Platform, Source::User].into_iter().find(|word| word.as_str().eq_ignore_ascii_case(text));
        found.unwrap_or_else(|| Source::Other(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        match self {
            Source::Platform => "Platform",
            Source::User => "User",
            Source::Other(text) => text,
        }
    }
}

/// A machine that an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Resource {
    shown: String,
    /// Where the name begins.
    from: usize,
}

impl Resource {
    /// 2017-03-01 puts an underscore before the names of machines.
    pub fn new(version: Version, shown: &str) -> Resource {
        let from = usize::from(version == Version::V2017_03_01 && shown.starts_with('_'));
        Resource { shown: shown.to_owned(), from }
    }

    /// The name, without the underscore of 2017-03-01.
    pub fn name(&self) -> &str {
        &self.shown[self.from..]
    }

    /// As the service wrote it.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Whether this is the machine of that name. Not every machine has an underscore in 2017-03-01
    /// (instances of roles never do), so a name that begins with one may be meant as it stands.
    pub fn is(&self, machine: &str) -> bool {
        self.name().eq_ignore_ascii_case(machine) || self.shown.eq_ignore_ascii_case(machine)
    }
}
