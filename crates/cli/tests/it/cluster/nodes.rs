//! Members of etcd and servers on loopback addresses, as processes that can be killed and stopped.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Much longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time limit of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(8);

/// Polls until there is a result.
#[track_caller]
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A process that ends with this value, and with the thread that started it.
struct Process {
    arguments: Vec<String>,
    log: PathBuf,
    child: Child,
}

impl Process {
    fn start(arguments: Vec<String>, log: PathBuf) -> Process {
        let child = Process::spawn(&arguments, &log);
        Process { arguments, log, child }
    }

    fn spawn(arguments: &[String], log: &PathBuf) -> Child {
        let output = std::fs::File::options().create(true).append(true).open(log).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).args(arguments);
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        command.spawn().expect("setpriv can be run")
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the process has not been waited for");
    }

    fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.child.wait().expect("the process can be waited for");
    }

    fn restart(&mut self) {
        self.child = Process::spawn(&self.arguments, &self.log);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Three members of etcd and three servers.
pub struct Cluster {
    pub etcd: Members,
    pub servers: Servers,
    dir: tempfile::TempDir,
}

/// The members of etcd.
pub struct Members {
    members: Vec<Process>,
    addresses: Vec<SocketAddr>,
}

/// The servers `n0`, `n1` and `n2`.
pub struct Servers {
    nodes: Vec<Process>,
    pub management: Vec<SocketAddr>,
    pub metadata: Vec<SocketAddr>,
}

impl Cluster {
    pub fn start() -> Cluster {
        let cluster = Cluster::start_with(|_, _| {});
        cluster.servers.leader();
        cluster
    }

    /// Starts the servers after something was done with their directory and the address of the region.
    pub fn start_with(prepare: impl FnOnce(&Path, &str)) -> Cluster {
        let dir = tempfile::tempdir().unwrap();
        let etcd = Members::start(dir.path().to_owned());
        prepare(dir.path(), &etcd.region());
        let servers = Servers::start(dir.path().to_owned(), &etcd);
        Cluster { etcd, servers, dir }
    }
}

impl Cluster {
    /// The directory of all data, which ends with this value.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

/// Runs `forewarn` to its end and returns its standard output.
pub fn forewarn(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_forewarn")).args(arguments).output().expect("forewarn can be run");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

impl Members {
    fn start(dir: PathBuf) -> Members {
        let (addresses, peers) = (free_addresses(3), free_addresses(3));
        let all: Vec<String> = (0..3).map(|index| format!("m{index}=http://{}", peers[index])).collect();
        let member = |index: usize| {
            let arguments = [
                ("name", format!("m{index}")),
                ("data-dir", dir.join(format!("m{index}")).display().to_string()),
                ("listen-client-urls", format!("http://{}", addresses[index])),
                ("advertise-client-urls", format!("http://{}", addresses[index])),
                ("listen-peer-urls", format!("http://{}", peers[index])),
                ("initial-advertise-peer-urls", format!("http://{}", peers[index])),
                ("initial-cluster", all.join(",")),
                ("heartbeat-interval", "50".into()),
                ("election-timeout", "500".into()),
                ("log-level", "error".into()),
            ];
            let arguments = arguments.into_iter().map(|(name, value)| format!("--{name}={value}"));
            Process::start(std::iter::once("etcd".to_owned()).chain(arguments).collect(), dir.join("etcd.log"))
        };
        let members = (0..3).map(member).collect();
        let members = Members { members, addresses };
        members.wait_until_healthy();
        members
    }

    pub fn wait_until_healthy(&self) {
        for address in &self.addresses {
            until("etcd", || request(*address, "GET", "/health", "").filter(|answer| answer.status == 200));
        }
    }

    pub fn kill(&mut self, index: usize) {
        self.members[index].kill();
    }

    pub fn restart(&mut self, index: usize) {
        self.members[index].restart();
    }

    fn region(&self) -> String {
        let hosts: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        format!("etcd://{}/north", hosts.join(","))
    }
}

impl Servers {
    fn start(dir: PathBuf, etcd: &Members) -> Servers {
        let (management, metadata) = (free_addresses(3), free_addresses(3));
        let node = |index: usize| {
            let arguments = [
                ("data", dir.join(format!("n{index}")).display().to_string()),
                ("management", management[index].to_string()),
                ("metadata", metadata[index].to_string()),
                ("management-tls", "off".into()),
                ("cluster", etcd.region()),
                ("node", format!("n{index}")),
                ("advertise", format!("http://{}", management[index])),
            ];
            let arguments = arguments.into_iter().map(|(name, value)| format!("--{name}={value}"));
            let program = [env!("CARGO_BIN_EXE_forewarn").to_owned(), "serve".into(), "--no-auth".into()];
            Process::start(program.into_iter().chain(arguments).collect(), dir.join(format!("n{index}.log")))
        };
        let nodes = (0..3).map(node).collect();
        Servers { nodes, management, metadata }
    }

    /// The role of a server; None: it does not answer.
    pub fn readiness(&self, index: usize) -> Option<Value> {
        let answer = request(self.management[index], "GET", "/healthz/ready", "")?;
        serde_json::from_str(&answer.body).ok()
    }

    /// Waits for a leader that accepts changes.
    pub fn leader(&self) -> usize {
        until("a leader", || {
            let leads = |index: &usize| self.readiness(*index).is_some_and(|report| report["role"] == "leader");
            let leader = (0..3).find(leads)?;
            // Stores nothing but the time.
            let approved = request(self.management[leader], "POST", "/api/v1/events/approve", r#"{"events":[]}"#)?;
            (approved.status != 503).then_some(leader)
        })
    }

    pub fn follower(&self) -> usize {
        (self.leader() + 1) % 3
    }

    pub fn kill(&mut self, index: usize) {
        self.nodes[index].kill();
    }

    pub fn restart(&mut self, index: usize) {
        self.nodes[index].restart();
    }

    pub fn stop(&self, index: usize) {
        self.nodes[index].signal(Signal::STOP);
    }

    pub fn resume(&self, index: usize) {
        self.nodes[index].signal(Signal::CONT);
    }

    pub fn api(&self, index: usize, method: &str, path: &str, body: &str) -> Option<Answer> {
        request(self.management[index], method, path, body)
    }

    pub fn get(&self, index: usize, path: &str) -> Option<Value> {
        let answer = self.api(index, "GET", path, "").filter(|answer| answer.status == 200)?;
        serde_json::from_str(&answer.body).ok()
    }

    /// The document of a machine at one server's metadata endpoint.
    pub fn document(&self, index: usize, machine: &str) -> Option<Answer> {
        request(self.metadata[index], "GET", &document_path(machine), "")
    }

    /// Approves an event like a guest does.
    pub fn approve(&self, index: usize, machine: &str, event: &str) -> Option<Answer> {
        let body = format!(r#"{{"StartRequests":[{{"EventId":"{event}"}}]}}"#);
        request(self.metadata[index], "POST", &document_path(machine), &body)
    }

    /// The whole history of a server.
    pub fn history(&self, index: usize) -> Option<Vec<Value>> {
        let mut rows: Vec<Value> = Vec::new();
        loop {
            let after = rows.last().map_or(0, |row| row["number"].as_u64().unwrap());
            let page = self.get(index, &format!("/api/v1/history?after={after}&limit=500"))?;
            let page = page["value"].as_array()?.clone();
            if page.is_empty() {
                return Some(rows);
            }
            rows.extend(page);
        }
    }

    /// Waits until all servers have the same revision, and returns their history, which must be equal and dense.
    pub fn check_equal(&self) -> Vec<Value> {
        let leader = self.leader();
        let histories = until("equal copies", || {
            let revision = |index| self.readiness(index)?["revision"].as_u64();
            let before = revision(leader)?;
            let all: Option<Vec<_>> = (0..3).map(|index| self.history(index)).collect();
            let same = (0..3).all(|index| revision(index) == Some(before));
            all.filter(|_| same)
        });
        for history in &histories {
            assert!(history == &histories[0], "histories differ");
        }
        let numbers: Vec<u64> = histories[0].iter().map(|row| row["number"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "history is not dense");
        histories.into_iter().next().unwrap()
    }
}

fn document_path(machine: &str) -> String {
    format!("/vm/{machine}/metadata/scheduledevents?api-version=2020-07-01")
}

/// Addresses that were free a moment ago.
pub fn free_addresses(number: usize) -> Vec<SocketAddr> {
    (0..number).map(|_| (Ipv4Addr::LOCALHOST, forewarn_test_support::free_port()).into()).collect()
}

pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

/// One request on its own connection. None: there was no complete answer.
pub fn request(address: SocketAddr, method: &str, path: &str, body: &str) -> Option<Answer> {
    let mut stream = TcpStream::connect_timeout(&address, REQUEST_TIMEOUT).ok()?;
    stream.set_read_timeout(Some(REQUEST_TIMEOUT)).ok()?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nMetadata: true\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8(answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let is_whole = head.to_ascii_lowercase().contains(&format!("content-length: {}", body.len())) || body.is_empty();
    is_whole.then(|| Answer { status, head: head.to_owned(), body: body.to_owned() })
}
