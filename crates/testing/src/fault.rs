//! Faults to inject into the responses of the metadata endpoint.

use std::time::Duration;

use serde_json::{Value, json};

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
    body: Value,
}

impl Fault {
    /// Responds with status 410, 429, 500 or 503. Nothing is approved.
    pub fn status(status: u16) -> Fault {
        Fault::new(json!({ "kind": "Status", "status": status }))
    }

    /// Responds with status 429 or 503 and a `Retry-After` header. Nothing is approved.
    pub fn status_retry_after(status: u16, secs: u32) -> Fault {
        Fault::new(json!({ "kind": "Status", "status": status, "retryAfterSeconds": secs }))
    }

    /// Delays the response, in real time.
    pub fn delay(delay: Duration) -> Fault {
        Fault::new(json!({ "kind": "Delay", "delaySeconds": delay.as_secs_f64() }))
    }

    /// Resets the connection. Nothing is approved.
    pub fn reset() -> Fault {
        Fault::without_settings("Reset")
    }

    /// Truncates the response. Approvals take effect.
    pub fn truncated() -> Fault {
        Fault::without_settings("Truncated")
    }

    /// Responds with invalid JSON. Approvals take effect.
    pub fn malformed() -> Fault {
        Fault::without_settings("Malformed")
    }

    /// Delays the first response to each machine, in real time.
    pub fn slow_first_call(delay: Duration) -> Fault {
        Fault::new(json!({ "kind": "SlowFirstCall", "delaySeconds": delay.as_secs_f64() }))
    }

    /// Restarts `DocumentIncarnation` at 1.
    pub fn incarnation_restart() -> Fault {
        Fault::without_settings("IncarnationRestart")
    }

    /// Hides all events.
    pub fn events_vanish() -> Fault {
        Fault::without_settings("EventsVanish")
    }

    /// Shows events with an unknown type.
    pub fn unknown_type() -> Fault {
        Fault::without_settings("UnknownType")
    }

    /// Limits the fault to this many requests.
    pub fn count(self, count: u32) -> Fault {
        self.with("count", json!(count))
    }

    /// Percentage of requests affected, evenly spread.
    pub fn percent(self, percent: u8) -> Fault {
        self.with("percent", json!(percent))
    }

    /// Limits the fault to this duration, in whole seconds on the server's clock.
    pub fn lasting(self, span: Duration) -> Fault {
        self.with("forSeconds", json!(span.as_secs()))
    }

    /// Affects only approvals (POST).
    pub fn only_approvals(self) -> Fault {
        self.with("method", json!("POST"))
    }

    /// Affects only polls (GET of the document).
    pub fn only_polls(self) -> Fault {
        self.with("method", json!("GET")).with("documentsOnly", json!(true))
    }

    pub(crate) fn body(self, machine: Option<&str>) -> Value {
        match machine {
            Some(name) => self.with("machine", json!(name)).body,
            None => self.body,
        }
    }

    fn without_settings(kind: &str) -> Fault {
        Fault::new(json!({ "kind": kind }))
    }

    fn new(fault: Value) -> Fault {
        Fault { body: json!({ "fault": fault }) }
    }

    fn with(mut self, key: &str, value: Value) -> Fault {
        self.body[key] = value;
        self
    }
}
