//! The hooks directory. It is read once, at startup, so that mistakes are reported then and not during an event.
//!
//! A hook named `prepare`, `started` or `restore` runs for all events. A hook named `reboot.prepare` and so on runs
//! only for events of that type, in addition to the general one.

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
    pub fn load(dir: &Path) -> Result<Hooks> {
        let at = || format!("cannot read the hooks directory {}", dir.display());
        // Absolute, because hooks run in `/`.
        let dir = std::fs::canonicalize(dir).with_context(at)?;
        let valid = hook_names();
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&dir).with_context(at)? {
            let path = entry.with_context(at)?.path();
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default().to_owned();
            if valid.contains(&name) {
                check(&path).with_context(|| format!("cannot run the hook {}", path.display()))?;
                names.push(name);
            } else if is_executable(&path) && !name.starts_with('.') {
                bail!("{} is not a valid hook name; use one of {}", path.display(), valid.join(", "));
            }
        }
        names.sort();
        Ok(Hooks { dir, names })
    }

    /// Steps of the hooks: general hooks first, then those for one type.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = self.names.iter().filter_map(|name| Step::from_hook_name(name)).collect();
        steps.sort_by_key(|step| !step.kinds.is_empty());
        steps
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

/// Checks a hook without running it.
fn check(path: &Path) -> Result<()> {
    ensure!(path.is_file(), "not a file");
    ensure!(is_executable(path), "not executable; use chmod +x");
    let start = read_start(path)?;
    if start.starts_with(b"\x7fELF") {
        return Ok(());
    }
    let Some(line) = start.strip_prefix(b"#!") else {
        bail!("neither an executable program nor a script with a `#!` line");
    };
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split([' ', '\t']).filter(|word| !word.is_empty());
    let interpreter = words.next().unwrap_or_default();
    ensure!(!interpreter.ends_with('\r'), "the first line ends with CR LF; convert the file to LF");
    ensure!(is_executable(Path::new(interpreter)), "the interpreter {interpreter:?} does not exist");
    match words.next() {
        Some(program) if interpreter.ends_with("/env") && !program.starts_with('-') && !program.contains('=') => {
            ensure!(executable::find(program).is_ok(), "the interpreter {program:?} is not in PATH");
        }
        _ => {}
    }
    Ok(())
}

/// More than the kernel reads of a `#!` line.
const START_BYTES: u64 = 512;

fn read_start(path: &Path) -> Result<Vec<u8>> {
    let mut start = Vec::new();
    File::open(path).context("cannot read it")?.take(START_BYTES).read_to_end(&mut start)?;
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
        match (Hooks::load(dir.path()), expected) {
            (Ok(hooks), Ok(expected)) => assert_eq!(hooks.names, expected),
            (Err(error), Err(expected)) => assert!(format!("{error:#}").contains(expected), "{error:#}"),
            (found, expected) => panic!("{name}: {found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn hooks_are_found_by_name_and_broken_ones_are_rejected() {
        check("prepare", 0o755, "#!/bin/sh\n", Ok(&["prepare"]));
        check("reboot.restore", 0o755, "#! /usr/bin/env sh\n", Ok(&["reboot.restore"]));
        check("started", 0o755, "\x7fELF", Ok(&["started"]));
        check("README", 0o644, "words", Ok(&[]));
        check("prepare", 0o644, "#!/bin/sh\n", Err("prepare: not executable"));
        check("prepare", 0o755, "echo", Err("neither an executable program nor a script"));
        check("prepare", 0o755, "#!/bin/sh\r\n", Err("ends with CR LF"));
        check("prepare", 0o755, "#!/no/such\n", Err("the interpreter \"/no/such\" does not exist"));
        check("prepare", 0o755, "#!/usr/bin/env no-such\n", Err("the interpreter \"no-such\" is not in PATH"));
        check(
            "rebot.prepare",
            0o755,
            "#!/bin/sh\n",
            Err("rebot.prepare is not a valid hook name; use one of prepare, started"),
        );
        assert!(Hooks::load(Path::new("/no/such")).is_err());
    }
}
