//! The commands from the Scheduled Events documentation, verbatim, on a guest that reaches only http://169.254.169.254;
//! and the requests that the endpoint refuses.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::netns::{METADATA, Namespace, Network};
use super::server::{Answer, Server, curl};
use crate::needs::Needs;

/// The documented query, verbatim.
const QUERY: &str = "curl -H Metadata:true http://169.254.169.254/metadata/scheduledevents?api-version=2017-03-01";

/// The documented approval, verbatim.
const APPROVE: &str = r#"curl -H Metadata:true -X POST -d '{"DocumentIncarnation":"5", "StartRequests": [{"EventId": "f020ba2e-3bc0-4c40-a10b-86575a9eabd5"}]}' http://169.254.169.254/metadata/scheduledevents?api-version=2017-03-01"#;

/// The event ID in the documented approval.
const EVENT: &str = "f020ba2e-3bc0-4c40-a10b-86575a9eabd5";

/// The body of the documented approval.
const APPROVAL: &str =
    r#"{"DocumentIncarnation":"5", "StartRequests": [{"EventId": "f020ba2e-3bc0-4c40-a10b-86575a9eabd5"}]}"#;

const MACHINE: &str = "web1";

/// How long the simulated driver takes for a Freeze, on the server's clock.
const IMPACT_SECS: u64 = 600;

pub const NEEDS: Needs = Needs {
    root: true,
    packages: &[("iproute2", "ip"), ("curl", "curl"), ("hostname", "hostname"), ("util-linux", "setpriv")],
    downloads: &[],
};

pub fn run() -> Result<()> {
    let network = Network::new(&[MACHINE])?;
    let server = Server::start_in(&network.cloud, &format!("{METADATA}:80"), &["--clock", "manual"])?;
    server.post("/machines", &json!({ "name": MACHINE, "addresses": [{ "ip": network.nodes[0].ip }] }))?;
    let guest = Guest { server: &server, namespace: &network.nodes[0].namespace };
    guest.sees_an_empty_document()?;
    guest.gets_the_same_refusals_as_in_azure()?;
    guest.approves_with_the_documented_command()?;
    server.stop()
}

struct Guest<'n> {
    server: &'n Server<'n>,
    namespace: &'n Namespace,
}

impl Guest<'_> {
    fn sees_an_empty_document(&self) -> Result<()> {
        let answer = self.curl("?api-version=2017-03-01", &["-H", "Metadata:true"])?;
        ensure!(answer.status == 200, "{answer:?}");
        ensure!(answer.body == r#"{"DocumentIncarnation":1,"Events":[]}"#, "{answer:?}");
        ensure!(answer.header("content-type") == Some("application/json; charset=utf-8"), "{answer:?}");
        ensure!(answer.header("etag") == Some("1"), "{answer:?}");
        let unchanged = self.curl("?api-version=2017-03-01", &["-H", "Metadata:true", "-H", "If-None-Match: 1"])?;
        ensure!(unchanged.status == 304 && unchanged.body.is_empty(), "{unchanged:?}");
        Ok(())
    }

    fn gets_the_same_refusals_as_in_azure(&self) -> Result<()> {
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
            ("?api-version=2017-03-01", &["-H", "Metadata:true", "-d", APPROVAL], 400),
            ("?api-version=2019-08-01", &["-d", APPROVAL], 400),
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

    fn approves_with_the_documented_command(&self) -> Result<()> {
        self.server.schedule(&json!({ "machine": MACHINE }), "Freeze", Some(EVENT))?;
        let event = self.only_event()?;
        let keys: Vec<&String> = event.as_object().context("not an object")?.keys().collect();
        let known = ["EventId", "EventStatus", "EventType", "NotBefore", "ResourceType", "Resources"];
        ensure!(keys == known, "{event}");
        ensure!(event["EventId"] == EVENT.to_uppercase(), "{event}");
        ensure!(event["EventStatus"] == "Scheduled" && event["EventType"] == "Freeze", "{event}");
        ensure!(event["Resources"] == json!([format!("_{MACHINE}")]), "{event}");
        ensure!(event["NotBefore"].as_str().is_some_and(|time| time.ends_with(" GMT")), "{event}");

        for _twice in 0..2 {
            let said = self.type_in(APPROVE)?;
            ensure!(said.is_empty(), "the approval has a response body: {said}");
        }
        let event = self.only_event()?;
        ensure!(event["EventStatus"] == "Started" && event["NotBefore"] == "", "{event}");
        self.server.advance(IMPACT_SECS)?;
        let document = self.document()?;
        ensure!(document["Events"] == json!([]), "{document}");
        let (life, by) = (self.server.life_of(EVENT)?, self.server.approved_by(EVENT)?);
        ensure!(life == ["appeared", "approved", "started", "ended"], "{life:?}");
        ensure!(by == [format!("guest:{MACHINE}")], "{by:?}");
        Ok(())
    }

    fn only_event(&self) -> Result<Value> {
        let document = self.document()?;
        ensure!(document["Events"].as_array().is_some_and(|events| events.len() == 1), "{document}");
        Ok(document["Events"][0].clone())
    }

    fn document(&self) -> Result<Value> {
        Ok(serde_json::from_str(&self.type_in(QUERY)?)?)
    }

    /// Runs a line in a shell on the guest.
    fn type_in(&self, line: &str) -> Result<String> {
        self.namespace.read("sh", &["-c", line])
    }

    fn curl(&self, rest: &str, arguments: &[&str]) -> Result<Answer> {
        let url = format!("http://{METADATA}/metadata/scheduledevents{rest}");
        curl(self.namespace.command("curl"), &[arguments, &[&url]].concat())
    }
}
