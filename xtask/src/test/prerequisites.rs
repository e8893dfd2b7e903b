//! Prerequisites of the tests: checked before anything runs, and installed if possible.

use anyhow::{Result, bail};

use crate::accept::RUNS;
use crate::bench;
use crate::machine::{self, Package};
use crate::needs::Unavailable;
use crate::setup::{self, Download};

/// Packages that `cargo test` needs to run every test. Without them, the tests concerned are skipped one by one.
const PACKAGES: &[Package] = &[
    ("bash", "bash"),
    ("build-essential", "cc"),
    ("curl", "curl"),
    ("fish", "fish"),
    ("git", "git"),
    ("iproute2", "ip"),
    ("kubernetes-client", "kubectl"),
    ("openssl", "openssl"),
    ("python3", "/usr/bin/python3"),
    ("util-linux", "unshare"),
];

/// Explains missing prerequisites and how to get them; none if nothing is missing or `install` can install it.
pub fn message() -> Option<String> {
    let mut lines = Vec::new();
    let missing = missing_packages();
    if !missing.is_empty() && !machine::can_install_packages() {
        lines.push(format!("  Missing Debian packages. Install them:\n    sudo apt-get install {}", missing.join(" ")));
    }
    if !machine::is_root() {
        let names: Vec<&str> = RUNS.iter().filter(|run| run.needs.root).map(|run| run.name).collect();
        lines.push(format!(
            "  Not root. Acceptance runs in network namespaces need root ({}):\n    sudo --preserve-env=HOME env \"PATH=$PATH\" cargo xtask test",
            names.join(", ")
        ));
    } else if !machine::has_network_namespaces() {
        lines.push(
            "  This system does not allow network namespaces. Use a virtual machine or a privileged container.".into(),
        );
    }
    if lines.is_empty() {
        return None;
    }
    lines.insert(0, "Some parts of the tests cannot run on this machine and will be skipped:".into());
    lines.push("  The part that needs none of this:\n    cargo test --workspace".into());
    Some(lines.join("\n"))
}

/// Installs packages and downloads, each once. Names everything that it could not install.
pub fn install() -> Result<()> {
    let mut problems = Vec::new();
    let missing = missing_packages();
    if !missing.is_empty() && machine::can_install_packages() {
        problems.extend(setup::install(&missing).err());
    } else if !missing.is_empty() {
        problems.push(anyhow::anyhow!("not installed: {}", missing.join(" ")));
    }
    for download in downloads() {
        problems.extend(download.path().err());
    }
    if !problems.is_empty() {
        let problems: Vec<String> = problems.iter().map(|problem| format!("{problem:#}")).collect();
        bail!(Unavailable(problems.join("; ")));
    }
    Ok(())
}

fn missing_packages() -> Vec<&'static str> {
    let mut missing = machine::missing(PACKAGES);
    missing.extend(RUNS.iter().flat_map(|run| machine::missing(run.needs.packages)));
    missing.extend(machine::missing(bench::NEEDS.packages));
    if !machine::has_python_venv() {
        missing.push("python3-venv");
    }
    missing.sort_unstable();
    missing.dedup();
    missing
}

fn downloads() -> Vec<Download> {
    let mut downloads: Vec<Download> = Vec::new();
    for download in RUNS.iter().flat_map(|run| run.needs.downloads) {
        if !downloads.contains(download) {
            downloads.push(*download);
        }
    }
    downloads
}
