//! A server with a driver of real machines, for acceptance runs with guests that poll the metadata address and approve, and a
//! server with host agents on the loopback interface.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use forewarn_test_support::{Guest, cloud_command, free_port};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{FOREWARN, clean_command};

const MANAGEMENT: &str = "127.0.0.1:8170";

/// Time limit for the hypervisor and the server to reach a state, on a machine that is busy otherwise. Kernels of emulated
/// guests can hang there; a driver powers such a guest off after five minutes.
const STATE_MAX: Duration = Duration::from_secs(7 * 60);

/// Names the step of an order before which a server or a host agent ends.
pub const ABORT_BEFORE: &str = "FOREWARN_TEST_ABORT_BEFORE";

/// A server for real machines.
pub struct Bench {
    data: TempDir,
    network: Network,
    /// The arguments that choose the driver and the listeners.
    arguments: Vec<String>,
    server: Option<Child>,
}

/// The network in which the server and its commands run.
enum Network {
    /// The namespace of the cloud.
    Cloud,
    /// The loopback interface, with this address of the management API.
    Loopback { management: String },
}

impl Network {
    fn management(&self) -> &str {
        match self {
            Network::Cloud => MANAGEMENT,
            Network::Loopback { management } => management,
        }
    }

    fn forewarn(&self) -> Command {
        match self {
            Network::Cloud => {
                let mut command = cloud_command("timeout");
                command.arg(STATE_MAX.as_secs().to_string()).arg(FOREWARN);
                command
            }
            Network::Loopback { .. } => clean_command(),
        }
    }
}

impl Bench {
    /// A server that drives the machines of host 1 itself, and that guests reach at the metadata address.
    pub fn with_driver(driver: &[&str]) -> Bench {
        Bench::start(&[&["--metadata", "169.254.169.254:80", "--driver-host", "host1"], driver].concat())
    }

    pub fn start(arguments: &[&str]) -> Bench {
        Bench::start_in(Network::Cloud, arguments)
    }

    /// A server on the loopback interface.
    pub fn on_loopback(arguments: &[&str]) -> Bench {
        Bench::start_in(Network::Loopback { management: format!("127.0.0.1:{}", free_port()) }, arguments)
    }

    fn start_in(network: Network, arguments: &[&str]) -> Bench {
        let arguments = arguments.iter().map(ToString::to_string).collect();
        let mut bench = Bench { data: TempDir::new().unwrap(), network, arguments, server: None };
        bench.start_server();
        bench
    }

    pub fn management(&self) -> &str {
        self.network.management()
    }

    pub fn start_server(&mut self) {
        self.start_server_with(&[]);
    }

    /// Starts a server that ends at once, without cleanup, when it reaches a step of an order.
    pub fn start_server_until(&mut self, step: &str) {
        self.start_server_with(&[(ABORT_BEFORE, step)]);
    }

    fn start_server_with(&mut self, variables: &[(&str, &str)]) {
        let mut command = match &self.network {
            Network::Cloud => cloud_command(FOREWARN),
            Network::Loopback { .. } => clean_command(),
        };
        command.arg("serve").arg("--data").arg(self.path("data")).args(&self.arguments);
        command.args(["--management", self.management(), "--management-tls", "off", "--no-auth"]);
        command.envs(variables.iter().copied());
        let mut server = self.spawn(&mut command, "server.log");
        wait_until("the server", || {
            assert!(server.try_wait().unwrap().is_none(), "the server has ended:\n{}", self.logs());
            self.command("health").output().unwrap().status.success()
        });
        self.server = Some(server);
    }

    /// Waits until the server has ended by itself.
    #[track_caller]
    pub fn wait_for_server_abort(&mut self) {
        let mut server = self.server.take().unwrap();
        wait_until("the end of the server", || server.try_wait().unwrap().is_some());
    }

    pub fn kill_server(&mut self) {
        let mut server = self.server.take().unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
    }

    /// A file or directory of this server.
    pub fn path(&self, name: &str) -> PathBuf {
        self.data.path().join(name)
    }

    /// Starts a program that writes to a log, which is printed if the test fails.
    pub fn spawn(&self, command: &mut Command, log: &str) -> Child {
        let log = fs::File::options().create(true).append(true).open(self.path(log)).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
    }

    fn logs(&self) -> String {
        let files = fs::read_dir(self.data.path()).into_iter().flatten().flatten().map(|entry| entry.path());
        let logs = files.filter(|path| path.extension().is_some_and(|end| end == "log"));
        logs.map(|path| format!("── {}\n{}\n", path.display(), fs::read_to_string(&path).unwrap_or_default())).collect()
    }

