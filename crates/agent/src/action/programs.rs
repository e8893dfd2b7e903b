//! Runs the programs that actions use. Their output goes to the log, like the output of the action.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::request::VARIABLE;
use crate::executable;

/// Runs a program and waits for it. A non-zero exit status is an error.
pub fn run(words: &[String]) -> Result<()> {
    let line = words.join(" ");
    let status = build_command(words)?.stdin(Stdio::null()).status().with_context(|| format!("cannot run {line}"))?;
    ensure!(status.success(), "`{line}` failed: {status}");
    Ok(())
}

/// Builds a command without the action's secrets in its environment.
pub fn build_command(words: &[String]) -> Result<Command> {
    let (program, arguments) = words.split_first().context("the command is empty")?;
    let mut command = Command::new(executable::find(program)?);
    command.args(arguments).env_remove(VARIABLE);
    Ok(command)
}

/// Appends arguments to a command.
pub fn append(words: &[String], more: &[&str]) -> Vec<String> {
    words.iter().cloned().chain(more.iter().map(|word| (*word).to_owned())).collect()
}
