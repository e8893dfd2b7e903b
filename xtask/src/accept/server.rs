//! `forewarn serve` with a data directory of its own, and calls to its API with curl.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::netns::Namespace;
use super::wait;
use crate::sh;

/// The longest time that the server may take to stop.
const STOP_MAX: Duration = Duration::from_secs(5);

/// The timeout of one request, in seconds.
const REQUEST_SECS_MAX: &str = "10";

/// A running server. It ends when the value is dropped, and when this process is killed.
pub struct Server<'n> {
    child: Child,
    /// Kept open, so that the server can continue to write.
    stdout: BufReader<ChildStdout>,
    data: TempDir,
    /// The namespace of the server; none if it runs on the host.
    namespace: Option<&'n Namespace>,
    /// `http://127.0.0.1:8169`, one for each listener.
    pub metadata: Vec<String>,
    pub management: String,
    /// The management address for HTTPS.
    pub management_tls: String,
    pub token: String,
}

impl Server<'static> {
    /// Starts a server on a free port of the loopback address.
    pub fn start(flags: &[&str]) -> Result<Server<'static>> {
        Server::start_at(None, "127.0.0.1:0", "127.0.0.1:0", flags)
    }
}

impl<'n> Server<'n> {
    pub fn start_in(namespace: &'n Namespace, metadata: &str, flags: &[&str]) -> Result<Server<'n>> {
        Server::start_at(Some(namespace), metadata, "127.0.0.1:0", flags)
    }

    /// Starts a server of this build.
    pub fn start_program_in(program: &Path, namespace: &'n Namespace, metadata: &str) -> Result<Server<'n>> {
        Server::launch(program, Some(namespace), metadata, "127.0.0.1:0", &[])
    }

    /// Starts a server that others reach at this management address with TLS.
    pub fn start_with_tls_at(tls: &str, namespace: &'n Namespace, flags: &[&str]) -> Result<Server<'n>> {
        Server::start_at(Some(namespace), "127.0.0.1:0", tls, flags)
    }

    fn start_at(namespace: Option<&'n Namespace>, metadata: &str, tls: &str, flags: &[&str]) -> Result<Server<'n>> {
        Server::launch(&sh::built("forewarn")?, namespace, metadata, tls, flags)
    }

    fn launch(
        program: &Path,
        namespace: Option<&'n Namespace>,
        metadata: &str,
        tls: &str,
        flags: &[&str],
    ) -> Result<Server<'n>> {
        let data = tempfile::Builder::new().prefix("forewarn-accept-").tempdir()?;
        let log = File::create(data.path().join("log"))?;
        let mut command = command_in(namespace, "setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .arg("serve")
            .arg("--data")
            .arg(data.path().join("data"));
        command.args(["--metadata", metadata, "--management", "127.0.0.1:0", "--management-tls", tls]);
        command.args(flags);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FOREWARN_")) {
            command.env_remove(name);
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().context("setpriv")?;
        let stdout = BufReader::new(child.stdout.take().context("no output")?);
        let (metadata, management, management_tls, token) = (Vec::new(), String::new(), String::new(), String::new());
        let mut server = Server { child, stdout, data, namespace, metadata, management, management_tls, token };
        server.read_addresses().with_context(|| format!("forewarn did not start:\n{}", server.log()))?;
        server.token = fs::read_to_string(server.data.path().join("data/token")).context("no token")?.trim().to_owned();
        Ok(server)
    }

    /// The server prints its addresses once all listeners are bound, and ends if it cannot start.
    fn read_addresses(&mut self) -> Result<()> {
        for line in self.stdout.by_ref().lines() {
            let line = line?;
            let mut words = line.split_whitespace();
            match (words.next(), words.next()) {
                (Some("metadata"), Some(address)) => self.metadata.push(address.to_owned()),
                (Some("management"), Some(address)) if address.starts_with("https:") => {
                    self.management_tls = address.to_owned();
                    return Ok(());
                }
                (Some("management"), Some(address)) => self.management = address.to_owned(),
                _ => {}
            }
        }
        bail!("the server ended before it printed its addresses")
    }

    /// A directory that is removed with the server.
    pub fn dir(&self) -> &Path {
        self.data.path()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.data.path().join("log")).unwrap_or_default()
    }

    /// A command that runs in the namespace of the server.
    pub fn command(&self, program: &str) -> Command {
        command_in(self.namespace, program)
    }

    /// The events document of a machine.
    pub fn document(&self, machine: &str) -> Result<Value> {
        let url = self.events_url(machine);
        let answer = curl(self.command("curl"), &["-H", "Metadata: true", &url])?;
        ensure!(answer.status == 200, "{machine}: {answer:?}");
        answer.json()
    }

    /// Approves an event as a machine.
    pub fn approve(&self, machine: &str, event: &str) -> Result<()> {
        let url = self.events_url(machine);
        let body = json!({ "StartRequests": [{ "EventId": event }] }).to_string();
        let answer = curl(self.command("curl"), &["-H", "Metadata: true", "-d", &body, &url])?;
        ensure!(answer.status == 200, "{machine} approves {event}: {answer:?}");
        Ok(())
    }

    fn events_url(&self, machine: &str) -> String {
        format!("{}/vm/{machine}/metadata/scheduledevents?api-version=2020-07-01", self.metadata[0])
    }

    pub fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.expect_success("POST", path, Some(body))
    }

    pub fn put(&self, path: &str) -> Result<Value> {
        self.expect_success("PUT", path, None)
    }

    pub fn get(&self, path: &str) -> Result<Value> {
        self.expect_success("GET", path, None)
    }

    /// Deletes the machine that every new server has.
    pub fn forget_the_first_machine(&self) -> Result<()> {
        let machines = self.get("/machines")?;
        let name = machines["value"][0]["name"].as_str().context("the server has no machine")?;
        self.expect_success("DELETE", &format!("/machines/{name}"), None).map(|_| ())
    }

    /// Schedules maintenance of a machine or a group and returns the event ID.
    pub fn schedule(&self, target: &Value, kind: &str, event: Option<&str>) -> Result<String> {
        let operation = self.post("/maintenance", &json!({ "target": target, "type": kind, "eventId": event }))?;
        let id = operation["events"][0]["id"].as_str();
        Ok(id.with_context(|| format!("the operation has no event: {operation}"))?.to_owned())
    }

    /// Advances the manual clock. Everything that is due has happened when this returns.
    pub fn advance(&self, secs: u64) -> Result<()> {
        self.post("/clock/advance", &json!({ "seconds": secs })).map(drop)
    }

    /// Number of approvals answered with 200, including those that changed nothing.
    pub fn approvals(&self) -> Result<u64> {
        let token = format!("Authorization: Bearer {}", self.token);
        let url = format!("{}/metrics", self.management);
        let answer = curl(self.command("curl"), &["-H", &token, &url])?;
        let value = answer.body.lines().find_map(|line| line.strip_prefix("forewarn_metadata_approvals_total "));
        value.and_then(|text| text.trim().parse().ok()).with_context(|| format!("the metric is missing: {answer:?}"))
    }

    /// The first page of the history, oldest row first.
    pub fn history(&self, query: &str) -> Result<Vec<Value>> {
        let page = self.get(&format!("/history?limit=1000&{query}"))?;
        Ok(page["value"].as_array().with_context(|| format!("not a list: {page}"))?.clone())
    }

    /// The callers that approved an event, according to the history.
    pub fn approved_by(&self, event: &str) -> Result<Vec<String>> {
        let rows = self.history(&format!("event={event}&kind=approved"))?;
        Ok(rows.iter().map(|row| row["actor"].as_str().unwrap_or_default().to_owned()).collect())
    }

    /// The kinds of the history rows of an event.
    pub fn life_of(&self, event: &str) -> Result<Vec<String>> {
        let rows = self.history(&format!("event={event}"))?;
        Ok(rows.iter().map(|row| row["kind"].as_str().unwrap_or_default().to_owned()).collect())
    }

    fn expect_success(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let url = format!("{}/api/v1{path}", self.management);
        let (token, text) = (format!("Authorization: Bearer {}", self.token), body.map(Value::to_string));
        let mut arguments = vec!["-X", method, "-H", &token];
        if let Some(text) = &text {
            arguments.extend(["-H", "Content-Type: application/json", "-d", text]);
        }
        arguments.push(&url);
        let answer = curl(self.command("curl"), &arguments)?;
        ensure!((200..300).contains(&answer.status), "{method} {path} {}: {answer:?}", text.unwrap_or_default());
        answer.json()
    }

    /// Sends SIGTERM and expects the server to end in time and with success.
    pub fn stop(mut self) -> Result<()> {
        let pid = self.child.id().to_string();
        ensure!(Command::new("kill").args(["-TERM", &pid]).status()?.success(), "cannot signal {pid}");
        let begun = Instant::now();
        let status = wait::until("the end of forewarn", || Ok(self.child.try_wait()?))?;
        let elapsed = begun.elapsed();
        ensure!(elapsed <= STOP_MAX, "the server took {elapsed:?} to stop");
        ensure!(status.success(), "the server ended with {status}:\n{}", self.log());
        Ok(())
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let _ = std::io::stderr().write_all(self.log().as_bytes());
        }
    }
}

/// An HTTP response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.body).with_context(|| format!("not JSON: {self:?}"))
    }
}

/// Runs curl with these arguments, without a proxy.
pub fn curl(mut command: Command, arguments: &[&str]) -> Result<Answer> {
    command.args(["-q", "-sS", "-i", "--noproxy", "*", "--max-time", REQUEST_SECS_MAX]).args(arguments);
    let output = command.output().context("cannot run curl")?;
    let Output { status, stdout, stderr } = output;
    ensure!(status.success(), "curl {}: {}", arguments.join(" "), String::from_utf8_lossy(&stderr).trim());
    parse(&String::from_utf8(stdout)?)
}

fn parse(text: &str) -> Result<Answer> {
    let (head, body) = text.split_once("\r\n\r\n").context("the response has no end of headers")?;
    let mut lines = head.lines();
    let status_line = lines.next().unwrap_or_default();
    let status = status_line.split(' ').nth(1).and_then(|code| code.parse().ok());
    let headers = lines.filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
    Ok(Answer { status: status.with_context(|| format!("no status: {status_line}"))?, headers, body: body.to_owned() })
}

fn command_in(namespace: Option<&Namespace>, program: &str) -> Command {
    match namespace {
        Some(namespace) => namespace.command(program),
        None => Command::new(program),
    }
}
