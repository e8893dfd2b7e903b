//! The programs for acceptance runs, and the test programs of the workspace: built once by cargo, then run by hand. They share
//! all libraries, because they have the same profile, flags, compiler and features.
//!
//! Run by hand, because the waiting lane runs two groups of tests while cargo is busy in the other lane and holds its
//! lock, and because `cargo test --package` would build dependencies again with other features.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::compiler;
use crate::path_map::{self, PathMap};
use crate::sh;

/// Names the file with the list of test programs, once they are built. Without the prefix `FOREWARN_`: servers warn about
/// unknown variables with that prefix.
pub const LIST: &str = "XTASK_TEST_PROGRAMS";

/// Tests that run apart from the others: a module of the integration tests of a package.
#[derive(Clone, Copy)]
pub struct Group {
    package: &'static str,
    module: &'static str,
}

/// These mostly wait: for servers to start, and to start again.
pub const KILL: Group = Group { package: "forewarn-cli", module: "kill::" };

/// These need programs that are not installed everywhere, so they belong to an acceptance run.
pub const AGENT_ACTIONS: Group = Group { package: "forewarn-agent", module: "actions::" };

/// These need two hosts with libvirtd and QEMU, which the acceptance run provides.
pub const LIBVIRT_CLIENT: Group = Group { package: "forewarn-libvirt", module: "hosts::" };
pub const LIBVIRT_DRIVER: Group = Group { package: "forewarn-drivers", module: "hosts::" };
pub const LIBVIRT_SERVER: Group = Group { package: "forewarn-cli", module: "machines::" };
pub const LIBVIRT_AGENT: Group = Group { package: "forewarn-cli", module: "host_agent::" };

/// These need QEMU and a network for guests, which the acceptance run provides.
pub const QEMU_DRIVER: Group = Group { package: "forewarn-drivers", module: "qemu_guests::" };
pub const QEMU_SERVER: Group = Group { package: "forewarn-cli", module: "qemu_guests::" };

/// These need etcd, which is downloaded for them.
pub const CLUSTER: Group = Group { package: "forewarn-cluster", module: "etcd::" };

/// Three servers on etcd.
pub const CLUSTER_SERVERS: Group = Group { package: "forewarn-cli", module: "cluster::" };

/// These need an older version of the servers, which `cargo xtask upgrade` builds.
pub const UPGRADE: Group = Group { package: "forewarn-cli", module: "upgrade::" };

const GROUPS: [Group; 11] = [
    KILL,
    AGENT_ACTIONS,
    LIBVIRT_CLIENT,
    LIBVIRT_DRIVER,
    LIBVIRT_SERVER,
    LIBVIRT_AGENT,
    QEMU_DRIVER,
    QEMU_SERVER,
    CLUSTER,
    CLUSTER_SERVERS,
    UPGRADE,
];

/// A test program, and the package it belongs to.
pub struct Program {
    package: String,
    target: String,
    /// Tests run in the directory of their package, as cargo does it.
    dir: PathBuf,
    executable: PathBuf,
}

/// Where `cargo xtask test` keeps the list.
pub fn list_path() -> PathBuf {
    sh::target().join("xtask/test-programs")
}

/// Integration tests that only need the program of their package. Building them builds both programs, with the features that
/// they have beside all other tests.
const PROGRAM_TESTS: &str = "programs";

