//! The Azure CLI and the Azure SDK for Python sign in, unchanged: with clients and secrets, and as a
//! machine that was given an identity.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::server::Server;
use crate::{setup, sh};

pub fn run() -> Result<()> {
    setup::debian(&[("curl", "curl"), ("python3", "python3"), ("util-linux", "setpriv")])?;
    let azure = Azure { venv: setup::azure()?, server: Server::start(&[])? };
    azure.the_cli_needs_two_variables_and_nothing_else()?;
    azure.a_reader_cannot_write()?;
    azure.the_sdk_signs_in()?;
    azure.server.stop()
}

struct Azure {
    venv: PathBuf,
    server: Server<'static>,
}

impl Azure {
    fn the_cli_needs_two_variables_and_nothing_else(&self) -> Result<()> {
        let accounts: Value = serde_json::from_str(&succeed(&self.az("owner", &["account", "list"])?)?)?;
        ensure!(accounts[0]["cloudName"] == "Forewarn", "az account list: {accounts}");
        let body = json!({ "name": "web" }).to_string();
        let made = self.az("owner", &["rest", "--method", "post", "--url", "/api/v1/machines", "--body", &body])?;
        let made: Value = serde_json::from_str(&succeed(&made)?)?;
        ensure!(made["name"] == "web", "az rest --method post: {made}");
        let audit = self.server.history("kind=audit")?;
        ensure!(audit.iter().any(|row| row["actor"] == "owner"), "nobody is in the audit trail: {audit:?}");
        Ok(())
    }

    fn a_reader_cannot_write(&self) -> Result<()> {
        succeed(&self.az("reader", &["rest", "--method", "get", "--url", "/api/v1/machines/web"])?)?;
        let refused = self.az("reader", &["rest", "--method", "delete", "--url", "/api/v1/machines/web"])?;
        let said = String::from_utf8_lossy(&refused.stderr);
        ensure!(!refused.status.success() && said.contains("AuthorizationFailed"), "a reader deleted: {said}");
        Ok(())
    }

    fn the_sdk_signs_in(&self) -> Result<()> {
        self.server.put("/machines/web/identity")?;
        let script = sh::root().join("xtask/src/accept/azure/sign_in.py");
        let mut command = Command::new(self.venv.join("bin/python"));
        command.arg(script).arg(&self.server.management_tls).arg(&self.server.metadata[0]).arg(self.data());
        let output = command.env("NO_PROXY", "*").env("PYTHONDONTWRITEBYTECODE", "1").output()?;
        eprint!("{}", succeed(&output)?);
        Ok(())
    }

    /// `forewarn az -- …`, which runs the CLI of the environment in a directory of its own.
    fn az(&self, role: &str, arguments: &[&str]) -> Result<Output> {
        let path = format!("{}:{}", self.venv.join("bin").display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new(sh::target().join("release/forewarn"));
        command
            .args(["az", "--server", &self.server.management, "--role", role, "--data"])
            .arg(self.data())
            .arg("--")
            .args(arguments)
            .env("PATH", path)
            .env("NO_PROXY", "*");
        command.output().context("cannot run forewarn az")
    }

    fn data(&self) -> PathBuf {
        Path::join(self.server.dir(), "data")
    }
}

fn succeed(output: &Output) -> Result<String> {
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {said}", output.status);
    Ok(String::from_utf8(output.stdout.clone())?)
}
