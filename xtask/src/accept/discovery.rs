//! Discovery by guests outside a virtual network: dnsmasq sends DHCP option 245 with `examples/bridge/dnsmasq.conf`, and
//! agents use it to find the endpoint: from lease files of dhclient and systemd-networkd, and with a DHCP request.
//!
//! The endpoint listens on the bridge's own address, on one of the two ports that clients try; 169.254.169.254 is
//! unreachable. The rules of `examples/bridge/pin-guests.nft` are loaded, and must let these requests through.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tempfile::TempDir;

use super::agent::Agent;
use super::daemon::Daemon;
use super::netns::{BRIDGE, Namespace, Network, Node};
use super::server::Server;
use super::wait;
use crate::needs::Needs;
use crate::sh;

const HOSTS: [&str; 3] = ["web1", "web2", "web3"];

/// The published samples use different ports, so clients try both.
const PORTS: [u16; 2] = [80, 8080];

const NETWORKD: &str = "/lib/systemd/systemd-networkd";

/// The script that dhclient runs when it has a lease. The usual one also sets routes and name servers.
const TAKE_ADDRESS: &str = "#!/bin/sh
case $reason in
    PREINIT) ip link set $interface up ;;
    BOUND) ip address add $new_ip_address/24 dev $interface ;;
esac
";

/// Hides the files of this machine's DHCP clients from the guest. With a read-only `/sys`, systemd-networkd does not
/// wait for udev, which does not run there.
const MOUNTS: &str = "mount -o remount,ro /sys && mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /var/lib
mkdir -p /var/lib/dhcp /run/systemd/network
printf '[Match]\\nName=eth0\\n[Network]\\nDHCP=ipv4\\nLinkLocalAddressing=no\\n' > /run/systemd/network/eth0.network";

pub const NEEDS: Needs = Needs {
    root: true,
    packages: &[
        ("iproute2", "ip"),
        ("curl", "curl"),
        ("hostname", "hostname"),
        ("util-linux", "setpriv"),
        ("nftables", "nft"),
        ("dnsmasq-base", "dnsmasq"),
        ("isc-dhcp-client", "dhclient"),
        ("systemd", NETWORKD),
    ],
    downloads: &[],
};

pub fn run() -> Result<()> {
    PORTS.into_iter().try_for_each(run_on)
}

fn run_on(port: u16) -> Result<()> {
    let network = Network::bare(&HOSTS)?;
    network.pin_guests()?;
    let dir = tempfile::Builder::new().prefix("forewarn-accept-").tempdir()?;
    let server = Server::start_in(&network.cloud, &format!("{BRIDGE}:{port}"), &["--clock", "manual"])?;
    for (name, node) in HOSTS.iter().zip(&network.nodes) {
        server.post("/machines", &json!({ "name": name, "addresses": [{ "ip": node.ip }] }))?;
    }
    let mut dnsmasq = start_dnsmasq(&network.cloud, dir.path())?;
    let trial = DiscoveryRun { server: &server, dir: &dir, port };
    let ran = trial.find_in_every_way(&network);
    ran.with_context(|| format!("log of dnsmasq:\n{}", dnsmasq.log()))?;
    dnsmasq.check_runs()?;
    network.check_no_way_out()?;
    server.stop()
}

fn start_dnsmasq(cloud: &Namespace, dir: &Path) -> Result<Daemon> {
    let mut command = Daemon::command(cloud, "dnsmasq");
    command.args(["--keep-in-foreground", "--log-facility=-", "--log-dhcp", "--user=root", "--pid-file="]);
    command.arg(format!("--conf-file={}", sh::root().join("examples/bridge/dnsmasq.conf").display()));
    command.arg(format!("--dhcp-leasefile={}", dir.join("dnsmasq.leases").display()));
    let mut dnsmasq = Daemon::start(command, &dir.join("dnsmasq.log"))?;
    dnsmasq.wait_for("DHCP, static leases only on 10.99.0.0")?;
    Ok(dnsmasq)
}

struct DiscoveryRun<'n> {
    server: &'n Server<'n>,
    dir: &'n TempDir,
    port: u16,
}

