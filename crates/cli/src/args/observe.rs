//! `forewarn events wait` and `forewarn vm requests`: for those actor_name look at what their handler does.

use std::time::Duration;

use clap::ValueEnum;

use super::ResourceName;
use crate::parse;

#[derive(Debug, clap::Args)]
pub struct WaitArgs {
    /// How far the event shall have come.
    #[arg(long, value_name = "STATUS", ignore_case = true)]
    pub status: WaitStatus,
    /// An event of this machine.
    #[arg(long, value_name = "NAME")]
    pub vm: Option<String>,
    /// An event of this type.
    #[arg(long = "type", value_name = "TYPE", ignore_case = true)]
    pub kind: Option<EventType>,
    /// The event with this id, also when it is over already.
    #[arg(long, value_name = "ID")]
    pub event: Option<String>,
    /// What happened at this time or later counts, such as 2026-07-28T10:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = parse::time)]
    pub since: Option<jiff::Timestamp>,
    /// How long to wait, by your own clock.
    #[arg(long, value_name = "SPAN", value_parser = parse::span, default_value = "30s")]
    pub timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WaitStatus {
    /// It has appeared.
    Scheduled,
    /// Somebody said that it may start.
    Approved,
    /// It has started.
    Started,
    /// It is over, however it ended.
    Gone,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum EventType {
    Freeze,
    Reboot,
    Redeploy,
    Preempt,
    Terminate,
}

#[derive(Debug, clap::Args)]
pub struct RequestsArgs {
    #[command(flatten)]
    pub vm: ResourceName,
    /// Go on with what it asks from now on, until interrupted.
    #[arg(long, short)]
    pub follow: bool,
}
