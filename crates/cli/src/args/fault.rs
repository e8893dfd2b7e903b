//! Arguments of `forewarn fault`.

use std::time::Duration;

use clap::Subcommand;
use forewarn_api_types::FaultMethod;
use forewarn_config::parse;

#[derive(Debug, Subcommand)]
pub enum FaultCommand {
    /// Add a fault to the metadata endpoint.
    Add(Box<FaultArgs>),
    /// List active faults.
    List {
        /// Machine whose faults to list; faults for all machines are omitted.
        #[arg(long, value_name = "NAME")]
        vm: Option<String>,
    },
    /// Show a fault.
    Show {
        /// Fault ID.
        #[arg(value_name = "ID", value_parser = parse::id_number)]
        id: u64,
    },
    /// Clear faults.
    Clear(ClearArgs),
}

/// Fault kinds that take no status code, by argument name.
const WITHOUT_STATUS: [&str; 8] = [
    "delay",
    "reset",
    "truncated",
    "malformed",
    "slow_first_call",
    "incarnation_restart",
    "events_vanish",
    "unknown_type",
];

#[derive(Debug, clap::Args)]
pub struct FaultArgs {
    /// Machine whose requests are affected [default: all machines].
    #[arg(long, value_name = "NAME")]
    pub vm: Option<String>,
    #[command(flatten)]
    pub kind: FaultKindArgs,
    /// Value of the Retry-After header, with --status 429 or 503 [default: 1s].
    #[arg(long, value_name = "DURATION", value_parser = parse::retry_after, conflicts_with_all = WITHOUT_STATUS)]
    pub retry_after: Option<u64>,
    /// Number of requests affected; then the fault ends.
    #[arg(long, value_name = "N", value_parser = parse::positive)]
    pub count: Option<u32>,
    /// Time after which the fault ends, on the server's clock.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse::whole_seconds)]
    pub seconds: Option<u64>,
    /// Percentage of requests affected, evenly spread.
    #[arg(long, value_name = "N", value_parser = parse::percent)]
    pub percent: Option<u8>,
    /// HTTP method of the requests affected.
    #[arg(long, value_name = "METHOD", ignore_case = true, value_parser = parse::word::<FaultMethod>())]
    pub method: Option<FaultMethod>,
    /// Affect only requests to /metadata/scheduledevents.
    #[arg(long)]
    pub documents_only: bool,
}

/// The kind of fault; exactly one is required.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct FaultKindArgs {
    /// Respond with an HTTP status, from 200 to 599.
    #[arg(long, value_name = "CODE", value_parser = parse::fault_status)]
    pub status: Option<u16>,
    /// Delay the response by at most 300s.
    #[arg(long, value_name = "DURATION", value_parser = parse::delay)]
    pub delay: Option<Duration>,
    /// Reset the connection instead of responding.
    #[arg(long)]
    pub reset: bool,
    /// Send half of the response, then close the connection.
    #[arg(long)]
    pub truncated: bool,
    /// Respond with invalid JSON.
    #[arg(long)]
    pub malformed: bool,
    /// Delay the first GET of the document, and GETs that arrive during the delay.
    #[arg(long, value_name = "DURATION", value_parser = parse::delay)]
    pub slow_first_call: Option<Duration>,
    /// Restart DocumentIncarnation at 1.
    #[arg(long)]
    pub incarnation_restart: bool,
    /// Hide all events.
    #[arg(long)]
    pub events_vanish: bool,
    /// Show events with an unknown EventType.
    #[arg(long)]
    pub unknown_type: bool,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct ClearArgs {
    /// ID of the fault to clear.
    #[arg(value_name = "ID", value_parser = parse::id_number)]
    pub id: Option<u64>,
    /// Machine whose faults to clear; faults for all machines stay.
    #[arg(long, value_name = "NAME")]
    pub vm: Option<String>,
    /// Clear all faults.
    #[arg(long)]
    pub all: bool,
}
