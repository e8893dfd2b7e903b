//! Address spoofing: a guest takes the address of another guest or of the endpoint. The rules in
//! `examples/bridge/pin-guests.nft` prevent both. Without the rules both succeed, so the run proves that they matter.
//!
//! ```text
//!   port1  web1  the victim, offline
//!   port2  web2  the attacker
//!   port3  web3  another guest on the bridge
//! ```

use std::process::Output;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::netns::{METADATA, Namespace, Network};
use super::server::Server;
use crate::needs::Needs;

const HOSTS: [&str; 3] = ["web1", "web2", "web3"];

/// Seconds to wait for an expected answer.
const ANSWER_SECS_MAX: &str = "60";

/// Seconds to wait for an answer that must not come. Without the rules, answers come sooner than that.
const SILENCE_SECS: &str = "3";

const NAME: &str = "/metadata/instance/compute/name?api-version=2021-02-01&format=text";

/// Sends a broadcast datagram from the port of DHCP servers.
const OFFER: &str = "
from socket import *
s = socket(AF_INET, SOCK_DGRAM)
s.setsockopt(SOL_SOCKET, SO_BROADCAST, 1)
s.bind(('10.99.0.2', 67))
s.sendto(b'offer', ('10.99.0.255', 68))
";

pub const NEEDS: Needs = Needs {
    root: true,
    packages: &[
        ("iproute2", "ip"),
        ("curl", "curl"),
        ("hostname", "hostname"),
        ("util-linux", "setpriv"),
        ("nftables", "nft"),
        ("python3", "python3"),
    ],
    downloads: &[],
};

pub fn run() -> Result<()> {
    let network = Network::new(&HOSTS)?;
    let server = Server::start_in(&network.cloud, &format!("{METADATA}:80"), &["--clock", "manual"])?;
    for (name, node) in HOSTS.iter().zip(&network.nodes) {
        server.post("/machines", &json!({ "name": name, "addresses": [{ "ip": node.ip }] }))?;
    }
    let trial = PinningRun { network: &network };
    for name in HOSTS {
        trial.is_served(name, name)?;
    }
    trial.network.nodes[0].namespace.ip(&["link", "set", "eth0", "down"])?;
    trial.spoofing_succeeds().context("without the rules")?;
    network.pin_guests()?;
    trial.spoofing_fails().context("with the rules")?;
    network.check_no_way_out()?;
    server.stop()
}

/// The addresses that the attacker takes over.
#[derive(Clone, Copy, Debug)]
enum Spoof {
    Address,
    AddressAndMac,
}

const SPOOFS: [Spoof; 2] = [Spoof::Address, Spoof::AddressAndMac];

struct PinningRun<'n> {
    network: &'n Network,
}

