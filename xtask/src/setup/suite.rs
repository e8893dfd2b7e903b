//! Packages of another Debian suite, from the mirror that this machine's apt uses, with a private configuration of apt. Nothing
//! is installed, and the machine's own configuration does not change.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::extract_all;
use crate::sh;

/// The keys of all suites, in the package `debian-archive-keyring`.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Downloads packages of a suite and extracts them in a directory.
pub fn unpack(suite: &str, packages: &[&str], dir: &Path) -> Result<()> {
    let private = tempfile::Builder::new().prefix("forewarn-apt-").tempdir()?;
    let config = configure(suite, &find_mirror()?, private.path())?;
    let config = config.to_str().context("path")?;
    sh::program("apt-get").args(&["update", "-qq"]).env("APT_CONFIG", config).run()?;
    let mut download = sh::program("apt-get").args(&["download", "-qq"]).args(packages).within(dir);
    download.env("APT_CONFIG", config).run()?;
    extract_all(dir)
}

/// The mirror of Debian in the machine's own configuration.
fn find_mirror() -> Result<String> {
    if let Some(mirror) = configured_mirror()? {
        return Ok(mirror);
    }
    // Without lists, apt does not know which of its sources is Debian.
    sh::program("apt-get").args(&["update", "-qq"]).run()?;
    configured_mirror()?.context("apt has no source of Debian packages")
}

fn configured_mirror() -> Result<Option<String>> {
    let filters = ["Created-By: Packages", "Origin: Debian", "Label: Debian"];
    let list = ["indextargets", "--format", "$(REPO_URI)"];
    let output = Command::new("apt-get").args(list).args(filters).output().context("cannot run apt-get")?;
    ensure!(output.status.success(), "apt-get indextargets: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.lines().next().map(str::to_owned))
}

/// Writes a configuration that knows only this suite, and keeps its lists in this directory.
fn configure(suite: &str, mirror: &str, private: &Path) -> Result<std::path::PathBuf> {
    for dir in ["lists/partial", "cache/archives/partial", "sources"] {
        fs::create_dir_all(private.join(dir))?;
    }
    let source = format!("Types: deb\nURIs: {mirror}\nSuites: {suite}\nComponents: main\nSigned-By: {KEYRING}\n");
    fs::write(private.join("sources/suite.sources"), source)?;
    let path = private.display();
    let lines = [
        "Dir::Etc::SourceList \"/dev/null\";".to_owned(),
        format!("Dir::Etc::SourceParts \"{path}/sources\";"),
        format!("Dir::State::Lists \"{path}/lists\";"),
        format!("Dir::Cache \"{path}/cache\";"),
        // The unprivileged user of apt cannot write to these directories.
        "APT::Sandbox::User \"root\";".to_owned(),
    ];
    let config = private.join("apt.conf");
    fs::write(&config, lines.join("\n"))?;
    Ok(config)
}
