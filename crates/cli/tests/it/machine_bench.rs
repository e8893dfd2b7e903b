//! A server with a driver of real machines, for acceptance runs with guests that poll the metadata address and approve.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use forewarn_test_support::{Guest, cloud_command};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::FOREWARN;

const MANAGEMENT: &str = "127.0.0.1:8170";

/// Time limit for the hypervisor and the server to reach a state.
const STATE_MAX: Duration = Duration::from_secs(60);

/// A server with a driver of real machines.
pub struct Bench {
    data: TempDir,
    /// The arguments that choose the driver.
    driver: Vec<String>,
    server: Option<Child>,
}

impl Bench {
    pub fn new(driver: &[&str]) -> Bench {
        let driver = driver.iter().map(ToString::to_string).collect();
        let mut bench = Bench { data: TempDir::new().unwrap(), driver, server: None };
        bench.start_server();
        bench
    }

    pub fn start_server(&mut self) {
        let mut command = cloud_command(FOREWARN);
        let log = fs::File::options().create(true).append(true).open(self.data.path().join("log")).unwrap();
        command.arg("serve").arg("--data").arg(self.data.path().join("data"));
        command.args(["--metadata", "169.254.169.254:80", "--management", MANAGEMENT, "--management-tls", "off"]);
        command.args(["--no-auth", "--driver-host", "host1"]).args(&self.driver);
        let server = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        self.server = Some(server);
        wait_until("the server", || self.command("health").output().unwrap().status.success());
    }

    pub fn kill_server(&mut self) {
        let mut server = self.server.take().unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
    }

    fn log(&self) -> String {
        fs::read_to_string(self.data.path().join("log")).unwrap_or_default()
    }

    fn command(&self, words: &str) -> Command {
        let mut command = cloud_command("timeout");
        command.env("FOREWARN_SERVER", format!("http://{MANAGEMENT}")).env("HOME", "/nonexistent");
        command.arg(STATE_MAX.as_secs().to_string()).arg(FOREWARN).args(words.split_whitespace());
        command
    }

    /// Runs a command that must succeed. Commands that start an operation wait for its end.
    #[track_caller]
    pub fn run(&self, words: &str) -> String {
        let Output { status, stdout, stderr } = self.command(words).output().unwrap();
        let errors = String::from_utf8_lossy(&stderr).into_owned();
        assert!(status.success(), "forewarn {words}: {errors}\n{}", self.log());
        String::from_utf8(stdout).unwrap()
    }

    pub fn show(&self, words: &str) -> Value {
        serde_json::from_str(&self.run(&format!("{words} -o json"))).unwrap()
    }

    /// The journal of a machine's order on host 1.
    pub fn journal(&self, guest: &Guest) -> PathBuf {
        self.data.path().join("data/journal/host1").join(format!("{}.json", guest.uuid))
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if self.server.is_some() {
            self.kill_server();
        }
        if std::thread::panicking() {
            eprintln!("── server:\n{}", self.log());
        }
    }
}

/// Waits until the guest has seen an event of this type and the server has recorded the guest's approval. Returns the line
/// in which the guest saw it.
///
/// The record of the server counts, because a reset or a pause can come before the guest has printed its approval.
pub async fn wait_for_approval(show: impl Fn(&str) -> Value, guest: &Guest, kind: &str, from: usize) -> usize {
    let (line, event) = wait_for_notice(guest, kind, from).await;
    let actor = format!("guest:{}", guest.name);
    wait_until(&format!("approval of {kind}"), || {
        let rows = show(&format!("history --event {event} --kind approved"));
        rows.as_array().is_some_and(|rows| rows.iter().any(|row| row["actor"] == actor.as_str()))
    });
    line
}

/// Waits until the guest has seen an event of this type; returns the line and the event's ID.
async fn wait_for_notice(guest: &Guest, kind: &str, from: usize) -> (usize, String) {
    let find = |line: &String| {
        let document: Value = serde_json::from_str(line.strip_prefix("document ")?).ok()?;
        let event = document["Events"].as_array()?.iter().find(|event| event["EventType"] == kind)?;
        event["EventId"].as_str().map(str::to_owned)
    };
    let found = || {
        let lines = guest.lines();
        lines.iter().enumerate().skip(from).find_map(|(number, line)| Some((number, find(line)?)))
    };
    guest.wait(&format!("notice of a {kind}"), found).await
}

/// Waits until the guest has seen an empty document.
pub async fn wait_for_empty(guest: &Guest, from: usize) {
    let is_empty = |line: &String| line.starts_with("document ") && line.contains("\"Events\":[]");
    guest.wait("an empty document", || guest.lines().iter().skip(from).any(is_empty).then_some(())).await;
}

#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < STATE_MAX, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Attempts to kill a server before it has finished an order. An order of a fast hypervisor takes milliseconds.
const KILL_ATTEMPTS: usize = 10;

/// Kills the server as soon as an order is in its journal. The machine, which has booted `boots` times, reboots exactly
/// once per order. Returns the number of boots and the last boot ID.
pub async fn killed_in_the_middle(bench: &mut Bench, guest: &Guest, boots: usize) -> (usize, String) {
    let journal = bench.journal(guest);
    for boots in boots + 1..=boots + KILL_ATTEMPTS {
        bench.run("vm restart web --no-wait");
        wait_until("the order", || journal.exists());
        bench.kill_server();
        let was_in_the_middle = journal.exists();
        bench.start_server();
        let boot_id = guest.wait_for_boot(boots).await;
        wait_until("the end of the order", || !journal.exists());
        wait_until("the end of the event", || bench.show("events list").as_array().is_some_and(Vec::is_empty));
        guest.wait_for_beat().await;
        assert_eq!(guest.boot_ids().len(), boots, "one boot");
        if was_in_the_middle {
            return (boots, boot_id);
        }
    }
    panic!("the server finished each of {KILL_ATTEMPTS} orders before it was killed");
}
