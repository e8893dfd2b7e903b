//! The seeds' own words against a fresh `forewarn serve`: their curl lines, and their Python sample.
//!
//! Both are as published but for the address; the sample is on Python 3 and strips the `_` that version
//! 2017-03-01 puts before names.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::server::{Answer, Server, curl};
use super::wait;
use crate::{setup, sh};

/// The id in the seeds' approval.
const SEED_EVENT: &str = "f020ba2e-3bc0-4c40-a10b-86575a9eabd5";

/// The seeds' approval, to the letter.
const SEED_APPROVAL: &str =
    r#"{"DocumentIncarnation":"5", "StartRequests": [{"EventId": "f020ba2e-3bc0-4c40-a10b-86575a9eabd5"}]}"#;

/// Fifteen minutes are fifteen seconds; impacts take the two seconds that are the least.
const FLAGS: &[&str] = &["--notice-scale", "60", "--impact-freeze", "1s", "--impact-reboot", "1s"];

pub fn run() -> Result<()> {
    setup::debian(&[("curl", "curl"), ("python3", "python3"), ("hostname", "hostname"), ("util-linux", "setpriv")])?;
    let server = Server::start(FLAGS)?;
    let guest = Guest { server: &server, host_name: sh::program("hostname").read()?.trim().to_owned() };
    guest.asks_before_anything_happens()?;
    guest.is_refused_what_the_original_refuses()?;
    guest.approves_with_the_seeds_curl()?;
    guest.approves_with_the_seeds_sample("Freeze")?;
    guest.approves_with_the_seeds_sample("Reboot")?;
    server.stop()
}

/// A program on the machine that an empty store starts with.
struct Guest<'s> {
    server: &'s Server<'static>,
    host_name: String,
}

