//! A handle for an event on the server: inspect it, approve or cancel it, and wait for the handler under test.

use std::time::{Duration, Instant};

use forewarn_api_types as types;
use forewarn_api_types::EmptyBody;
use forewarn_client::{EventId, EventKind, EventStatus};

use crate::Forewarn;

/// Interval between requests while waiting.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Approval of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// `guest:web_0` for a machine, `management:owner` for [`EventHandle::approve`].
    pub approved_by: String,
}

/// Handle for an event on the server, created by [`Machine::schedule`](crate::Machine::schedule) and similar methods.
/// Clones refer to the same event.
///
/// The event as a handler sees it is in [`Machine::document`](crate::Machine::document).
#[derive(Clone)]
pub struct EventHandle {
    forewarn: Forewarn,
    id: EventId,
}

impl EventHandle {
    pub(crate) fn new(forewarn: Forewarn, id: EventId) -> EventHandle {
        EventHandle { forewarn, id }
    }

    /// Event ID, as in the document.
    pub fn id(&self) -> &EventId {
        &self.id
    }

    /// Event type.
    #[track_caller]
    pub fn kind(&self) -> EventKind {
        EventKind::parse(self.fetch().kind.as_str())
    }

    /// Status in the document; `None` once the event has finished.
    #[track_caller]
    pub fn status(&self) -> Option<EventStatus> {
        read_status(&self.fetch())
    }

    /// Outcome of a finished event: `Completed`, `Canceled`, `Failed` and so on; `None` before.
    #[track_caller]
    pub fn outcome(&self) -> Option<String> {
        read_outcome(&self.fetch())
    }

    /// Whether the event is in the machine's document.
    #[track_caller]
    pub(crate) fn is_shown(&self) -> bool {
        self.fetch().visible
    }

    /// Whether the event is in progress.
    #[track_caller]
    pub fn is_started(&self) -> bool {
        self.status() == Some(EventStatus::Started)
    }

    /// Time at which the event starts without an approval, for example `2026-07-28T10:15:00Z`.
    #[track_caller]
    pub fn not_before(&self) -> String {
        self.fetch().not_before.to_string()
    }

    /// Approval of the event, if there is one.
    #[track_caller]
    pub fn approval(&self) -> Option<Approval> {
        read_approval(&self.fetch())
    }

    /// Approves the event through the management API, in place of a machine.
    ///
    /// ```
    /// # use forewarn_testing::{EventKind, Forewarn};
    /// let event = Forewarn::start().machine("web_0").schedule(EventKind::Reboot);
    /// event.approve();
    /// assert!(event.is_started());
    /// ```
    #[track_caller]
    pub fn approve(&self) {
        let _: types::Event = self.forewarn.inner.api.post(&["events", self.id.as_str(), "approve"], &EmptyBody {});
    }

    /// Cancels the event, which must be Scheduled. A Terminate cannot be canceled.
    ///
    /// ```
    /// # use forewarn_testing::{EventKind, Forewarn};
    /// let event = Forewarn::start().machine("web_0").schedule(EventKind::Reboot);
    /// event.cancel();
    /// assert_eq!(event.outcome().as_deref(), Some("Canceled"));
    /// ```
    #[track_caller]
    pub fn cancel(&self) {
        let _: types::Event = self.forewarn.inner.api.post(&["events", self.id.as_str(), "cancel"], &EmptyBody {});
    }

    /// Waits until the event is approved.
    ///
    /// The timeout is in real time. Choose it generously: it expires only if the test fails. An event that finishes
    /// without an approval fails the test immediately.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use forewarn_testing::{EventKind, Forewarn};
    /// let event = Forewarn::start().machine("web_0").schedule(EventKind::Reboot);
    /// let other = event.clone();
    /// let handler = std::thread::spawn(move || other.approve());
    /// assert_eq!(event.wait_approved(Duration::from_secs(60)).approved_by, "management:owner");
    /// # handler.join().unwrap();
    /// ```
    #[track_caller]
    pub fn wait_approved(&self, timeout: Duration) -> Approval {
        self.wait("approved", timeout, read_approval)
    }

    /// Waits until the event has started or finished.
    #[track_caller]
    pub fn wait_started(&self, timeout: Duration) {
        self.wait("started", timeout, |event| (read_status(event) != Some(EventStatus::Scheduled)).then_some(()));
    }

    /// Waits until the event has finished, and returns its outcome. With a manual clock, [advance](Forewarn::advance)
    /// it first.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use forewarn_testing::{EventKind, Forewarn};
    /// let forewarn = Forewarn::builder().real_clock().notice_scale(100_000).start();
    /// let event = forewarn.machine("web_0").schedule(EventKind::Reboot);
    /// assert_eq!(event.wait_finished(Duration::from_secs(60)), "Completed");
    /// ```
    #[track_caller]
    pub fn wait_finished(&self, timeout: Duration) -> String {
        self.wait("finished", timeout, read_outcome)
    }

    #[track_caller]
    fn wait<T>(&self, goal: &str, timeout: Duration, check: impl Fn(&types::Event) -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            let event = self.fetch();
            if let Some(found) = check(&event) {
                return found;
            }
            if let Some(outcome) = read_outcome(&event) {
                panic!("event {} has finished ({outcome}) and was not {goal}: {event:?}", self.id);
            }
            assert!(started.elapsed() < timeout, "event {} was not {goal} within {timeout:?}: {event:?}", self.id);
            std::thread::sleep(CHECK_INTERVAL);
        }
    }

    #[track_caller]
    fn fetch(&self) -> types::Event {
        self.forewarn.inner.api.get(&["events", self.id.as_str()])
    }
}

fn read_status(event: &types::Event) -> Option<EventStatus> {
    match event.status {
        types::EventStatus::Scheduled => Some(EventStatus::Scheduled),
        types::EventStatus::Started => Some(EventStatus::Started),
        types::EventStatus::Ended | types::EventStatus::Unknown(_) => None,
    }
}

fn read_outcome(event: &types::Event) -> Option<String> {
    match event.status {
        types::EventStatus::Scheduled | types::EventStatus::Started | types::EventStatus::Unknown(_) => None,
        types::EventStatus::Ended => Some(event.outcome.map_or(String::new(), |outcome| outcome.to_string())),
    }
}

fn read_approval(event: &types::Event) -> Option<Approval> {
    event.approval.as_ref().map(|approval| Approval { approved_by: approval.approved_by.clone() })
}
