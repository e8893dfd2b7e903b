//! The files of a release: complete, reproducible, installable by the script, valid for Kubernetes; the static program in
//! an empty root directory; and the container image.

mod image;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::netns::Namespace;
use super::wait;
use crate::needs::Needs;
use crate::path_map::PathMap;
use crate::release::{self, Contents, SUMS, VERSION};
use crate::setup::Download;
use crate::sh;

const SCHEMAS: Download = Download::Python(&["kubernetes-validate==1.37.0", "PyYAML==6.0.3"]);

pub const NEEDS: Needs = Needs {
    root: true,
    packages: &[
        ("binutils", "readelf"),
        ("ca-certificates", "/etc/ssl/certs/ca-certificates.crt"),
        ("curl", "curl"),
        ("iproute2", "ip"),
        ("podman", "podman"),
        ("python3", "/usr/bin/python3"),
        ("runc", "runc"),
        ("util-linux", "unshare"),
    ],
    downloads: &[SCHEMAS],
};

pub fn run() -> Result<()> {
    let dir = tempfile::tempdir()?;
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))?;
    let dist = dir.path().join("dist");
    release::assemble(&dist, Contents::All)?;
    check_sums(&dist)?;
    check_reproducible(&dist, &dir.path().join("again"))?;
    check_independence(&dist)?;
    check_installation(&dist, &dir.path().join("prefix"))?;
    check_printed_installation(&dist)?;
    check_tampering(&dist, dir.path())?;
    check_manifests(&dist)?;
    serve_from_empty_root(&dist, &dir.path().join("root"))?;
    image::run(&dist.join(format!("forewarn-{VERSION}-image.tar")))
}

fn names(dist: &Path) -> Result<Vec<String>> {
    let names = fs::read_dir(dist)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<Result<Vec<String>>>()?;
    names.sort();
    Ok(names)
}

fn check_sums(dist: &Path) -> Result<()> {
    let checked = sh::program("sha256sum").within(dist).args(&["--check", "--strict", SUMS]).read()?;
    let count = names(dist)?.len() - 1;
    ensure!(checked.lines().count() == count, "{SUMS} does not list all {count} files: {checked}");
    Ok(())
}

/// The acceptance run `package` compares the Debian packages.
fn check_reproducible(dist: &Path, again: &Path) -> Result<()> {
    release::assemble(again, Contents::WithoutPackages)?;
    for name in names(again)?.iter().filter(|name| *name != SUMS) {
        ensure!(fs::read(dist.join(name))? == fs::read(again.join(name))?, "{name} differs when built again");
    }
    Ok(())
}

/// The programs contain no directory in which two builders differ.
fn check_independence(dist: &Path) -> Result<()> {
    let map = PathMap::of_this_machine()?;
    let home = std::env::home_dir().context("no home directory")?;
    let dirs: Vec<&str> = map.directories().chain([text(&home)?]).collect();
    for name in ["forewarn-x86_64-linux", "forewarn-agent-x86_64-linux"] {
        let bytes = fs::read(dist.join(name))?;
        for dir in &dirs {
            let path = format!("{}/", dir.trim_end_matches('/'));
            let place = bytes.windows(path.len()).position(|window| window == path.as_bytes());
            if let Some(place) = place {
                let end = bytes.len().min(place + 120);
                let found = String::from_utf8_lossy(&bytes[place..end]);
                bail!("{name} contains {found:?}, so a builder with other directories would get another program");
            }
        }
    }
    Ok(())
}

/// Installs both tarballs without root and without a network, and uses what they contain.
fn check_installation(dist: &Path, prefix: &Path) -> Result<()> {
    for more in [&[][..], &["--agent"]] {
        let said = install(dist, prefix, more)?;
        ensure!(said.contains("Installed"), "install.sh printed {said}");
    }
    for program in ["forewarn", "forewarn-agent"] {
        let version = sh::program(text(&prefix.join("bin").join(program))?).args(&["--version"]).read()?;
        ensure!(version.trim() == format!("{program} {VERSION}"), "{program} --version: {version}");
    }
    for file in [
        "share/bash-completion/completions/forewarn",
        "share/zsh/site-functions/_forewarn",
        "share/fish/vendor_completions.d/forewarn.fish",
        "share/man/man1/forewarn.1",
        "share/man/man1/forewarn-vm-restart.1",
        "share/man/man8/forewarn-agent.8",
        "share/doc/forewarn/LICENSE-MIT",
    ] {
        ensure!(prefix.join(file).exists(), "{file} was not installed");
    }
    check_upgrade(dist, prefix)
}

/// Installs over a program that is running.
fn check_upgrade(dist: &Path, prefix: &Path) -> Result<()> {
    let mut server = Command::new(prefix.join("bin/forewarn"));
    server.args(["serve", "--memory", "--no-auth", "--metadata", "127.0.0.1:0", "--management", "127.0.0.1:0"]);
    server.args(["--management-tls", "off"]).stdin(Stdio::null()).stdout(Stdio::null());
    let mut server = server.spawn().context("cannot run the installed program")?;
    let installed = install(dist, prefix, &[]);
    let _ = server.kill();
    server.wait()?;
    installed.map(drop).context("install.sh cannot replace a running program")
}

