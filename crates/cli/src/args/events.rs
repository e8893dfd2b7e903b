//! `forewarn events`.

use clap::Subcommand;

use super::Connection;

/// `forewarn watch`, which is `forewarn events watch`.
#[derive(Debug, clap::Args)]
pub struct WatchArgs {
    #[command(flatten)]
    pub connection: Connection,
    /// Lines, also in a terminal.
    #[arg(long)]
    pub lines: bool,
}

#[derive(Debug, Subcommand)]
pub enum EventsCommand {
    /// Events that are not over.
    List {
        /// Also those that ended within the last hour.
        #[arg(long)]
        all: bool,
        /// Only those of this machine.
        #[arg(long, value_name = "NAME")]
        vm: Option<String>,
    },
    /// One event, with everything that is known of it.
    Show {
        /// The id of the event.
        #[arg(value_name = "ID")]
        id: String,
    },
    /// A live view in the terminal; elsewhere, what happens, line by line, until interrupted.
    Watch {
        /// Lines, also in a terminal.
        #[arg(long)]
        lines: bool,
    },
    /// Wait until an event has come so far.
    Wait(super::WaitArgs),
    /// Let events start now.
    Approve {
        /// The ids of events, all approved or none.
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
    /// Call an event off.
    Cancel {
        /// The id of the event.
        #[arg(value_name = "ID")]
        id: String,
    },
}
