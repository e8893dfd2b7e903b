//! Arguments of `forewarn history`.

use clap::builder::PossibleValuesParser;
use forewarn_api_client::moment::{self, Moment};
use forewarn_config::parse;
use forewarn_store::HistoryKind;

use super::Connection;

#[derive(Debug, clap::Args)]
pub struct HistoryArgs {
    #[command(flatten)]
    pub connection: Connection,
    /// Machine to show: NAME, GROUP/NAME or vmId; NAME also finds deleted machines.
    #[arg(long, value_name = "NAME")]
    pub vm: Option<String>,
    /// ID of the event to show.
    #[arg(long, value_name = "ID")]
    pub event: Option<String>,
    /// ID of the operation to show.
    #[arg(long, value_name = "ID")]
    pub operation: Option<String>,
    /// Kind of entry to show; repeatable.
    #[arg(long = "kind", value_name = "KIND", value_delimiter = ',', value_parser = PossibleValuesParser::new(HistoryKind::ALL.map(HistoryKind::as_str)))]
    pub kinds: Vec<String>,
    /// Earliest time to show, such as '2026-07-28 10:00:00', 10:00 or 1h (ago).
    #[arg(long, value_name = "TIME", value_parser = moment::parse_past, allow_hyphen_values = true)]
    pub since: Option<Moment>,
    /// Time before which entries are shown.
    #[arg(long, value_name = "TIME", value_parser = moment::parse_past, allow_hyphen_values = true)]
    pub until: Option<Moment>,
    /// Number of entries to show, newest first.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = |text: &str| parse::number(text, 1, 1000))]
    pub limit: u32,
}
