//! The directory of hooks: which there are, and whether they can run. Looked at once, at the start, so
//! that a mistake shows then and not at the event.
//!
//! A hook is called `prepare`, `started` or `restore` and runs for events of every type, or
//! `reboot.prepare` and so on and runs for those of its type, besides the other one.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::executable::{self, is_executable};
use crate::step::{Step, hook_names};

#[derive(Debug, Clone, Default)]
pub struct Hooks {
    dir: PathBuf,
    names: Vec<String>,
}

impl Hooks {
    pub fn find(dir: &Path) -> Result<Hooks> {
        let at = || format!("the directory of hooks {} cannot be read", dir.display());
        // Absolute, because hooks are started from `/`.
        let dir = std::fs::canonicalize(dir).with_context(at)?;
        let valid = hook_names();
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&dir).with_context(at)? {
            let path = entry.with_context(at)?.path();
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default().to_owned();
            if valid.contains(&name) {
                check(&path).with_context(|| format!("the hook {} cannot run", path.display()))?;
                names.push(name);
            } else if is_executable(&path) && !name.starts_with('.') {
                bail!("{} is not named as a hook; there are {}", path.display(), valid.join(", "));
            }
        }
        names.sort();
        Ok(Hooks { dir, names })
    }

    /// Those for every type come before those for one.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = self.names.iter().filter_map(|name| Step::of_hook(name)).collect();
        steps.sort_by_key(|step| !step.kinds.is_empty());
        steps
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

/// What can be told of a program without running it.
fn check(path: &Path) -> Result<()> {
    ensure!(path.is_file(), "it is not a file");
    ensure!(is_executable(path), "it is not executable (chmod +x)");
    let start = read_start(path)?;
    if start.starts_with(b"\x7fELF") {
        return Ok(());
    }
    let Some(line) = start.strip_prefix(b"#!") else {
        bail!("it is neither a program nor a script whose first line is `#!` and an interpreter");
    };
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split([' ', '\t']).filter(|word| !word.is_empty());
    let interpreter = words.next().unwrap_or_default();
    ensure!(!interpreter.ends_with('\r'), "its first line ends as on Windows; it must end with a line feed alone");
    ensure!(is_executable(Path::new(interpreter)), "its interpreter {interpreter:?} is not there");
    match words.next() {
        Some(program) if interpreter.ends_with("/env") && !program.starts_with('-') && !program.contains('=') => {
            ensure!(executable::find(program).is_ok(), "its interpreter {program:?} is not in PATH");
        }
        _ => {}
    }
    Ok(())
}

/// More than a kernel reads of a first line.
const START_BYTES: u64 = 512;

fn read_start(path: &Path) -> Result<Vec<u8>> {
    let mut start = Vec::new();
    File::open(path).context("it cannot be read")?.take(START_BYTES).read_to_end(&mut start)?;
    Ok(start)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[track_caller]
    fn check(name: &str, mode: u32, text: &str, expected: Result<&[&str], &str>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        match (Hooks::find(dir.path()), expected) {
            (Ok(hooks), Ok(expected)) => assert_eq!(hooks.names, expected),
            (Err(error), Err(expected)) => assert!(format!("{error:#}").contains(expected), "{error:#}"),
            (found, expected) => panic!("{name}: {found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn hooks_are_found_by_name_and_those_that_cannot_run_are_refused() {
        check("prepare", 0o755, "#!/bin/sh\n", Ok(&["prepare"]));
        check("reboot.restore", 0o755, "#! /usr/bin/env sh\n", Ok(&["reboot.restore"]));
        check("started", 0o755, "\x7fELF", Ok(&["started"]));
        check("README", 0o644, "words", Ok(&[]));
        check("prepare", 0o644, "#!/bin/sh\n", Err("prepare cannot run: it is not executable"));
        check("prepare", 0o755, "echo", Err("it is neither a program nor a script"));
        check("prepare", 0o755, "#!/bin/sh\r\n", Err("ends as on Windows"));
        check("prepare", 0o755, "#!/no/such\n", Err("its interpreter \"/no/such\" is not there"));
        check("prepare", 0o755, "#!/usr/bin/env no-such\n", Err("its interpreter \"no-such\" is not in PATH"));
        check(
            "rebot.prepare",
            0o755,
            "#!/bin/sh\n",
            Err("rebot.prepare is not named as a hook; there are prepare, started"),
        );
        assert!(Hooks::find(Path::new("/no/such")).is_err());
    }
}
