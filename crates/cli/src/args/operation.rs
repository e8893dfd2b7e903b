//! Arguments of `forewarn operation`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum OperationCommand {
    /// List running operations and those of the last hour.
    List,
    /// Show the state and result of an operation.
    Show {
        /// ID of the operation or of one of its events.
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Wait for an operation to finish.
    Wait {
        /// ID of the operation or of one of its events.
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Cancel the events of an operation that have not started.
    Cancel {
        /// ID of the operation or of one of its events.
        #[arg(value_name = "ID")]
        id: String,
    },
}
