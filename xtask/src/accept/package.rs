//! The Debian packages, installed, upgraded with data, run under the restrictions of the server's unit, removed and purged in
//! a copy of this system.
//!
//! The copy is an overlay over `/` in a mount and network namespace. It ends with the process that holds it, and so do
//! all changes.

use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::wait;
use crate::needs::Needs;
use crate::package::{self, Packages};
use crate::release::VERSION;
use crate::sh;

pub const NEEDS: Needs = Needs {
    root: true,
    packages: &[
        ("binutils", "readelf"),
        ("curl", "curl"),
        ("iproute2", "ip"),
        ("lintian", "lintian"),
        ("linux-libc-dev", "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
        ("python3", "/usr/bin/python3"),
        ("systemd", "systemd-analyze"),
        ("procps", "pgrep"),
        ("util-linux", "setpriv"),
    ],
    downloads: &[],
};

pub fn run() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let packages = package::build(&dir.path().join("first"))?;
    check_reproducible(&packages, dir.path())?;
    check_with_lintian(&packages)?;
    let copy = InstalledCopy::new()?;
    copy.copy_in(&packages)?;
    make_older(&copy)?;
    install(&copy)?;
    check_units(&copy)?;
    let server = start_server(&copy)?;
    use_programs(&copy)?;
    upgrade_with_systemd(&copy)?;
    drop(server);
    run_restricted(&copy)?;
    remove_and_purge(&copy)
}

const NAMES: [&str; 3] = ["forewarn", "forewarn-agent", "forewarn-host"];

fn check_reproducible(first: &Packages, dir: &Path) -> Result<()> {
    let second = package::build(&dir.join("second"))?;
    for (one, other) in first.paths().into_iter().zip(second.paths()) {
        ensure!(fs::read(one)? == fs::read(other)?, "{} differs when built again", one.display());
    }
    Ok(())
}

/// Warnings are errors, except those that are expected.
fn check_with_lintian(packages: &Packages) -> Result<()> {
    let paths = packages.paths().map(|path| path.to_str().context("path"));
    let paths = paths.into_iter().collect::<Result<Vec<&str>>>()?;
    let expected = EXPECTED.join(",");
    let arguments = ["--allow-root", "--fail-on", "error,warning", "--suppress-tags", &expected];
    sh::program("lintian").args(&arguments).args(&paths).run()
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

/// The version of the packages that are installed first.
const OLDER: &str = "0.0.9";

/// Makes packages of the same content with an older version, without compression, which takes most of the time.
fn make_older(copy: &InstalledCopy) -> Result<()> {
    for name in NAMES {
        let version =
            format!("s/^Version: .*/Version: {OLDER}/; s/^Depends: forewarn (= .*)/Depends: forewarn (= {OLDER})/");
        copy.sh(&format!(
            "mkdir /older && dpkg-deb --raw-extract /{name}.deb /older/{name} && sed -i '{version}' /older/{name}/DEBIAN/control &&
             dpkg-deb -Znone --build /older/{name} /{name}-older.deb && rm -r /older"
        ))?;
    }
    Ok(())
}

fn install(copy: &InstalledCopy) -> Result<()> {
    copy.sh("dpkg --install /forewarn-older.deb /forewarn-agent-older.deb /forewarn-host-older.deb")?;
    check_version(copy, OLDER)?;
    copy.expect("stat --format '%U %G %a' /var/lib/forewarn", "forewarn forewarn 700")?;
    copy.expect("getent passwd forewarn | cut -d: -f6,7", "/var/lib/forewarn:/usr/sbin/nologin")?;
    copy.expect("stat --format '%U %a' /etc/forewarn-agent/agent.toml", "root 600")?;
    copy.expect("dpkg --verify forewarn forewarn-agent forewarn-host", "")?;
    copy.expect("ls /etc/systemd/system/multi-user.target.wants | grep forewarn || true", "")
}

fn check_version(copy: &InstalledCopy, version: &str) -> Result<()> {
    let list = format!("dpkg-query --show --showformat '${{Version}} ' {}", NAMES.join(" "));
    copy.expect(&list, &[version; NAMES.len()].join(" "))
}

/// Where the packages install their units.
const UNITS: &str = "/usr/lib/systemd/system";

fn check_units(copy: &InstalledCopy) -> Result<()> {
    let units = NAMES.map(|name| format!("{UNITS}/{name}.service")).join(" ");
    let said = copy.sh(&format!("systemd-analyze verify --man=no {units} 2>&1"))?;
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("forewarn")).collect();
    ensure!(ours.is_empty(), "systemd-analyze: {ours:?}");
    check_server_unit()?;
    // Exposure levels of 2.0 and 3.0 at most, on systemd's scale from 0 to 10. The host agent runs as root and changes firewall
    // rules.
    for (name, level) in [("forewarn", 20), ("forewarn-host", 30)] {
        copy.sh(&format!("systemd-analyze security --offline=true --threshold={level} {UNITS}/{name}.service"))?;
    }
    Ok(())
}

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

