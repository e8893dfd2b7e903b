//! Guests stay at the endpoint of their own host where the bridges of several hosts form one network.
//!
//! ```text
//!  guest ── host 1: br0, 169.254.169.254, forewarn ── host 2: br0, 169.254.169.254, no server
//! ```
//!
//! The guest sends to the MAC address of host 2, as after a live migration from there.

use std::fs::File;
use std::process::{Child, Stdio};

use forewarn_test_support::{Need, can_run};
use tempfile::TempDir;

use crate::machine_bench::wait_until;
use crate::support::FOREWARN;
use crate::support::namespace::Namespace;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/bridge/own-endpoint.nft");

const GUEST: &str = "10.99.0.11";

struct Network {
    hosts: [Namespace; 2],
    guest: Namespace,
    dir: TempDir,
}

fn mac(host: usize) -> String {
    format!("52:54:00:00:00:f{host}")
}

impl Network {
    fn new() -> Network {
        let (one, two, guest) = (Namespace::new(), Namespace::new(), Namespace::new());
        for (host, number) in [(&one, 1), (&two, 2)] {
            host.run(&format!("ip link add br0 address {} type bridge", mac(number)));
            host.run("ip link set br0 up");
            host.run(&format!("ip address add 10.99.0.25{number}/24 dev br0"));
            host.run("ip address add 169.254.169.254/32 dev br0");
        }
        one.run(&format!("ip link add uplink type veth peer name uplink netns {}", two.pid()));
        for host in [&one, &two] {
            host.run("ip link set uplink master br0 up");
        }
        one.run(&format!("ip link add port1 type veth peer name eth0 netns {}", guest.pid()));
        one.run("ip link set port1 master br0 up");
        guest.run("ip link set eth0 up");
        guest.run(&format!("ip address add {GUEST}/24 dev eth0"));
        guest.run("ip route add 169.254.169.254 dev eth0");
        Network { hosts: [one, two], guest, dir: TempDir::new().unwrap() }
    }

    /// Puts a MAC address for the endpoint into the ARP cache of the guest.
    fn send_to(&self, mac: &str) {
        self.guest.run(&format!("ip neigh replace 169.254.169.254 lladdr {mac} dev eth0 nud permanent"));
    }

    /// Starts a server on host 1, and waits until it answers there.
    fn serve(&self, guests_by: &str) -> Server {
        let log = File::create(self.dir.path().join("log")).unwrap();
        let mut command = self.hosts[0].command(FOREWARN);
        command.args(["serve", "--no-auth", "--management", "127.0.0.1:8170", "--management-tls", "off"]);
        command.args(["--metadata", "169.254.169.254:80", "--driver", "libvirt", "--guests-by", guests_by]);
        command
            .arg("--libvirt-socket")
            .arg(self.dir.path().join("none"))
            .arg("--data")
            .arg(self.dir.path().join("data"));
        let server = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let mut server = Server(server);
        wait_until("the server", || {
            let log = || std::fs::read_to_string(self.dir.path().join("log"));
            assert!(server.0.try_wait().unwrap().is_none(), "{:?}", log());
            self.hosts[0].get_status() != "000"
        });
        server
    }

    fn rules(&self) -> String {
        self.hosts[0].run("nft list ruleset")
    }
}

struct Server(Child);

impl Server {
    fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn network() -> Option<Network> {
    let programs = ["ip", "nft", "curl", "unshare", "nsenter"].map(Need::Program);
    can_run(&[&programs[..], &[Need::Root]].concat()).then(Network::new)
}

#[test]
fn guests_identified_by_port_stay_at_the_endpoint_of_their_host() {
    let Some(network) = network() else { return };
    network.send_to(&mac(2));
    let server = network.serve("address");
    assert_eq!(network.guest.get_status(), "000", "without rules, the guest asks host 2");
    server.stop();

    let server = network.serve("mark");
    wait_until("the endpoint of host 1", || network.guest.get_status() == "503");

    network.guest.run("ip neigh del 169.254.169.254 dev eth0");
    network.hosts[1].run("ip neigh flush all");
    assert_eq!(network.guest.get_status(), "503");
    let neighbor = network.guest.run("ip neigh show 169.254.169.254");
    assert!(neighbor.contains(&mac(1)), "{neighbor}");
    assert_eq!(network.hosts[1].run(&format!("ip neigh show {GUEST}")), "", "host 2 has seen no request");

    network.send_to(&mac(2));
    network.hosts[0].run(&format!("ip link set br0 address {}", mac(3)));
    wait_until("the new address of the bridge", || network.guest.get_status() == "503");
    assert!(!network.rules().contains(&mac(1)));

    network.send_to(&mac(3));
    network.hosts[0].run("nft flush ruleset");
    wait_until("the rules", || network.guest.get_status() == "503" && network.rules().contains(&mac(3)));

    network.hosts[0].run("ip address del 169.254.169.254/32 dev br0");
    network.hosts[0].run("ip address add 169.254.169.254/32 dev lo");
    wait_until("rules without this bridge", || !network.rules().contains(&mac(3)));
    assert!(network.rules().contains("port1"), "the guest is still identified");

    server.stop();
    assert_eq!(network.rules(), "");
}

#[test]
fn guests_identified_by_address_stay_at_the_endpoint_of_their_host_with_the_example() {
    let Some(network) = network() else { return };
    network.send_to(&mac(2));
    let _server = network.serve("address");
    assert_eq!(network.guest.get_status(), "000");
    network.hosts[0].run(&format!("nft -D address={} -f {EXAMPLE}", mac(1)));
    assert_ne!(network.guest.get_status(), "000");
    network.guest.run("ip neigh del 169.254.169.254 dev eth0");
    network.hosts[1].run("ip neigh flush all");
    assert_ne!(network.guest.get_status(), "000");
    assert_eq!(network.hosts[1].run(&format!("ip neigh show {GUEST}")), "", "host 2 has seen no request");
}
