//! Arguments of `forewarn operation`.

use clap::Subcommand;
use forewarn_api_types::{OperationKind, OperationPhase};
use forewarn_config::parse;

#[derive(Debug, Subcommand)]
pub enum OperationCommand {
    /// List running operations and those of the last hour.
    List(OperationFilterArgs),
    /// Show an operation: its cause, progress, what it waits for, and its events by event group.
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
    /// Approve all scheduled events of an operation.
    Approve {
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

#[derive(Debug, clap::Args)]
pub struct OperationFilterArgs {
    /// List only operations in this state.
    #[arg(long, value_name = "STATE", value_parser = parse::word::<OperationPhase>())]
    pub state: Option<OperationPhase>,
    /// List only operations of this kind.
    #[arg(long, value_name = "KIND", value_parser = parse::word::<OperationKind>())]
    pub kind: Option<OperationKind>,
    /// List only operations that concern this machine.
    #[arg(long, value_name = "NAME")]
    pub vm: Option<String>,
    /// List only operations that concern this host.
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// List only operations that concern this availability set, cloud service or scale set.
    #[arg(long, value_name = "NAME", alias = "group")]
    pub set: Option<String>,
    /// List only operations of this rollout.
    #[arg(long, value_name = "ID")]
    pub rollout: Option<String>,
}
