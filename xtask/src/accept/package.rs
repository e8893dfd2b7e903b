//! The Debian packages, installed, upgraded, removed and purged in a copy of this system.
//!
//! The copy is an overlay over `/` in a mount and network namespace: it looks like this system, and whatever
//! is done to it is gone with the process that holds it.

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
    are_the_same_when_built_again(&packages, dir.path())?;
    satisfy_lintian(&packages)?;
    let copy = Copy::new()?;
    copy.bring(&packages)?;
    install(&copy)?;
    units_are_in_order(&copy)?;
    programs_run(&copy)?;
    upgrade_with_systemd(&copy)?;
    remove_and_purge(&copy)
}

fn are_the_same_when_built_again(first: &Packages, dir: &Path) -> Result<()> {
    let second = package::build(&dir.join("second"))?;
    for (one, other) in [(&first.forewarn, &second.forewarn), (&first.agent, &second.agent)] {
        ensure!(fs::read(one)? == fs::read(other)?, "{} differs when it is built again", one.display());
    }
    Ok(())
}

/// Anything above information is an error; what is known and wanted is listed.
fn satisfy_lintian(packages: &Packages) -> Result<()> {
    let [forewarn, agent] = [&packages.forewarn, &packages.agent].map(|path| path.to_str().context("path"));
    let wanted = WANTED.join(",");
    let arguments = ["--allow-root", "--fail-on", "error,warning", "--suppress-tags", &wanted];
    sh::program("lintian").args(&arguments).args(&[forewarn?, agent?]).run()
}

const WANTED: [&str; 7] = [
    // The project has no address yet.
    "bogus-mail-host",
    "bogus-mail-host-in-debian-changelog",
    // One static program is the point of the agent.
    "statically-linked-binary",
    "shared-library-lacks-prerequisites",
    // Its settings may hold secrets.
    "non-standard-file-perm",
    // Only where systemd runs; elsewhere there would be nothing to call.
    "maintainer-script-calls-systemctl",
    // The server has manual pages when it can write them.
    "no-manual-page",
];

fn install(copy: &Copy) -> Result<()> {
    copy.sh("dpkg --install /forewarn.deb /forewarn-agent.deb")?;
    copy.expect("stat --format '%U %G %a' /var/lib/forewarn", "forewarn forewarn 700")?;
    copy.expect("getent passwd forewarn | cut -d: -f6,7", "/var/lib/forewarn:/usr/sbin/nologin")?;
    copy.expect("stat --format '%U %a' /etc/forewarn-agent/agent.toml", "root 600")?;
    copy.expect("dpkg --verify forewarn forewarn-agent", "")?;
    copy.expect("ls /etc/systemd/system/multi-user.target.wants | grep forewarn || true", "")
}

fn units_are_in_order(copy: &Copy) -> Result<()> {
    let units = "/usr/lib/systemd/system/forewarn.service /usr/lib/systemd/system/forewarn-agent.service";
    let said = copy.sh(&format!("systemd-analyze verify --man=no {units} 2>&1"))?;
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("forewarn")).collect();
    ensure!(ours.is_empty(), "systemd-analyze: {ours:?}");
    // An exposure level of 2.0 at most, on systemd's scale from 0 to 10.
    copy.sh("systemd-analyze security --offline=true --threshold=20 /usr/lib/systemd/system/forewarn.service")?;
    Ok(())
}

/// The server as its unit starts it, and the agent against it.
fn programs_run(copy: &Copy) -> Result<()> {
    let as_user = "setpriv --reuid forewarn --regid forewarn --clear-groups --pdeathsig KILL --";
    let server = copy.spawn(&format!("exec {as_user} /usr/bin/forewarn serve --config /etc/forewarn/forewarn.toml"))?;
    wait::until("the installed server", || Ok(copy.sh("curl -sf http://127.0.0.1:8170/healthz").ok()))?;
    let machines = copy.sh("forewarn vm list --data /var/lib/forewarn")?;
    ensure!(!machines.trim().is_empty(), "the installed server has no machine");
    let agent = copy.spawn("exec setpriv --pdeathsig KILL -- /usr/bin/forewarn-agent --endpoint http://127.0.0.1:8169 --metrics 127.0.0.1:9137")?;
    wait::until("the installed agent", || Ok(copy.sh("curl -sf http://127.0.0.1:9137/healthz").ok()))?;
    copy.expect("forewarn-agent status", "no events so far")?;
    drop((agent, server));
    Ok(())
}

/// `systemctl` is a stand-in that records what it is told.
fn upgrade_with_systemd(copy: &Copy) -> Result<()> {
    copy.sh("mkdir -p /run/systemd/system && echo '# mine' >> /etc/forewarn-agent/agent.toml")?;
    copy.sh("printf '#!/bin/sh\\necho \"$@\" >> /systemctl.log\\n' > /usr/local/sbin/systemctl")?;
    copy.sh("chmod +x /usr/local/sbin/systemctl && dpkg --install /forewarn.deb /forewarn-agent.deb")?;
    let told = copy.sh("cat /systemctl.log")?;
    for line in ["daemon-reload", "try-restart forewarn.service", "try-restart forewarn-agent.service"] {
        ensure!(told.lines().any(|found| found == line), "systemctl was not told {line}: {told}");
    }
    copy.expect("tail -n 1 /etc/forewarn-agent/agent.toml", "# mine")
}

fn remove_and_purge(copy: &Copy) -> Result<()> {
    copy.sh("rm /systemctl.log; dpkg --remove forewarn forewarn-agent")?;
    let told = copy.sh("cat /systemctl.log")?;
    for line in ["disable --now forewarn.service", "disable --now forewarn-agent.service", "daemon-reload"] {
        ensure!(told.lines().any(|found| found == line), "systemctl was not told {line}: {told}");
    }
    copy.expect("tail -n 1 /etc/forewarn-agent/agent.toml; ls /usr/bin | grep ^forewarn || true", "# mine")?;
    copy.sh("test -d /var/lib/forewarn && dpkg --purge forewarn forewarn-agent")?;
    let left = "ls -d /etc/forewarn* /var/lib/forewarn* /usr/share/doc/forewarn* /usr/lib/systemd/system/forewarn* 2>/dev/null";
    copy.expect(&format!("{left} || true"), "")
}

/// A system that looks like this one.
struct Copy {
    holder: Child,
    /// Where it is mounted, in the namespaces of the holder only.
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
        ensure!(line == "ready\n", "cannot make a copy of this system; this needs root and overlayfs");
        Ok(copy)
    }

    fn bring(&self, packages: &Packages) -> Result<()> {
        for (path, name) in [(&packages.forewarn, "forewarn"), (&packages.agent, "forewarn-agent")] {
            let mut command = self.command(&format!("cat > /{name}.deb"));
            let status = command.stdin(fs::File::open(path)?).status()?;
            ensure!(status.success(), "cannot bring {name} into the copy");
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

    /// Runs it in the copy and returns what it printed.
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
        // With the holder go its namespaces, and with them everything that is mounted there.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// A program in the copy; it ends with the value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
