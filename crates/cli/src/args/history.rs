//! `forewarn history`.

use clap::builder::PossibleValuesParser;
use forewarn_api::HISTORY_KINDS;

use super::Connection;
use crate::parse;

#[derive(Debug, clap::Args)]
pub struct HistoryArgs {
    #[command(flatten)]
    pub connection: Connection,
    /// Only of this machine: its name, group/name or vmId. A name alone finds one that is gone, too.
    #[arg(long, value_name = "NAME")]
    pub vm: Option<String>,
    /// Only of the event with this id.
    #[arg(long, value_name = "ID")]
    pub event: Option<String>,
    /// Only of the operation with this id.
    #[arg(long, value_name = "ID")]
    pub operation: Option<String>,
    /// Only this kind; may be repeated.
    #[arg(long = "kind", value_name = "KIND", value_delimiter = ',', value_parser = PossibleValuesParser::new(HISTORY_KINDS))]
    pub kinds: Vec<String>,
    /// Not before this time, such as 2026-07-28T10:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = parse::time)]
    pub since: Option<jiff::Timestamp>,
    /// Before this time.
    #[arg(long, value_name = "TIME", value_parser = parse::time)]
    pub until: Option<jiff::Timestamp>,
    /// The newest so many.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = |text: &str| parse::number(text, 1, 1000))]
    pub limit: u32,
}
