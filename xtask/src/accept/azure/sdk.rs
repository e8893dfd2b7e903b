//! Runs the SDK scripts. They print `passed CALL: RESULT` for each call and end with an error at the first failure.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use super::region::{Etcd, Region};
use super::stage::CLOCK;
use super::table::CommandRow;
use crate::accept::server::Server;
use crate::sh;

/// A script and its interpreter.
pub struct Script<'a> {
    pub name: &'a str,
    pub interpreter: &'a Path,
    /// The directory of the Node.js packages.
    pub modules: Option<&'a Path>,
}

impl Script<'_> {
    /// Runs the script against the follower of its own region.
    pub fn run(&self, etcd: &Etcd<'_>) -> Result<(Vec<CommandRow>, Result<()>)> {
        let Region { follower, leader } = etcd.start_region(CLOCK)?;
        let mut command = follower.command("env");
        self.prepare(&mut command, &follower)?;
        let output = command.output()?;
        let rows = String::from_utf8_lossy(&output.stdout).lines().filter_map(row).collect();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let ended = if output.status.success() { Ok(()) } else { Err(anyhow::anyhow!("{}: {said}", self.name)) };
        follower.stop()?;
        leader.stop()?;
        Ok((rows, ended))
    }

    fn prepare(&self, command: &mut Command, server: &Server<'_>) -> Result<()> {
        let script = sh::root().join("xtask/src/accept/azure").join(self.name);
        ensure!(script.exists(), "{} does not exist", script.display());
        let data = server.dir().join("data");
        if let Some(modules) = self.modules {
            command.env("MODULES", modules);
        }
        command
            .env("NO_PROXY", "*")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("NODE_EXTRA_CA_CERTS", data.join("ca.pem"))
            .arg(self.interpreter)
            .arg(script)
            .args([&server.management_tls, &server.management, &server.metadata[0]])
            .arg(data)
            .current_dir(server.dir());
        Ok(())
    }
}

/// Parses `passed CALL: RESULT`.
fn row(line: &str) -> Option<CommandRow> {
    let (command, what) = line.strip_prefix("passed ")?.split_once(": ")?;
    Some(CommandRow { command: command.to_owned(), what: what.to_owned(), passed: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_passed_becomes_a_row() {
        let expected = CommandRow { command: "a.b".into(), what: "It: went.".into(), passed: true };
        assert_eq!(row("passed a.b: It: went."), Some(expected));
        assert_eq!(row("something else: x"), None);
    }
}