impl DiscoveryRun<'_> {
    fn find_in_every_way(&self, network: &Network) -> Result<()> {
        let [dhclient, networkd, asking] = &network.nodes[..] else { unreachable!("a node for each host") };
        for node in &network.nodes {
            node.namespace.read("sh", &["-ec", MOUNTS])?;
        }
        // A running DHCP client occupies the port that the agent needs, so it ends before the agent starts.
        drop(self.dhclient(dhclient)?);
        self.agent_finds_it(HOSTS[0], dhclient, "", "from /var/lib/dhcp/dhclient.eth0.leases")?;
        let client = self.networkd(networkd)?;
        self.agent_finds_it(HOSTS[1], networkd, "", "from /run/systemd/netif/leases/")?;
        drop(client);
        asking.take_address()?;
        self.agent_finds_it(HOSTS[2], asking, "ask_dhcp = true\n", "from DHCP")
    }

    fn dhclient(&self, node: &Node) -> Result<Daemon> {
        let (script, config) = (self.dir.path().join("take-address"), self.dir.path().join("dhclient.conf"));
        fs::write(&script, TAKE_ADDRESS)?;
        fs::write(&config, "")?;
        sh::program("chmod").args(&["+x", script.to_str().context("path")?]).read()?;
        let mut command = Daemon::command(&node.namespace, "dhclient");
        command.args(["-d", "-lf", "/var/lib/dhcp/dhclient.eth0.leases", "-pf", "/run/dhclient.pid"]);
        command.arg("-cf").arg(config).arg("-sf").arg(script).arg("eth0");
        let client = self.wait_for_address(node, Daemon::start(command, &self.dir.path().join("dhclient.log"))?)?;
        self.wait_for_lease(node, "cat /var/lib/dhcp/dhclient.eth0.leases", "}")?;
        Ok(client)
    }

    fn networkd(&self, node: &Node) -> Result<Daemon> {
        let command = Daemon::command(&node.namespace, NETWORKD);
        let client = self.wait_for_address(node, Daemon::start(command, &self.dir.path().join("networkd.log"))?)?;
        self.wait_for_lease(node, "cat /run/systemd/netif/leases/*", "OPTION_245=")?;
        Ok(client)
    }

    fn wait_for_address(&self, node: &Node, mut client: Daemon) -> Result<Daemon> {
        let address = format!("inet {}/24 ", node.ip);
        let waited = wait::until("an address", || {
            client.check_runs()?;
            Ok(node.namespace.ip(&["address", "show", "dev", "eth0"])?.contains(&address).then_some(()))
        });
        waited.with_context(|| format!("log of the DHCP client:\n{}", client.log()))?;
        Ok(client)
    }

    /// Clients write the lease file after they have set the address. `end` is in a complete file.
    fn wait_for_lease(&self, node: &Node, script: &str, end: &str) -> Result<()> {
        wait::until("the lease file", || {
            let lease = node.namespace.read("sh", &["-c", &format!("{script} 2>/dev/null || true")])?;
            Ok(lease.contains(end).then_some(()))
        })
    }

    /// `origin` is the start of what the agent logs about where it found the endpoint.
    fn agent_finds_it(&self, name: &str, node: &Node, config: &str, origin: &str) -> Result<()> {
        let dir = self.dir.path().join(name);
        let mut agent = Agent::new(&node.namespace, &dir)?;
        let (config_path, hooks) = (dir.join("agent.toml"), dir.join("hooks"));
        fs::write(&config_path, config)?;
        fs::create_dir(&hooks)?;
        // Without a hook, the agent does not start.
        let hook = hooks.join("prepare");
        fs::write(&hook, "#!/bin/sh\n")?;
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755))?;
        agent.start_watching(&config_path, &hooks)?;
        let port = if self.port == 80 { String::new() } else { format!(":{}", self.port) };
        let found = format!("the service is at http://{BRIDGE}{port} ({origin}");
        ensure!(agent.count(&found) == 1, "{found:?} is not in the log of the agent:\n{}", agent.log());
        ensure!(
            agent.count(&format!("this machine is {name}; ")) == 1,
            "the agent reports another machine:\n{}",
            agent.log()
        );
        self.approves(name, &agent)?;
        eprintln!("   {name}: {found})");
        Ok(())
    }

    /// The endpoint that was found is the right one and knows which machine is calling.
    fn approves(&self, name: &str, agent: &Agent) -> Result<()> {
        let event = self.server.schedule(&json!({ "machine": name }), "Freeze", None)?;
        agent.wait_for("the approval", |agent| agent.count(&format!("event {event}: approved")) == 1)?;
        let by = self.server.approved_by(&event)?;
        ensure!(by == [format!("guest:{name}")], "approved by {by:?}");
        Ok(())
    }
}
