//! A server with host agents, which tests kill: on the loopback interface, or on the hosts of an acceptance run.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process};

use crate::kill_matrix::{Victim, has_entries};
use crate::machine_bench::{ABORT_BEFORE, Bench, wait_until};

/// How the program `forewarn` is started where an agent runs.
pub type Launch = Box<dyn Fn() -> Command>;

/// A host agent. Its files are in the directory of the server.
pub struct HostAgent {
    pub host: &'static str,
    launch: Launch,
    /// The listener for hosts, if it is not at the address that the server announces.
    listener: Option<&'static str>,
    data: PathBuf,
    config: PathBuf,
    process: Option<Child>,
}

/// A server and its agents.
pub struct AgentBench {
    pub agents: Vec<HostAgent>,
    /// The agent that is killed.
    pub victim: usize,
    // Ends after the agents.
    pub server: Bench,
}

impl AgentBench {
    /// Without agents.
    pub fn new(server: Bench) -> AgentBench {
        AgentBench { agents: Vec::new(), victim: 0, server }
    }

    /// Lets a host join. `config`: the configuration of its agent, without the directory of its data.
    pub fn add(&mut self, host: &'static str, config: &str, listener: Option<&'static str>, launch: Launch) {
        let (data, file) = (self.server.path(&format!("agent-{host}")), self.server.path(&format!("{host}.toml")));
        fs::write(&file, format!("data = {data:?}\n{config}")).unwrap();
        let agent = HostAgent { host, launch, listener, data, config: file, process: None };
        agent.join(&self.server);
        self.agents.push(agent);
    }

    pub fn start(&mut self, index: usize) {
        self.agents[index].start(&self.server, &[]);
    }

    /// Waits until the server has heard of all hosts.
    pub fn wait_for_contact(&self) {
        for HostAgent { host, .. } in &self.agents {
            wait_until(&format!("contact to {host}"), || {
                self.server.show(&format!("host show {host}"))["reachable"] == true
            });
        }
    }
}

impl HostAgent {
    pub fn join(&self, server: &Bench) {
        let token = server.show(&format!("host token {}", self.host))["token"].as_str().unwrap().to_owned();
        let (management, data) = (server.management(), self.data.display());
        server.run(&format!("host join http://{management} --token {token} --data {data}"));
        if let Some(listener) = self.listener {
            let identity = fs::read_to_string(self.data.join("identity.json")).unwrap();
            let announced = format!("127.0.0.1:{}", listener.rsplit_once(':').unwrap().1);
            assert!(identity.contains(&announced), "{identity}");
            fs::write(self.data.join("identity.json"), identity.replace(&announced, listener)).unwrap();
        }
    }

    pub fn start(&mut self, server: &Bench, variables: &[(&str, &str)]) {
        let mut command = (self.launch)();
        command.args(["host", "run", "--config"]).arg(&self.config).envs(variables.iter().copied());
        self.process = Some(server.spawn(&mut command, &format!("{}.log", self.host)));
    }

    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Lets the agent end by itself.
    pub fn stop(&mut self) {
        let mut process = self.process.take().unwrap();
        kill_process(Pid::from_child(&process), Signal::TERM).unwrap();
        assert!(process.wait().unwrap().success());
    }

    pub fn journal(&self) -> PathBuf {
        self.data.join("journal")
    }
}

impl Drop for HostAgent {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Victim for AgentBench {
    fn bench(&self) -> &Bench {
        &self.server
    }

    fn name(&self) -> String {
        format!("agent of {}", self.agents[self.victim].host)
    }

    fn restart_until(&mut self, step: &str) {
        self.agents[self.victim].kill();
        self.agents[self.victim].start(&self.server, &[(ABORT_BEFORE, step)]);
    }

    fn wait_for_abort(&mut self) {
        let mut process = self.agents[self.victim].process.take().unwrap();
        wait_until("the end of the agent", || process.try_wait().unwrap().is_some());
    }

    fn start_again(&mut self) {
        self.start(self.victim);
    }

    fn has_orders(&self) -> bool {
        self.agents.iter().any(|agent| has_entries(&agent.journal()))
    }
}
