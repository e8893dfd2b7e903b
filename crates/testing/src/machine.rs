//! A machine for a handler to be.

use serde_json::{Value, json};

use crate::event::Event;
use crate::fault::Fault;
use crate::{Forewarn, Kind, api::Api};

/// Made by [`Forewarn::machine`] and its like. Clones are the same machine.
#[derive(Clone)]
pub struct Machine {
    forewarn: Forewarn,
    name: String,
    endpoint: String,
}

/// A request of a machine to its endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestMade {
    pub method: String,
    /// `/metadata/scheduledevents`, without `/vm/…` in front.
    pub path: String,
    /// None: there was no answer, because a [fault](crate::Fault) reset the connection or the handler left.
    pub status: Option<u16>,
    /// The ids of the events that it approved.
    pub approved: Vec<String>,
    /// The kinds of the faults that it met, such as `Truncated`.
    pub faults: Vec<String>,
}

impl Machine {
    pub(crate) fn new(forewarn: Forewarn, name: &str) -> Machine {
        let endpoint = format!("{}/vm/{name}", forewarn.inner.metadata);
        Machine { forewarn, name: name.to_owned(), endpoint }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// What a handler is given in place of `http://169.254.169.254`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The newest document, as the machine sees it. Like a request of its handler this turns events on.
    ///
    /// ```
    /// let web = forewarn_testing::Forewarn::start().machine("web_0");
    /// assert_eq!(web.document()["DocumentIncarnation"], 1);
    /// ```
    #[track_caller]
    pub fn document(&self) -> Value {
        self.api().document(&self.endpoint)
    }

    /// A Freeze, a Reboot or a Redeploy by the platform; a Preempt is an [eviction](Machine::evict), a Terminate a
    /// [deletion](Machine::delete) with five minutes of notice, or what the machine was made with.
    ///
    /// As everywhere here, a machine that has never asked is taken for one whose handler is about to: it asks once,
    /// because nobody is told of events before.
    ///
    /// ```
    /// # use forewarn_testing::{Forewarn, Kind};
    /// let event = Forewarn::start().machine("web_0").schedule(Kind::Freeze);
    /// assert_eq!(event.kind(), Kind::Freeze);
    /// let event = Forewarn::start().machine("web_0").schedule(Kind::Terminate);
    /// assert_eq!(event.kind(), Kind::Terminate);
    /// ```
    #[track_caller]
    pub fn schedule(&self, kind: Kind) -> Event {
        match kind {
            Kind::Preempt => self.evict(),
            Kind::Terminate => self.delete_with_notice(),
            Kind::Freeze | Kind::Reboot | Kind::Redeploy | Kind::Other(_) => {
                self.listen();
                let body = json!({ "target": { "machine": self.name }, "type": kind.as_str() });
                self.announced(&self.api().post(&["maintenance"], &body))
            }
        }
    }

    #[track_caller]
    fn delete_with_notice(&self) -> Event {
        if self.facts()["terminateNotification"].is_null() {
            let notice = json!({ "terminateNotification": { "notBeforeTimeout": "PT5M" } });
            self.api().patch(&["machines", &self.name], &notice);
        }
        self.delete().unwrap_or_else(|| panic!("{} was deleted without an event", self.name))
    }

    /// A restart that somebody asked for.
    #[track_caller]
    pub fn restart(&self) -> Event {
        self.act("restart")
    }

    /// A move to another host that somebody asked for.
    #[track_caller]
    pub fn redeploy(&self) -> Event {
        self.act("redeploy")
    }

    /// The end of a [`spot_machine`](Forewarn::spot_machine), in thirty seconds.
    #[track_caller]
    pub fn evict(&self) -> Event {
        self.act("evict")
    }

    /// The hardware breaks: an event without notice, Started from the beginning.
    ///
    /// ```
    /// let event = forewarn_testing::Forewarn::start().machine("web_0").fail();
    /// assert!(event.is_started());
    /// ```
    #[track_caller]
    pub fn fail(&self) -> Event {
        self.act("hardware-failure")
    }

    /// The machine is deleted; announced only when it
    /// [was made so](Forewarn::machine_with_terminate_notice), otherwise at once and without an event.
    #[track_caller]
    pub fn delete(&self) -> Option<Event> {
        self.listen();
        self.forewarn.event(&self.api().delete(&["machines", &self.name])).filter(Event::is_shown)
    }

    /// Lets requests of this machine go wrong.
    #[track_caller]
    pub fn fault(&self, fault: Fault) {
        self.api().post(&["faults"], &fault.body(Some(&self.name)));
    }

    /// What the machine has asked, also by [`document`](Machine::document): the last 64 requests, oldest first.
    ///
    /// ```
    /// let web = forewarn_testing::Forewarn::start().machine("web_0");
    /// web.document();
    /// let requests = web.requests();
    /// assert_eq!((requests[0].method.as_str(), requests[0].status), ("GET", Some(200)));
    /// ```
    #[track_caller]
    pub fn requests(&self) -> Vec<RequestMade> {
        let requests = self.api().get(&["machines", &self.name, "requests"]);
        requests["value"].as_array().into_iter().flatten().map(RequestMade::read).collect()
    }

    #[track_caller]
    fn act(&self, action: &str) -> Event {
        self.listen();
        self.announced(&self.api().post(&["machines", &self.name, action], &json!({})))
    }

    #[track_caller]
    fn announced(&self, operation: &Value) -> Event {
        match self.forewarn.event(operation) {
            Some(event) => event,
            None => panic!("{} was not told of an event: {operation}", self.name),
        }
    }

    #[track_caller]
    fn listen(&self) {
        if self.facts()["listening"] != true {
            self.document();
        }
    }

    #[track_caller]
    fn facts(&self) -> Value {
        self.api().get(&["machines", &self.name])
    }

    fn api(&self) -> &Api {
        &self.forewarn.inner.api
    }
}

impl RequestMade {
    fn read(value: &Value) -> RequestMade {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let texts = |list: &Value, of: fn(&Value) -> &Value| {
            list.as_array().into_iter().flatten().map(|each| text(of(each))).collect()
        };
        RequestMade {
            method: text(&value["method"]),
            path: text(&value["path"]),
            status: value["status"].as_u64().and_then(|status| u16::try_from(status).ok()),
            approved: texts(&value["approved"], |id| id),
            faults: texts(&value["faults"], |fault| &fault["kind"]),
        }
    }
}
