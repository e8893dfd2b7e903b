//! In-process Scheduled Events server for tests.
//!
//! A handler notices an event, prepares for it, approves it, and later undoes its preparations. This crate provides the
//! server side for testing a handler: machines, events on demand, and a clock that moves only when the test says so.
//!
//! ```
//! use std::time::Duration;
//! use forewarn_testing::{EventKind, EventStatus, Forewarn};
//!
//! let forewarn = Forewarn::start();
//! let web = forewarn.machine("web_0");
//! // Pass this address to the handler under test, in place of http://169.254.169.254.
//! assert!(web.endpoint().ends_with("/vm/web_0"));
//!
//! let event = web.schedule(EventKind::Reboot);
//! assert_eq!(event.status(), Some(EventStatus::Scheduled));
//!
//! // Without an approval, the event starts at NotBefore. It finishes when the machine is back.
//! forewarn.advance(Duration::from_secs(15 * 60));
//! assert_eq!(event.status(), Some(EventStatus::Started));
//! forewarn.advance(Duration::from_secs(10 * 60));
//! assert_eq!(event.outcome().as_deref(), Some("Completed"));
//! ```
//!
//! No method returns an error. An operation that fails panics with a message and the line of the test.
//!
//! Every method blocks. In an async test with a single thread, wait on another thread so that the handler can make
//! progress:
//!
//! ```
//! # use std::time::Duration;
//! # use forewarn_testing::{EventKind, Forewarn};
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # runtime.block_on(async {
//! let forewarn = Forewarn::start();
//! let event = forewarn.machine("web_0").schedule(EventKind::Freeze);
//! # event.approve();
//! let approval = tokio::task::spawn_blocking(move || event.wait_approved(Duration::from_secs(30))).await.unwrap();
//! # assert_eq!(approval.approved_by, "management:owner");
//! # });
//! ```
//!
//! The server is the same code as `forewarn serve`, on free loopback ports; the command line can connect to
//! [`Forewarn::management_url`]. Out of scope: network namespaces. Run programs with a fixed endpoint under `forewarn
//! run`.

mod api;
mod builder;
mod event_handle;
mod fault;
#[doc(hidden)]
pub mod harness;
mod machine;

use std::sync::Arc;
use std::time::Duration;

use forewarn_api_types as types;
use forewarn_api_types::{
    AdvanceClock, ClearedFaults, Clock, Group, MachinePriority, NewGroup, NewMachine, NewScaleSet, Operation,
    OrchestrationMode, Page, ResourceName, ScaleSet, TerminateNotification,
};

pub use builder::Builder;
pub use event_handle::{Approval, EventHandle};
pub use fault::Fault;
pub use forewarn_client::{Document, Event, EventId, EventKind, EventStatus};
pub use machine::{Machine, RecordedRequest};

use api::Api;
use harness::TestServer;

/// Runs the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Runs the examples of docs/testing.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/testing.md")]
struct TestingPage;

/// Running server. It stops when the last clone, [`Machine`] and [`EventHandle`] are dropped.
#[derive(Clone)]
pub struct Forewarn {
    inner: Arc<Inner>,
}

struct Inner {
    api: Api,
    metadata: String,
    /// Stops when it is dropped.
    _server: TestServer,
}

impl Forewarn {
    /// Starts a server whose clock starts at the current time and moves only with [`advance`](Forewarn::advance).
    ///
    /// ```
    /// let forewarn = forewarn_testing::Forewarn::start();
    /// assert!(forewarn.management_url().starts_with("http://127.0.0.1:"));
    /// ```
    #[track_caller]
    pub fn start() -> Forewarn {
        Forewarn::builder().start()
    }

    /// Configures a server.
    ///
    /// ```
    /// // Real time, with one second instead of fifteen minutes of notice.
    /// let forewarn = forewarn_testing::Forewarn::builder().real_clock().notice_scale(900).start();
    /// # drop(forewarn);
    /// ```
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns the machine with this name. Creates a standalone machine if there is none.
    ///
    /// ```
    /// let forewarn = forewarn_testing::Forewarn::start();
    /// assert_eq!(forewarn.machine("web_0").endpoint(), forewarn.machine("web_0").endpoint());
    /// ```
    #[track_caller]
    pub fn machine(&self, name: &str) -> Machine {
        if self.inner.api.find::<types::Machine>(&["machines", name]).is_none() {
            self.register(new_machine(name));
        }
        Machine::new(self.clone(), name)
    }

