//! A program that runs in a namespace until it is killed, and its log. It ends when the value is dropped, and when this
//! process is killed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::netns::Namespace;
use super::wait;

pub struct Daemon {
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// A command for [`Daemon::start`]: `setpriv` makes the program end with this process.
    pub fn command(namespace: &Namespace, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = namespace.command("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program);
        command
    }

    /// Starts the program and appends its output to the log.
    pub fn start(mut command: Command, log: &Path) -> Result<Daemon> {
        let file = File::options().create(true).append(true).open(log)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().context("cannot run nsenter")?;
        Ok(Daemon { child, log: log.to_owned() })
    }

    /// Waits until the log contains this text.
    pub fn wait_for(&mut self, text: &str) -> Result<()> {
        let said = wait::until(&format!("'{text}'"), || {
            self.check_runs()?;
            Ok(self.log().contains(text).then_some(()))
        });
        said.with_context(|| format!("log:\n{}", self.log()))
    }

    pub fn check_runs(&mut self) -> Result<()> {
        let ended = self.child.try_wait()?;
        ensure!(ended.is_none(), "the program ended by itself:\n{}", self.log());
        Ok(())
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Daemon {
    /// Kills the program with SIGKILL.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