/// Cargo with clippy as the compiler of the workspace, which rejects warnings. `cargo clippy` would check every crate and
/// every dependency a second time. Plain cargo would compile the workspace a second time after this. The flags are those of a
/// release.
pub fn linting_cargo(arguments: &[&str]) -> Result<sh::Sh> {
    sh::program(compiler::LINTER)
        .args(&["--version"])
        .read()
        .context("install clippy with `rustup component add clippy`")?;
    let mut cargo = sh::cargo(arguments).args(&["--profile", sh::ACCEPT_PROFILE]);
    cargo.env("RUSTC_WORKSPACE_WRAPPER", std::env::current_exe()?).env(compiler::VARIABLE, "1");
    // The way in which `cargo clippy` passes its arguments on.
    cargo.env("CLIPPY_ARGS", "--deny__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
    PathMap::of_this_machine()?.set_flags(&mut cargo);
    Ok(cargo)
}

/// Builds the programs for acceptance runs.
pub fn build_programs() -> Result<()> {
    path_map::fetch()?;
    linting_cargo(&["test", "--locked", "--workspace", "--no-run", "--test", PROGRAM_TESTS])?.run()
}

/// Builds all test programs, with lints, and writes their list.
pub fn build() -> Result<Vec<Program>> {
    let build = ["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"];
    let messages = linting_cargo(&build)?.read_stdout()?;
    let programs: Vec<Program> = messages.lines().filter_map(program).collect();
    ensure!(!programs.is_empty(), "cargo built no test programs");
    let lines = programs.iter().map(|program| {
        let Program { package, target, dir, executable } = program;
        format!("{package}\t{target}\t{}\t{}\n", dir.display(), executable.display())
    });
    std::fs::create_dir_all(list_path().parent().context("a file has a directory")?)?;
    std::fs::write(list_path(), lines.collect::<String>())?;
    Ok(programs)
}

/// The test program in a message of cargo, if it is about one.
fn program(line: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(line).ok()?;
    let executable = message["executable"].as_str().filter(|_| message["profile"]["test"] == true)?;
    let dir = Path::new(message["manifest_path"].as_str()?).parent()?;
    let package = message["package_id"].as_str()?;
    // `path+file:///…/crates/cli#forewarn-cli@0.1.0`, or `…/xtask#0.1.0` where directory and package have one name.
    let package = match package.rsplit_once('#')?.1.split_once('@') {
        Some((name, _version)) => name,
        None => dir.file_name()?.to_str()?,
    };
    Some(Program {
        package: package.to_owned(),
        target: message["target"]["name"].as_str()?.to_owned(),
        dir: dir.to_owned(),
        executable: executable.into(),
    })
}

/// The list that `cargo xtask test` wrote, or else builds the programs now.
fn programs() -> Result<Vec<Program>> {
    let Some(list) = std::env::var_os(LIST) else { return build() };
    let text = std::fs::read_to_string(&list).with_context(|| format!("cannot read {}", list.display()))?;
    let parse = |line: &str| match line.split('\t').collect::<Vec<_>>().as_slice() {
        [package, target, dir, executable] => Ok(Program {
            package: (*package).to_owned(),
            target: (*target).to_owned(),
            dir: dir.into(),
            executable: executable.into(),
        }),
        _ => bail!("{} has an invalid line: {line}", list.display()),
    };
    text.lines().map(parse).collect()
}

/// All tests except the groups above, and the examples in the documentation.
pub fn run_all() -> Result<()> {
    let mut failed = Vec::new();
    for program in programs()? {
        let skips: Vec<&str> = GROUPS.iter().filter(|group| program.has(group)).map(|group| group.module).collect();
        let skips: Vec<&str> = skips.into_iter().flat_map(|module| ["--skip", module]).collect();
        if let Err(problem) = program.run(&skips, &[]) {
            failed.push(format!("{problem:#}"));
        }
    }
    let examples = linting_cargo(&["test", "--workspace", "--doc"]).and_then(|mut cargo| cargo.run());
    failed.extend(examples.err().map(|problem| format!("{problem:#}")));
    ensure!(failed.is_empty(), "{}", failed.join("; "));
    Ok(())
}

/// Only the tests of a group, with these variables.
pub fn run_only(group: Group, variables: &[(&str, &OsStr)]) -> Result<()> {
    let programs = programs()?;
    let program = programs.iter().find(|program| program.has(&group));
    let program = program.with_context(|| format!("{} has no integration tests", group.package))?;
    let list = sh::program(program.path()?).args(&["--list", group.module]).read()?;
    ensure!(list.contains(": test"), "{} has no tests in {}", group.package, group.module);
    program.run(&[group.module, "--show-output"], variables)
}

impl Program {
    fn has(&self, group: &Group) -> bool {
        self.package == group.package && self.target == "it"
    }

    fn path(&self) -> Result<&str> {
        self.executable.to_str().context("the path of a test program is not UTF-8")
    }

    fn run(&self, arguments: &[&str], variables: &[(&str, &OsStr)]) -> Result<()> {
        let name = format!("{} {}", self.package, self.target);
        let started = Instant::now();
        eprintln!("── {name}");
        let mut command = sh::program(self.path()?).args(arguments).within(&self.dir);
        command.env("RUST_TEST_THREADS", threads());
        for (name, value) in variables {
            command.env(name, value);
        }
        command.run_silently().with_context(|| format!("tests of {name}"))?;
        eprintln!("   {name}: {:.1} s", started.elapsed().as_secs_f32());
        Ok(())
    }
}

/// Twice the number of cores: many tests wait for other processes.
fn threads() -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (2 * cores).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_found_in_the_messages_of_cargo() {
        let message = |id: &str, test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"{id}","manifest_path":"/w/crates/cli/Cargo.toml",
                "target":{{"name":"it"}},"profile":{{"test":{test}}},"executable":"/t/it-1"}}"#
            )
        };
        let found = program(&message("path+file:///w/crates/cli#forewarn-cli@0.1.0", true)).expect("a test program");
        assert_eq!((found.package.as_str(), found.target.as_str()), ("forewarn-cli", "it"));
        assert_eq!(found.dir, Path::new("/w/crates/cli"));
        let same_name = program(&message("path+file:///w/crates/cli#0.1.0", true)).expect("a test program");
        assert_eq!(same_name.package, "cli");
        assert!(program(&message("path+file:///w/crates/cli#forewarn-cli@0.1.0", false)).is_none());
        assert!(program("not JSON").is_none());
    }
}
