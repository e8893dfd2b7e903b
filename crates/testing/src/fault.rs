//! Faults to inject into the responses of the metadata endpoint.

use std::time::Duration;

use forewarn_api_types::{FaultKind, FaultMethod, NewFault};

/// Fault in the responses to a handler, injected with [`Machine::inject_fault`](crate::Machine::inject_fault) or
/// [`Forewarn::inject_fault`](crate::Forewarn::inject_fault).
///
/// A fault without a limit lasts until [`Forewarn::clear_faults`](crate::Forewarn::clear_faults).
///
/// ```
/// # use std::time::Duration;
/// # use forewarn_testing::{Fault, Forewarn};
/// let forewarn = Forewarn::start();
/// let web = forewarn.machine("web_0");
/// web.inject_fault(Fault::status(503).count(1));
/// web.inject_fault(Fault::delay(Duration::from_millis(1)).only_approvals());
/// forewarn.inject_fault(Fault::reset().percent(40).lasting(Duration::from_secs(300)));
/// forewarn.clear_faults();
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Fault {
    new: NewFault,
}

impl Fault {
    /// Responds with status 410, 429, 500 or 503. Nothing is approved.
    pub fn status(status: u16) -> Fault {
        Fault::new(FaultKind::Status { status, retry_after_seconds: None })
    }

    /// Responds with status 429 or 503 and a `Retry-After` header. Nothing is approved.
    pub fn status_retry_after(status: u16, secs: u32) -> Fault {
        Fault::new(FaultKind::Status { status, retry_after_seconds: Some(secs) })
    }

    /// Delays the response, in real time.
    pub fn delay(delay: Duration) -> Fault {
        Fault::new(FaultKind::Delay(delay))
    }

    /// Resets the connection. Nothing is approved.
    pub fn reset() -> Fault {
        Fault::new(FaultKind::Reset)
    }

    /// Truncates the response. Approvals take effect.
    pub fn truncated() -> Fault {
        Fault::new(FaultKind::Truncated)
    }

    /// Responds with invalid JSON. Approvals take effect.
    pub fn malformed() -> Fault {
        Fault::new(FaultKind::Malformed)
    }

    /// Delays the first response to each machine, in real time.
    pub fn slow_first_call(delay: Duration) -> Fault {
        Fault::new(FaultKind::SlowFirstCall(delay))
    }

    /// Restarts `DocumentIncarnation` at 1.
    pub fn incarnation_restart() -> Fault {
        Fault::new(FaultKind::IncarnationRestart)
    }

    /// Hides all events.
    pub fn events_vanish() -> Fault {
        Fault::new(FaultKind::EventsVanish)
    }

    /// Shows events with an unknown type.
    pub fn unknown_type() -> Fault {
        Fault::new(FaultKind::UnknownType)
    }

    /// Limits the fault to this many requests.
    pub fn count(mut self, count: u32) -> Fault {
        self.new.count = Some(count);
        self
    }

    /// Percentage of requests affected, evenly spread.
    pub fn percent(mut self, percent: u8) -> Fault {
        self.new.percent = Some(percent);
        self
    }

    /// Limits the fault to this duration, in whole seconds on the server's clock.
    pub fn lasting(mut self, span: Duration) -> Fault {
        // The server refuses longer durations.
        self.new.for_seconds = Some(u32::try_from(span.as_secs()).unwrap_or(u32::MAX));
        self
    }

    /// Affects only approvals (POST).
    pub fn only_approvals(mut self) -> Fault {
        self.new.method = Some(FaultMethod::Post);
        self
    }

    /// Affects only polls (GET of the document).
    pub fn only_polls(mut self) -> Fault {
        self.new.method = Some(FaultMethod::Get);
        self.new.documents_only = true;
        self
    }

    pub(crate) fn request(self, machine: Option<&str>) -> NewFault {
        NewFault { machine: machine.map(str::to_owned), ..self.new }
    }

    fn new(kind: FaultKind) -> Fault {
        Fault { new: NewFault::of(kind) }
    }
}
