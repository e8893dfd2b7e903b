//! The commands about signing in, as they were typed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Subcommand;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use forewarn_access::{Role, TOKEN_HOURS_MAX};

use super::connection::Connection;
use super::data::DataArgs;

#[derive(Debug, clap::Args)]
pub struct AzArgs {
    #[command(flatten)]
    pub connection: Connection,
    /// The configuration directory; without it `azure` in the data directory, or, for a server that keeps nothing, one in
    /// $XDG_RUNTIME_DIR or ~/.cache.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// What az may do.
    #[arg(long, value_name = "ROLE", default_value = "owner", value_parser = role())]
    pub role: Role,
    /// Run az with these.
    #[arg(last = true, value_name = "ARGS")]
    pub az: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
pub struct IssueArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// What its holder may do: look; also approve, cancel, restart and maintain; or everything.
    #[arg(long, value_name = "ROLE", value_parser = role())]
    pub role: Role,
    /// How long it is good for; it cannot be called back.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = hours)]
    pub hours: i64,
    /// Who its holder is in the history; without it the role.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum CaCommand {
    /// Print its certificate, for programs that shall trust the server.
    Show,
}

fn hours(text: &str) -> Result<i64, String> {
    let fits = |hours: &i64| (1..=TOKEN_HOURS_MAX).contains(hours);
    text.parse().ok().filter(fits).ok_or_else(|| format!("a whole number from 1 to {TOKEN_HOURS_MAX}"))
}

/// One of the words for roles.
pub(super) fn role() -> impl TypedValueParser<Value = Role> {
    let words = PossibleValuesParser::new(Role::ALL.map(Role::word));
    words.map(|word| Role::parse(&word).expect("only words of roles are taken"))
}
