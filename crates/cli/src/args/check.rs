//! Arguments of `forewarn check`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ValueEnum;

use super::Output;

#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    /// Events that the handler should approve.
    #[arg(long, value_name = "PROFILE", default_value = "own")]
    pub profile: Profile,
    /// Output line that shows preparation (prepared=REGEX) or restoration (restored=REGEX); repeatable.
    #[arg(long, value_name = "NAME=REGEX")]
    pub mark: Vec<String>,
    /// Case to run; repeatable [default: all cases].
    #[arg(long, value_name = "CASE")]
    pub only: Vec<String>,
    /// File to write a JUnit XML report to.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Print the output of the handler.
    #[arg(short, long)]
    pub verbose: bool,
    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: Output,
    /// Handler command and its arguments, after --.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// Events of its own machine, and no others.
    Own,
    /// Every event that it sees.
    All,
    /// No events.
    Never,
}

impl From<Profile> for forewarn_judge::Profile {
    fn from(profile: Profile) -> Self {
        match profile {
            Profile::Own => forewarn_judge::Profile::Own,
            Profile::All => forewarn_judge::Profile::All,
            Profile::Never => forewarn_judge::Profile::Never,
        }
    }
}
