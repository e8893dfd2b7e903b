//! Arguments of `forewarn cluster`.

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Show the leader, the progress of each node and the health of etcd.
    Status,
    /// Let another node lead.
    StepDown,
    /// Remove a node that does not come back, so that the log keeps nothing for it.
    Remove {
        /// Name of the node.
        #[arg(value_name = "NODE")]
        node: String,
    },
    /// Create the key of a region's secrets, for --cluster-key.
    Key {
        /// New file for the key; copy it to every server.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Create a region from the data directory of a stopped server.
    Init {
        /// Data directory; the server that is started on it becomes the first node.
        #[arg(long, value_name = "DIR")]
        from: PathBuf,
        /// Region to create, such as etcd://a,b,c/REGION.
        #[arg(long, value_name = "URL", env = "FOREWARN_CLUSTER")]
        cluster: String,
    },
}
