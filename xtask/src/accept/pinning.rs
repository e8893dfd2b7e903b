//! A guest that takes another's address: with `examples/bridge/pin-guests.nft` in force it is not served as the
//! other, nor does it stand in for the endpoint; without, it is and does, so this run would notice.
//!
//! ```text
//!   port1  web1  the victim, who is not there
//!   port2  web2  the thief
//!   port3  web3  somebody else on the bridge
//! ```

use std::process::Output;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::netns::{METADATA, Namespace, Network};
use super::server::Server;
use crate::needs::Needs;

const HOSTS: [&str; 3] = ["web1", "web2", "web3"];

/// How long an answer may take that must come.
const ANSWER_SECS_MAX: &str = "60";

/// How long is waited for one that must not: whoever gets one gets it sooner, without the rule.
const SILENCE_SECS: &str = "3";

const NAME: &str = "/metadata/instance/compute/name?api-version=2021-02-01&format=text";

/// A datagram to everybody, as from a DHCP server.
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
    let trial = Trial { network: &network };
    for name in HOSTS {
        trial.is_served(name, name)?;
    }
    trial.network.nodes[0].namespace.ip(&["link", "set", "eth0", "down"])?;
    trial.theft_succeeds().context("without the rule")?;
    network.pin_guests()?;
    trial.theft_fails().context("with the rule")?;
    network.check_no_way_out()?;
    server.stop()
}

/// What a thief takes of its victim.
#[derive(Clone, Copy, Debug)]
enum Theft {
    Address,
    AddressAndMac,
}

const THEFTS: [Theft; 2] = [Theft::Address, Theft::AddressAndMac];

struct Trial<'n> {
    network: &'n Network,
}

impl Trial<'_> {
    fn theft_succeeds(&self) -> Result<()> {
        for theft in THEFTS {
            self.steal(theft)?;
            self.is_served("web2", "web1").with_context(|| format!("{theft:?}"))?;
            self.give_back(theft)?;
            eprintln!("   without the rule {theft:?} is enough to be served as web1");
        }
        self.stand_in()?;
        let said = self.ask("web3", SILENCE_SECS)?;
        ensure!(!said.status.success(), "the endpoint cannot be taken away from web3, so its pinning proves nothing");
        self.stand_down()?;
        self.is_served("web3", "web3")
    }

    fn theft_fails(&self) -> Result<()> {
        for theft in THEFTS {
            let dropped = self.dropped("counter")?;
            self.steal(theft)?;
            let said = self.ask("web2", SILENCE_SECS)?;
            ensure!(!said.status.success() && said.stdout.is_empty(), "{theft:?}: {said:?}");
            ensure!(
                self.dropped("counter")? > dropped,
                "{theft:?}: nothing was dropped, so something else was in the way"
            );
            self.give_back(theft)?;
            self.is_served("web2", "web2").context("the thief has its own address again")?;
            eprintln!("   with the rule {theft:?} gets no answer");
        }
        self.stand_in()?;
        self.is_served("web3", "web3").context("somebody stands in for the endpoint")?;
        self.stand_down()?;
        self.hands_out_nothing()
    }

    /// With its own address, so only the port that DHCP servers speak from is wrong.
    fn hands_out_nothing(&self) -> Result<()> {
        let dropped = self.dropped("udp sport 67")?;
        self.guest("web2")?.read("python3", &["-c", OFFER])?;
        ensure!(self.dropped("udp sport 67")? == dropped + 1, "what a DHCP server says was not dropped");
        Ok(())
    }

    fn steal(&self, theft: Theft) -> Result<()> {
        self.change_from_to(theft, "2", "1")
    }

    fn give_back(&self, theft: Theft) -> Result<()> {
        self.change_from_to(theft, "1", "2")
    }

    /// Both kinds of addresses end with the number of the port that they are for.
    fn change_from_to(&self, theft: Theft, from: &str, to: &str) -> Result<()> {
        let thief = self.guest("web2")?;
        thief.ip(&["address", "del", &format!("10.99.0.{from}/24"), "dev", "eth0"])?;
        match theft {
            Theft::Address => {}
            Theft::AddressAndMac => self.set_mac(thief, &format!("52:54:00:00:00:0{to}"))?,
        }
        thief.ip(&["address", "add", &format!("10.99.0.{to}/24"), "dev", "eth0"])?;
        self.begin_anew(thief)
    }

    /// The link goes down for it, and its routes with it.
    fn set_mac(&self, guest: &Namespace, mac: &str) -> Result<()> {
        guest.ip(&["link", "set", "eth0", "down"])?;
        guest.ip(&["link", "set", "eth0", "address", mac, "up"]).map(drop)
    }

    /// The thief tells web3 that the endpoint is here.
    fn stand_in(&self) -> Result<()> {
        let (thief, other) = (self.guest("web2")?, self.guest("web3")?);
        thief.ip(&["address", "add", &format!("{METADATA}/32"), "dev", "eth0"])?;
        // web3 learns where the endpoint is from whoever speaks to it in its name.
        self.begin_anew(other)?;
        thief.ip(&["neighbour", "flush", "all"])?;
        let mut ask = thief.command("curl");
        ask.args(["-s", "--interface", METADATA, "--max-time", SILENCE_SECS, "http://10.99.0.3:1/"]);
        let _refused = ask.output()?;
        Ok(())
    }

    fn stand_down(&self) -> Result<()> {
        let (thief, other) = (self.guest("web2")?, self.guest("web3")?);
        thief.ip(&["address", "del", &format!("{METADATA}/32"), "dev", "eth0"])?;
        self.begin_anew(thief)?;
        self.begin_anew(other)
    }

    /// Nobody remembers who had which address.
    fn begin_anew(&self, guest: &Namespace) -> Result<()> {
        guest.ip(&["route", "replace", METADATA, "dev", "eth0"])?;
        guest.ip(&["neighbour", "flush", "all"])?;
        self.network.cloud.ip(&["neighbour", "flush", "all"]).map(drop)
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

    /// How many frames the rule that begins like this has dropped.
    fn dropped(&self, rule: &str) -> Result<u64> {
        let rules = self.network.cloud.read("nft", &["list", "chain", "bridge", "forewarn", "arriving"])?;
        let mut lines = rules.lines().map(str::trim).filter(|line| line.starts_with(rule) && line.ends_with(" drop"));
        let count = lines.find_map(|line| line.split_once("counter packets ")?.1.split(' ').next());
        Ok(count.with_context(|| format!("no counter for '{rule}':\n{rules}"))?.parse()?)
    }
}
