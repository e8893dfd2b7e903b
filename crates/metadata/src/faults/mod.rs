//! Faults: deliberately wrong responses of the metadata endpoint, to test how a handler copes with them. There are none unless
//! an operator adds one.
//!
//! ```text
//!   request ─▶ any faults? (one relaxed load) ─no─▶ the normal response
//!                │ yes
//!                ▼
//!        active: which faults does the request meet, which faults end   (pure)
//!                │                                          └─▶ recorded in history by the API
//!                ▼
//!        spoil: delay, replace or damage the response
//! ```
//!
//! Faults live in memory and end with the server. They never change the region: a hidden event still exists, and an approval
//! that was not received has no effect.

mod active;
mod registry;

use std::time::Duration;

use forewarn_core::{MachineId, Name, Timestamp};

pub use active::{Document, DocumentFault, FaultContext, FaultEffects, ResponseFault};
pub use registry::Faults;

/// Active faults. Every request to a server with faults looks at all of them.
pub const FAULTS_MAX: usize = 256;

/// The longest delay: as long as `wait=` can hold a request.
pub const DELAY_MAX: Duration = Duration::from_secs(300);

/// The longest `Retry-After` of a fault.
pub const RETRY_AFTER_SECS_MAX: u32 = 3600;

/// The longest duration of a fault that ends by itself: longer than any test.
pub const DURATION_MAX: Duration = Duration::from_secs(400 * 24 * 3600);

/// The most requests that a fault can affect: fits every integer type of API clients.
pub const COUNT_MAX: u64 = i32::MAX as u64;

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// An error of Azure's service. Nothing is approved, and no event group is turned on.
    Status { status: Status, retry_after_secs: u32 },
    /// The response is delayed; a POST takes effect after the delay.
    Delay(Duration),
    /// The connection is reset. Nothing is approved.
    Reset,
    /// The response breaks off. A POST takes effect.
    Truncated,
    /// The response is complete but not JSON. A POST takes effect.
    Malformed,
    /// The first GET of the document by each machine is delayed, and so are GETs that arrive meanwhile.
    SlowFirstCall(Duration),
    /// The incarnation restarts at 1.
    IncarnationRestart,
    /// The document shows no events.
    EventsVanish,
    /// Every event has an unknown type.
    UnknownType,
}

/// The statuses with which Azure's service reports problems of its own, and others, which proxies in between can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    TooManyRequests,
    Gone,
    InternalServerError,
    ServiceUnavailable,
    Other(u16),
}

impl Status {
    /// None if this cannot be the status of a complete response.
    pub fn of(code: u16) -> Option<Status> {
        match code {
            429 => Some(Status::TooManyRequests),
            410 => Some(Status::Gone),
            500 => Some(Status::InternalServerError),
            503 => Some(Status::ServiceUnavailable),
            200..=599 => Some(Status::Other(code)),
            _ => None,
        }
    }

    pub fn code(self) -> u16 {
        match self {
            Status::TooManyRequests => 429,
            Status::Gone => 410,
            Status::InternalServerError => 500,
            Status::ServiceUnavailable => 503,
            Status::Other(code) => code,
        }
    }

    /// Whether Azure sends `Retry-After` with it.
    pub fn has_retry_after(self) -> bool {
        match self {
            Status::TooManyRequests | Status::ServiceUnavailable => true,
            Status::Gone | Status::InternalServerError | Status::Other(_) => false,
        }
    }
}

/// The parameters of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameters {
    Status { status: Status, retry_after_secs: Option<u32> },
    Delay(Duration),
    Nothing,
}

impl FaultKind {
    /// The kinds without parameters.
    pub const PLAIN: [FaultKind; 6] = [
        FaultKind::Reset,
        FaultKind::Truncated,
        FaultKind::Malformed,
        FaultKind::IncarnationRestart,
        FaultKind::EventsVanish,
        FaultKind::UnknownType,
    ];

