//! Commands that work on a data directory of this machine: `forewarn token`, `export`, `import`.

use std::path::PathBuf;

use clap::Subcommand;

use super::sign_in::IssueArgs;

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Print it.
    Show(DataArgs),
    /// Make a new one; the old one is worth nothing from then on.
    Rotate(DataArgs),
    /// Print a new one for somebody actor_name may do less, or not for ever.
    Issue(IssueArgs),
}

#[derive(Debug, clap::Args)]
pub struct DataArgs {
    /// The server's data directory.
    #[arg(long, env = "FOREWARN_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub struct ArchiveArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// A file, or - for standard input or output.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}
