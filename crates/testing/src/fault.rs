//! Answers that go wrong on purpose.

use std::time::Duration;

use serde_json::{Value, json};

/// What goes wrong with a handler's requests, with which of them, and how long. Given to
/// [`Machine::fault`](crate::Machine::fault) or [`Forewarn::fault`](crate::Forewarn::fault).
///
/// Without a limit of its own a fault stays until [`Forewarn::clear_faults`](crate::Forewarn::clear_faults).
///
/// ```
/// # use std::time::Duration;
/// # use forewarn_testing::{Fault, Forewarn};
/// let forewarn = Forewarn::start();
/// let web = forewarn.machine("web_0");
/// web.fault(Fault::status(503).count(1));
/// web.fault(Fault::delay(Duration::from_millis(1)).only_approvals());
/// forewarn.fault(Fault::reset().percent(40).lasting(Duration::from_secs(300)));
/// forewarn.clear_faults();
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Fault {
    body: Value,
}

impl Fault {
    /// 410, 429, 500 or 503 instead of an answer; nothing is approved.
    pub fn status(status: u16) -> Fault {
        Fault::of(json!({ "kind": "Status", "status": status }))
    }

    /// Like [`status`](Fault::status) with 429 or 503, and what `Retry-After` says.
    pub fn status_retry_after(status: u16, secs: u32) -> Fault {
        Fault::of(json!({ "kind": "Status", "status": status, "retryAfterSeconds": secs }))
    }

    /// The answer comes so much later, in real time.
    pub fn delay(delay: Duration) -> Fault {
        Fault::of(json!({ "kind": "Delay", "delaySeconds": delay.as_secs_f64() }))
    }

    /// The connection is reset instead of an answer; nothing is approved.
    pub fn reset() -> Fault {
        Fault::plain("Reset")
    }

    /// The answer breaks off. What was approved is approved.
    pub fn truncated() -> Fault {
        Fault::plain("Truncated")
    }

    /// The answer is whole, and no JSON. What was approved is approved.
    pub fn malformed() -> Fault {
        Fault::plain("Malformed")
    }

    /// The first look of each machine takes so long, in real time.
    pub fn slow_first_call(delay: Duration) -> Fault {
        Fault::of(json!({ "kind": "SlowFirstCall", "delaySeconds": delay.as_secs_f64() }))
    }

    /// `DocumentIncarnation` begins again with 1.
    pub fn incarnation_restart() -> Fault {
        Fault::plain("IncarnationRestart")
    }

    /// A document without events, although they are there.
    pub fn events_vanish() -> Fault {
        Fault::plain("EventsVanish")
    }

    /// Events of a type that nobody has heard of.
    pub fn unknown_type() -> Fault {
        Fault::plain("UnknownType")
    }

    /// So many requests meet it.
    pub fn count(self, count: u32) -> Fault {
        self.with("count", json!(count))
    }

    /// So many of a hundred requests meet it, evenly spread.
    pub fn percent(self, percent: u8) -> Fault {
        self.with("percent", json!(percent))
    }

    /// So long, in whole seconds on the server's clock: a manual one ends it when it is advanced.
    pub fn lasting(self, span: Duration) -> Fault {
        self.with("forSeconds", json!(span.as_secs()))
    }

    /// POSTs alone.
    pub fn only_approvals(self) -> Fault {
        self.with("method", json!("POST"))
    }

    /// GETs of the document alone.
    pub fn only_polls(self) -> Fault {
        self.with("method", json!("GET")).with("documentsOnly", json!(true))
    }

    pub(crate) fn body(self, machine: Option<&str>) -> Value {
        match machine {
            Some(name) => self.with("machine", json!(name)).body,
            None => self.body,
        }
    }

    fn plain(kind: &str) -> Fault {
        Fault::of(json!({ "kind": kind }))
    }

    fn of(fault: Value) -> Fault {
        Fault { body: json!({ "fault": fault }) }
    }

    fn with(mut self, key: &str, value: Value) -> Fault {
        self.body[key] = value;
        self
    }
}