impl PinningRun<'_> {
    fn spoofing_succeeds(&self) -> Result<()> {
        for spoof in SPOOFS {
            self.take_over(spoof)?;
            self.is_served("web2", "web1").with_context(|| format!("{spoof:?}"))?;
            self.give_back(spoof)?;
            eprintln!("   without the rules, {spoof:?} is enough to be served as web1");
        }
        self.claim_endpoint()?;
        let said = self.ask("web3", SILENCE_SECS)?;
        ensure!(
            !said.status.success(),
            "spoofing the endpoint failed even without the rules, so the run proves nothing"
        );
        self.release_endpoint()?;
        self.is_served("web3", "web3")
    }

    fn spoofing_fails(&self) -> Result<()> {
        for spoof in SPOOFS {
            let dropped = self.dropped("counter")?;
            self.take_over(spoof)?;
            let said = self.ask("web2", SILENCE_SECS)?;
            ensure!(!said.status.success() && said.stdout.is_empty(), "{spoof:?}: {said:?}");
            ensure!(
                self.dropped("counter")? > dropped,
                "{spoof:?}: the rules dropped nothing, so something else prevented it"
            );
            self.give_back(spoof)?;
            self.is_served("web2", "web2").context("the attacker has its own address again")?;
            eprintln!("   with the rules, {spoof:?} gets no answer");
        }
        self.claim_endpoint()?;
        self.is_served("web3", "web3").context("another guest claims the address of the endpoint")?;
        self.release_endpoint()?;
        self.cannot_act_as_dhcp_server()
    }

    /// Sent from the guest's own address, so only the source port is wrong.
    fn cannot_act_as_dhcp_server(&self) -> Result<()> {
        let dropped = self.dropped("udp sport 67")?;
        self.guest("web2")?.read("python3", &["-c", OFFER])?;
        ensure!(self.dropped("udp sport 67")? == dropped + 1, "the datagram from the DHCP server port was not dropped");
        Ok(())
    }

    fn take_over(&self, spoof: Spoof) -> Result<()> {
        self.change_from_to(spoof, "2", "1")
    }

    fn give_back(&self, spoof: Spoof) -> Result<()> {
        self.change_from_to(spoof, "1", "2")
    }

    /// IP and MAC addresses end with the number of the bridge port.
    fn change_from_to(&self, spoof: Spoof, from: &str, to: &str) -> Result<()> {
        let attacker = self.guest("web2")?;
        attacker.ip(&["address", "del", &format!("10.99.0.{from}/24"), "dev", "eth0"])?;
        match spoof {
            Spoof::Address => {}
            Spoof::AddressAndMac => self.set_mac(attacker, &format!("52:54:00:00:00:0{to}"))?,
        }
        attacker.ip(&["address", "add", &format!("10.99.0.{to}/24"), "dev", "eth0"])?;
        self.clear_neighbors(attacker)
    }

    /// The link must be down for this, which removes its routes.
    fn set_mac(&self, guest: &Namespace, mac: &str) -> Result<()> {
        guest.ip(&["link", "set", "eth0", "down"])?;
        guest.ip(&["link", "set", "eth0", "address", mac, "up"]).map(drop)
    }

    /// The attacker claims the address of the endpoint and makes web3 learn its MAC address.
    fn claim_endpoint(&self) -> Result<()> {
        let (attacker, other) = (self.guest("web2")?, self.guest("web3")?);
        attacker.ip(&["address", "add", &format!("{METADATA}/32"), "dev", "eth0"])?;
        // web3 learns the MAC address of the endpoint from the next packet that carries its IP address.
        self.clear_neighbors(other)?;
        attacker.ip(&["neighbor", "flush", "all"])?;
        let mut ask = attacker.command("curl");
        ask.args(["-s", "--interface", METADATA, "--max-time", SILENCE_SECS, "http://10.99.0.3:1/"]);
        let _refused = ask.output()?;
        Ok(())
    }

    fn release_endpoint(&self) -> Result<()> {
        let (attacker, other) = (self.guest("web2")?, self.guest("web3")?);
        attacker.ip(&["address", "del", &format!("{METADATA}/32"), "dev", "eth0"])?;
        self.clear_neighbors(attacker)?;
        self.clear_neighbors(other)
    }

    /// Clears the neighbor caches.
    fn clear_neighbors(&self, guest: &Namespace) -> Result<()> {
        guest.ip(&["route", "replace", METADATA, "dev", "eth0"])?;
        guest.ip(&["neighbor", "flush", "all"])?;
        self.network.cloud.ip(&["neighbor", "flush", "all"]).map(drop)
    }

    fn is_served(&self, guest: &str, expected: &str) -> Result<()> {
        let said = self.ask(guest, ANSWER_SECS_MAX)?;
        let name = String::from_utf8_lossy(&said.stdout);
        ensure!(said.status.success() && name == expected, "{guest} should be served as {expected}: {said:?}");
        Ok(())
    }

    fn ask(&self, guest: &str, secs_max: &str) -> Result<Output> {
        let mut command = self.guest(guest)?.command("curl");
        command.args(["-q", "-sS", "--fail", "--max-time", secs_max, "-H", "Metadata:true"]);
        command.arg(format!("http://{METADATA}{NAME}")).output().context("cannot run curl")
    }

    fn guest(&self, name: &str) -> Result<&Namespace> {
        let index = HOSTS.iter().position(|host| *host == name).context("no such guest")?;
        Ok(&self.network.nodes[index].namespace)
    }

    /// Number of frames dropped by the rule that starts with this text.
    fn dropped(&self, rule: &str) -> Result<u64> {
        let rules = self.network.cloud.read("nft", &["list", "chain", "bridge", "forewarn", "arriving"])?;
        let mut lines = rules.lines().map(str::trim).filter(|line| line.starts_with(rule) && line.ends_with(" drop"));
        let count = lines.find_map(|line| line.split_once("counter packets ")?.1.split(' ').next());
        Ok(count.with_context(|| format!("no counter for '{rule}':\n{rules}"))?.parse()?)
    }
}
