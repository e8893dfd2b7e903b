//! Faults: wrong answers of the metadata endpoint, on purpose, for those who want to know what their
//! handler makes of them. Off unless somebody asks for one.
//!
//! ```text
//!   request ─▶ any? (one relaxed load) ─no─▶ as always
//!                │ yes
//!                ▼
//!        shelf: which faults does it meet, what remains of them   (pure)
//!                │                                  └─▶ those that ran out ─▶ keeper ─▶ history
//!                ▼
//!        metadata/faulty: wait, spoil the answer
//! ```
//!
//! They live in memory and end with the server. They never touch the region: what a machine is not shown
//! is still there, and what it could not approve is not approved.

mod registry;
mod shelf;

use std::time::Duration;

use forewarn_core::{MachineId, Name, Timestamp};

pub use registry::Faults;
pub use shelf::{Alter, Document, Facts, Hit, Spoil};

/// Faults at the same time. Every request of a server that has faults looks at all of them.
pub const FAULTS_MAX: usize = 256;

/// The longest delay, as long as a request may be held by `wait=`.
pub const DELAY_MAX: Duration = Duration::from_secs(300);

/// The longest `Retry-After` that a fault may ask for.
pub const RETRY_AFTER_SECS_MAX: u32 = 3600;

/// The longest life of a fault that ends by itself, which is longer than any test.
pub const LIFE_MAX: Duration = Duration::from_secs(400 * 24 * 3600);

/// The most requests that a fault may be for: what every reader of a whole number can read.
pub const COUNT_MAX: u64 = i32::MAX as u64;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An answer of the original's that is no document. Nothing is approved, no scope is turned on.
    Status { status: Status, retry_after_secs: u32 },
    /// The answer takes so long. What a POST approves is approved only then.
    Delay(Duration),
    /// The connection is reset instead of an answer. Nothing is approved.
    Reset,
    /// The answer breaks off before its end. What a POST approves is approved.
    Truncated,
    /// The answer is whole and no JSON. What a POST approves is approved.
    Malformed,
    /// The first GET of the document by a machine takes so long, and so do those that come meanwhile.
    SlowFirstCall(Duration),
    /// The incarnation begins again with 1.
    IncarnationRestart,
    /// The document has no events, although there are some.
    EventsVanish,
    /// Every event is of a type that the machine has never heard of.
    UnknownType,
}

/// The statuses with which the original says that something is wrong with itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    TooManyRequests,
    Gone,
    InternalServerError,
    ServiceUnavailable,
}

impl Status {
    pub const ALL: [Status; 4] =
        [Status::TooManyRequests, Status::Gone, Status::InternalServerError, Status::ServiceUnavailable];

    pub fn code(self) -> u16 {
        match self {
            Status::TooManyRequests => 429,
            Status::Gone => 410,
            Status::InternalServerError => 500,
            Status::ServiceUnavailable => 503,
        }
    }

    /// Whether the original says with it when to come back.
    pub fn has_retry_after(self) -> bool {
        match self {
            Status::TooManyRequests | Status::ServiceUnavailable => true,
            Status::Gone | Status::InternalServerError => false,
        }
    }
}

/// What a kind is given beside its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    Status { status: Status, retry_after_secs: Option<u32> },
    Delay(Duration),
    Nothing,
}

impl Kind {
    /// Those that are given nothing.
    pub const PLAIN: [Kind; 6] = [
        Kind::Reset,
        Kind::Truncated,
        Kind::Malformed,
        Kind::IncarnationRestart,
        Kind::EventsVanish,
        Kind::UnknownType,
    ];

    /// One word for it, in history, in the record of requests and in the API.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Status { .. } => "Status",
            Kind::Delay(_) => "Delay",
            Kind::Reset => "Reset",
            Kind::Truncated => "Truncated",
            Kind::Malformed => "Malformed",
            Kind::SlowFirstCall(_) => "SlowFirstCall",
            Kind::IncarnationRestart => "IncarnationRestart",
            Kind::EventsVanish => "EventsVanish",
            Kind::UnknownType => "UnknownType",
        }
    }

    /// Whether it has to do with GETs of the document alone.
    pub fn is_of_polls(self) -> bool {
        match self {
            Kind::SlowFirstCall(_) | Kind::IncarnationRestart | Kind::EventsVanish | Kind::UnknownType => true,
            Kind::Status { .. } | Kind::Delay(_) | Kind::Reset | Kind::Truncated | Kind::Malformed => false,
        }
    }

    pub fn given(self) -> Given {
        match self {
            Kind::Status { status, retry_after_secs } => {
                Given::Status { status, retry_after_secs: status.has_retry_after().then_some(retry_after_secs) }
            }
            Kind::Delay(delay) | Kind::SlowFirstCall(delay) => Given::Delay(delay),
            Kind::Reset
            | Kind::Truncated
            | Kind::Malformed
            | Kind::IncarnationRestart
            | Kind::EventsVanish
            | Kind::UnknownType => Given::Nothing,
        }
    }
}

