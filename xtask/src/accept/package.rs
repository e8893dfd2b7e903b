//! The Debian packages, installed, upgraded, removed and purged in a copy of this system.
//!
//! The copy is an overlay over `/` in a mount and network namespace. It ends with the process that holds it, and so do
//! all changes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::wait;
use crate::needs::Needs;
use crate::package::{self, Packages};
use crate::sh;

pub const NEEDS: Needs = Needs {
    root: true,
    packages: &[
        ("binutils", "readelf"),
        ("curl", "curl"),
        ("iproute2", "ip"),
        ("lintian", "lintian"),
        ("systemd", "systemd-analyze"),
        ("util-linux", "setpriv"),
    ],
    downloads: &[],
};

pub fn run() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let packages = package::build(&dir.path().join("first"))?;
    check_reproducible(&packages, dir.path())?;
    check_with_lintian(&packages)?;
    let copy = Copy::new()?;
    copy.copy_in(&packages)?;
    install(&copy)?;
    check_units(&copy)?;
    run_programs(&copy)?;
    upgrade_with_systemd(&copy)?;
    remove_and_purge(&copy)
}

fn check_reproducible(first: &Packages, dir: &Path) -> Result<()> {
    let second = package::build(&dir.join("second"))?;
    for (one, other) in first.paths().into_iter().zip(second.paths()) {
        ensure!(fs::read(one)? == fs::read(other)?, "{} differs when built again", one.display());
    }
    Ok(())
}

/// Warnings are errors, except those that are expected.
fn check_with_lintian(packages: &Packages) -> Result<()> {
    let [forewarn, agent, host] = packages.paths().map(|path| path.to_str().context("path"));
    let expected = EXPECTED.join(",");
    let arguments = ["--allow-root", "--fail-on", "error,warning", "--suppress-tags", &expected];
    sh::program("lintian").args(&arguments).args(&[forewarn?, agent?, host?]).run()
}

const EXPECTED: [&str; 7] = [
    // The project has no mail address yet.
    "bogus-mail-host",
    "bogus-mail-host-in-debian-changelog",
    // The agent is meant to be one static program.
    "statically-linked-binary",
    "shared-library-lacks-prerequisites",
    // The configuration may contain secrets.
    "non-standard-file-perm",
    // Only called where systemd runs.
    "maintainer-script-calls-systemctl",
    // The server generates its manual pages.
    "no-manual-page",
];

fn install(copy: &Copy) -> Result<()> {
    copy.sh("dpkg --install /forewarn.deb /forewarn-agent.deb /forewarn-host.deb")?;
    copy.expect("stat --format '%U %G %a' /var/lib/forewarn", "forewarn forewarn 700")?;
    copy.expect("getent passwd forewarn | cut -d: -f6,7", "/var/lib/forewarn:/usr/sbin/nologin")?;
    copy.expect("stat --format '%U %a' /etc/forewarn-agent/agent.toml", "root 600")?;
    copy.expect("dpkg --verify forewarn forewarn-agent forewarn-host", "")?;
    copy.expect("ls /etc/systemd/system/multi-user.target.wants | grep forewarn || true", "")
}

fn check_units(copy: &Copy) -> Result<()> {
    let units = ["forewarn", "forewarn-agent", "forewarn-host"].map(|name| format!("{UNITS}/{name}.service")).join(" ");
    let said = copy.sh(&format!("systemd-analyze verify --man=no {units} 2>&1"))?;
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("forewarn")).collect();
    ensure!(ours.is_empty(), "systemd-analyze: {ours:?}");
    check_server_unit()?;
    // Tenths of systemd's exposure level, at most. The host agent runs as root and changes firewall rules, so its level is higher.
    for (name, most) in [("forewarn", 20), ("forewarn-host", 30)] {
        copy.sh(&format!("systemd-analyze security --offline=true --threshold={most} {UNITS}/{name}.service"))?;
    }
    Ok(())
}

/// Where the packages install their units.
const UNITS: &str = "/usr/lib/systemd/system";

/// Checks settings of the server's unit that `systemd-analyze` does not judge.
fn check_server_unit() -> Result<()> {
    let unit = std::fs::read_to_string(sh::root().join("packaging/forewarn/forewarn.service"))?;
    // Allowed again after `~@privileged` took `@chown` away: sockets of guests get the group that their listener names.
    let filter = "SystemCallFilter=prlimit64 chown fchownat";
    for line in ["MemoryHigh=3G", "MemoryMax=4G", "Restart=always", "StartLimitIntervalSec=0", filter] {
        ensure!(unit.lines().any(|found| found == line), "forewarn.service has no line {line}");
    }
    ensure!(!unit.contains("OOMScoreAdjust=-"), "forewarn.service would let the kernel kill guests first");
    Ok(())
}

