//! `forewarn check`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ValueEnum;

use super::Output;

#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    /// What the handler is meant to approve: the events of its own machine, all that it sees, or none.
    #[arg(long, value_name = "PROFILE", default_value = "own")]
    pub profile: Profile,
    /// What the handler writes when it has prepared, or restored: prepared=REGEX, restored=REGEX.
    #[arg(long, value_name = "NAME=REGEX")]
    pub mark: Vec<String>,
    /// Only this case; may be repeated.
    #[arg(long, value_name = "CASE")]
    pub only: Vec<String>,
    /// Write the report as JUnit XML to this file as well.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Show what the handler writes.
    #[arg(short, long)]
    pub verbose: bool,
    /// A table for people, or JSON, YAML and the like for programs.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: Output,
    /// The handler and its arguments, behind --.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    Own,
    All,
    Never,
}
