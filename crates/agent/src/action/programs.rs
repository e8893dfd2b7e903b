//! Programs that actions call. What they say goes where the action's own output goes: to the log.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::order::VARIABLE;
use crate::executable;

/// Runs it to its end; anything but success is an error.
pub fn run(words: &[String]) -> Result<()> {
    let line = words.join(" ");
    let status = command(words)?.stdin(Stdio::null()).status().with_context(|| format!("{line} cannot be run"))?;
    ensure!(status.success(), "`{line}` ended with {status}");
    Ok(())
}

/// A program with its arguments, without what is secret in our environment.
pub fn command(words: &[String]) -> Result<Command> {
    let (program, arguments) = words.split_first().context("a command has at least one word")?;
    let mut command = Command::new(executable::find(program)?);
    command.args(arguments).env_remove(VARIABLE);
    Ok(command)
}

/// The words with more of them behind.
pub fn with(words: &[String], more: &[&str]) -> Vec<String> {
    words.iter().cloned().chain(more.iter().map(|word| (*word).to_owned())).collect()
}
