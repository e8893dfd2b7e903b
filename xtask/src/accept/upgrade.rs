//! A rolling upgrade of a cluster from an older commit, which is built in a work tree of its own. It takes several minutes of CPU
//! time, so it is not one of the acceptance runs of `cargo xtask test`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::cluster::{ETCD, NEEDS};
use crate::sh;
use crate::test_programs;

/// Runs the tests `upgrade::` of the command line with servers of this commit.
pub fn run(revision: &str) -> Result<()> {
    NEEDS.meet()?;
    let tree = tempfile::Builder::new().prefix("forewarn-upgrade-").tempdir()?;
    let path = tree.path().to_str().context("the path is not UTF-8")?;
    sh::program("git").args(&["worktree", "add", "--detach", "--force", path, revision]).run()?;
    let built = build(tree.path());
    sh::program("git").args(&["worktree", "remove", "--force", path]).run()?;
    let old = built.with_context(|| format!("cannot build {revision}"))?;
    let path = format!("{}:{}", ETCD.path()?.join("usr/bin").display(), std::env::var("PATH")?);
    test_programs::run_only(test_programs::UPGRADE, &[("PATH", path.as_ref()), ("XTASK_OLD_FOREWARN", old.as_os_str())])
}

/// Builds the servers in this work tree. The target directory is one of its own: in a shared one, Cargo would take the crates of one
/// commit for those of the other.
fn build(tree: &Path) -> Result<PathBuf> {
    let target = sh::target().join("upgrade");
    let mut cargo = sh::cargo(&["build", "--package", "forewarn-cli", "--bin", "forewarn"]).within(tree);
    cargo.env("CARGO_TARGET_DIR", &target).run()?;
    Ok(target.join("debug/forewarn"))
}
