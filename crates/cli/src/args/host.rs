//! Arguments of `forewarn host`.

use clap::Subcommand;

use super::HostName;
use super::vm::FailureArgs;

#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// List hosts and their machines.
    List,
    /// Show a host and its machines.
    Show(HostName),
    /// Create a host; does nothing if the host exists.
    Create(HostName),
    /// Delete a host that has no machines.
    Delete(HostName),
    /// Simulate a host failure: every machine on the host gets a Started event without notice.
    #[command(visible_alias = "hardware-failure")]
    Fail {
        #[command(flatten)]
        host: HostName,
        #[command(flatten)]
        failure: FailureArgs,
    },
}
