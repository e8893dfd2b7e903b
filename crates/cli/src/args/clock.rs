//! Arguments of `forewarn clock`.

use clap::Subcommand;
use forewarn_api_client::moment::{self, Moment};
use forewarn_config::parse;

#[derive(Debug, Subcommand)]
pub enum ClockCommand {
    /// Show the server's time and the next scheduled change.
    Show,
    /// Advance a manual clock.
    Advance {
        /// Time to advance by, such as 90s, 15m or 1h30m.
        #[arg(value_name = "DURATION", value_parser = parse::whole_seconds, allow_hyphen_values = true)]
        seconds: u64,
    },
    /// Set a manual clock to a later time.
    Set {
        /// Time to set, such as '2026-07-28 10:00:00', 10:00 or +2h.
        #[arg(value_name = "TIME", value_parser = moment::parse_future)]
        time: Moment,
    },
}
