//! Running other programs: says what runs, and fails when it fails.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

pub struct Sh(Command);

/// A program, run in the repository's root.
pub fn program(name: &str) -> Sh {
    let mut command = Command::new(name);
    command.current_dir(root());
    Sh(command)
}

pub fn cargo(arguments: &[&str]) -> Sh {
    program(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())).args(arguments)
}

impl Sh {
    #[must_use]
    pub fn args(mut self, arguments: &[&str]) -> Sh {
        self.0.args(arguments);
        self
    }

    /// Runs it elsewhere, when it leaves files where it runs.
    #[must_use]
    pub fn within(mut self, dir: &Path) -> Sh {
        self.0.current_dir(dir);
        self
    }

    pub fn env(&mut self, name: &str, value: &str) -> &mut Sh {
        self.0.env(name, value);
        self
    }

    /// Runs it with our output.
    pub fn run(&mut self) -> Result<()> {
        let line = self.line();
        eprintln!("── {line}");
        let begun = Instant::now();
        let status = self.0.status().with_context(|| format!("cannot run {line}"))?;
        ensure!(status.success(), "{line}: {status}");
        eprintln!("   {:.1} s", begun.elapsed().as_secs_f32());
        Ok(())
    }

    /// Runs it quietly and returns what it printed.
    pub fn read(&mut self) -> Result<String> {
        let line = self.line();
        let output = self.0.output().with_context(|| format!("cannot run {line}"))?;
        ensure!(output.status.success(), "{line}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    fn line(&self) -> String {
        let words = std::iter::once(self.0.get_program()).chain(self.0.get_args());
        words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }
}

pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_path_buf()
}

/// Where `cargo` puts what it builds.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Where the programs are that acceptance runs use: the optimised ones, unless `FOREWARN_ACCEPT_PROFILE` says `debug`.
pub fn built_dir() -> PathBuf {
    let profile = std::env::var("FOREWARN_ACCEPT_PROFILE");
    target().join(profile.as_deref().unwrap_or("release"))
}
