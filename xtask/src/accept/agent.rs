//! `forewarn-agent` on a node. It can be killed and started again, and keeps its state.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::daemon::Daemon;
use super::netns::Namespace;
use super::wait;
use crate::sh;

pub struct Agent<'n> {
    namespace: &'n Namespace,
    dir: PathBuf,
    variables: Vec<(String, PathBuf)>,
    running: Option<Daemon>,
}

impl<'n> Agent<'n> {
    /// An agent with a directory for its files. It does not run yet.
    pub fn new(namespace: &'n Namespace, dir: &Path) -> Result<Agent<'n>> {
        fs::create_dir_all(dir)?;
        Ok(Agent { namespace, dir: dir.to_owned(), variables: Vec::new(), running: None })
    }

    /// Sets an environment variable for its hooks.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &Path) -> Agent<'n> {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts the agent and waits for its first poll, after which Scheduled Events are on for its machine.
    pub fn start_watching(&mut self, config: &Path, hooks: &Path) -> Result<()> {
        let before = self.count("; watching ");
        self.start(config, hooks)?;
        self.wait_for("its first document", |agent| agent.count("; watching ") > before)
    }

    fn start(&mut self, config: &Path, hooks: &Path) -> Result<()> {
        ensure!(self.running.is_none(), "the agent is already running");
        let program = sh::built("forewarn-agent")?;
        let mut command = Daemon::command(self.namespace, program);
        command.arg("run").arg("--config").arg(config).arg("--hooks").arg(hooks);
        command.arg("--state").arg(self.dir.join("state"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FOREWARN_")) {
            command.env_remove(name);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        self.running = Some(Daemon::start(command, &self.log_path())?);
        Ok(())
    }

    /// Kills the agent with SIGKILL.
    pub fn kill(&mut self) -> Result<()> {
        self.running.take().map(drop).context("the agent is not running")
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// Number of log lines that contain this text.
    pub fn count(&self, text: &str) -> usize {
        self.log().lines().filter(|line| line.contains(text)).count()
    }

    pub fn wait_for(&self, what: &str, is_there: impl Fn(&Agent) -> bool) -> Result<()> {
        wait::until(what, || Ok(is_there(self).then_some(())))
            .with_context(|| format!("log of the agent:\n{}", self.log()))
    }

    fn log_path(&self) -> PathBuf {
        self.dir.join("log")
    }
}
