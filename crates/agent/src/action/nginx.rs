//! Drains nginx: writes a file that its configuration includes, asks nginx whether it can live with
//! it, and reloads. Connections that are open are served to their end by the old workers.

use std::path::{Path, PathBuf};
use std::thread::sleep;

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
        match Turn::of(order.phase)? {
            Turn::Out => self.drain(order),
            Turn::Back => self.restore(),
        }
    }

    fn drain(&self, order: &Order) -> Result<()> {
        let before = read(&self.file)?;
        put(&self.file, Some(&self.drained))?;
        if let Err(problem) = self.reload() {
            put(&self.file, before.as_deref())?;
            return Err(problem.context(format!("{} is as it was", self.file.display())));
        }
        sleep(order.left(self.wait.0));
        Ok(())
    }

    /// The file stays also when nginx cannot be reloaded: one that does not run reads it when it starts.
    fn restore(&self) -> Result<()> {
        put(&self.file, self.normal.as_deref())?;
        self.reload()
    }

    fn reload(&self) -> Result<()> {
        programs::run(&programs::with(&self.command, &["-t", "-q"]))?;
        programs::run(&programs::with(&self.command, &["-s", "reload"]))
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
