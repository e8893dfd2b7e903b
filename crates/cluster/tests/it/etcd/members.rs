//! Members of etcd on loopback addresses.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use forewarn_cluster::conformance::LogFactory;
use forewarn_cluster::{EtcdLog, EtcdOptions, Log};
use rustix::process::{Pid, Signal, kill_process};

use super::poll_until;

/// A process that ends with this value, and with the thread that started it.
pub struct Process(pub Child);

impl Process {
    pub fn start(program: &str, arguments: &[String]) -> Process {
        Process(command(program, arguments).spawn().expect("setpriv can be run"))
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, signal).expect("the process has not been waited for");
    }

    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.0.wait().expect("the process can be waited for");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command that is killed when this thread ends.
pub fn command(program: &str, arguments: &[String]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", program]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A cluster of etcd members.
pub struct Members {
    members: Vec<Member>,
    /// Options of all clients.
    pub options: EtcdOptions,
    dir: tempfile::TempDir,
}

struct Member {
    arguments: Vec<String>,
    process: Process,
}

impl Members {
    /// Starts this number of members and waits until they answer.
    pub fn start(number: usize) -> Members {
        let members = Members::start_with(number, "http", &[]);
        members.wait_until_ready();
        members
    }

    /// Starts members with additional arguments.
    pub fn start_with(number: usize, scheme: &str, extra: &[String]) -> Members {
        let dir = tempfile::tempdir().unwrap();
        let ports: Vec<u16> = (0..2 * number).map(|_| forewarn_test_support::free_port()).collect();
        let (clients, peers) = ports.split_at(number);
        let name = |index: usize| format!("m{index}");
        let peer = |index: usize| format!("http://127.0.0.1:{}", peers[index]);
        let all = (0..number).map(|index| format!("{}={}", name(index), peer(index))).collect::<Vec<_>>().join(",");
        let arguments = |index: usize| {
            let client = format!("{scheme}://127.0.0.1:{}", clients[index]);
            let data = dir.path().join(name(index)).display().to_string();
            let fixed = [
                ("name", name(index)),
                ("data-dir", data),
                ("listen-client-urls", client.clone()),
                ("advertise-client-urls", client),
                ("listen-peer-urls", peer(index)),
                ("initial-advertise-peer-urls", peer(index)),
                ("initial-cluster", all.clone()),
                ("initial-cluster-token", format!("forewarn-test-{}", ports[0])),
                ("heartbeat-interval", "50".into()),
                ("election-timeout", "500".into()),
                ("log-level", "error".into()),
            ];
            let fixed = fixed.into_iter().map(|(name, value)| format!("--{name}={value}"));
            fixed.chain(extra.iter().cloned()).collect::<Vec<_>>()
        };
        let start = |arguments: Vec<String>| Member { process: Process::start("etcd", &arguments), arguments };
        let members = (0..number).map(|index| start(arguments(index))).collect();
        let hosts: Vec<String> = clients.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let options = EtcdOptions::parse(&format!("etcd://{}/test", hosts.join(","))).unwrap();
        Members { members, options, dir }
    }

    pub fn wait_until_ready(&self) {
        let mut log = self.log("ready");
        poll_until("etcd", || log.read(1).ok());
    }

    /// The address for `replicated_list`.
    pub fn address(&self, region: &str) -> String {
        format!("etcd://{}/{region}", self.options.endpoints.join(","))
    }

    pub fn log(&self, region: &str) -> EtcdLog {
        EtcdLog::new(EtcdOptions { region: region.into(), ..self.options.clone() }).unwrap()
    }

    /// The index of etcd's own leader.
    pub fn leader(&self) -> usize {
        let mut log = self.log("health");
        poll_until("a leader of etcd", || {
            let backends = log.health().ok()?;
            backends.iter().position(|backend| backend.status.as_ref().is_ok_and(|status| status.is_leader))
        })
    }

    pub fn kill(&mut self, index: usize) {
        self.members[index].process.kill();
    }

    pub fn restart(&mut self, index: usize) {
        let member = &mut self.members[index];
        member.process = Process::start("etcd", &member.arguments);
    }

    pub fn signal(&self, index: usize, signal: Signal) {
        self.members[index].process.signal(signal);
    }

    /// A new directory that is removed with the members.
    pub fn dir(&self, name: &str) -> PathBuf {
        let dir = self.dir.path().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }
}

impl LogFactory for Members {
    fn open(&self, region: &str) -> Box<dyn Log> {
        // Other programs use the machine at the same time.
        let options = EtcdOptions {
            region: region.into(),
            request_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(10),
            ..self.options.clone()
        };
        Box::new(EtcdLog::new(options).unwrap())
    }
}
