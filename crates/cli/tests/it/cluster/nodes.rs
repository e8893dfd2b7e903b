//! Members of etcd and servers on loopback addresses, as processes that can be killed and stopped.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

pub use forewarn_test_support::http::HttpAnswer as Answer;
pub use forewarn_test_support::poll_until;

use super::network::{End, Network};

/// Time limit of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(8);

/// Time limit of a request that waits for a change.
const HELD_TIMEOUT: Duration = Duration::from_secs(60);

/// A process that ends with this value, and with the thread that started it.
pub struct Process {
    arguments: Vec<String>,
    log: PathBuf,
    child: Child,
}

impl Process {
    pub fn start(arguments: Vec<String>, log: PathBuf) -> Process {
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

    pub fn kill(&mut self) {
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

/// How a cluster is started.
#[derive(Default)]
pub struct Setup<'a> {
    /// The network in which connections can be cut. Without it, all processes use the loopback interface of this machine.
    pub network: Option<&'a Network>,
    /// Whether each server has its data on a file system of a few megabytes of its own.
    pub has_small_disks: bool,
    /// Whether host agents drive the machines. Such servers reach each other over TLS.
    pub has_agents: bool,
    /// The program of the servers, if it is not the one under test.
    pub program: Option<&'a Path>,
}

/// The file of the cluster key, with [`Setup::has_agents`].
const CLUSTER_KEY: &str = "cluster.key";

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
    /// The listeners for host agents, with [`Setup::has_agents`].
    pub hosts: Vec<SocketAddr>,
}

impl Cluster {
    pub fn start() -> Cluster {
        let cluster = Cluster::start_with(|_, _| {});
        cluster.servers.leader();
        cluster
    }

    /// Starts the servers after something was done with their directory and the address of the region.
    pub fn start_with(prepare: impl FnOnce(&Path, &str)) -> Cluster {
        Cluster::start_as(&Setup::default(), prepare)
    }

    pub fn start_as(setup: &Setup<'_>, prepare: impl FnOnce(&Path, &str)) -> Cluster {
        let dir = tempfile::tempdir().unwrap();
        let etcd = Members::start(dir.path().to_owned(), setup);
        prepare(dir.path(), &etcd.region());
        let servers = Servers::start(dir.path().to_owned(), &etcd, setup);
        Cluster { etcd, servers, dir }
    }

    pub fn start_in(network: &Network) -> Cluster {
        let cluster = Cluster::start_as(&Setup { network: Some(network), ..Setup::default() }, |_, _| {});
        cluster.servers.leader();
        cluster
    }

    /// Starts servers whose machines are driven by host agents. Notice periods of minutes take seconds.
    pub fn start_for_agents() -> Cluster {
        let setup = Setup { has_agents: true, ..Setup::default() };
        let cluster = Cluster::start_as(&setup, |dir, _| {
            forewarn(&["cluster", "key", dir.join(CLUSTER_KEY).to_str().unwrap()]);
        });
        cluster.servers.leader();
        cluster
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
    run_program(Command::new(env!("CARGO_BIN_EXE_forewarn")).args(arguments))
}

fn run_program(command: &mut Command) -> String {
    let output = command.output().expect("the program can be run");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

impl Setup<'_> {
    /// An address for each of three processes. In a network, each has this port.
    fn addresses(&self, end: fn(usize) -> End, port: u16) -> Vec<SocketAddr> {
        match self.network {
            None => free_addresses(3),
            Some(network) => (0..3).map(|index| network.address(end(index), port)).collect(),
        }
    }

    /// The start of the command line of a process.
    fn command(&self, end: End) -> Vec<String> {
        self.network.map_or_else(Vec::new, |network| network.command(end))
    }
}

impl Members {
    fn start(dir: PathBuf, setup: &Setup<'_>) -> Members {
        let (addresses, peers) = (setup.addresses(End::Member, 2379), setup.addresses(End::Member, 2380));
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
            let command = setup.command(End::Member(index)).into_iter().chain(["etcd".to_owned()]).chain(arguments);
            Process::start(command.collect(), dir.join("etcd.log"))
        };
        let members = (0..3).map(member).collect();
        let members = Members { members, addresses };
        members.wait_until_healthy();
        members
    }

