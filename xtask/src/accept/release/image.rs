//! The container image, run by podman: unprivileged, on a read-only root, in a network without a way out.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use super::super::netns::Namespace;
use super::super::wait;
use crate::release::image_tag;
use crate::sh;

/// A host that only DNS knows.
const RECEIVER: &str = "receiver.forewarn.test";

/// Explicit limits, because podman would raise those of the test machine, which not every container may.
const LIMITS: [&str; 4] = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"];

pub fn run(archive: &Path) -> Result<()> {
    let podman = Podman::new()?;
    let archive = archive.to_str().context("path")?;
    podman.read(&["pull", "--quiet", &format!("oci-archive:{archive}")])?;
    check_settings(&podman)?;
    podman.read(&["rmi", "--force", "--all"])?;
    podman.read(&["pull", "--quiet", &format!("docker-archive:{archive}")])?;
    check_settings(&podman)?;
    let receiver = Receiver::start(&podman.namespace)?;
    podman.run_server()?;
    wait::until("the health check of the image", || Ok(podman.exec(&["health"]).ok()))?;
    podman.read(&["healthcheck", "run", Podman::SERVER])?;
    let machines = podman.exec(&["vm", "list"])?;
    ensure!(machines.lines().count() >= 2, "the server in the image has no machine: {machines}");
    let url = format!("http://{RECEIVER}:9000/");
    podman.exec(&["webhook", "create", "ops", "--url", &url])?;
    podman.exec(&["webhook", "test", "ops"])?;
    receiver.expect_request()?;
    podman.read(&["stop", "--time", "30", Podman::SERVER])?;
    let code = podman.read(&["inspect", "--format", "{{.State.ExitCode}}", Podman::SERVER])?;
    ensure!(code.trim() == "0", "the server in the image stopped with exit code {code}");
    Ok(())
}

fn check_settings(podman: &Podman) -> Result<()> {
    let text = podman.read(&["image", "inspect", &image_tag()])?;
    let found: Value = serde_json::from_str(&text)?;
    let config = &found[0]["Config"];
    ensure!(config["User"] == "65532:65532", "the image does not name its user: {config}");
    let layers = found[0]["RootFS"]["Layers"].as_array().map_or(0, Vec::len);
    ensure!(layers == 1, "the image has {layers} layers");
    Ok(())
}

/// podman with storage and a network of its own. Containers end with it.
struct Podman {
    namespace: Namespace,
    storage: TempDir,
}

impl Podman {
    const SERVER: &'static str = "forewarn-accept";

    fn new() -> Result<Podman> {
        Ok(Podman { namespace: Namespace::new("container-host")?, storage: tempfile::tempdir()? })
    }

    fn command(&self) -> Command {
        let mut command = Command::new("podman");
        command.arg("--root").arg(self.storage.path().join("root"));
        command.arg("--runroot").arg(self.storage.path().join("run"));
        // Needs no file system features of the test machine.
        command.args(["--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--runtime", "runc"]);
        command.args(["--events-backend", "none", "--log-level", "error"]).stdin(Stdio::null());
        // The test runs the health check itself; otherwise podman needs systemd for it.
        command.env("DISABLE_HC_SYSTEMD", "true");
        command
    }

    fn read(&self, arguments: &[&str]) -> Result<String> {
        let output = self.command().args(arguments).output().context("cannot run podman")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "podman {}: {}\n{said}", arguments.join(" "), output.status);
        Ok(String::from_utf8(output.stdout)?)
    }

    fn run_server(&self) -> Result<()> {
        // The network of the namespace, and only its DNS server.
        let network = format!("ns:{}", self.namespace.network_path());
        let network = ["--network", &network, "--dns", "127.0.0.1", "--dns-search", "."];
        let restrictions = ["--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges"];
        let run = ["run", "--detach", "--name", Podman::SERVER, "--log-driver", "none"];
        let image = image_tag();
        let arguments = [&run[..], &network, &restrictions, &LIMITS, &[image.as_str()]].concat();
        self.read(&arguments).map(drop)
    }

    /// Runs the command line in the container.
    fn exec(&self, arguments: &[&str]) -> Result<String> {
        self.read(&[&["exec", Podman::SERVER, "/usr/bin/forewarn"], arguments].concat())
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        let _ = self.command().args(["rm", "--force", "--time", "0", "--all"]).output();
    }
}

/// A DNS server and a receiver of webhooks.
struct Receiver {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Receiver {
    fn start(namespace: &Namespace) -> Result<Receiver> {
        let mut command = namespace.command("/usr/bin/python3");
        command.arg(sh::root().join("xtask/src/accept/release/receiver.py")).arg(RECEIVER);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot run python3")?;
        let lines = BufReader::new(child.stdout.take().context("the receiver has no output")?).lines();
        let mut receiver = Receiver { child, lines };
        let line = receiver.lines.next().context("the receiver did not start")??;
        ensure!(line == "ready", "the receiver printed {line}");
        Ok(receiver)
    }

    fn expect_request(mut self) -> Result<()> {
        let line = self.lines.next().context("the receiver ended")??;
        ensure!(line == format!("POST {RECEIVER}:9000"), "the receiver got {line}");
        Ok(())
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
