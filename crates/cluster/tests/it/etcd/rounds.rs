//! Rounds of failures with real processes: servers and etcd members are killed and stopped while clients write. Every request
//! and every answer is recorded and compared with the copies of all servers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use forewarn_cluster::encoding::decode_position;
use forewarn_cluster::{EtcdLog, Log as _, Position};
use rustix::process::Signal;

use super::members::{Members, Process, command};
use super::{has_etcd, poll_until};

const SERVERS: [&str; 3] = ["a", "b", "c"];

/// The default number of rounds; `FOREWARN_CLUSTER_ROUNDS` sets another one.
const ROUNDS_DEFAULT: usize = 30;

/// How long a stopped process stays stopped: longer than a takeover takes.
const STOPPED: Duration = Duration::from_millis(2500);

/// The answer to a request, as a client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// No answer, or one that leaves the outcome open.
    Nothing,
    Done,
    Failed,
}

/// Everything that clients know.
#[derive(Default)]
struct Journal {
    next: AtomicU64,
    requests: Mutex<BTreeMap<u64, Seen>>,
    /// Requests that were acknowledged.
    done: AtomicU64,
}

impl Journal {
    fn start(&self) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.requests.lock().unwrap().insert(number, Seen::Nothing);
        number
    }

    fn take_answer(&self, line: &str) {
        let Some((word, number)) = line.split_once(' ') else { return };
        let Ok(number) = number.parse::<u64>() else { return };
        let seen = match word {
            "done" => Seen::Done,
            "failed" | "follower" => Seen::Failed,
            _ => return,
        };
        self.requests.lock().unwrap().insert(number, seen);
        if seen == Seen::Done {
            self.done.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A server process with a client of its own.
struct Server {
    name: &'static str,
    process: Process,
    client: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    fn start(name: &'static str, address: &str, dir: &Path, journal: &Arc<Journal>) -> Server {
        let arguments = [address.to_owned(), name.to_owned(), dir.display().to_string()];
        let mut command = command(program().to_str().unwrap(), &arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let journal = journal.clone();
        let client = std::thread::spawn(move || run_client(input, BufReader::new(output), &journal));
        Server { name, process: Process(child), client: Some(client) }
    }

    fn kill(&mut self) {
        self.process.kill();
        self.client.take().unwrap().join().unwrap();
    }
}

/// Sends one request after the other until the server ends.
fn run_client(mut input: ChildStdin, output: impl std::io::BufRead, journal: &Journal) {
    let mut lines = output.lines().map_while(Result::ok);
    loop {
        let number = journal.start();
        if writeln!(input, "{number}").is_err() {
            return;
        }
        let is_answer = |line: &String| line.split_once(' ').is_some_and(|(_, of)| of == number.to_string());
        let Some(answer) = lines.find(|line| !line.starts_with("lead ") && is_answer(line)) else { return };
        journal.take_answer(&answer);
        if !answer.starts_with("done") {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// `replicated_list`, which cargo builds next to the tests.
fn program() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests.parent().unwrap().parent().unwrap().join("examples/replicated_list");
    assert!(path.exists(), "{} is missing: run cargo test without --test", path.display());
    path
}

#[derive(Clone, Copy, Debug)]
enum Trouble {
    KillLeader,
    StopLeader,
    KillFollower,
    KillEtcdLeader,
    StopEtcdMember,
    KillBothLeaders,
}

const TROUBLES: [Trouble; 6] = [
    Trouble::KillLeader,
    Trouble::StopLeader,
    Trouble::KillBothLeaders,
    Trouble::KillFollower,
    Trouble::KillEtcdLeader,
    Trouble::StopEtcdMember,
];

struct Site {
    members: Members,
    servers: Vec<Server>,
    address: String,
    dir: PathBuf,
    journal: Arc<Journal>,
    log: EtcdLog,
}

impl Site {
    fn new() -> Site {
        let members = Members::start(3);
        let (address, dir, log) = (members.address("rounds"), members.dir("copies"), members.log("rounds"));
        let journal = Arc::new(Journal::default());
        let servers = SERVERS.iter().map(|name| Server::start(name, &address, &dir, &journal)).collect();
        Site { members, servers, address, dir, journal, log }
    }

    /// The index of the server that leads.
    fn leader(&mut self) -> usize {
        let Site { log, servers, .. } = self;
        poll_until("a leader", || {
            let (_, leader) = log.read(u64::MAX).ok()?.view.leader?;
            servers.iter().position(|server| server.name == leader.node)
        })
    }

    fn restart(&mut self, index: usize) {
        self.servers[index].kill();
        self.servers[index] = Server::start(SERVERS[index], &self.address, &self.dir, &self.journal);
    }

    /// Waits for some acknowledged requests and returns how long the first one took.
    fn wait_for_progress(&self) -> Duration {
        let begun = Instant::now();
        let done = || self.journal.done.load(Ordering::Relaxed);
        let before = done();
        poll_until("an acknowledged request", || (done() > before).then_some(()));
        let first = begun.elapsed();
        poll_until("more acknowledged requests", || (done() > before + 20).then_some(()));
        first
    }

    /// Causes trouble and ends it. Returns how long no request was acknowledged.
    fn cause(&mut self, trouble: Trouble) -> Duration {
        let leader = self.leader();
        match trouble {
            Trouble::KillLeader => {
                self.servers[leader].process.signal(Signal::KILL);
                let gap = self.wait_for_progress();
                self.restart(leader);
                gap
            }
            Trouble::KillFollower => {
                self.restart((leader + 1) % SERVERS.len());
                self.wait_for_progress()
            }
            Trouble::StopLeader => {
                self.servers[leader].process.signal(Signal::STOP);
                let gap = self.wait_for_progress();
                std::thread::sleep(STOPPED.saturating_sub(gap));
                self.servers[leader].process.signal(Signal::CONT);
                gap
            }
            Trouble::KillEtcdLeader => {
                let member = self.members.leader();
                self.members.kill(member);
                let gap = self.wait_for_progress();
                self.members.restart(member);
                gap
            }
            Trouble::StopEtcdMember => {
                let member = self.members.leader();
                self.members.signal(member, Signal::STOP);
                let gap = self.wait_for_progress();
                self.members.signal(member, Signal::CONT);
                gap
            }
            Trouble::KillBothLeaders => {
                let member = self.members.leader();
                self.servers[leader].process.signal(Signal::KILL);
                self.members.kill(member);
                let gap = self.wait_for_progress();
                self.members.restart(member);
                self.restart(leader);
                gap
            }
        }
    }

    /// Waits until all servers have applied everything, ends them, and compares their copies with the journal.
    fn check(mut self) {
        self.wait_for_progress();
        let heads = || SERVERS.map(|name| last_position(&self.dir.join(name)));
        let head = poll_until("the head", || self.log.read(u64::MAX).ok()?.view.head);
        poll_until("all copies", || heads().iter().all(|position| position.revision >= head.revision).then_some(()));
        for server in &mut self.servers {
            server.kill();
        }
        let copies = SERVERS.map(|name| std::fs::read_to_string(self.dir.join(name)).unwrap());
        let longest = copies.iter().max_by_key(|copy| copy.len()).unwrap();
        for (name, copy) in SERVERS.iter().zip(&copies) {
            let complete = &copy[..copy.rfind('\n').map_or(0, |end| end + 1)];
            assert!(longest.starts_with(complete), "the copy of {name} differs");
        }
        check_terms(longest);
        self.check_requests(longest);
    }

    fn check_requests(&self, copy: &str) {
        let numbers: Vec<u64> = copy.lines().filter_map(|line| line.split_once(' ')?.1.parse().ok()).collect();
        let once: BTreeSet<u64> = numbers.iter().copied().collect();
        assert_eq!(once.len(), numbers.len(), "a request happened twice");
        let requests = self.journal.requests.lock().unwrap();
        for (number, seen) in requests.iter() {
            match seen {
                Seen::Done => assert!(once.contains(number), "request {number} was acknowledged and lost"),
                Seen::Failed => assert!(!once.contains(number), "request {number} was denied and happened"),
                Seen::Nothing => {}
            }
        }
        let count = |wanted: Seen| requests.values().filter(|seen| **seen == wanted).count();
        let (done, denied, open) = (count(Seen::Done), count(Seen::Failed), count(Seen::Nothing));
        eprintln!("{done} requests acknowledged, {denied} denied, {open} open");
        assert!(done > 100, "too few requests to prove anything");
    }
}

fn position_of(line: &str) -> Option<Position> {
    decode_position(line.split(' ').next()?.as_bytes()).ok()
}

fn last_position(path: &Path) -> Position {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(position_of).next_back().unwrap_or(Position::START)
}

fn check_terms(copy: &str) {
    let positions: Vec<Position> = copy.lines().filter_map(position_of).collect();
    for pair in positions.windows(2) {
        assert!(pair[1].term >= pair[0].term, "the term falls: {pair:?}");
        assert_eq!(pair[1].revision, pair[0].revision + 1, "revisions are not dense: {pair:?}");
    }
}

#[test]
fn nothing_acknowledged_is_lost_while_processes_are_killed_and_stopped() {
    if !has_etcd() {
        return;
    }
    let rounds = std::env::var("FOREWARN_CLUSTER_ROUNDS").map_or(ROUNDS_DEFAULT, |text| text.parse().unwrap());
    let mut site = Site::new();
    site.wait_for_progress();
    for round in 0..rounds {
        let trouble = TROUBLES[round % TROUBLES.len()];
        let gap = site.cause(trouble);
        eprintln!("round {round}: {trouble:?}, acknowledged again after {} ms", gap.as_millis());
        site.wait_for_progress();
    }
    site.check();
}
