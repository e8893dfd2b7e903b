//! Drains nginx: writes a file that the nginx configuration includes, tests the configuration, and reloads. The old
//! workers finish the open connections.

use std::path::{Path, PathBuf};
use std::thread::sleep;

use anyhow::{Context, Result, ensure};
use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};

use super::request::ActionRequest;
use super::{Direction, programs};
use crate::executable;
use crate::values::Span;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nginx {
    /// File that the nginx configuration includes.
    file: PathBuf,
    /// Content of the file while the machine is drained.
    #[serde(default = "default_drained")]
    drained: String,
    /// Content of the file otherwise; `None` for no file.
    #[serde(default)]
    normal: Option<String>,
    #[serde(default = "default_command")]
    command: Vec<String>,
    /// Time to wait after the reload, until load balancers have noticed.
    #[serde(default)]
    wait: Span,
}

fn default_drained() -> String {
    "return 503;".into()
}

fn default_command() -> Vec<String> {
    vec!["nginx".into()]
}

impl Nginx {
    pub fn check(&self) -> Result<()> {
        let (file, dir) = (self.file.display(), self.file.parent().unwrap_or(Path::new("")));
        ensure!(
            self.file.is_absolute() && self.file.file_name().is_some(),
            "file must be an absolute path, not {file}"
        );
        ensure!(dir.is_dir(), "the directory {} does not exist", dir.display());
        ensure!(access(dir, Access::WRITE_OK).is_ok(), "the directory {} is not writable", dir.display());
        executable::find(self.command.first().context("command is empty")?).map(drop)
    }

    pub fn apply(&self, request: &ActionRequest) -> Result<()> {
        match Direction::of(request.phase)? {
            Direction::Drain => self.drain(request),
            Direction::Restore => self.restore(),
        }
    }

    fn drain(&self, request: &ActionRequest) -> Result<()> {
        let before = read_file(&self.file)?;
        write_file(&self.file, Some(&self.drained))?;
        if let Err(problem) = self.reload() {
            write_file(&self.file, before.as_deref())?;
            return Err(problem.context(format!("nginx rejected the change; restored {}", self.file.display())));
        }
        sleep(request.remaining(self.wait.0));
        Ok(())
    }

    /// Restores the file even if the reload fails: an nginx that is not running reads it when it starts.
    fn restore(&self) -> Result<()> {
        write_file(&self.file, self.normal.as_deref())?;
        self.reload()
    }

    fn reload(&self) -> Result<()> {
        programs::run(&programs::append(&self.command, &["-t", "-q"]))?;
        programs::run(&programs::append(&self.command, &["-s", "reload"]))
    }
}

fn read_file(file: &Path) -> Result<Option<String>> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

/// Replaces or removes a file atomically. The temporary name is not matched by `include *.conf`.
fn write_file(file: &Path, text: Option<&str>) -> Result<()> {
    let at = || format!("cannot write {}", file.display());
    let Some(text) = text else {
        return match std::fs::remove_file(file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).with_context(at),
            _ => Ok(()),
        };
    };
    let mut name = std::ffi::OsString::from(".");
    name.push(file.file_name().with_context(at)?);
    name.push(".new");
    let new = file.with_file_name(name);
    std::fs::write(&new, format!("{}\n", text.trim_end())).with_context(at)?;
    std::fs::rename(&new, file).with_context(at)
}
