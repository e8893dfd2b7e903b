//! `forewarn host`.

use clap::Subcommand;

use super::HostName;
use super::vm::FailureArgs;

#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// All hosts.
    List,
    /// One host and the machines on it.
    Show(HostName),
    /// Add a host; nothing happens when it is there.
    Create(HostName),
    /// Remove a host that no machine is on.
    Delete(HostName),
    /// It breaks: no notice, events for all machines on it appear as Started.
    #[command(visible_alias = "hardware-failure")]
    Fail {
        #[command(flatten)]
        host: HostName,
        #[command(flatten)]
        failure: FailureArgs,
    },
}
