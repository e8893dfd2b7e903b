//! Arguments of `forewarn events` and `forewarn watch`.

use clap::Subcommand;

use super::Connection;

/// Arguments of `forewarn watch`, a shortcut for `forewarn events watch`.
#[derive(Debug, clap::Args)]
pub struct WatchArgs {
    #[command(flatten)]
    pub connection: Connection,
    /// Print lines instead of opening the live view.
    #[arg(long)]
    pub lines: bool,
}

#[derive(Debug, Subcommand)]
pub enum EventsCommand {
    /// List events that have not finished.
    List {
        /// Include events that finished within the last hour.
        #[arg(long)]
        all: bool,
        /// Machine whose events to list.
        #[arg(long, value_name = "NAME")]
        vm: Option<String>,
    },
    /// Show the details of an event.
    Show {
        /// Event ID.
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Watch events in a live view, or line by line when the output is not a terminal.
    Watch {
        /// Print lines instead of opening the live view.
        #[arg(long)]
        lines: bool,
    },
    /// Wait for an event to reach a status.
    Wait(super::WaitArgs),
    /// Approve events so that they start now.
    Approve {
        /// Event IDs; either all are approved or none.
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
    /// Cancel an event.
    Cancel {
        /// Event ID.
        #[arg(value_name = "ID")]
        id: String,
    },
}