    fn command(&self, words: &str) -> Command {
        let mut command = self.network.forewarn();
        command.env("FOREWARN_SERVER", format!("http://{}", self.management())).env("HOME", "/nonexistent");
        command.args(words.split_whitespace());
        command
    }

    /// Runs a command that must succeed. Commands that start an operation wait for its end.
    #[track_caller]
    pub fn run(&self, words: &str) -> String {
        let Output { status, stdout, stderr } = self.command(words).output().unwrap();
        let errors = String::from_utf8_lossy(&stderr).into_owned();
        assert!(status.success(), "forewarn {words}: {errors}\n{}", self.logs());
        String::from_utf8(stdout).unwrap()
    }

    /// Runs a command whose server may end before it answers. Operations are not awaited.
    pub fn try_run(&self, words: &str) {
        let mut command = self.command(words);
        if !words.starts_with("vm start") && !words.starts_with("vm stop") && !words.starts_with("vm deallocate") {
            command.arg("--no-wait");
        }
        drop(command.output().unwrap());
    }

    #[track_caller]
    pub fn show(&self, words: &str) -> Value {
        serde_json::from_str(&self.run(&format!("{words} -o json"))).unwrap()
    }

    /// The journal of a machine's order on host 1.
    pub fn journal(&self, guest: &Guest) -> PathBuf {
        self.path("data/journal/host1").join(format!("{}.json", guest.uuid))
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if self.server.is_some() {
            self.kill_server();
        }
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
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

/// Waits until the handler of the guest has seen an event of this type; returns the line and the event's ID.
async fn wait_for_notice(guest: &Guest, kind: &str, from: usize) -> (usize, String) {
    let prefix = format!("notice {kind} ");
    let found = || {
        let lines = guest.lines();
        let mut numbered = lines.iter().enumerate().skip(from);
        numbered.find_map(|(number, line)| Some((number, line.strip_prefix(&prefix)?.to_owned())))
    };
    guest.wait(&format!("notice of a {kind}"), found).await
}

/// Waits until the guest has seen an empty document.
pub async fn wait_for_empty(guest: &Guest, from: usize) {
    let is_empty = |line: &String| line.starts_with("document ") && line.contains("\"Events\":[]");
    guest.wait("an empty document", || guest.lines().iter().skip(from).any(is_empty).then_some(())).await;
}

/// Waits until a request that the guest held is answered with an empty document, and checks that no document was older than the
/// one before it.
pub async fn wait_for_held_request(guest: &Guest, from: usize) {
    let held = || guest.lines().into_iter().skip(from).filter(|line| line.starts_with("held ")).collect::<Vec<_>>();
    let documents = guest.wait("an answer to a held request", || {
        Some(held()).filter(|held| held.last().is_some_and(|line| line.contains("\"Events\":[]")))
    });
    let incarnations: Vec<u64> = documents.await.iter().map(|line| incarnation_of(line)).collect();
    assert!(incarnations.is_sorted(), "{incarnations:?}");
}

fn incarnation_of(line: &str) -> u64 {
    let document = line.strip_prefix("held ").and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
    document.and_then(|document| document["DocumentIncarnation"].as_u64()).unwrap_or_else(|| panic!("{line}"))
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
        wait_for_order(bench, &journal);
        bench.kill_server();
        let was_in_the_middle = journal.exists();
        bench.start_server();
        let boot_id = guest.wait_for_boot(boots).await;
        wait_until("the end of the order", || !journal.exists());
        wait_until("the end of the event", || has_no_events(bench));
        guest.wait_for_beat().await;
        assert_eq!(guest.boot_ids().len(), boots, "one boot");
        if was_in_the_middle {
            return (boots, boot_id);
        }
    }
    panic!("the server finished each of {KILL_ATTEMPTS} orders before it was killed");
}

/// How often to check whether an order ended before it was seen in the journal.
const ENDED_EVERY: Duration = Duration::from_secs(2);

/// Waits until the order of an event is in the journal, or has ended.
fn wait_for_order(bench: &Bench, journal: &Path) {
    let mut checked = Instant::now();
    wait_until("the order", || {
        if journal.exists() {
            return true;
        }
        let is_due = checked.elapsed() >= ENDED_EVERY;
        if is_due {
            checked = Instant::now();
        }
        is_due && has_no_events(bench)
    });
}

pub fn has_no_events(bench: &Bench) -> bool {
    bench.show("events list").as_array().is_some_and(Vec::is_empty)
}