/// Which requests a fault is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Only {
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
    /// `/metadata/scheduledevents`: not instance metadata, not versions.
    Events,
}

/// How long a fault lives. Without any of these: until it is cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Life {
    /// So many requests meet it.
    pub count: Option<u64>,
    /// On the program's clock.
    pub span: Option<Duration>,
    /// So many of a hundred requests meet it, evenly spread; None: all.
    pub percent: Option<u8>,
}

/// A fault that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewFault {
    /// None: every machine.
    pub machine: Option<MachineId>,
    pub kind: Kind,
    pub only: Only,
    pub life: Life,
}

impl NewFault {
    /// Every request, of every machine, until it is cleared.
    pub fn new(kind: Kind) -> NewFault {
        NewFault { machine: None, kind, only: Only::default(), life: Life::default() }
    }

    pub fn check(&self) -> Result<(), FaultError> {
        match self.kind.given() {
            Given::Status { retry_after_secs: Some(secs), .. } if secs > RETRY_AFTER_SECS_MAX => {
                return Err(FaultError::RetryAfterRange);
            }
            Given::Delay(delay) if delay > DELAY_MAX => return Err(FaultError::DelayRange),
            Given::Status { .. } | Given::Delay(_) | Given::Nothing => {}
        }
        if self.life.percent.is_some_and(|percent| !(1..=100).contains(&percent)) {
            return Err(FaultError::PercentRange);
        }
        if self.life.count.is_some_and(|count| !(1..=COUNT_MAX).contains(&count)) {
            return Err(FaultError::CountRange);
        }
        if self.life.span.is_some_and(|span| span.is_zero() || span > LIFE_MAX) {
            return Err(FaultError::LifeRange);
        }
        if self.kind.is_of_polls() && self.only.method == Some(Method::Post) {
            return Err(FaultError::NeverMet(self.kind.word()));
        }
        Ok(())
    }
}

/// A small number that is easy to type. None is given twice while the server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FaultId(pub u64);

/// A fault that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub id: FaultId,
    pub machine: Option<(MachineId, Name)>,
    pub kind: Kind,
    pub only: Only,
    pub life: Life,
    pub since: Timestamp,
    pub until: Option<Timestamp>,
    /// Requests that it was for.
    pub asked: u64,
    /// Those of them that met it.
    pub met: u64,
}

/// A fault that a request met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Met {
    pub fault: FaultId,
    pub kind: &'static str,
}

/// Why a fault is not there any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    Counted,
    Elapsed,
    MachineGone,
}

#[derive(Debug, thiserror::Error)]
pub enum FaultError {
    #[error("A delay is {} seconds at the most.", DELAY_MAX.as_secs())]
    DelayRange,
    #[error("Retry-After is {RETRY_AFTER_SECS_MAX} seconds at the most.")]
    RetryAfterRange,
    #[error("The share of requests is from 1 to 100 percent.")]
    PercentRange,
    #[error(
        "A fault is for at least one request, at most {COUNT_MAX}. Leave the count out for one that stays until it is cleared."
    )]
    CountRange,
    #[error(
        "A fault lives for some time, {} days at the most. Leave the time out for one that stays until it is cleared.",
        LIFE_MAX.as_secs() / 86_400
    )]
    LifeRange,
    #[error("{0} has to do with GETs of the document alone, so no POST would ever meet it. Leave the method out.")]
    NeverMet(&'static str),
    #[error("There is no machine with this number. List the machines to see which there are.")]
    UnknownMachine,
    #[error("There are {FAULTS_MAX} faults, which is the limit. Clear some first.")]
    TooMany,
}
