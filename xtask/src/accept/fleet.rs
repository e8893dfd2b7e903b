//! Three agents in one availability set, with the files of `examples/leader`, each in its own namespace on a
//! bridge. Three cases: the leader approves for all, one machine reboots, the leader is down.
//!
//! The server's manual clock starts at the real time, because agents compare `NotBefore` with their own clock.

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

/// How long the simulated driver takes for a Reboot or a Redeploy, on the server's clock.
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
    let ran = fleet.run_all_cases();
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

    fn run_all_cases(&mut self) -> Result<()> {
        for machine in 0..HOSTS.len() {
            self.start(machine)?;
        }
        self.leader_approves_for_all()?;
        self.one_machine_reboots(SECOND)?;
        self.leader_is_down()
    }

    fn leader_approves_for_all(&self) -> Result<()> {
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
        eprintln!("   web1 approved for all three machines once all were ready");
        Ok(())
    }

    /// The agent is killed when its machine goes down, starts before the event is finished, and once more afterward.
    fn one_machine_reboots(&mut self, machine: usize) -> Result<()> {
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
        eprintln!("   {name} was killed twice: restored once, approved once");
        Ok(())
    }

    fn leader_is_down(&mut self) -> Result<()> {
        self.agents.iter_mut().try_for_each(Agent::kill)?;
        // Only for the second machine: the third machine's turn stays minutes away, however slow this machine is.
        let config = with_short_turns(&self.config, self.dir.path())?;
        self.agents[SECOND].start_watching(&config, &self.hooks)?;
        self.start(THIRD)?;
        let approvals = self.server.approvals()?;
        let event = self.server.schedule(&json!({ "group": "web" }), "Reboot", None)?;
        self.wait_until_started(&event)?;
        self.start(LEADER)?;
        self.end(&event)?;
        self.check_restored(&event, &HOSTS)?;
        ensure!(
            self.agents[LEADER].count(&prepared(HOSTS[LEADER], &event)) == 0,
            "web1 was down and must not have prepared"
        );
        self.check_approved(&event, SECOND, approvals)?;
        eprintln!("   web1 was down: web2 approved, and web1 restored with the others");
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

    /// These machines run `restore` exactly once, and the others do not run it.
    fn check_restored(&self, event: &str, expected: &[&str]) -> Result<()> {
        for (name, agent) in HOSTS.iter().zip(&self.agents) {
            let count = usize::from(expected.contains(name));
            let restored = format!("event {event}: hook restore: {name} is back after the ");
            let done = format!("event {event}: hook restore succeeded");
            agent.wait_for("restore", |agent| agent.count(&done) >= count)?;
            ensure!(agent.count(&restored) == count && agent.count(&done) == count, "{name}: unexpected restore");
        }
        ensure!(
            !self.dir.path().join("shared").join(event).exists(),
            "the shared directory still has marks of the event"
        );
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
        let logs = HOSTS.iter().zip(&self.agents).map(|(name, agent)| format!("log of {name}:\n{}\n", agent.log()));
        logs.collect()
    }
}

/// The output of the prepare hook, in the log.
fn prepared(name: &str, event: &str) -> String {
    format!("event {event}: hook prepare: {name} is ready for the ")
}

/// Uses a hundredth of the notice instead of a quarter, so that the second machine's turn comes within seconds.
fn with_short_turns(config: &Path, dir: &Path) -> Result<PathBuf> {
    let text = std::fs::read_to_string(config)?;
    let (quarter, hundredth) = ("leader_share_percent = 25", "leader_share_percent = 1");
    ensure!(text.contains(quarter), "{} does not contain {quarter}", config.display());
    let path = dir.join("short-turns.toml");
    std::fs::write(&path, text.replace(quarter, hundredth))?;
    Ok(path)
}
