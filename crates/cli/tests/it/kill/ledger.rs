//! The acknowledged changes, and a comparison with the history.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use serde_json::Value;

use super::http::Answer;
use super::server::Server;

#[derive(Default)]
pub struct Ledger {
    scheduled: Mutex<BTreeSet<String>>,
    approved: Mutex<BTreeSet<String>>,
    canceled: Mutex<BTreeSet<String>>,
    /// The document of each event group at each incarnation.
    documents: Mutex<BTreeMap<(String, u64), String>>,
}

impl Ledger {
    pub fn scheduled(&self, event: &str) {
        self.scheduled.lock().expect("no thread has panicked").insert(event.into());
    }

    pub fn approved(&self, event: &str) {
        self.approved.lock().expect("no thread has panicked").insert(event.into());
    }

    pub fn canceled(&self, event: &str) {
        self.canceled.lock().expect("no thread has panicked").insert(event.into());
    }

    /// The same incarnation always shows the same list, before and after a crash.
    pub fn saw(&self, kind: &str, machine: &str, answer: &Answer) {
        assert_eq!(answer.status, 200, "{}", answer.body);
        let scope = if kind == "s" { "set" } else { machine };
        let document: Value = serde_json::from_str(&answer.body).expect("JSON");
        let incarnation = document["DocumentIncarnation"].as_u64().expect("an incarnation");
        let mut documents = self.documents.lock().expect("no thread has panicked");
        let known = documents.entry((scope.into(), incarnation)).or_insert_with(|| answer.body.clone());
        assert_eq!(*known, answer.body, "one incarnation of {scope} shows two lists");
    }

    pub fn check(&self, server: &Server) {
        let scheduled = self.scheduled.lock().expect("no thread has panicked");
        let approved = self.approved.lock().expect("no thread has panicked");
        let canceled = self.canceled.lock().expect("no thread has panicked");
        for event in scheduled.iter() {
            let rows = Life::read(server, event);
            assert!(rows.has("appeared"), "{event} was scheduled and is lost");
            assert!(rows.has("ended"), "{event} never ended");
            if approved.contains(event) {
                assert!(rows.has("approved") || rows.started_when_due(), "{event}'s approval is lost");
            }
            if canceled.contains(event) {
                assert!(rows.outcome_is("canceled") && !rows.has("started"), "{event}'s cancellation is lost");
            }
            assert!(!rows.has("started") || rows.has("approved") || rows.started_when_due(), "{event} started early");
        }
        assert!(!approved.is_empty() && !canceled.is_empty(), "the load caused no approval or no cancellation");
        println!("{} scheduled, {} approved, {} canceled", scheduled.len(), approved.len(), canceled.len());
    }
}

/// The history rows of one event.
pub struct Life(Vec<Value>);

impl Life {
    pub fn read(server: &Server, event: &str) -> Life {
        let rows = server.read(&format!("/history?event={event}"));
        Life(rows["value"].as_array().cloned().unwrap_or_default())
    }

    fn row(&self, kind: &str) -> Option<&Value> {
        self.0.iter().find(|row| row["kind"] == kind)
    }

    pub fn has(&self, kind: &str) -> bool {
        self.row(kind).is_some()
    }

    fn outcome_is(&self, outcome: &str) -> bool {
        self.row("ended")
            .is_some_and(|row| row["outcome"].as_str().is_some_and(|word| word.eq_ignore_ascii_case(outcome)))
    }

    /// Times are ISO 8601 in UTC, so their text sorts as they do; whole seconds suffice for NotBefore.
    pub fn started_when_due(&self) -> bool {
        let started = self.row("started").and_then(|row| row["at"].as_str()).unwrap_or_default();
        let due = self.row("appeared").and_then(|row| row["detail"]["not_before"].as_str()).unwrap_or("9999");
        !started.is_empty() && started[..19.min(started.len())] >= due[..19.min(due.len())]
    }
}
