//! Three agents in one availability set, with the files of `examples/leader`, each in its own namespace on a
//! bridge: one answers for all; one reboots; the leader is dead.
//!
//! The server's clock stands, at the real time where it began, because agents compare `NotBefore` with theirs.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tempfile::TempDir;

use super::agent::Agent;
use super::netns::{METADATA, Network};
use super::server::Server;
use super::wait;
use crate::needs::Needs;
use crate::sh;

const HOSTS: [&str; 3] = ["web1", "web2", "web3"];
const LEADER: usize = 0;
const SECOND: usize = 1;
const THIRD: usize = 2;

/// What the simulated driver takes for a Reboot or a Redeploy, on the server's clock.
const IMPACT_SECS: u64 = 600;

pub const NEEDS: Needs = Needs {
    root: true,
    packages: &[("iproute2", "ip"), ("curl", "curl"), ("hostname", "hostname"), ("util-linux", "setpriv")],
    downloads: &[],
};

pub fn run() -> Result<()> {
    let network = Network::new(&HOSTS)?;
    let server = Server::start_in(&network.cloud, &format!("{METADATA}:80"), &["--clock", "manual"])?;
    let mut fleet = Fleet::new(&network, &server)?;
    let ran = fleet.go_through_everything();
    ran.with_context(|| fleet.logs())?;
    network.check_no_way_out()?;
    drop(fleet);
    server.stop()
}

struct Fleet<'n> {
    server: &'n Server<'n>,
    agents: Vec<Agent<'n>>,
    config: PathBuf,
    hooks: PathBuf,
    dir: TempDir,
}