/// The user of the installation as the README prints it. Root would install to `/usr/local`.
const USER: &str = "65534";

/// Installs as a user does: in the directory of the release, and with a script that knows where its release is.
fn check_printed_installation(dist: &Path) -> Result<()> {
    let line = "sh install.sh --from .";
    let readme = fs::read_to_string(sh::root().join("README.md"))?;
    ensure!(readme.lines().any(|found| found.starts_with(line)), "README.md does not print `{line}`");
    install_as_user(dist, line)?;
    let published = tempfile::tempdir()?;
    fs::write(published.path().join("install.sh"), release::install_script(&format!("file://{}", dist.display()))?)?;
    install_as_user(published.path(), "sh install.sh")
}

fn install_as_user(dir: &Path, line: &str) -> Result<()> {
    let home = tempfile::tempdir()?;
    std::os::unix::fs::chown(home.path(), Some(USER.parse()?), Some(USER.parse()?))?;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755))?;
    let user = ["--reuid", USER, "--regid", USER, "--clear-groups", "sh", "-c", line];
    let said = sh::program("setpriv").args(&user).within(dir).env("HOME", home.path()).read()?;
    let bin = home.path().join(".local/bin");
    ensure!(said.contains(&format!("export PATH=\"{}:", bin.display())), "{line} printed {said}");
    let version = sh::program(text(&bin.join("forewarn"))?).args(&["--version"]).read()?;
    ensure!(version.trim() == format!("forewarn {VERSION}"), "{line} installed {version}");
    Ok(())
}

fn install(dist: &Path, prefix: &Path, more: &[&str]) -> Result<String> {
    let script = dist.join("install.sh");
    let from = format!("file://{}", dist.display());
    let arguments = [text(&script)?, "--from", &from, "--prefix", text(prefix)?];
    sh::program("sh").args(&arguments).args(more).read()
}

/// A tarball that was changed after the release is refused, and nothing is installed.
fn check_tampering(dist: &Path, dir: &Path) -> Result<()> {
    let (copy, prefix) = (dir.join("tampered"), dir.join("tampered-prefix"));
    fs::create_dir(&copy)?;
    let tarball = format!("forewarn-{VERSION}-x86_64-linux.tar.gz");
    for name in [SUMS, "install.sh", &tarball] {
        fs::copy(dist.join(name), copy.join(name))?;
    }
    let mut bytes = fs::read(copy.join(&tarball))?;
    *bytes.last_mut().context("the tarball is empty")? ^= 1;
    fs::write(copy.join(&tarball), bytes)?;
    let refused = install(&copy, &prefix, &[]).err().map(|problem| format!("{problem:#}"));
    let message = refused.context("install.sh installed a tarball with a wrong checksum")?;
    ensure!(message.contains("checksum"), "install.sh failed for another reason: {message}");
    ensure!(!prefix.exists(), "install.sh left files after it refused a tarball");
    Ok(())
}

fn check_manifests(dist: &Path) -> Result<()> {
    let python = SCHEMAS.path()?.join("bin/python");
    let script = sh::root().join("xtask/src/accept/release/validate.py");
    let files = ["kubernetes-server.yaml", "kubernetes-agent.yaml"].map(|name| dist.join(name));
    let count = sh::program(text(&python)?).args(&[text(&script)?, text(&files[0])?, text(&files[1])?]).read()?;
    ensure!(count.trim() == "9", "the manifests have {count} objects, not 9");
    for file in &files {
        let image = fs::read_to_string(file)?;
        ensure!(image.contains(&format!(":{VERSION}\n")), "{} names another version", file.display());
    }
    Ok(())
}

/// The static program in a root directory that contains nothing else, not even devices.
fn serve_from_empty_root(dist: &Path, root: &Path) -> Result<()> {
    fs::create_dir_all(root.join("data"))?;
    fs::copy(dist.join("forewarn-x86_64-linux"), root.join("forewarn"))?;
    let namespace = Namespace::new("empty-root")?;
    let inside = |arguments: &[&str]| {
        let mut command: Command = namespace.command("setpriv");
        command.args(["--pdeathsig", "KILL", "--", "chroot"]).arg(root).arg("/forewarn").args(arguments);
        command.env("FOREWARN_DATA", "/data").stdin(Stdio::null());
        command
    };
    let mut server = inside(&["serve"]).stdout(Stdio::null()).spawn().context("cannot run setpriv")?;
    let health = || Ok(inside(&["health"]).output()?.status.success().then_some(()));
    let healthy = wait::until("the server in an empty root", health);
    let listed = inside(&["vm", "list"]).output()?;
    let _ = server.kill();
    server.wait()?;
    healthy?;
    ensure!(listed.status.success(), "vm list: {}", String::from_utf8_lossy(&listed.stderr));
    Ok(())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("the path is not UTF-8")
}
