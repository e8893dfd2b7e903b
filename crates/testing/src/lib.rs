//! A server of Scheduled Events inside your test.
//!
//! A handler is a program that notices an event, prepares, approves, and later undoes what it did. Here is the other
//! side of it: machines for handlers to be, events that happen when the test says so, and a clock that stands still
//! until it is moved.
//!
//! ```
//! use std::time::Duration;
//! use forewarn_testing::{Forewarn, Kind, Status};
//!
//! let forewarn = Forewarn::start();
//! let web = forewarn.machine("web_0");
//! // The handler under test would be given this address in place of http://169.254.169.254.
//! assert!(web.endpoint().ends_with("/vm/web_0"));
//!
//! let event = web.schedule(Kind::Reboot);
//! assert_eq!(event.status(), Status::Scheduled);
//!
//! // Nobody approves, so it starts when its time has come, and is over when the machine is back.
//! forewarn.advance(Duration::from_secs(15 * 60));
//! assert_eq!(event.status(), Status::Started);
//! forewarn.advance(Duration::from_secs(10 * 60));
//! assert_eq!(event.status(), Status::Ended("Completed".into()));
//! ```
//!
//! Nothing returns an error: what cannot be done fails the test, with a sentence and the line of the test.
//! Every call blocks. In an asynchronous test with a single thread, wait on another one, so that the handler can go
//! on meanwhile:
//!
//! ```
//! # use std::time::Duration;
//! # use forewarn_testing::{Forewarn, Kind};
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # runtime.block_on(async {
//! let forewarn = Forewarn::start();
//! let event = forewarn.machine("web_0").schedule(Kind::Freeze);
//! # event.approve();
//! let approval = tokio::task::spawn_blocking(move || event.wait_approved(Duration::from_secs(30))).await.unwrap();
//! # assert_eq!(approval.by, "management:owner");
//! # });
//! ```
//!
//! It is a real server, of the same code as `forewarn serve`, on free ports of loopback: the command line can be pointed
//! at [`Forewarn::management`]. Not in here: a handler's network. Programs that cannot be told another address are run
//! with `forewarn run`.

mod api;
mod builder;
mod event;
mod fault;
mod machine;

use std::sync::Arc;
use std::time::Duration;

use forewarn_server::Running;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

pub use builder::Builder;
pub use event::{Approval, Event, Status};
pub use fault::Fault;
/// What an event does to its machines.
pub use forewarn_client::Kind;
pub use machine::{Machine, RequestMade};

use api::Api;

/// The page about testing, so that what it shows is run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/testing.md")]
struct Page;

/// A server that ends with the last value that refers to it. Clones are the same server.
#[derive(Clone)]
pub struct Forewarn {
    inner: Arc<Inner>,
}

struct Inner {
    api: Api,
    metadata: String,
    server: Option<(Runtime, Running)>,
}

impl Forewarn {
    /// A server whose clock begins at the present time and moves only by [`advance`](Forewarn::advance).
    ///
    /// ```
    /// let forewarn = forewarn_testing::Forewarn::start();
    /// assert!(forewarn.management().starts_with("http://127.0.0.1:"));
    /// ```
    #[track_caller]
    pub fn start() -> Forewarn {
        Forewarn::builder().start()
    }

    /// A server that is not like the others.
    ///
    /// ```
    /// // Time passes by itself, and fifteen minutes of notice are a second.
    /// let forewarn = forewarn_testing::Forewarn::builder().real_clock().notice_scale(900).start();
    /// # drop(forewarn);
    /// ```
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A machine of this name: the one that is there, or a new one on its own.
    ///
    /// ```
    /// let forewarn = forewarn_testing::Forewarn::start();
    /// assert_eq!(forewarn.machine("web_0").endpoint(), forewarn.machine("web_0").endpoint());
    /// ```
    #[track_caller]
    pub fn machine(&self, name: &str) -> Machine {
        if self.inner.api.find(&["machines", name]).is_none() {
            self.inner.api.post(&["machines"], &json!({ "name": name, "addresses": [] }));
        }
        Machine::new(self.clone(), name)
    }