impl<'n> Fleet<'n> {
    fn new(network: &'n Network, server: &'n Server<'n>) -> Result<Fleet<'n>> {
        let dir = tempfile::Builder::new().prefix("forewarn-accept-").tempdir()?;
        let example = sh::root().join("examples/leader");
        server.post("/availability-sets", &json!({ "name": "web" }))?;
        let mut agents = Vec::new();
        for (name, node) in HOSTS.iter().zip(&network.nodes) {
            let addresses = json!([{ "ip": node.ip }]);
            let body = json!({ "name": name, "availabilitySet": "web", "updateDomain": 0, "addresses": addresses });
            server.post("/machines", &body)?;
            let agent = Agent::new(&node.namespace, &dir.path().join(name))?;
            agents.push(agent.variable("SHARED", &dir.path().join("shared")));
        }
        Ok(Fleet { server, agents, config: example.join("agent.toml"), hooks: example.join("hooks"), dir })
    }

    fn go_through_everything(&mut self) -> Result<()> {
        for machine in 0..HOSTS.len() {
            self.start(machine)?;
        }
        self.one_answers_for_all()?;
        self.one_reboots(SECOND)?;
        self.the_leader_is_dead()
    }

    fn one_answers_for_all(&self) -> Result<()> {
        let approvals = self.server.approvals()?;
        let event = self.server.schedule(&json!({ "group": "web" }), "Redeploy", None)?;
        self.wait_until_started(&event)?;
        ensure!(self.agents[LEADER].count("all of web1,web2,web3 are ready") == 1, "the leader did not wait for all");
        for (name, agent) in HOSTS.iter().zip(&self.agents) {
            ensure!(agent.count(&prepared(name, &event)) == 1, "{name} was not ready when the event started");
        }
        self.end(&event)?;
        self.check_restored(&event, &HOSTS)?;
        self.check_approved(&event, LEADER, approvals)?;
        eprintln!("   web1 answered for all three, once all were ready");
        Ok(())
    }

    /// It is killed when its machine goes down, comes up before the event is over, and once more after it.
    fn one_reboots(&mut self, machine: usize) -> Result<()> {
        let (name, approvals) = (HOSTS[machine], self.server.approvals()?);
        let event = self.server.schedule(&json!({ "machine": name }), "Reboot", None)?;
        self.wait_until_started(&event)?;
        self.agents[machine].kill()?;
        self.start(machine)?;
        self.agents[machine].kill()?;
        self.end(&event)?;
        self.start(machine)?;
        self.check_restored(&event, &[name])?;
        ensure!(self.agents[machine].count(&prepared(name, &event)) == 1, "{name} prepared more than once");
        self.check_approved(&event, machine, approvals)?;
        eprintln!("   {name} was killed twice and came back: restored once, approved once");
        Ok(())
    }

    fn the_leader_is_dead(&mut self) -> Result<()> {
        self.agents.iter_mut().try_for_each(Agent::kill)?;
        // Only the second: the third's turn is minutes away, however slow this computer is.
        let config = with_short_turns(&self.config, self.dir.path())?;
        self.agents[SECOND].start_watching(&config, &self.hooks)?;
        self.start(THIRD)?;
        let approvals = self.server.approvals()?;
        let event = self.server.schedule(&json!({ "group": "web" }), "Reboot", None)?;
        self.wait_until_started(&event)?;
        self.start(LEADER)?;
        self.end(&event)?;
        self.check_restored(&event, &HOSTS)?;
        ensure!(self.agents[LEADER].count(&prepared(HOSTS[LEADER], &event)) == 0, "web1 was not there to prepare");
        self.check_approved(&event, SECOND, approvals)?;
        eprintln!("   web1 was dead: web2 answered, and web1 came back with the others");
        Ok(())
    }

    fn start(&mut self, machine: usize) -> Result<()> {
        self.agents[machine].start_watching(&self.config, &self.hooks)
    }

    fn wait_until_started(&self, event: &str) -> Result<()> {
        wait::until("the start of the event", || {
            let event = self.server.get(&format!("/events/{event}"))?;
            Ok((event["status"] == "Started").then_some(()))
        })
    }

    fn end(&self, event: &str) -> Result<()> {
        self.server.advance(IMPACT_SECS)?;
        let life = self.server.life_of(event)?;
        ensure!(life == ["appeared", "approved", "started", "ended"], "event {event}: {life:?}");
        Ok(())
    }

    /// These run `restore`, once, and nobody else has anything to restore.
    fn check_restored(&self, event: &str, expected: &[&str]) -> Result<()> {
        for (name, agent) in HOSTS.iter().zip(&self.agents) {
            let count = usize::from(expected.contains(name));
            let restored = format!("event {event}: hook restore: {name} is back after the ");
            let done = format!("event {event}: hook restore succeeded");
            agent.wait_for("restore", |agent| agent.count(&done) >= count)?;
            ensure!(agent.count(&restored) == count && agent.count(&done) == count, "{name} restored otherwise");
        }
        ensure!(!self.dir.path().join("shared").join(event).exists(), "marks are left behind");
        Ok(())
    }

    fn check_approved(&self, event: &str, by: usize, approvals_before: u64) -> Result<()> {
        let found = self.server.approved_by(event)?;
        ensure!(found == [format!("guest:{}", HOSTS[by])], "approved by {found:?}");
        let approvals = self.server.approvals()? - approvals_before;
        ensure!(approvals == 1, "{approvals} approvals were sent");
        Ok(())
    }

    fn logs(&self) -> String {
        let logs = HOSTS.iter().zip(&self.agents).map(|(name, agent)| format!("{name} said:\n{}\n", agent.log()));
        logs.collect()
    }
}

/// What the hook itself says, in the log.
fn prepared(name: &str, event: &str) -> String {
    format!("event {event}: hook prepare: {name} is ready for the ")
}

/// A hundredth of the notice instead of a quarter, so that the second machine's turn comes in seconds.
fn with_short_turns(config: &Path, dir: &Path) -> Result<PathBuf> {
    let text = std::fs::read_to_string(config)?;
    let (quarter, hundredth) = ("leader_share_percent = 25", "leader_share_percent = 1");
    ensure!(text.contains(quarter), "{} does not say {quarter}", config.display());
    let path = dir.join("short-turns.toml");
    std::fs::write(&path, text.replace(quarter, hundredth))?;
    Ok(path)
}
