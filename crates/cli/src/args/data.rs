//! Arguments of commands that work on a local data directory: `forewarn token`, `backup`, `restore`, `export` and
//! `import`.

use std::path::PathBuf;

use clap::Subcommand;

use super::sign_in::IssueArgs;

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Print the token of the management API.
    Show(DataArgs),
    /// Replace the token; the old one stops working.
    Rotate(DataArgs),
    /// Issue a token with a limited role and lifetime.
    Issue(IssueArgs),
}

#[derive(Debug, clap::Args)]
pub struct DataArgs {
    /// Data directory of the server.
    #[arg(long, env = "FOREWARN_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub struct BackupArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// File to write (backup) or read (restore).
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

#[derive(Debug, clap::Args)]
pub struct ArchiveArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// File to write (export) or read (import); - is standard output or input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}
