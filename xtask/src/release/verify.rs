//! `cargo xtask release --verify`: rebuilds the last commit in another checkout with a separate `CARGO_HOME`, and compares the
//! checksums with those in `target/dist`. It takes as long as a release, and downloads all dependencies.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::{SUMS, default_out};
use crate::path_map::cargo_home;
use crate::sh;

pub fn run() -> Result<()> {
    let changes = sh::program("git").args(&["status", "--porcelain"]).read()?;
    ensure!(changes.is_empty(), "the work tree has changes; commit them and run `cargo xtask release` again");
    let sums = default_out().join(SUMS);
    let first = fs::read_to_string(sums).context("there is no release to verify; run `cargo xtask release` first")?;
    let dir = tempfile::Builder::new().prefix("forewarn-verify-").tempdir()?;
    let second = build(dir.path())?;
    let differences = compare(&first, &second);
    if differences.is_empty() {
        println!("all {} files are identical", first.lines().count());
        return Ok(());
    }
    let kept = dir.keep();
    bail!("these files differ: {}; the second build is in {}", differences.join(", "), kept.display())
}

/// Builds a release below `dir` and returns its checksums.
fn build(dir: &Path) -> Result<String> {
    let (checkout, home, out) = (dir.join("a/second/checkout"), dir.join("cargo-home"), dir.join("dist"));
    let text = |path: &Path| path.to_str().map(str::to_owned).context("the path is not UTF-8");
    sh::program("git").args(&["clone", "--quiet", &text(&sh::root())?, &text(&checkout)?]).run()?;
    fs::create_dir(&home)?;
    // It may name a mirror of the registry.
    let config = cargo_home()?.join("config.toml");
    if config.exists() {
        fs::copy(config, home.join("config.toml"))?;
    }
    let mut release = sh::cargo(&["xtask", "release", "--out", &text(&out)?]).within(&checkout);
    release.env("CARGO_HOME", &home).env("CARGO_TARGET_DIR", checkout.join("target")).run()?;
    fs::read_to_string(out.join(SUMS)).context(SUMS)
}

/// Names of files that are in only one list or whose checksums differ.
fn compare<'a>(first: &'a str, second: &'a str) -> Vec<&'a str> {
    let lines = |from: &'a str, other: &'a str| from.lines().filter(|line| !other.lines().any(|found| found == *line));
    let mut names: Vec<&str> = lines(first, second).chain(lines(second, first)).filter_map(file_name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn file_name(line: &str) -> Option<&str> {
    line.split_once("  ").map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_missing_and_added_files_are_differences() {
        let first = "1  same\n2  changed\n3  missing\n";
        assert_eq!(compare(first, "1  same\n4  changed\n5  added\n"), ["added", "changed", "missing"]);
        assert!(compare(first, first).is_empty());
    }
}
