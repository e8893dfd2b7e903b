//! What the commands that talk to a server have in common: which server, how its answers are shown, how
//! an operation is asked for.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

/// A group of commands that talk to a server.
#[derive(Debug, clap::Args)]
pub struct Client<C: Subcommand> {
    #[command(flatten)]
    pub connection: Connection,
    #[command(subcommand)]
    pub command: C,
}

#[derive(Clone, Debug, clap::Args)]
pub struct Connection {
    /// The server's management address.
    #[arg(
        long,
        global = true,
        help_heading = "Connection",
        env = "FOREWARN_SERVER",
        value_name = "URL",
        default_value = "http://127.0.0.1:8170"
    )]
    pub server: String,
    /// The server's data directory, where the token is.
    #[arg(long, global = true, help_heading = "Connection", env = "FOREWARN_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// The token itself, for a server on another machine.
    #[arg(
        long,
        global = true,
        help_heading = "Connection",
        env = "FOREWARN_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true
    )]
    pub token: Option<String>,
    /// Tables for people; JSON, YAML or lines with tabs for programs.
    #[arg(short, long, global = true, help_heading = "Connection", value_name = "FORMAT", default_value = "table")]
    pub output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Table,
    Json,
    Yaml,
    Tsv,
}

/// How an operation is asked for.
#[derive(Debug, clap::Args)]
pub struct OperationArgs {
    /// The id that the event shall have.
    #[arg(long, value_name = "ID")]
    pub event_id: Option<String>,
    /// Do not wait for the end.
    #[arg(long)]
    pub no_wait: bool,
}