impl Guest<'_> {
    fn asks_before_anything_happens(&self) -> Result<()> {
        let answer = self.curl("?api-version=2017-03-01", &["-H", "Metadata:true"])?;
        ensure!(answer.status == 200, "{answer:?}");
        ensure!(answer.body == r#"{"DocumentIncarnation":1,"Events":[]}"#, "{answer:?}");
        ensure!(answer.header("content-type") == Some("application/json; charset=utf-8"), "{answer:?}");
        ensure!(answer.header("etag") == Some("1"), "{answer:?}");
        let unchanged = self.curl("?api-version=2017-03-01", &["-H", "Metadata:true", "-H", "If-None-Match: 1"])?;
        ensure!(unchanged.status == 304 && unchanged.body.is_empty(), "{unchanged:?}");
        Ok(())
    }

    fn is_refused_what_the_original_refuses(&self) -> Result<()> {
        let metadata = ["-H", "Metadata:true"];
        let cases: &[(&str, &[&str], u16)] = &[
            ("?api-version=2017-03-01", &[], 400),
            ("?api-version=2017-03-01", &["-H", "Metadata:false"], 400),
            ("?api-version=2017-03-01", &["-H", "Metadata: True"], 200),
            ("?api-version=2017-03-01", &["-H", "metadata:true", "-H", "X-Forwarded-For: 10.0.0.1"], 400),
            ("", &metadata, 400),
            ("?api-version=latest", &metadata, 400),
            ("?api-version=2024-07-09", &metadata, 404),
            ("?api-version=2017-03-01&api-version=2017-08-01", &metadata, 400),
            ("/nothing?api-version=2017-03-01", &metadata, 404),
            ("?api-version=2017-03-01", &["-H", "Metadata:true", "-X", "DELETE"], 405),
            ("?api-version=2017-03-01", &["-H", "Metadata:true", "-d", "{}"], 400),
            ("?api-version=2017-03-01", &["-H", "Metadata:true", "-d", "StartRequests"], 400),
            ("?api-version=2017-03-01", &["-H", "Metadata:true", "-d", SEED_APPROVAL], 400),
            ("?api-version=2019-08-01", &["-d", SEED_APPROVAL], 400),
        ];
        for (rest, arguments, status) in cases {
            let answer = self.curl(rest, arguments)?;
            ensure!(answer.status == *status, "{rest} {arguments:?}: expected {status}, got {answer:?}");
            let error = || Some(answer.json().ok()?["error"].as_str()?.to_owned());
            ensure!(*status == 200 || error().is_some_and(|text| !text.is_empty()), "{rest} {arguments:?}: {answer:?}");
        }
        let newest = self.curl("", &metadata)?.json()?["newest-versions"].clone();
        ensure!(newest == json!(["2020-07-01", "2019-08-01", "2019-04-01"]), "{newest}");
        Ok(())
    }

    fn approves_with_the_seeds_curl(&self) -> Result<()> {
        self.schedule("Freeze", Some(SEED_EVENT))?;
        let event = self.only_event()?;
        let keys: Vec<&String> = event.as_object().context("not an object")?.keys().collect();
        let known = ["EventId", "EventStatus", "EventType", "NotBefore", "ResourceType", "Resources"];
        ensure!(keys == known, "{event}");
        ensure!(event["EventId"] == SEED_EVENT.to_uppercase(), "{event}");
        ensure!(event["EventStatus"] == "Scheduled" && event["EventType"] == "Freeze", "{event}");
        ensure!(event["Resources"] == json!([format!("_{}", self.host_name)]), "{event}");
        ensure!(event["NotBefore"].as_str().is_some_and(|time| time.ends_with(" GMT")), "{event}");

        let approval = ["-H", "Metadata:true", "-X", "POST", "-d", SEED_APPROVAL];
        for _twice in 0..2 {
            let answer = self.curl("?api-version=2017-03-01", &approval)?;
            ensure!(answer.status == 200 && answer.body.is_empty(), "{answer:?}");
        }
        let event = self.only_event()?;
        ensure!(event["EventStatus"] == "Started" && event["NotBefore"] == "", "{event}");
        self.wait_for_the_end(SEED_EVENT)
    }

    /// The sample is run as its readers run it, again and again, until the event is over.
    fn approves_with_the_seeds_sample(&self, kind: &str) -> Result<()> {
        ensure!(self.sample()?.is_empty(), "the sample saw an event before there was one");
        let operation = self.schedule(kind, None)?;
        let id = operation["events"][0]["id"].as_str().context("an operation without an event")?.to_owned();
        let seen = self.sample()?;
        ensure!(seen.contains(&format!("This host is scheduled for {kind} not before ")), "it said: {seen}");
        ensure!(seen.contains(&format!("Approved {id}")), "it said: {seen}");
        let seen = self.sample()?;
        ensure!(!seen.contains("Approved"), "it approved what is Started: {seen}");
        self.wait_for_the_end(&id)?;
        ensure!(self.sample()?.is_empty(), "the sample sees an event that is over");
        Ok(())
    }

    fn schedule(&self, kind: &str, event: Option<&str>) -> Result<Value> {
        let body = json!({ "target": { "machine": self.host_name }, "type": kind, "eventId": event });
        self.server.post("/maintenance", &body)
    }

    fn wait_for_the_end(&self, event: &str) -> Result<()> {
        wait::until("the end of the event", || {
            Ok(self.document()?["Events"].as_array().filter(|all| all.is_empty()).map(drop))
        })?;
        let (life, by) = (self.server.life_of(event)?, self.server.approved_by(event)?);
        ensure!(life == ["appeared", "approved", "started", "ended"], "{life:?}");
        ensure!(by == [format!("guest:{}", self.host_name)], "{by:?}");
        Ok(())
    }

    fn only_event(&self) -> Result<Value> {
        let document = self.document()?;
        ensure!(document["Events"].as_array().is_some_and(|events| events.len() == 1), "{document}");
        Ok(document["Events"][0].clone())
    }

    fn document(&self) -> Result<Value> {
        self.curl("?api-version=2017-03-01", &["-H", "Metadata:true"])?.json()
    }

    fn curl(&self, rest: &str, arguments: &[&str]) -> Result<Answer> {
        let url = format!("{}/metadata/scheduledevents{rest}", self.server.metadata[0]);
        curl(Command::new("curl"), &[arguments, &[&url]].concat())
    }

    fn sample(&self) -> Result<String> {
        let mut python = sh::program("python3").args(&["xtask/src/accept/seed_sample.py"]);
        python.env("METADATA", &self.server.metadata[0]).env("no_proxy", "*").read()
    }
}
