//! `forewarn operation`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum OperationCommand {
    /// Operations of the last hour, and those that are not over.
    List,
    /// Show what became of it.
    Show {
        /// The id of the operation, or of an event of it.
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Wait for its end.
    Wait {
        /// The id of the operation, or of an event of it.
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Call off what has not started yet.
    Cancel {
        /// The id of the operation, or of an event of it.
        #[arg(value_name = "ID")]
        id: String,
    },
}
