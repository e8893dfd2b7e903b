//! A stand-in for a Pacemaker cluster, as resource agents see it: four commands that read a directory of files.
//!
//! The commands are in `bin`; `bin/cluster.sh` documents the files. Resources move only when the run says so, so every
//! intermediate state can be checked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::sh;

/// Time limit of one agent call, in seconds.
const AGENT_SECS_MAX: &str = "30";

pub struct Cluster {
    dir: TempDir,
    nodes: Vec<String>,
    /// `OCF_ROOT`, with the agents of the package.
    ocf_root: PathBuf,
    stubs: PathBuf,
}

/// The directory of the four commands.
pub fn stubs() -> PathBuf {
    sh::root().join("xtask/src/accept/pacemaker/bin")
}

impl Cluster {
    pub fn new(nodes: &[&str], ocf_root: PathBuf, stubs: PathBuf) -> Result<Cluster> {
        let dir = tempfile::Builder::new().prefix("forewarn-accept-").tempdir()?;
        fs::write(dir.path().join("nodes"), nodes.join("\n") + "\n")?;
        fs::create_dir(dir.path().join("resources"))?;
        Ok(Cluster { dir, nodes: nodes.iter().map(|&node| node.to_owned()).collect(), ocf_root, stubs })
    }

    /// The directory of the files.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn place(&self, resource: &str, node: &str) -> Result<()> {
        Ok(fs::write(self.dir.path().join("resources").join(resource), node)?)
    }

    pub fn attribute(&self, node: &str, name: &str) -> Option<String> {
        fs::read_to_string(self.dir.path().join("attributes").join(node).join(name)).ok()
    }

    /// Moves resources away from nodes that are in standby or unhealthy.
    pub fn settle(&self) -> Result<()> {
        for entry in fs::read_dir(self.dir.path().join("resources"))? {
            let file = entry?.path();
            if self.is_leaving(&fs::read_to_string(&file)?) {
                let to = self.nodes.iter().find(|node| !self.is_leaving(node)).context("nowhere to move to")?;
                fs::write(file, to)?;
            }
        }
        Ok(())
    }

    fn is_leaving(&self, node: &str) -> bool {
        let unhealthy = self.attribute(node, "#health-azure").is_some_and(|health| health.starts_with('-'));
        unhealthy || self.attribute(node, "standby").as_deref() == Some("on")
    }

    /// Runs one action of an agent, as Pacemaker's executor does. `command` is the start of a command line that runs
    /// programs on the machine, with an almost empty environment.
    pub fn agent(&self, agent: &str, action: &str, mut command: Command) -> Result<()> {
        let program = self.ocf_root.join("resource.d/heartbeat").join(agent);
        command.args(["timeout", AGENT_SECS_MAX]).arg(program).arg(action);
        command.env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", self.stubs.display()));
        command.env("CLUSTER", self.dir.path()).env("OCF_ROOT", &self.ocf_root);
        command.env("OCF_RESOURCE_INSTANCE", format!("rsc_{agent}"));
        command.env("HA_LOGFILE", self.log_path()).env("HA_debug", "1").env("PYTHONDONTWRITEBYTECODE", "1");
        let output = command.output().with_context(|| format!("cannot run {agent}"))?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success() && errors.is_empty(), "{agent} {action}: {}\n{errors}", output.status);
        Ok(())
    }

    /// The log of all agents.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("agents.log")
    }
}
