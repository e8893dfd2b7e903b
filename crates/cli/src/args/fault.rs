//! `forewarn fault`.

use std::time::Duration;

use clap::{Subcommand, ValueEnum};

use crate::parse;

#[derive(Debug, Subcommand)]
pub enum FaultCommand {
    /// Let requests at the metadata endpoint go wrong.
    Add(Box<FaultArgs>),
    /// Faults that are there.
    List {
        /// Only those that are for this machine alone.
        #[arg(long, value_name = "NAME")]
        vm: Option<String>,
    },
    /// One fault.
    Show {
        /// The number of the fault.
        #[arg(value_name = "ID", value_parser = parse::ordinal)]
        id: u64,
    },
    /// End faults.
    Clear(ClearArgs),
}

/// Faults that have nothing to do with a status.
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
    /// The machine whose requests go wrong; without it those of all machines.
    #[arg(long, value_name = "NAME")]
    pub vm: Option<String>,
    #[command(flatten)]
    pub kind: FaultKindArgs,
    /// What Retry-After says, with --status 429 or 503 only; 1s without it.
    #[arg(long, value_name = "SPAN", value_parser = parse::retry_after, conflicts_with_all = WITHOUT_STATUS)]
    pub retry_after: Option<u64>,
    /// For so many requests.
    #[arg(long, value_name = "N", value_parser = parse::at_least_one)]
    pub count: Option<u32>,
    /// For so long, on the server's clock.
    #[arg(long = "for", value_name = "SPAN", value_parser = parse::whole_seconds)]
    pub seconds: Option<u64>,
    /// For so many of a hundred requests, evenly spread.
    #[arg(long, value_name = "N", value_parser = parse::percent)]
    pub percent: Option<u8>,
    /// Only for requests with this method.
    #[arg(long, value_name = "METHOD", ignore_case = true)]
    pub method: Option<FaultMethod>,
    /// Only for requests to /metadata/scheduledevents.
    #[arg(long)]
    pub documents_only: bool,
}

/// What goes wrong.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct FaultKindArgs {
    /// Answer with this status: 429, 410, 500 or 503.
    #[arg(long, value_name = "CODE")]
    pub status: Option<FaultStatus>,
    /// Answer so much later, 300s at the most.
    #[arg(long, value_name = "SPAN", value_parser = parse::delay)]
    pub delay: Option<Duration>,
    /// Reset the connection instead of an answer.
    #[arg(long)]
    pub reset: bool,
    /// Let the answer break off before its end.
    #[arg(long)]
    pub truncated: bool,
    /// Answer with what is no JSON.
    #[arg(long)]
    pub malformed: bool,
    /// Let the first GET of the document take so long, and those that come meanwhile.
    #[arg(long, value_name = "SPAN", value_parser = parse::delay)]
    pub slow_first_call: Option<Duration>,
    /// Let the incarnation begin again with 1.
    #[arg(long)]
    pub incarnation_restart: bool,
    /// Show no events, although they are there.
    #[arg(long)]
    pub events_vanish: bool,
    /// Show events of a type that nobody knows.
    #[arg(long)]
    pub unknown_type: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum FaultStatus {
    #[value(name = "429")]
    TooManyRequests,
    #[value(name = "410")]
    Gone,
    #[value(name = "500")]
    InternalServerError,
    #[value(name = "503")]
    ServiceUnavailable,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "UPPER")]
pub enum FaultMethod {
    Get,
    Post,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct ClearArgs {
    /// The number of the fault.
    #[arg(value_name = "ID", value_parser = parse::ordinal)]
    pub id: Option<u64>,
    /// All faults that are for this machine alone.
    #[arg(long, value_name = "NAME")]
    pub vm: Option<String>,
    /// All faults.
    #[arg(long)]
    pub all: bool,
}