/// Runs the server as its unit does, and the agent against it.
fn run_programs(copy: &Copy) -> Result<()> {
    let as_user = "setpriv --reuid forewarn --regid forewarn --clear-groups --pdeathsig KILL --";
    let server = copy.spawn(&format!("exec {as_user} /usr/bin/forewarn serve --config /etc/forewarn/forewarn.toml"))?;
    wait::until("the installed server", || Ok(copy.sh("curl -sf http://127.0.0.1:8170/healthz").ok()))?;
    let machines = copy.sh("forewarn vm list --data /var/lib/forewarn")?;
    ensure!(!machines.trim().is_empty(), "the installed server has no machine");
    let refused = copy.sh("forewarn-agent --endpoint http://127.0.0.1:8169").map_err(|problem| problem.to_string());
    ensure!(refused.is_err_and(|text| text.contains("no hooks or actions")), "the agent runs without hooks");
    let agent = copy.spawn("exec setpriv --pdeathsig KILL -- /usr/bin/forewarn-agent --approve-without-hooks --endpoint http://127.0.0.1:8169 --metrics 127.0.0.1:9137")?;
    wait::until("the installed agent", || Ok(copy.sh("curl -sf http://127.0.0.1:9137/healthz").ok()))?;
    copy.expect("forewarn-agent status", "no events so far")?;
    drop((agent, server));
    Ok(())
}

/// `systemctl` is a stand-in that records its arguments.
fn upgrade_with_systemd(copy: &Copy) -> Result<()> {
    copy.sh("mkdir -p /run/systemd/system && echo '# mine' >> /etc/forewarn-agent/agent.toml")?;
    copy.sh("printf '#!/bin/sh\\necho \"$@\" >> /systemctl.log\\n' > /usr/local/sbin/systemctl")?;
    copy.sh("chmod +x /usr/local/sbin/systemctl && dpkg --install /forewarn.deb /forewarn-agent.deb")?;
    let told = copy.sh("cat /systemctl.log")?;
    for line in ["daemon-reload", "try-restart forewarn.service", "try-restart forewarn-agent.service"] {
        ensure!(told.lines().any(|found| found == line), "systemctl was not called with {line}: {told}");
    }
    copy.expect("tail -n 1 /etc/forewarn-agent/agent.toml", "# mine")
}

fn remove_and_purge(copy: &Copy) -> Result<()> {
    copy.sh("rm /systemctl.log; dpkg --remove forewarn forewarn-agent forewarn-host")?;
    let told = copy.sh("cat /systemctl.log")?;
    for line in [
        "disable --now forewarn.service",
        "disable --now forewarn-agent.service",
        "disable --now forewarn-host.service",
        "daemon-reload",
    ] {
        ensure!(told.lines().any(|found| found == line), "systemctl was not called with {line}: {told}");
    }
    copy.expect("tail -n 1 /etc/forewarn-agent/agent.toml; ls /usr/bin | grep ^forewarn || true", "# mine")?;
    copy.sh("test -d /var/lib/forewarn && dpkg --purge forewarn forewarn-agent forewarn-host")?;
    let left = "ls -d /etc/forewarn* /var/lib/forewarn* /usr/share/doc/forewarn* /usr/lib/systemd/system/forewarn* 2>/dev/null";
    copy.expect(&format!("{left} || true"), "")
}

/// A copy of this system.
struct Copy {
    holder: Child,
    /// The mount point, visible only in the namespaces of the holder.
    dir: tempfile::TempDir,
}

const HOLD: &str = r#"set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mount -t proc proc "$1/root/proc"
mount --rbind /dev "$1/root/dev"
ip link set lo up
echo ready
exec cat"#;

impl Copy {
    fn new() -> Result<Copy> {
        let dir = tempfile::tempdir()?;
        let mut command = Command::new("unshare");
        command.args(["--mount", "--net", "sh", "-c", HOLD, "sh"]).arg(dir.path());
        let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot run unshare")?;
        let stdout = holder.stdout.take().context("the holder has no output")?;
        let copy = Copy { holder, dir };
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        ensure!(line == "ready\n", "cannot create a copy of this system; this needs root and overlayfs");
        Ok(copy)
    }

    fn copy_in(&self, packages: &Packages) -> Result<()> {
        for (path, name) in packages.paths().into_iter().zip(["forewarn", "forewarn-agent", "forewarn-host"]) {
            let mut command = self.command(&format!("cat > /{name}.deb"));
            let status = command.stdin(fs::File::open(path)?).status()?;
            ensure!(status.success(), "cannot copy {name} into the copy");
        }
        Ok(())
    }

    fn command(&self, script: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.holder.id().to_string(), "--mount", "--net", "--", "chroot"]);
        command.arg(self.dir.path().join("root")).args(["sh", "-c", script]);
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C").stdin(Stdio::null());
        command
    }

    /// Runs a script in the copy and returns its output.
    fn sh(&self, script: &str) -> Result<String> {
        let output = self.command(script).output().context("nsenter")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{script}: {}\n{said}", output.status);
        Ok(String::from_utf8(output.stdout)?)
    }

    fn expect(&self, script: &str, expected: &str) -> Result<()> {
        let found = self.sh(script)?;
        ensure!(found.trim() == expected, "{script}: {found:?}, not {expected:?}");
        Ok(())
    }

    fn spawn(&self, script: &str) -> Result<Running> {
        let mut command = self.command(script);
        Ok(Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("nsenter")?))
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // The namespaces and all mounts in them end with the holder.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// A program in the copy. It ends when the value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
