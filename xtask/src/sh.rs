//! Runs other programs: prints what runs, and returns an error if it fails.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

pub struct Sh(Command);

/// A program, run in the root of the repository.
pub fn program(name: &str) -> Sh {
    let mut command = Command::new(name);
    command.current_dir(root());
    Sh(command)
}

pub fn cargo(arguments: &[&str]) -> Sh {
    let mut command = Command::new(cargo_path());
    command.current_dir(root());
    remove_package_variables(&mut command);
    Sh(command).args(arguments)
}

/// Removes the variables that `cargo run` has set for this program. Build scripts depend on them (that of ring does), so
/// cargo would rebuild half of the workspace whenever it is called with and without them in turn.
pub fn remove_package_variables(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
}

pub fn cargo_path() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

impl Sh {
    #[must_use]
    pub fn args(mut self, arguments: &[&str]) -> Sh {
        self.0.args(arguments);
        self
    }

    /// Runs the program in another directory.
    #[must_use]
    pub fn within(mut self, dir: &Path) -> Sh {
        self.0.current_dir(dir);
        self
    }

    pub fn env(&mut self, name: &str, value: impl AsRef<OsStr>) -> &mut Sh {
        self.0.env(name, value);
        self
    }

    /// Prints the command, runs it, and prints how long it took.
    pub fn run(&mut self) -> Result<()> {
        eprintln!("── {}", self.line());
        let started = Instant::now();
        self.run_silently()?;
        eprintln!("   {:.1} s", started.elapsed().as_secs_f32());
        Ok(())
    }

    /// Runs the program and prints nothing of its own.
    pub fn run_silently(&mut self) -> Result<()> {
        let line = self.line();
        let status = self.0.status().with_context(|| format!("cannot run {line}"))?;
        ensure!(status.success(), "{line}: {status}");
        Ok(())
    }

    /// Returns the standard output. Standard error is shown only if the program fails.
    pub fn read(&mut self) -> Result<String> {
        let line = self.line();
        let output = self.0.output().with_context(|| format!("cannot run {line}"))?;
        ensure!(output.status.success(), "{line}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Returns the standard output, and shows standard error while the program runs.
    pub fn read_stdout(&mut self) -> Result<String> {
        self.0.stderr(Stdio::inherit());
        self.read()
    }

    fn line(&self) -> String {
        let words = std::iter::once(self.0.get_program()).chain(self.0.get_args());
        words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }
}

pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace").to_path_buf()
}

/// The target directory of cargo.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Names the profile of the programs that acceptance runs use. Without the prefix `FOREWARN_`: servers warn about unknown
/// variables with that prefix.
pub const PROFILE: &str = "XTASK_PROFILE";

/// The profile of the programs in releases; see `static_programs`.
pub const STATIC_PROFILE: &str = "static";

/// The profile of all that `cargo xtask test` builds. Its programs differ from those of a release in that they are not optimized.
pub const ACCEPT_PROFILE: &str = "accept";

/// The profile of the programs that are built, packaged and run here.
pub fn profile() -> String {
    std::env::var(PROFILE).unwrap_or_else(|_| STATIC_PROFILE.to_owned())
}

/// The directory of the programs that acceptance runs use.
pub fn built_dir() -> PathBuf {
    target().join(profile())
}

/// A program that acceptance runs use.
pub fn built(name: &str) -> Result<PathBuf> {
    let program = built_dir().join(name);
    ensure!(program.exists(), "{} does not exist; build it with `cargo xtask build-release`", program.display());
    Ok(program)
}
