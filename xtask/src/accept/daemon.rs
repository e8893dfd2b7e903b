//! A program that goes on in a namespace until it is killed, and its log. It ends with the value, and with us if we
//! are killed.

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
    /// The program is `setpriv`, until it has seen to it that it ends with us.
    pub fn command(namespace: &Namespace, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = namespace.command("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program);
        command
    }

    /// Everything that it says goes to the end of the log.
    pub fn start(mut command: Command, log: &Path) -> Result<Daemon> {
        let file = File::options().create(true).append(true).open(log)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().context("cannot run nsenter")?;
        Ok(Daemon { child, log: log.to_owned() })
    }

    /// Waits until it has said this.
    pub fn wait_for(&mut self, text: &str) -> Result<()> {
        let said = wait::until(&format!("'{text}'"), || {
            self.check_runs()?;
            Ok(self.log().contains(text).then_some(()))
        });
        said.with_context(|| format!("it said:\n{}", self.log()))
    }

    pub fn check_runs(&mut self) -> Result<()> {
        let ended = self.child.try_wait()?;
        ensure!(ended.is_none(), "it ended by itself:\n{}", self.log());
        Ok(())
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Daemon {
    /// As `kill -9` does.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