    /// The name in history, in the request record and in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            FaultKind::Status { .. } => "Status",
            FaultKind::Delay(_) => "Delay",
            FaultKind::Reset => "Reset",
            FaultKind::Truncated => "Truncated",
            FaultKind::Malformed => "Malformed",
            FaultKind::SlowFirstCall(_) => "SlowFirstCall",
            FaultKind::IncarnationRestart => "IncarnationRestart",
            FaultKind::EventsVanish => "EventsVanish",
            FaultKind::UnknownType => "UnknownType",
        }
    }

    /// Whether only GETs of the document can meet it.
    pub fn concerns_polls_only(self) -> bool {
        match self {
            FaultKind::SlowFirstCall(_)
            | FaultKind::IncarnationRestart
            | FaultKind::EventsVanish
            | FaultKind::UnknownType => true,
            FaultKind::Status { .. }
            | FaultKind::Delay(_)
            | FaultKind::Reset
            | FaultKind::Truncated
            | FaultKind::Malformed => false,
        }
    }

    pub fn parameters(self) -> Parameters {
        match self {
            FaultKind::Status { status, retry_after_secs } => {
                Parameters::Status { status, retry_after_secs: status.has_retry_after().then_some(retry_after_secs) }
            }
            FaultKind::Delay(delay) | FaultKind::SlowFirstCall(delay) => Parameters::Delay(delay),
            FaultKind::Reset
            | FaultKind::Truncated
            | FaultKind::Malformed
            | FaultKind::IncarnationRestart
            | FaultKind::EventsVanish
            | FaultKind::UnknownType => Parameters::Nothing,
        }
    }
}

/// The requests that a fault affects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestFilter {
    pub method: Option<Method>,
    pub path: Path,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
}

impl Method {
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Path {
    #[default]
    Any,
    /// Only `/metadata/scheduledevents`.
    Events,
}

/// When a fault ends; without count and duration, when it is cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultLimit {
    /// The number of requests to affect.
    pub count: Option<u64>,
    /// The duration, on the program's clock.
    pub span: Option<Duration>,
    /// The percentage of requests to affect, evenly spread; None: all.
    pub percent: Option<u8>,
}

/// A fault to add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewFault {
    /// None: every machine.
    pub machine: Option<MachineId>,
    pub kind: FaultKind,
    pub only: RequestFilter,
    pub limit: FaultLimit,
}

impl NewFault {
    /// A fault for every request of every machine, until it is cleared.
    pub fn new(kind: FaultKind) -> NewFault {
        NewFault { machine: None, kind, only: RequestFilter::default(), limit: FaultLimit::default() }
    }

    pub fn check(&self) -> Result<(), FaultError> {
        match self.kind.parameters() {
            Parameters::Status { retry_after_secs: Some(secs), .. } if secs > RETRY_AFTER_SECS_MAX => {
                return Err(FaultError::RetryAfterRange);
            }
            Parameters::Delay(delay) if delay > DELAY_MAX => return Err(FaultError::DelayRange),
            Parameters::Status { .. } | Parameters::Delay(_) | Parameters::Nothing => {}
        }
        if self.limit.percent.is_some_and(|percent| !(1..=100).contains(&percent)) {
            return Err(FaultError::PercentRange);
        }
        if self.limit.count.is_some_and(|count| !(1..=COUNT_MAX).contains(&count)) {
            return Err(FaultError::CountRange);
        }
        if self.limit.span.is_some_and(|span| span.is_zero() || span > DURATION_MAX) {
            return Err(FaultError::DurationRange);
        }
        if self.kind.concerns_polls_only() && self.only.method == Some(Method::Post) {
            return Err(FaultError::NeverAffects(self.kind.as_str()));
        }
        Ok(())
    }
}

/// A small number that is easy to type. IDs are not reused while the server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FaultId(pub u64);

/// An active fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub id: FaultId,
    pub machine: Option<(MachineId, Name)>,
    pub kind: FaultKind,
    pub only: RequestFilter,
    pub limit: FaultLimit,
    pub since: Timestamp,
    pub until: Option<Timestamp>,
    /// Requests that matched.
    pub matched: u64,
    /// Requests that were affected.
    pub affected: u64,
}

/// A fault that affected a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppliedFault {
    pub fault: FaultId,
    pub kind: &'static str,
}

/// Why a fault ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultEnd {
    Counted,
    Elapsed,
    MachineGone,
}

#[derive(Debug, thiserror::Error)]
pub enum FaultError {
    #[error("A delay can be at most {} seconds.", DELAY_MAX.as_secs())]
    DelayRange,
    #[error("Retry-After can be at most {RETRY_AFTER_SECS_MAX} seconds.")]
    RetryAfterRange,
    #[error("The percentage of requests must be from 1 to 100.")]
    PercentRange,
    #[error(
        "The number of requests must be from 1 to {COUNT_MAX}. Omit it for a fault that lasts until it is cleared."
    )]
    CountRange,
    #[error(
        "The duration must be positive and at most {} days. Omit it for a fault that lasts until it is cleared.",
        DURATION_MAX.as_secs() / 86_400
    )]
    DurationRange,
    #[error("{0} affects only GETs of the document, so it cannot be limited to POST. Omit the method.")]
    NeverAffects(&'static str),
    #[error("There is no machine with this ID. List the machines to see which exist.")]
    UnknownMachine,
    #[error("There are already {FAULTS_MAX} faults, which is the limit. Clear some first.")]
    TooMany,
}
