//! Requirements of single tests, and how a test is skipped when the machine does not meet them.
//!
//! The test harness of Rust has no skipped state. A test that cannot run therefore prints a line that starts with
//! [`SKIPPED`] past the harness's output capture and passes. `cargo xtask test` counts these lines. With `CI=true` or
//! `XTASK_STRICT=1` the test fails instead.

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Start of the line that a skipped test prints. `cargo xtask test` looks for the same text.
pub const SKIPPED: &str = "skipped test ";

/// Whether an acceptance run performs all of its cases (`XTASK_LONG=1`), not only a selection.
pub fn is_long() -> bool {
    std::env::var("XTASK_LONG").is_ok_and(|value| value == "1")
}

/// A requirement that not every machine meets.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// A program, by its name in `PATH` or by its full path.
    Program(&'static str),
    /// Network namespaces for users without privileges.
    NetworkNamespaces,
    Root,
    /// A variable that an acceptance run sets.
    Variable(&'static str),
}

/// Whether the machine meets all needs. If not, the running test is reported as skipped and must return.
///
/// # Panics
///
/// If a need is not met and skips are not allowed.
#[must_use]
#[track_caller]
pub fn can_run(needs: &[Need]) -> bool {
    let missing: Vec<String> = needs.iter().filter_map(Need::missing).collect();
    if missing.is_empty() {
        return true;
    }
    let thread = std::thread::current();
    let line = format!("{SKIPPED}{}: {}", thread.name().unwrap_or("?"), missing.join(", "));
    // Tests of an acceptance run belong to that run, and are missing from no other one.
    let is_elsewhere = needs.iter().any(|need| matches!(need, Need::Variable(_)) && need.missing().is_some());
    assert!(is_elsewhere || !is_strict(), "{line}");
    // Not `eprintln!`, which the harness captures.
    writeln!(std::io::stderr(), "{line}").expect("standard error can be written");
    false
}

fn is_strict() -> bool {
    let is_set = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    is_set("CI", "true") || is_set("XTASK_STRICT", "1")
}

impl Need {
    /// The reason why this need is not met, if it is not.
    fn missing(&self) -> Option<String> {
        match self {
            Need::Program(name) => (!is_installed(name)).then(|| format!("{name} is not installed")),
            Need::Variable(name) => std::env::var_os(name).is_none().then(|| format!("{name} is not set")),
            Need::Root => (!is_root()).then(|| "root is required".into()),
            Need::NetworkNamespaces => {
                (!can_unshare()).then(|| "users cannot create network namespaces on this system".into())
            }
        }
    }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    Path::new(program).is_absolute() && Path::new(program).exists()
        || std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Tried as a user without privileges, also when root runs the tests.
fn can_unshare() -> bool {
    let unshare = ["unshare", "--user", "--map-root-user", "--net", "true"];
    let as_nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"];
    let succeeds = |words: &[&str]| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    succeeds(&unshare) && (!is_root() || succeeds(&[&as_nobody[..], &unshare].concat()))
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_programs_are_named() {
        assert!(can_run(&[Need::Program("sh"), Need::Program("/bin/sh")]));
        for name in ["no-such-program", "/no/such/program"] {
            assert_eq!(Need::Program(name).missing(), Some(format!("{name} is not installed")));
        }
    }
}
