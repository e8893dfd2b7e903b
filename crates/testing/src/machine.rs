//! A machine for the handler under test.

use forewarn_api_types as types;
use forewarn_api_types::{
    ActionOptions, FailureOptions, MachineChange, MaintenanceTarget, MaintenanceType, NewMaintenance, Nullable,
    Operation, RequestEntry, Requests, TerminateNotification,
};
use forewarn_client::{Document, EventId, EventKind};

use crate::Forewarn;
use crate::api::Api;
use crate::event_handle::EventHandle;
use crate::fault::Fault;

/// Machine on the server, created by [`Forewarn::machine`] and similar methods. Clones refer to the same machine.
#[derive(Clone)]
pub struct Machine {
    forewarn: Forewarn,
    name: String,
    endpoint: String,
}

/// Request that a machine sent to its endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedRequest {
    pub method: String,
    /// For example `/metadata/scheduledevents`, without the prefix `/vm/NAME`.
    pub path: String,
    /// `None` if no response was sent, because a [fault](crate::Fault) reset the connection or the handler closed it.
    pub status: Option<u16>,
    /// Events that the request approved.
    pub approved: Vec<EventId>,
    /// Kinds of the faults that affected the request, for example `Truncated`.
    pub faults: Vec<String>,
}

impl Machine {
    pub(crate) fn new(forewarn: Forewarn, name: &str) -> Machine {
        let endpoint = format!("{}/vm/{name}", forewarn.inner.metadata);
        Machine { forewarn, name: name.to_owned(), endpoint }
    }

    /// Machine name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Base URL for the handler under test, in place of `http://169.254.169.254`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Fetches the document that the machine sees. Like a request of a handler, this enables events for the machine.
    ///
    /// ```
    /// # use forewarn_testing::{EventKind, Forewarn};
    /// let web = Forewarn::start().machine("web_0");
    /// assert_eq!(web.document().events, []);
    /// let event = web.schedule(EventKind::Reboot);
    /// assert_eq!(web.document().events[0].id, *event.id());
    /// ```
    #[track_caller]
    pub fn document(&self) -> Document {
        self.api().document(&self.endpoint)
    }

    /// Schedules an event.
    ///
    /// A Freeze, Reboot or Redeploy is platform maintenance, a Preempt is an [eviction](Machine::evict), and a
    /// Terminate is a [deletion](Machine::delete) with the machine's terminate notice, or with five minutes if it has
    /// none.
    ///
    /// The server shows events only to machines that have requested their document. This and the other methods that create
    /// events enable them in place of the handler, whatever faults there are.
    ///
    /// ```
    /// # use forewarn_testing::{EventKind, Forewarn};
    /// let event = Forewarn::start().machine("web_0").schedule(EventKind::Freeze);
    /// assert_eq!(event.kind(), EventKind::Freeze);
    /// let event = Forewarn::start().machine("web_0").schedule(EventKind::Terminate);
    /// assert_eq!(event.kind(), EventKind::Terminate);
    /// ```
    #[track_caller]
    pub fn schedule(&self, kind: EventKind) -> EventHandle {
        match kind {
            EventKind::Preempt => self.evict(),
            EventKind::Terminate => self.delete_with_notice(),
            EventKind::Freeze => self.maintain(MaintenanceType::Freeze),
            EventKind::Reboot => self.maintain(MaintenanceType::Reboot),
            EventKind::Redeploy => self.maintain(MaintenanceType::Redeploy),
            EventKind::Other(kind) => panic!("cannot schedule an event of the unknown type {kind:?}"),
        }
    }

    #[track_caller]
    fn maintain(&self, kind: MaintenanceType) -> EventHandle {
        self.enable_events();
        let target = MaintenanceTarget::Machines(vec![self.name.clone()]);
        self.expect_event(&self.api().post(&["maintenance"], &NewMaintenance::of(target, kind)))
    }

