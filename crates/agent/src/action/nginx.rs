//! Drains nginx: writes a file that its configuration includes, asks nginx whether it can live with
//! it, and reloads. Connections that are open are served to their end by the old workers.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};

use super::order::Order;
use super::{Turn, programs};
use crate::config::Span;
use crate::executable;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nginx {
    /// That the configuration of nginx includes.
    file: PathBuf,
    /// What is in it while the machine is drained.
    #[serde(default = "default_drained")]
    drained: String,
    /// What is in it otherwise; `None`: there is no file.
    #[serde(default)]
    normal: Option<String>,
    #[serde(default = "default_command")]
    command: Vec<String>,
    /// Until whoever sends requests has noticed.
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
            "its file must be a whole path, not {file}"
        );
        ensure!(dir.is_dir(), "the directory {} is not there", dir.display());
        ensure!(access(dir, Access::WRITE_OK).is_ok(), "the directory {} may not be written to", dir.display());
        executable::find(self.command.first().context("its command is empty")?).map(drop)
    }

    pub fn turn(&self, order: &Order) -> Result<()> {
        let (wanted, wait) = match Turn::of(order.phase)? {
            Turn::Out => (Some(&self.drained), self.wait.0),
            Turn::Back => (self.normal.as_ref(), Duration::ZERO),
        };
        let before = read(&self.file)?;
        put(&self.file, wanted.map(String::as_str))?;
        let reloaded = programs::run(&programs::with(&self.command, &["-t", "-q"]))
            .and_then(|()| programs::run(&programs::with(&self.command, &["-s", "reload"])));
        if let Err(problem) = reloaded {
            put(&self.file, before.as_deref())?;
            return Err(problem.context(format!("{} is as it was", self.file.display())));
        }
        sleep(order.left(wait));
        Ok(())
    }
}

fn read(file: &Path) -> Result<Option<String>> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", file.display())),
    }
}

/// As a whole, under a name that `include *.conf` does not see before.
fn put(file: &Path, text: Option<&str>) -> Result<()> {
    let at = || format!("{} cannot be written", file.display());
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
