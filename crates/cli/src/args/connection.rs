//! Options that the commands share: the server to talk to, the output format, and how operations are started.
//!
//! The help of a command does not list the connection options; `forewarn --help` and `forewarn help connection` do.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

/// A command group whose commands talk to a server.
#[derive(Debug, clap::Args)]
pub struct Client<C: Subcommand> {
    #[command(flatten)]
    pub connection: Connection,
    #[command(subcommand)]
    pub command: C,
}

#[derive(Clone, Debug, clap::Args)]
pub struct Connection {
    /// Address of the server's management API, or of several servers of a cluster, separated by commas [default: the current
    /// context, or http://127.0.0.1:8170].
    #[arg(long, global = true, help_heading = "Global options", env = "FOREWARN_SERVER", value_name = "URL")]
    pub server: Option<String>,
    /// Data directory of the server, from which the token is read.
    #[arg(long, global = true, help_heading = "Global options", env = "FOREWARN_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Token to use instead of the one in the data directory.
    #[arg(
        long,
        global = true,
        help_heading = "Global options",
        env = "FOREWARN_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true
    )]
    pub token: Option<String>,
    /// Output format.
    #[arg(short, long, global = true, help_heading = "Global options", value_name = "FORMAT", default_value = "table")]
    pub output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Table,
    Json,
    Yaml,
    Tsv,
}

/// Options of commands that start one operation.
#[derive(Debug, clap::Args)]
pub struct OperationArgs {
    /// Event ID to use.
    #[arg(long, value_name = "ID")]
    pub event_id: Option<String>,
    /// Return immediately instead of waiting for the operation to finish.
    #[arg(long)]
    pub no_wait: bool,
    /// Show the events that would be created, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// Options of commands that delete machines.
#[derive(Debug, clap::Args)]
pub struct DeletionArgs {
    #[command(flatten)]
    pub operation: OperationArgs,
    /// Do not ask for confirmation on a terminal.
    #[arg(short, long)]
    pub yes: bool,
}
