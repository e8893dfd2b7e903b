//! Debian's `azure-events-az`, unchanged, started by `forewarn run` in a network of its own: as root and as an
//! unprivileged user. Meanwhile, `forewarn check` judges a handler in every case.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tempfile::TempDir;

use super::pacemaker::cluster::{self, Cluster};
use super::pacemaker::{self, AZ, RESOURCE_AGENTS};
use super::server::Server;
use crate::needs::Needs;
use crate::sh;

/// The machine. The cluster node has the host name of this machine.
const MACHINE: &str = "node-a";

/// The node that resources move to.
const OTHER_NODE: &str = "elsewhere";

/// How long the simulated driver takes for a Reboot, on the server's clock.
const IMPACT_SECS: u64 = 600;

const STATE: &str = "azure-events-az_curNodeState";

#[derive(Clone, Copy, Debug)]
enum User {
    Root,
    Unprivileged,
}

pub const NEEDS: Needs = Needs {
    root: true,
    packages: &[("curl", "curl"), ("python3", "/usr/bin/python3"), ("util-linux", "setpriv")],
    downloads: &[RESOURCE_AGENTS],
};

pub fn run() -> Result<()> {
    let package = RESOURCE_AGENTS.path()?;
    pacemaker::check_unchanged(&package)?;
    let shared = Shared::new(&package)?;
    // Half a minute, which the other steps do not wait for.
    let check = start_check(&shared)?;
    for user in [User::Root, User::Unprivileged] {
        GuestNode::new(&shared, user)?.reboots().with_context(|| format!("as {user:?}"))?;
    }
    let output = check.wait_with_output()?;
    let said = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "check --profile all: {}", String::from_utf8_lossy(&said));
    eprintln!("   check: a handler that approves all events of its group passes every case");
    Ok(())
}

/// Every case of `forewarn check`, with a handler that makes no mistakes.
fn start_check(shared: &Shared) -> Result<Child> {
    let handler = sh::root().join("crates/cli/tests/handlers/handler.py");
    let mut command = Command::new(shared.path("forewarn"));
    command.args(["check", "--profile", "all", "--", "python3"]).arg(handler).arg("approves-others");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().context("cannot run forewarn check")
}

/// Copies of all programs, readable for every user.
struct Shared {
    dir: TempDir,
}

impl Shared {
    fn new(package: &Path) -> Result<Shared> {
        let dir = tempfile::Builder::new().prefix("forewarn-accept-").tempdir()?;
        let copies =
            [(sh::built("forewarn")?, "forewarn"), (package.join("usr/lib/ocf"), "ocf"), (cluster::stubs(), "bin")];
        for (from, to) in copies {
            let to = dir.path().join(to);
            ensure!(
                Command::new("cp").arg("-r").arg(&from).arg(to).status()?.success(),
                "cannot copy {}",
                from.display()
            );
        }
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755))?;
        Ok(Shared { dir })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

struct GuestNode<'s> {
    shared: &'s Shared,
    user: User,
    server: Server<'static>,
    cluster: Cluster,
}

impl<'s> GuestNode<'s> {
    fn new(shared: &'s Shared, user: User) -> Result<GuestNode<'s>> {
        let server = Server::start(&["--clock", "manual"])?;
        server.post("/machines", &json!({ "name": MACHINE, "addresses": [] }))?;
        let cluster = Cluster::new(&[MACHINE, OTHER_NODE], shared.path("ocf"), shared.path("bin"))?;
        cluster.place("rsc_hana", MACHINE)?;
        let open = Command::new("chmod").args(["-R", "a+rwX"]).arg(cluster.dir()).status()?;
        ensure!(open.success(), "chmod");
        Ok(GuestNode { shared, user, server, cluster })
    }

    fn reboots(&self) -> Result<()> {
        for action in ["validate-all", "start", "monitor"] {
            self.act(action)?;
        }
        let body = json!({ "target": { "machine": MACHINE }, "type": "Reboot" });
        let operation = self.server.post("/maintenance", &body)?;
        let event = operation["events"][0]["id"].as_str().context("no event")?;
        self.act("monitor")?;
        self.check(STATE, Some("STOPPING"))?;
        self.cluster.settle()?;
        self.act("monitor")?;
        self.check(STATE, Some("IN_EVENT"))?;
        let approved_by = self.server.approved_by(event)?;
        ensure!(approved_by == [format!("guest:{MACHINE}")], "approved by {approved_by:?}");
        self.server.post("/clock/advance", &json!({ "seconds": IMPACT_SECS }))?;
        self.act("monitor")?;
        self.check(STATE, Some("AVAILABLE"))?;
        eprintln!("   {AZ} as {:?}: a Reboot from notice to completion", self.user);
        Ok(())
    }

    fn act(&self, action: &str) -> Result<()> {
        let acted = self.cluster.agent(AZ, action, self.command());
        acted.with_context(|| format!("log of the agent:\n{}", self.cluster.log()))
    }

    /// The command that runs a program as the machine.
    fn command(&self) -> Command {
        let forewarn = self.shared.path("forewarn");
        let mut command = match self.user {
            User::Root => Command::new(forewarn),
            User::Unprivileged => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]).arg(forewarn);
                command
            }
        };
        command.args(["run", "--vm", MACHINE, "--server", &self.server.management, "--"]);
        command.env_clear().env("FOREWARN_TOKEN", &self.server.token);
        command
    }

    fn check(&self, attribute: &str, expected: Option<&str>) -> Result<()> {
        let found = self.cluster.attribute(MACHINE, attribute);
        ensure!(found.as_deref() == expected, "{attribute} is {found:?}, not {expected:?}\n{}", self.cluster.log());
        Ok(())
    }
}
