//! `forewarn clock`.

use clap::Subcommand;

use crate::parse;

#[derive(Debug, Subcommand)]
pub enum ClockCommand {
    /// Show what time it is for the server.
    Show,
    /// Let time pass on a manual clock: 15m, 90s, 1h30m.
    Advance {
        /// How long.
        #[arg(value_name = "SPAN", value_parser = parse::whole_seconds, allow_hyphen_values = true)]
        seconds: u64,
    },
    /// Move a manual clock forward to a point in time.
    Set {
        /// When, such as 2026-07-28T10:00:00Z.
        #[arg(value_name = "TIME", value_parser = parse::time)]
        time: jiff::Timestamp,
    },
}