    #[track_caller]
    fn delete_with_notice(&self) -> EventHandle {
        if self.fetch().terminate_notification.is_none() {
            let notification = Nullable::Value(TerminateNotification::default());
            let change = MachineChange { terminate_notification: notification, ..MachineChange::default() };
            let _: types::Machine = self.api().patch(&["machines", &self.name], &change);
        }
        self.delete().unwrap_or_else(|| panic!("{} was deleted without an event", self.name))
    }

    /// Restarts the machine, as its owner.
    #[track_caller]
    pub fn restart(&self) -> EventHandle {
        self.request_action("restart")
    }

    /// Moves the machine to another host, as its owner.
    #[track_caller]
    pub fn redeploy(&self) -> EventHandle {
        self.request_action("redeploy")
    }

    /// Evicts a [Spot machine](Forewarn::spot_machine), with thirty seconds of notice.
    #[track_caller]
    pub fn evict(&self) -> EventHandle {
        self.request_action("evict")
    }

    /// Simulates a host failure: an event without notice that has started when it appears.
    ///
    /// ```
    /// let event = forewarn_testing::Forewarn::start().machine("web_0").fail();
    /// assert!(event.is_started());
    /// ```
    #[track_caller]
    pub fn fail(&self) -> EventHandle {
        self.enable_events();
        self.expect_event(&self.api().post(&["machines", &self.name, "hardware-failure"], &FailureOptions::default()))
    }

    /// Deletes the machine. Returns an event only if the machine has a
    /// [terminate notice](Forewarn::machine_with_terminate_notice); otherwise it is deleted immediately.
    #[track_caller]
    pub fn delete(&self) -> Option<EventHandle> {
        self.enable_events();
        self.forewarn.first_event(&self.api().delete(&["machines", &self.name])).filter(EventHandle::is_shown)
    }

    /// Injects a fault into requests of this machine.
    ///
    /// ```
    /// # use forewarn_testing::{EventKind, Fault, Forewarn};
    /// let web = Forewarn::start().machine("web_0");
    /// web.inject_fault(Fault::status(503));
    /// let event = web.schedule(EventKind::Reboot);
    /// assert_eq!((event.kind(), web.requests()), (EventKind::Reboot, vec![]));
    /// ```
    #[track_caller]
    pub fn inject_fault(&self, fault: Fault) {
        let _: types::Fault = self.api().post(&["faults"], &fault.request(Some(&self.name)));
    }

    /// The last 64 requests of the machine, oldest first, including those of [`document`](Machine::document).
    ///
    /// ```
    /// let web = forewarn_testing::Forewarn::start().machine("web_0");
    /// web.document();
    /// let requests = web.requests();
    /// assert_eq!((requests[0].method.as_str(), requests[0].status), ("GET", Some(200)));
    /// ```
    #[track_caller]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        let requests: Requests = self.api().get(&["machines", &self.name, "requests"]);
        requests.value.into_iter().map(RecordedRequest::of).collect()
    }

    #[track_caller]
    fn request_action(&self, action: &str) -> EventHandle {
        self.enable_events();
        self.expect_event(&self.api().post(&["machines", &self.name, action], &ActionOptions::default()))
    }

    #[track_caller]
    fn expect_event(&self, operation: &Operation) -> EventHandle {
        match self.forewarn.first_event(operation) {
            Some(event) => event,
            None => panic!("the operation created no event for {}: {operation:?}", self.name),
        }
    }

    #[track_caller]
    fn enable_events(&self) {
        let _: types::Machine = self.api().post(&["machines", &self.name, "enable-events"], &types::EmptyBody {});
    }

    #[track_caller]
    fn fetch(&self) -> types::Machine {
        self.api().get(&["machines", &self.name])
    }

    fn api(&self) -> &Api {
        &self.forewarn.inner.api
    }
}

impl RecordedRequest {
    fn of(entry: RequestEntry) -> RecordedRequest {
        RecordedRequest {
            method: entry.method,
            path: entry.path,
            status: entry.status,
            approved: entry.approved.iter().filter_map(|id| EventId::parse(&id.to_string())).collect(),
            faults: entry.faults.into_iter().map(|fault| fault.kind).collect(),
        }
    }
}
