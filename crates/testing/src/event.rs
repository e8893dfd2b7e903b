//! An event, from its appearance to its end, and waiting for what a handler does about it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{Forewarn, Kind};

/// How often the server is asked while somebody waits.
const STEP: Duration = Duration::from_millis(5);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    Scheduled,
    Started,
    /// How it ended: `Completed`, `Canceled`, `Failed` and so on.
    Ended(String),
}

/// Who said that an event may start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// `guest:web_0` for a machine, `management:owner` for [`Event::approve`].
    pub by: String,
}

/// Clones are the same event.
#[derive(Clone)]
pub struct Event {
    forewarn: Forewarn,
    id: String,
}

impl Event {
    pub(crate) fn new(forewarn: Forewarn, id: &str) -> Event {
        Event { forewarn, id: id.to_owned() }
    }

    /// As `EventId` has it.
    pub fn id(&self) -> &str {
        &self.id
    }

    #[track_caller]
    pub fn kind(&self) -> Kind {
        Kind::parse(self.facts()["type"].as_str().unwrap_or_default())
    }

    #[track_caller]
    pub fn status(&self) -> Status {
        status(&self.facts())
    }

    /// Whether the machine is told of it.
    #[track_caller]
    pub(crate) fn is_shown(&self) -> bool {
        self.facts()["shown"] == true
    }

    #[track_caller]
    pub fn is_started(&self) -> bool {
        self.status() == Status::Started
    }

    /// When it starts at the latest, as `2026-07-28T10:15:00Z`.
    #[track_caller]
    pub fn not_before(&self) -> String {
        self.facts()["notBefore"].as_str().unwrap_or_default().to_owned()
    }

    #[track_caller]
    pub fn approval(&self) -> Option<Approval> {
        Some(Approval { by: self.facts()["approval"]["by"].as_str()?.to_owned() })
    }

    /// Lets it start now, from outside, in place of a machine.
    ///
    /// ```
    /// # use forewarn_testing::{Forewarn, Kind};
    /// let event = Forewarn::start().machine("web_0").schedule(Kind::Reboot);
    /// event.approve();
    /// assert!(event.is_started());
    /// ```
    #[track_caller]
    pub fn approve(&self) {
        self.forewarn.inner.api.post(&["events", &self.id, "approve"], &json!({}));
    }

    /// Calls it off; not possible for a Preempt or a Terminate.
    ///
    /// ```
    /// # use forewarn_testing::{Forewarn, Kind, Status};
    /// let event = Forewarn::start().machine("web_0").schedule(Kind::Reboot);
    /// event.cancel();
    /// assert_eq!(event.status(), Status::Ended("Canceled".into()));
    /// ```
    #[track_caller]
    pub fn cancel(&self) {
        self.forewarn.inner.api.post(&["events", &self.id, "cancel"], &json!({}));
    }

    /// Waits until somebody approves it. The time is real time, and longer than the handler ever needs: it is only
    /// reached when the test fails. An event that is over and was not approved fails it at once.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use forewarn_testing::{Forewarn, Kind};
    /// let event = Forewarn::start().machine("web_0").schedule(Kind::Reboot);
    /// let other = event.clone();
    /// let handler = std::thread::spawn(move || other.approve());
    /// assert_eq!(event.wait_approved(Duration::from_secs(60)).by, "management:owner");
    /// # handler.join().unwrap();
    /// ```
    #[track_caller]
    pub fn wait_approved(&self, timeout: Duration) -> Approval {
        let by = |facts: &Value| Some(Approval { by: facts["approval"]["by"].as_str()?.to_owned() });
        self.wait("approved", timeout, by)
    }

    /// Waits until it has started, or is over already.
    #[track_caller]
    pub fn wait_started(&self, timeout: Duration) {
        self.wait("started", timeout, |facts| (status(facts) != Status::Scheduled).then_some(()));
    }

    /// Waits until it is gone from the document, and says how it ended. On a manual clock somebody has to
    /// [advance](Forewarn::advance) it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use forewarn_testing::{Forewarn, Kind};
    /// let forewarn = Forewarn::builder().real_clock().notice_scale(100_000).start();
    /// let event = forewarn.machine("web_0").schedule(Kind::Reboot);
    /// assert_eq!(event.wait_gone(Duration::from_secs(60)), "Completed");
    /// ```
    #[track_caller]
    pub fn wait_gone(&self, timeout: Duration) -> String {
        self.wait("over", timeout, |facts| match status(facts) {
            Status::Ended(how) => Some(how),
            Status::Scheduled | Status::Started => None,
        })
    }

    #[track_caller]
    fn wait<T>(&self, what: &str, timeout: Duration, look: impl Fn(&Value) -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            let facts = self.facts();
            if let Some(found) = look(&facts) {
                return found;
            }
            if let Status::Ended(how) = status(&facts) {
                panic!("Event {} is over ({how}) and was not {what}: {facts}", self.id);
            }
            assert!(begun.elapsed() < timeout, "Event {} was not {what} within {timeout:?}: {facts}", self.id);
            std::thread::sleep(STEP);
        }
    }

    #[track_caller]
    fn facts(&self) -> Value {
        self.forewarn.inner.api.get(&["events", &self.id])
    }
}

fn status(facts: &Value) -> Status {
    match facts["status"].as_str() {
        Some("Scheduled") => Status::Scheduled,
        Some("Started") => Status::Started,
        _ => Status::Ended(facts["outcome"].as_str().unwrap_or_default().to_owned()),
    }
}