    /// A machine that may be evicted.
    ///
    /// ```
    /// let forewarn = forewarn_testing::Forewarn::start();
    /// let event = forewarn.spot_machine("batch_0").evict();
    /// assert_eq!(event.kind(), forewarn_testing::Kind::Preempt);
    /// ```
    #[track_caller]
    pub fn spot_machine(&self, name: &str) -> Machine {
        self.inner.api.post(&["machines"], &json!({ "name": name, "addresses": [], "priority": "Spot" }));
        Machine::new(self.clone(), name)
    }

    /// A machine whose deletion is announced so long before: five to fifteen minutes.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let forewarn = forewarn_testing::Forewarn::start();
    /// let web = forewarn.machine_with_terminate_notice("web_0", Duration::from_secs(300));
    /// assert_eq!(web.delete().unwrap().kind(), forewarn_testing::Kind::Terminate);
    /// ```
    #[track_caller]
    pub fn machine_with_terminate_notice(&self, name: &str, notice: Duration) -> Machine {
        let notification = json!({ "notBeforeTimeout": format!("PT{}S", notice.as_secs()) });
        let body = json!({ "name": name, "addresses": [], "terminateNotification": notification });
        self.inner.api.post(&["machines"], &body);
        Machine::new(self.clone(), name)
    }

    /// An availability set with these machines, which see one document and may approve for each other.
    ///
    /// ```
    /// # use forewarn_testing::Kind;
    /// let forewarn = forewarn_testing::Forewarn::start();
    /// let [one, two] = forewarn.availability_set("web", ["web_0", "web_1"]);
    /// one.schedule(Kind::Redeploy);
    /// assert_eq!(one.document(), two.document());
    /// ```
    #[track_caller]
    pub fn availability_set<const N: usize>(&self, set: &str, names: [&str; N]) -> [Machine; N] {
        self.inner.api.post(&["availability-sets"], &json!({ "name": set }));
        names.map(|name| {
            self.inner.api.post(&["machines"], &json!({ "name": name, "availabilitySet": set, "addresses": [] }));
            Machine::new(self.clone(), name)
        })
    }

    /// A Uniform scale set with so many instances, `web_0` and on.
    ///
    /// ```
    /// let forewarn = forewarn_testing::Forewarn::start();
    /// let names: Vec<String> = forewarn.scale_set("web", 2).iter().map(|each| each.name().to_owned()).collect();
    /// assert_eq!(names, ["web_0", "web_1"]);
    /// ```
    #[track_caller]
    pub fn scale_set(&self, set: &str, capacity: u32) -> Vec<Machine> {
        let body = json!({ "name": set, "capacity": capacity, "orchestration": "Uniform" });
        self.inner.api.post(&["scale-sets"], &body);
        let instances = self.inner.api.get(&["scale-sets", set, "instances"]);
        let names = instances["value"].as_array().into_iter().flatten().filter_map(|each| each["name"].as_str());
        names.map(|name| Machine::new(self.clone(), name)).collect()
    }

    /// Lets time pass: every deadline on the way is met, each in its turn, before this returns.
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
        assert!(time.subsec_nanos() == 0, "the clock moves by whole seconds, and {time:?} is none");
        self.inner.api.post(&["clock", "advance"], &json!({ "seconds": time.as_secs() }));
    }

    /// Lets requests of all machines go wrong.
    #[track_caller]
    pub fn fault(&self, fault: Fault) {
        self.inner.api.post(&["faults"], &fault.body(None));
    }

    /// Nothing goes wrong any more.
    #[track_caller]
    pub fn clear_faults(&self) {
        self.inner.api.delete(&["faults"]);
    }

    /// Where the management API is; no token is needed.
    pub fn management(&self) -> &str {
        &self.inner.api.server
    }

    fn event(&self, operation: &Value) -> Option<Event> {
        let id = operation["events"].as_array()?.first()?["id"].as_str()?;
        Some(Event::new(self.clone(), id))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Some((runtime, running)) = self.server.take() else { return };
        // A thread of its own: this one may belong to somebody's runtime, where waiting for ours is not allowed.
        let stopped = std::thread::spawn(move || {
            runtime.block_on(running.stop());
            runtime.shutdown_background();
        });
        let _ = stopped.join();
    }
}