/// Runs the server as its user, and returns when it answers.
fn start_server(copy: &InstalledCopy) -> Result<Running> {
    let as_user = "setpriv --reuid forewarn --regid forewarn --clear-groups --pdeathsig KILL --";
    let server = copy.spawn(&format!("exec {as_user} /usr/bin/forewarn serve --config /etc/forewarn/forewarn.toml"))?;
    wait::until("the installed server", || Ok(copy.sh("curl -sf http://127.0.0.1:8170/healthz").ok()))?;
    Ok(server)
}

/// Uses the command line, and runs the agent against the server.
fn use_programs(copy: &InstalledCopy) -> Result<()> {
    let machines = copy.sh("forewarn vm list --data /var/lib/forewarn")?;
    ensure!(!machines.trim().is_empty(), "the installed server has no machine");
    copy.sh("forewarn vm create kept --no-address --data /var/lib/forewarn")?;
    let refused = copy.sh("forewarn-agent --endpoint http://127.0.0.1:8169").map_err(|problem| problem.to_string());
    ensure!(refused.is_err_and(|text| text.contains("no hooks or actions")), "the agent runs without hooks");
    let agent = copy.spawn("exec setpriv --pdeathsig KILL -- /usr/bin/forewarn-agent --approve-without-hooks --endpoint http://127.0.0.1:8169 --metrics 127.0.0.1:9137")?;
    wait::until("the installed agent", || Ok(copy.sh("curl -sf http://127.0.0.1:9137/healthz").ok()))?;
    copy.expect("forewarn-agent status", "no events so far")?;
    drop(agent);
    Ok(())
}

/// Applies what the server's unit asks systemd for: a read-only system with its own devices and temporary files, one capability,
/// and, with `restrict.py`, the filter of system calls. `$1` is the unit, `$2` the user; a command follows.
const RESTRICT: &str = r#"set -e
unit=$1 user=$2
shift 2
mkdir -p /run/forewarn
chown "$user" /run/forewarn
for dir in /var/lib/forewarn /run/forewarn; do mount --bind $dir $dir; done
for dir in /tmp /var/tmp; do mount -t tmpfs tmpfs $dir; done
for dir in /root /home; do mount -t tmpfs -o mode=000 tmpfs $dir; done
mount -t tmpfs -o mode=755 tmpfs /dev
mknod -m 666 /dev/null c 1 3
mknod -m 666 /dev/random c 1 8
mknod -m 666 /dev/urandom c 1 9
mount -t proc -o hidepid=invisible proc /proc
mount -o remount,bind,ro /
! touch /etc/probe 2> /dev/null
umask 0077
ulimit -c 0
exec setpriv --reuid "$user" --regid "$user" --clear-groups --no-new-privs \
  --bounding-set -all,+net_bind_service --inh-caps -all,+net_bind_service --ambient-caps -all,+net_bind_service \
  --pdeathsig KILL -- python3 /restrict.py "$unit" "$@""#;

/// The upgraded server under the restrictions of its unit, with a listener on port 80, still has its data.
fn run_restricted(copy: &InstalledCopy) -> Result<()> {
    copy.write("/restrict.py", include_str!("restrict.py"))?;
    copy.write("/restrict.sh", RESTRICT)?;
    let restricted = format!("unshare --mount sh /restrict.sh {UNITS}/forewarn.service forewarn");
    for refused in [
        "chrt --idle 0 true",
        "python3 -c 'import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)'",
        "touch /var/lib/forewarn-host",
        "ls /root",
    ] {
        ensure!(
            copy.sh(&format!("{restricted} true && ! {restricted} {refused}")).is_ok(),
            "the restrictions allow {refused}"
        );
    }
    let serve = "/usr/bin/forewarn serve --config /etc/forewarn/forewarn.toml --metadata 127.0.0.1:80 \
                 --metadata unix:/run/forewarn/guest.sock,group=forewarn";
    let server = copy.spawn(&format!("exec {restricted} {serve}"))?;
    wait::until("the restricted server", || Ok(copy.sh("curl -sf http://127.0.0.1:8170/healthz").ok()))?;
    let status =
        copy.sh("grep -E '^(Seccomp|NoNewPrivs|CapEff|CapBnd):' /proc/$(pgrep -xu forewarn forewarn)/status")?;
    let status = status.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = "CapEff: 0000000000000400 CapBnd: 0000000000000400 NoNewPrivs: 1 Seccomp: 2";
    ensure!(status == expected, "the server runs with {status}");
    copy.sh("curl -sf -H Metadata:true 'http://127.0.0.1:80/metadata/versions'")?;
    copy.expect("forewarn vm show kept --data /var/lib/forewarn --output tsv | cut -f1", "kept")?;
    copy.sh("forewarn vm create new --no-address --data /var/lib/forewarn")?;
    drop(server);
    Ok(())
}

