//! Arguments of `forewarn cluster`.

use std::path::PathBuf;

use clap::Subcommand;

/// Access to etcd, as in the settings of `forewarn serve`.
#[derive(Debug, clap::Args)]
pub struct EtcdArgs {
    /// Certificate authority of etcd, PEM; enables TLS to etcd.
    #[arg(long, value_name = "FILE", env = "FOREWARN_ETCD_CA")]
    pub etcd_ca: Option<PathBuf>,
    /// Client certificate for etcd, PEM.
    #[arg(long, value_name = "FILE", env = "FOREWARN_ETCD_CERT")]
    pub etcd_cert: Option<PathBuf>,
    /// Private key of the client certificate, PEM.
    #[arg(long, value_name = "FILE", env = "FOREWARN_ETCD_KEY")]
    pub etcd_key: Option<PathBuf>,
    /// User name for etcd.
    #[arg(long, value_name = "NAME", env = "FOREWARN_ETCD_USER")]
    pub etcd_user: Option<String>,
    /// File with the password of the etcd user.
    #[arg(long, value_name = "FILE", env = "FOREWARN_ETCD_PASSWORD_FILE")]
    pub etcd_password_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Show the leader, the progress and clock of each node, and the health of etcd.
    Status,
    /// Hand over the leadership to another node.
    StepDown,
    /// Remove a node permanently, so that the log stops keeping records for it.
    Remove {
        /// Name of the node.
        #[arg(value_name = "NODE")]
        node: String,
    },
    /// Apply the rules in the leader's configuration, such as notice_scale, to the region.
    ApplyRules,
    /// Create a key for the secrets of a region, for --cluster-key.
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
        #[command(flatten)]
        etcd: EtcdArgs,
    },
}