    pub fn wait_until_healthy(&self) {
        for address in &self.addresses {
            poll_until("etcd", || request(*address, "GET", "/health", "").filter(|answer| answer.status == 200));
        }
    }

    pub fn kill(&mut self, index: usize) {
        self.members[index].kill();
    }

    pub fn restart(&mut self, index: usize) {
        self.members[index].restart();
    }

    /// Removes all data of the members and starts them anew.
    pub fn rebuild(&mut self, dir: &Path) {
        for index in 0..3 {
            self.members[index].kill();
            std::fs::remove_dir_all(dir.join(format!("m{index}"))).unwrap();
        }
        self.members.iter_mut().for_each(Process::restart);
        self.wait_until_healthy();
    }

    /// Writes all data of etcd to a file.
    pub fn back_up(&self, file: &Path) {
        let endpoint = format!("--endpoints=http://{}", self.addresses[0]);
        run_program(Command::new("etcdctl").arg(endpoint).args(["snapshot", "save"]).arg(file));
    }

    /// Replaces the data of all members by a backup.
    pub fn restore(&mut self, dir: &Path, backup: &Path) {
        self.members.iter_mut().for_each(Process::kill);
        for (index, member) in self.members.iter().enumerate() {
            std::fs::remove_dir_all(dir.join(format!("m{index}"))).unwrap();
            let is_needed = |word: &&String| {
                let names = ["--name=", "--data-dir=", "--initial-cluster=", "--initial-advertise-peer-urls="];
                names.iter().any(|name| word.starts_with(name))
            };
            let words = member.arguments.iter().filter(is_needed);
            run_program(Command::new("etcdutl").args(["snapshot", "restore"]).arg(backup).args(words));
        }
        self.members.iter_mut().for_each(Process::restart);
        self.wait_until_healthy();
    }

    /// Kills a member, removes it from etcd, and adds a new one at its addresses.
    pub fn replace(&mut self, index: usize, dir: &Path) {
        self.members[index].kill();
        std::fs::remove_dir_all(dir.join(format!("m{index}"))).unwrap();
        let other = (index + 1) % 3;
        let name = format!("m{index}");
        let list = self.ask(other, "/v3/cluster/member/list", "{}");
        let member = list["members"].as_array().unwrap().iter().find(|member| member["name"] == name.as_str());
        let member = member.expect("the member is known").clone();
        // etcd refuses changes until it has noticed the end of the member.
        let change = |path: &str, body: Value| {
            poll_until(path, || {
                request(self.addresses[other], "POST", path, &body.to_string()).filter(|it| it.status == 200)
            });
        };
        change("/v3/cluster/member/remove", json!({ "ID": member["ID"] }));
        change("/v3/cluster/member/add", json!({ "peerURLs": member["peerURLs"] }));
        self.members[index].arguments.push("--initial-cluster-state=existing".into());
        self.members[index].restart();
        self.wait_until_healthy();
    }