/// Installs the current packages while the server runs. `systemctl` is a stand-in that records its arguments.
fn upgrade_with_systemd(copy: &InstalledCopy) -> Result<()> {
    copy.sh("mkdir -p /run/systemd/system && echo '# mine' >> /etc/forewarn-agent/agent.toml")?;
    copy.sh("printf '#!/bin/sh\\necho \"$@\" >> /systemctl.log\\n' > /usr/local/sbin/systemctl")?;
    copy.sh(
        "chmod +x /usr/local/sbin/systemctl && dpkg --install /forewarn.deb /forewarn-agent.deb /forewarn-host.deb",
    )?;
    check_version(copy, VERSION)?;
    let restarts = NAMES.map(|name| format!("try-restart {name}.service"));
    expect_systemctl(copy, &restarts)?;
    copy.expect("tail -n 1 /etc/forewarn-agent/agent.toml", "# mine")
}

fn expect_systemctl(copy: &InstalledCopy, lines: &[String]) -> Result<()> {
    let told = copy.sh("cat /systemctl.log")?;
    for line in lines.iter().map(String::as_str).chain(["daemon-reload"]) {
        ensure!(told.lines().any(|found| found == line), "systemctl was not called with {line}: {told}");
    }
    Ok(())
}

fn remove_and_purge(copy: &InstalledCopy) -> Result<()> {
    let names = NAMES.join(" ");
    copy.sh(&format!("rm /systemctl.log; dpkg --remove {names}"))?;
    expect_systemctl(copy, &NAMES.map(|name| format!("disable --now {name}.service")))?;
    copy.expect("tail -n 1 /etc/forewarn-agent/agent.toml; ls /usr/bin | grep ^forewarn || true", "# mine")?;
    copy.sh(
        "test -d /var/lib/forewarn && mkdir -p /var/lib/forewarn-host && touch /var/lib/forewarn-host/identity.json",
    )?;
    copy.sh(&format!("dpkg --purge {names}"))?;
    let left = "ls -d /etc/forewarn* /var/lib/forewarn* /usr/share/doc/forewarn* /usr/lib/systemd/system/forewarn* 2>/dev/null";
    copy.expect(&format!("{left} || true"), "")
}

/// A copy of this system.
struct InstalledCopy {
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

impl InstalledCopy {
    fn new() -> Result<InstalledCopy> {
        let dir = tempfile::tempdir()?;
        let mut command = Command::new("unshare");
        command.args(["--mount", "--net", "sh", "-c", HOLD, "sh"]).arg(dir.path());
        let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot run unshare")?;
        let stdout = holder.stdout.take().context("the holder has no output")?;
        let copy = InstalledCopy { holder, dir };
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        ensure!(line == "ready\n", "cannot create a copy of this system; this needs root and overlayfs");
        Ok(copy)
    }

    fn copy_in(&self, packages: &Packages) -> Result<()> {
        for (path, name) in packages.paths().into_iter().zip(NAMES) {
            let mut command = self.command(&format!("cat > /{name}.deb"));
            let status = command.stdin(fs::File::open(path)?).status()?;
            ensure!(status.success(), "cannot copy {name} into the copy");
        }
        Ok(())
    }

    /// Writes a file into the copy.
    fn write(&self, path: &str, text: &str) -> Result<()> {
        let mut child = self.command(&format!("cat > {path}")).stdin(Stdio::piped()).spawn().context("nsenter")?;
        child.stdin.take().context("nsenter has no input")?.write_all(text.as_bytes())?;
        ensure!(child.wait()?.success(), "cannot write {path} into the copy");
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

impl Drop for InstalledCopy {
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
