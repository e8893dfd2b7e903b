//! A network namespace for each server and each member of etcd, joined by a bridge in a namespace of the test. Connections can
//! be cut, in one or in both directions: packets are lost without a trace.
//!
//! ```text
//!   n0 n1 n2 (servers)   m0 m1 m2 (members)
//!     └──┴──┴──── bridge ────┴──┴──┘
//!                   │
//!            clients of the test, never cut off
//! ```
//!
//! Addresses are loopback addresses, because servers without tokens accept no others. A cut replaces the hardware address
//! that one namespace has for another by one that does not exist. That needs no packet filter.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A hardware address without a network interface.
const NOWHERE: &str = "02:00:00:00:00:01";

/// Makes a namespace use loopback addresses on its interfaces too. Only one of them stays local.
const USE_LOOPBACK_ADDRESSES: &str = "ip link set lo up && ip address del 127.0.0.1/8 dev lo && ip address add 127.0.0.1/32 \
                                      dev lo && echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet";

/// A process with a namespace of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Server(usize),
    Member(usize),
}

pub const SERVERS: [End; 3] = [End::Server(0), End::Server(1), End::Server(2)];
pub const MEMBERS: [End; 3] = [End::Member(0), End::Member(1), End::Member(2)];

impl End {
    fn all() -> impl Iterator<Item = End> {
        SERVERS.into_iter().chain(MEMBERS)
    }

    fn ip(self) -> Ipv4Addr {
        let last = match self {
            End::Server(index) => 11 + index,
            End::Member(index) => 21 + index,
        };
        Ipv4Addr::new(127, 99, 0, u8::try_from(last).unwrap())
    }
}

/// The direction in which packets are lost, seen from the end that is cut off.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    Both,
    Outgoing,
    Incoming,
}

pub const WAYS: [Way; 3] = [Way::Both, Way::Outgoing, Way::Incoming];

pub struct Network {
    namespaces: Vec<(End, Namespace)>,
    /// Sender and receiver of lost packets.
    cuts: Mutex<Vec<(End, End)>>,
}

impl Network {
    /// Runs a test on a thread in the namespace of the bridge. Its threads and processes are in that namespace too.
    pub fn run(test: impl FnOnce(Network) + Send) {
        let body = || {
            let hub = Namespace::create();
            let file = File::open(hub.file()).unwrap();
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("root can enter a namespace");
            run_in(&hub, "ip link add hub type bridge && ip address add 127.99.0.1/24 dev hub && ip link set hub up");
            let namespaces = End::all().map(|end| (end, join(end, &hub))).collect();
            test(Network { namespaces, cuts: Mutex::default() });
        };
        let name = std::thread::current().name().unwrap_or("test").to_owned();
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name(name).spawn_scoped(scope, body).unwrap();
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    }

    pub fn address(&self, end: End, port: u16) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(end.ip()), port)
    }

    /// The start of a command line that runs in the namespace of an end.
    pub fn command(&self, end: End) -> Vec<String> {
        let (_, namespace) = self.namespaces.iter().find(|(it, _)| *it == end).unwrap();
        namespace.command()
    }

    /// Loses all packets between an end and these others.
    pub fn cut(&self, end: End, others: &[End], way: Way) {
        for other in others.iter().copied().filter(|other| *other != end) {
            let (out, back) = ((end, other), (other, end));
            let lost: &[(End, End)] = match way {
                Way::Both => &[out, back],
                Way::Outgoing => &[out],
                Way::Incoming => &[back],
            };
            for (from, to) in lost {
                let ip = to.ip();
                self.run_at(*from, &format!("ip neighbor replace {ip} lladdr {NOWHERE} dev eth0 nud permanent"));
            }
            self.cuts.lock().unwrap().extend(lost);
        }
    }

    pub fn heal(&self) {
        for (from, to) in std::mem::take(&mut *self.cuts.lock().unwrap()) {
            self.run_at(from, &format!("ip neighbor del {} dev eth0", to.ip()));
        }
    }

    fn run_at(&self, end: End, script: &str) {
        let (_, namespace) = self.namespaces.iter().find(|(it, _)| *it == end).unwrap();
        run_in(namespace, script);
    }
}

/// Creates the namespace of an end, with an interface at the bridge.
fn join(end: End, hub: &Namespace) -> Namespace {
    let namespace = Namespace::create();
    let (ip, process) = (end.ip(), namespace.holder.id());
    let port = format!("port{}", ip.octets()[3]);
    run_in(
        hub,
        &format!("ip link add {port} type veth peer name eth0 netns {process} && ip link set {port} master hub up"),
    );
    run_in(&namespace, &format!("ip address add {ip}/24 dev eth0 && ip link set eth0 up"));
    namespace
}

fn run_in(namespace: &Namespace, script: &str) {
    let [program, words @ ..] = &namespace.command()[..] else { unreachable!("a command has a program") };
    let status = Command::new(program).args(words).args(["sh", "-c", script]).status().unwrap();
    assert!(status.success(), "{script}: {status}");
}

/// A network namespace, which ends with this value and the processes in it.
struct Namespace {
    holder: Child,
}

impl Namespace {
    fn create() -> Namespace {
        let mut holder = Command::new("setpriv");
        holder.args(["--pdeathsig", "KILL", "--", "unshare", "--net", "sh", "-c"]);
        holder.arg(format!("{USE_LOOPBACK_ADDRESSES} && echo ready && exec cat"));
        let mut holder = holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("setpriv can be run");
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "root can create a network namespace");
        Namespace { holder }
    }

    fn file(&self) -> String {
        format!("/proc/{}/ns/net", self.holder.id())
    }

    fn command(&self) -> Vec<String> {
        vec!["nsenter".into(), format!("--net={}", self.file()), "--".into()]
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
