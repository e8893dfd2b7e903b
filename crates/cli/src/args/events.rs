//! `forewarn events`.

use clap::Subcommand;

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
    /// Show what happens, as it happens, until interrupted.
    Watch,
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
