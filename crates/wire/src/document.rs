//! The Scheduled Events document: compact JSON whose keys depend on the requested version.
//!
//! ```text
//! {"DocumentIncarnation":7,"Events":[<event>,<event>]}
//! <event> = EventId EventStatus EventType ResourceType Resources NotBefore   since 2017-03-01
//!           Description                                                     since 2019-04-01
//!           EventSource                                                     since 2019-08-01
//!           DurationInSeconds                                               since 2020-07-01
//! ```
//!
//! Events are rendered individually, so that a server can cache them and reassemble the document when the list
//! changes. This module does not decide which events exist or when they start.

use std::time::{Duration, UNIX_EPOCH};

use crate::guid;
use crate::version::Version;

/// The properties of an event that the document shows.
#[derive(Debug, Clone, Copy)]
pub struct EventView<'a> {
    pub id: u128,
    pub status: Status,
    pub kind: Kind,
    pub resources: &'a [Resource<'a>],
    /// Shown only while the event is Scheduled. `None` is rendered as an empty string.
    pub not_before_unix_secs: Option<i64>,
    pub description: &'a str,
    pub source: Source,
    /// -1 if unknown.
    pub duration_secs: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Scheduled,
    Started,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Freeze,
    Reboot,
    Redeploy,
    Preempt,
    Terminate,
    SpotRebalanceRecommendation,
    /// A type that no version defines. Azure may add one at any time, so handlers must tolerate it.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Platform,
    User,
}

/// A machine affected by an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resource<'a> {
    pub name: &'a str,
    pub machine: Machine,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// A virtual machine, standalone or in a set.
    Iaas,
    /// A role instance of a cloud service.
    RoleInstance,
}

/// How version 2017-03-01 renders the names of IaaS machines. Later versions render names unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NameStyle {
    /// With a leading underscore, like Azure.
    #[default]
    Underscored,
    Plain,
}

/// Whether documents of this version contain events of this kind.
pub fn is_shown(version: Version, kind: Kind) -> bool {
    let since = match kind {
        Kind::Freeze | Kind::Reboot | Kind::Redeploy | Kind::Unknown => Version::V2017_03_01,
        Kind::Preempt => Version::V2017_11_01,
        Kind::Terminate => Version::V2019_01_01,
        Kind::SpotRebalanceRecommendation => Version::V2024_07_09,
    };
    version >= since
}

/// Renders one event. Does not check [`is_shown`]; the caller filters the list.
pub fn render_event(version: Version, names: NameStyle, event: &EventView<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(EVENT_BYTES_TYPICAL);
    out.extend_from_slice(b"{\"EventId\":\"");
    out.extend_from_slice(&guid::format_upper(event.id));
    out.extend_from_slice(b"\",\"EventStatus\":\"");
    out.extend_from_slice(event.status.as_str().as_bytes());
    out.extend_from_slice(b"\",\"EventType\":\"");
    out.extend_from_slice(event.kind.as_str().as_bytes());
    out.extend_from_slice(b"\",\"ResourceType\":\"VirtualMachine\",\"Resources\":[");
    push_resources(&mut out, uses_underscores(version, names), event.resources);
    out.extend_from_slice(b"],\"NotBefore\":\"");
    out.extend_from_slice(render_not_before(event).as_bytes());
    out.push(b'"');
    push_later_keys(&mut out, version, event);
    out.push(b'}');
    out
}

/// Renders the document from its events. The format is the same in every version.
pub fn render_document<F: AsRef<[u8]>>(incarnation: u64, events: impl IntoIterator<Item = F>) -> Vec<u8> {
    let mut out = format!("{{\"DocumentIncarnation\":{incarnation},\"Events\":[").into_bytes();
    for (index, event) in events.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(event.as_ref());
    }
    out.extend_from_slice(b"]}");
    out
}

impl Status {
    pub const fn as_str(self) -> &'static str {
        match self {
            Status::Scheduled => "Scheduled",
            Status::Started => "Started",
        }
    }
}

impl Kind {
    pub const ALL: [Kind; 6] =
        [Kind::Freeze, Kind::Reboot, Kind::Redeploy, Kind::Preempt, Kind::Terminate, Kind::SpotRebalanceRecommendation];

    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Freeze => "Freeze",
            Kind::Reboot => "Reboot",
            Kind::Redeploy => "Redeploy",
            Kind::Preempt => "Preempt",
            Kind::Terminate => "Terminate",
            Kind::SpotRebalanceRecommendation => "SpotRebalanceRecommendation",
            Kind::Unknown => "Hibernate",
        }
    }
}

impl Source {
    pub const fn as_str(self) -> &'static str {
        match self {
            Source::Platform => "Platform",
            Source::User => "User",
        }
    }
}

/// Capacity for one event. An event of one machine with a one-sentence description takes about 330 bytes.
const EVENT_BYTES_TYPICAL: usize = 384;

/// The last second of the year 9999, because RFC 1123 has four digits for the year.
const NOT_BEFORE_UNIX_SECS_MAX: i64 = 253_402_300_799;

fn uses_underscores(version: Version, names: NameStyle) -> bool {
    version == Version::V2017_03_01 && names == NameStyle::Underscored
}

fn push_resources(out: &mut Vec<u8>, underscored: bool, resources: &[Resource<'_>]) {
    for (index, resource) in resources.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        if underscored && resource.machine == Machine::Iaas {
            push_string(out, &format!("_{}", resource.name));
        } else {
            push_string(out, resource.name);
        }
    }
}

fn render_not_before(event: &EventView<'_>) -> String {
    match (event.status, event.not_before_unix_secs) {
        (Status::Scheduled, Some(secs)) => format_rfc1123(secs),
        (Status::Scheduled, None) | (Status::Started, _) => String::new(),
    }
}

/// Formats a time as `Mon, 19 Sep 2016 18:29:47 GMT`.
pub(crate) fn format_rfc1123(unix_secs: i64) -> String {
    let secs = unix_secs.clamp(0, NOT_BEFORE_UNIX_SECS_MAX).unsigned_abs();
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(secs))
}

fn push_later_keys(out: &mut Vec<u8>, version: Version, event: &EventView<'_>) {
    if version >= Version::V2019_04_01 {
        out.extend_from_slice(b",\"Description\":");
        push_string(out, event.description);
    }
    if version >= Version::V2019_08_01 {
        out.extend_from_slice(b",\"EventSource\":\"");
        out.extend_from_slice(event.source.as_str().as_bytes());
        out.push(b'"');
    }
    if version >= Version::V2020_07_01 {
        out.extend_from_slice(b",\"DurationInSeconds\":");
        out.extend_from_slice(event.duration_secs.to_string().as_bytes());
    }
}

fn push_string(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a string can always be written to memory");
}
