//! Arguments of `forewarn events wait` and `forewarn vm requests`, which show how a handler behaves.

use std::time::Duration;

use clap::ValueEnum;
use forewarn_api_client::moment::{self, Moment};
use forewarn_api_types::EventType;
use forewarn_config::parse;

use super::ResourceName;

#[derive(Clone, Debug, clap::Args)]
pub struct WaitArgs {
    /// Status to wait for.
    #[arg(long, value_name = "STATUS", ignore_case = true)]
    pub status: WaitStatus,
    /// Machine of the event.
    #[arg(long, value_name = "NAME")]
    pub vm: Option<String>,
    /// Type of the event.
    #[arg(long = "type", value_name = "TYPE", ignore_case = true, value_parser = parse::word::<EventType>())]
    pub kind: Option<EventType>,
    /// ID of the event; finished events count too.
    #[arg(long, value_name = "ID")]
    pub event: Option<String>,
    /// Time from which changes count, such as '2026-07-28 10:00:00', 10:00 or 5m (ago).
    #[arg(long, value_name = "TIME", value_parser = moment::parse_past, allow_hyphen_values = true)]
    pub since: Option<Moment>,
    /// Maximum time to wait, on the local clock.
    #[arg(long, value_name = "DURATION", value_parser = parse::parse_span, default_value = "30s")]
    pub timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WaitStatus {
    /// The event has been announced.
    Scheduled,
    /// The event has been approved.
    Approved,
    /// The event has started.
    Started,
    /// The event has finished, with any outcome.
    Gone,
}

#[derive(Debug, clap::Args)]
pub struct RequestsArgs {
    #[command(flatten)]
    pub vm: ResourceName,
    /// Keep printing new requests until interrupted.
    #[arg(long, short)]
    pub follow: bool,
}