    /// Creates a Spot machine, which can be evicted.
    ///
    /// ```
    /// let forewarn = forewarn_testing::Forewarn::start();
    /// let event = forewarn.spot_machine("batch_0").evict();
    /// assert_eq!(event.kind(), forewarn_testing::EventKind::Preempt);
    /// ```
    #[track_caller]
    pub fn spot_machine(&self, name: &str) -> Machine {
        self.register(NewMachine { priority: Some(MachinePriority::Spot), ..new_machine(name) })
    }

    /// Creates a machine whose deletion has this much notice: five to fifteen minutes.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let forewarn = forewarn_testing::Forewarn::start();
    /// let web = forewarn.machine_with_terminate_notice("web_0", Duration::from_secs(300));
    /// assert_eq!(web.delete().unwrap().kind(), forewarn_testing::EventKind::Terminate);
    /// ```
    #[track_caller]
    pub fn machine_with_terminate_notice(&self, name: &str, notice: Duration) -> Machine {
        let notification = TerminateNotification { not_before_timeout: format!("PT{}S", notice.as_secs()) };
        self.register(NewMachine { terminate_notification: Some(notification), ..new_machine(name) })
    }

    /// Creates an availability set with these machines. They share one document and can approve each other's events.
    ///
    /// ```
    /// # use forewarn_testing::EventKind;
    /// let forewarn = forewarn_testing::Forewarn::start();
    /// let [one, two] = forewarn.availability_set("web", ["web_0", "web_1"]);
    /// one.schedule(EventKind::Redeploy);
    /// assert_eq!(one.document(), two.document());
    /// ```
    #[track_caller]
    pub fn availability_set<const N: usize>(&self, set: &str, names: [&str; N]) -> [Machine; N] {
        let new = NewGroup {
            name: ResourceName(set.to_owned()),
            subscription: None,
            resource_group: None,
            policy: None,
            update_domains: None,
            fault_domains: None,
        };
        let _: Group = self.inner.api.post(&["availability-sets"], &new);
        names.map(|name| self.register(NewMachine { availability_set: Some(set.to_owned()), ..new_machine(name) }))
    }

    /// Creates a Uniform scale set with this many instances, named `web_0` and so on.
    ///
    /// ```
    /// let forewarn = forewarn_testing::Forewarn::start();
    /// let names: Vec<String> = forewarn.scale_set("web", 2).iter().map(|each| each.name().to_owned()).collect();
    /// assert_eq!(names, ["web_0", "web_1"]);
    /// ```
    #[track_caller]
    pub fn scale_set(&self, set: &str, capacity: u32) -> Vec<Machine> {
        let new = NewScaleSet {
            orchestration: Some(OrchestrationMode::Uniform),
            ..NewScaleSet::new(ResourceName(set.to_owned()), capacity)
        };
        let _: ScaleSet = self.inner.api.post(&["scale-sets"], &new);
        let instances: Page<types::Machine> = self.inner.api.get(&["scale-sets", set, "instances"]);
        instances.value.iter().map(|machine| Machine::new(self.clone(), &machine.name)).collect()
    }

    /// Advances the manual clock. All deadlines in between are processed in order before this returns.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let forewarn = forewarn_testing::Forewarn::start();
    /// let event = forewarn.machine("web_0").restart();
    /// forewarn.advance(Duration::from_secs(900));
    /// assert!(event.is_started());
    /// ```
    #[track_caller]
    pub fn advance(&self, time: Duration) {
        assert!(time.subsec_nanos() == 0, "the clock moves in whole seconds, not by {time:?}");
        let _: Clock = self.inner.api.post(&["clock", "advance"], &AdvanceClock { seconds: time.as_secs() });
    }

    /// Injects a fault into requests of all machines.
    #[track_caller]
    pub fn inject_fault(&self, fault: Fault) {
        let _: types::Fault = self.inner.api.post(&["faults"], &fault.request(None));
    }

    /// Removes all faults.
    #[track_caller]
    pub fn clear_faults(&self) {
        let _: ClearedFaults = self.inner.api.delete(&["faults"]);
    }

    /// Base URL of the management API, which requires no token.
    pub fn management_url(&self) -> &str {
        &self.inner.api.server
    }

    #[track_caller]
    fn register(&self, new: NewMachine) -> Machine {
        let machine: types::Machine = self.inner.api.post(&["machines"], &new);
        Machine::new(self.clone(), &machine.name)
    }

    fn first_event(&self, operation: &Operation) -> Option<EventHandle> {
        let event = operation.events.first()?;
        Some(EventHandle::new(self.clone(), EventId::parse(&event.id.to_string())?))
    }
}

/// A machine without addresses, because the path selects it.
fn new_machine(name: &str) -> NewMachine {
    NewMachine { addresses: Some(Vec::new()), ..NewMachine::named(ResourceName(name.to_owned())) }
}