    /// A request to the JSON gateway of a member.
    pub fn ask(&self, index: usize, path: &str, body: &str) -> Value {
        let answer = request(self.addresses[index], "POST", path, body).expect("an answer of etcd");
        assert_eq!(answer.status, 200, "{}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    }

    /// The key and the value of the newest record in the log. The key is in base64.
    pub fn last_record(&self) -> (String, Vec<u8>) {
        let [from, to] = ["/forewarn/north/log/", "/forewarn/north/log0"].map(|key| BASE64.encode(key));
        let query = json!({ "key": from, "range_end": to, "sort_order": "DESCEND", "sort_target": "KEY", "limit": 1 });
        let found = self.ask(0, "/v3/kv/range", &query.to_string());
        let text = |name: &str| found["kvs"][0][name].as_str().expect("a record").to_owned();
        (text("key"), BASE64.decode(text("value")).unwrap())
    }

    /// All keys and values.
    pub fn all(&self) -> Vec<(String, Vec<u8>)> {
        let found = self.ask(0, "/v3/kv/range", r#"{"key":"AA==","range_end":"AA=="}"#);
        let decode = |value: &Value| BASE64.decode(value.as_str().unwrap_or_default()).unwrap();
        let pair = |kv: &Value| (String::from_utf8(decode(&kv["key"])).unwrap(), decode(&kv["value"]));
        found["kvs"].as_array().expect("keys").iter().map(pair).collect()
    }

    /// Replaces a value. The key is in base64.
    pub fn put(&self, key: &str, value: &[u8]) {
        self.ask(0, "/v3/kv/put", &json!({ "key": key, "value": BASE64.encode(value) }).to_string());
    }

    /// The member that leads etcd.
    pub fn leader(&self) -> usize {
        poll_until("a leader of etcd", || {
            (0..3).find(|index| {
                let answer = request(self.addresses[*index], "POST", "/v3/maintenance/status", "{}");
                let status: Value =
                    answer.and_then(|answer| serde_json::from_str(&answer.body).ok()).unwrap_or_default();
                status["leader"].is_string() && status["leader"] == status["header"]["member_id"]
            })
        })
    }

    pub fn region(&self) -> String {
        let hosts: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        format!("etcd://{}/north", hosts.join(","))
    }
}

/// Mounts a small file system at its first argument, and becomes the program in the others.
const SMALL_DISK: &str = r#"mkdir -p "$0" && mount -t tmpfs -o size=6m tmpfs "$0" && exec "$@""#;

impl Servers {
    fn start(dir: PathBuf, etcd: &Members, setup: &Setup<'_>) -> Servers {
        let (management, metadata) = (setup.addresses(End::Server, 8170), setup.addresses(End::Server, 8080));
        let (tls, hosts) = (setup.addresses(End::Server, 8171), setup.addresses(End::Server, 8172));
        let node = |index: usize| {
            let data = dir.join(format!("n{index}")).display().to_string();
            let arguments = [
                ("data", data.clone()),
                ("management", management[index].to_string()),
                ("metadata", metadata[index].to_string()),
                ("management-tls", if setup.has_agents { tls[index].to_string() } else { "off".into() }),
                ("cluster", etcd.region()),
                ("node", format!("n{index}")),
                (
                    "advertise",
                    if setup.has_agents {
                        format!("https://{}", tls[index])
                    } else {
                        format!("http://{}", management[index])
                    },
                ),
            ];
            let for_agents = [
                ("hosts", hosts[index].to_string()),
                ("cluster-key", dir.join(CLUSTER_KEY).display().to_string()),
                ("driver", "agents".into()),
                ("notice-scale", "60".into()),
            ];
            let arguments = arguments.into_iter().chain(for_agents.into_iter().filter(|_| setup.has_agents));
            let arguments = arguments.map(|(name, value)| format!("--{name}={value}"));
            let wrap = ["unshare", "--map-root-user", "--mount", "sh", "-c", SMALL_DISK, &data].map(str::to_owned);
            let wrap = wrap.into_iter().filter(|_| setup.has_small_disks);
            let program = setup.program.unwrap_or(Path::new(env!("CARGO_BIN_EXE_forewarn"))).display().to_string();
            let program = [program, "serve".into(), "--no-auth".into()];
            let command = setup.command(End::Server(index)).into_iter().chain(wrap).chain(program).chain(arguments);
            Process::start(command.collect(), dir.join(format!("n{index}.log")))
        };
        let nodes = (0..3).map(node).collect();
        Servers { nodes, management, metadata, hosts }
    }

    /// The role of a server; None: it does not answer.
    pub fn readiness(&self, index: usize) -> Option<Value> {
        let answer = request(self.management[index], "GET", "/healthz/ready", "")?;
        serde_json::from_str(&answer.body).ok()
    }

    /// Waits for a leader that accepts changes.
    pub fn leader(&self) -> usize {
        poll_until("a leader", || {
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

    /// Starts a server again, with these arguments in addition.
    pub fn restart_with(&mut self, index: usize, arguments: &[&str]) {
        self.nodes[index].kill();
        self.nodes[index].arguments.extend(arguments.iter().map(|&word| word.to_owned()));
        self.nodes[index].restart();
    }

    /// Starts a server again with another program.
    pub fn restart_as(&mut self, index: usize, program: &Path) {
        let node = &mut self.nodes[index];
        node.kill();
        let place = node.arguments.iter().position(|word| word == "serve").expect("a server serves");
        node.arguments[place - 1] = program.display().to_string();
        node.restart();
    }

    /// The process of a server.
    pub fn process(&self, index: usize) -> u32 {
        self.nodes[index].child.id()
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
        document(self.metadata[index], machine)
    }

    /// The same for a guest that has this incarnation.
    pub fn document_unless(&self, index: usize, machine: &str, incarnation: u64) -> Option<Answer> {
        let headers = format!("If-None-Match: {incarnation}");
        request_with(self.metadata[index], "GET", &document_path(machine), &headers, "")
    }

    /// Requests the document of a machine and waits for a change, in a thread.
    pub fn hold_document(&self, index: usize, machine: &str) -> JoinHandle<Option<Answer>> {
        let shown = self.document(index, machine).expect("a document");
        let document: Value = serde_json::from_str(&shown.body).unwrap();
        let headers = format!("If-None-Match: {}", document["DocumentIncarnation"]);
        let (endpoint, path) = (self.metadata[index], format!("{}&wait=300", document_path(machine)));
        std::thread::spawn(move || {
            forewarn_test_support::http::request_with(endpoint, HELD_TIMEOUT, "GET", &path, &headers, "")
        })
    }

    /// Approves an event like a guest does.
    pub fn approve(&self, index: usize, machine: &str, event: &str) -> Option<Answer> {
        approve(self.metadata[index], machine, event)
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
        let histories = poll_until("equal copies", || {
            let revision = |index| self.readiness(index)?["revision"].as_u64();
            let before = revision(leader)?;
            let is_same = || (0..3).all(|index| revision(index) == Some(before));
            // A server that is behind at first may have caught up after its history was read.
            if !is_same() {
                return None;
            }
            let all: Option<Vec<_>> = (0..3).map(|index| self.history(index)).collect();
            all.filter(|_| is_same())
        });
        for history in &histories {
            assert!(history == &histories[0], "histories differ");
        }
        let numbers: Vec<u64> = histories[0].iter().map(|row| row["number"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "history is not dense");
        histories.into_iter().next().unwrap()
    }
}

/// The document of a machine at a metadata endpoint.
pub fn document(endpoint: SocketAddr, machine: &str) -> Option<Answer> {
    request(endpoint, "GET", &document_path(machine), "")
}

/// Approves an event at a metadata endpoint.
pub fn approve(endpoint: SocketAddr, machine: &str, event: &str) -> Option<Answer> {
    let body = format!(r#"{{"StartRequests":[{{"EventId":"{event}"}}]}}"#);
    request(endpoint, "POST", &document_path(machine), &body)
}

fn document_path(machine: &str) -> String {
    format!("/vm/{machine}/metadata/scheduledevents?api-version=2020-07-01")
}

/// Addresses that were free a moment ago.
pub fn free_addresses(number: usize) -> Vec<SocketAddr> {
    (0..number).map(|_| (Ipv4Addr::LOCALHOST, forewarn_test_support::free_port()).into()).collect()
}

/// One request on its own connection. None: there was no complete answer.
pub fn request(address: SocketAddr, method: &str, path: &str, body: &str) -> Option<Answer> {
    forewarn_test_support::http::request(address, REQUEST_TIMEOUT, method, path, body)
}

/// The same with these header lines.
pub fn request_with(address: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Option<Answer> {
    forewarn_test_support::http::request_with(address, REQUEST_TIMEOUT, method, path, headers, body)
}
