//! A machine for a handler to be.

use serde_json::{Value, json};

use crate::event::{Event, Kind};
use crate::{Forewarn, api::Api};

/// Made by [`Forewarn::machine`] and its like. Clones are the same machine.
#[derive(Clone)]
pub struct Machine {
    forewarn: Forewarn,
    name: String,
    endpoint: String,
}

/// What a machine has asked of its endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    pub gets: u64,
    pub posts: u64,
    /// Answered with 429.
    pub refused: u64,
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

    /// Maintenance by the platform: a Freeze, a Reboot or a Redeploy.
    ///
    /// As everywhere here, a machine that has never asked is taken for one whose handler is about to: it asks once,
    /// because nobody is told of events before.
    ///
    /// ```
    /// # use forewarn_testing::{Forewarn, Kind};
    /// let event = Forewarn::start().machine("web_0").schedule(Kind::Freeze);
    /// assert_eq!(event.kind(), Kind::Freeze);
    /// ```
    #[track_caller]
    pub fn schedule(&self, kind: Kind) -> Event {
        self.listen();
        let body = json!({ "target": { "machine": self.name }, "type": kind.word() });
        self.announced(&self.api().post(&["maintenance"], &body))
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
        self.forewarn.event(&self.api().delete(&["machines", &self.name]))
    }

    /// What the machine has asked so far, also by [`document`](Machine::document).
    ///
    /// ```
    /// let web = forewarn_testing::Forewarn::start().machine("web_0");
    /// web.document();
    /// assert_eq!((web.requests().gets, web.requests().posts), (1, 0));
    /// ```
    #[track_caller]
    pub fn requests(&self) -> Requests {
        let Some((_, running)) = &self.forewarn.inner.server else { return Requests::default() };
        let snapshot = running.engine.snapshot();
        let machine = snapshot.region.machines().find(|machine| machine.name.eq_ignore_ascii_case(&self.name));
        let record = machine.and_then(|machine| running.engine.requests_of(machine.id)).unwrap_or_default();
        Requests { gets: record.gets, posts: record.posts, refused: record.refused }
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
