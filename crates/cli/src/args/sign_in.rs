//! Arguments of `forewarn az`, `forewarn ca` and `forewarn token issue`.

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
    /// Configuration directory for az [default: azure in the data directory, or a directory below $XDG_RUNTIME_DIR or
    /// ~/.cache if the server has none].
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Role that az signs in with.
    #[arg(long, value_name = "ROLE", default_value = "owner", value_parser = role())]
    pub role: Role,
    /// Arguments for az, after --.
    #[arg(last = true, value_name = "ARGS")]
    pub az: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
pub struct IssueArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// Role of the token: reader (read only), operator (also approve, cancel, restart, maintain) or owner (everything).
    #[arg(long, value_name = "ROLE", value_parser = role())]
    pub role: Role,
    /// Lifetime in hours; a token cannot be revoked.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = hours)]
    pub hours: i64,
    /// Name of the holder in the history [default: the role].
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum CaCommand {
    /// Print the certificate of the authority, for programs that must trust the server.
    Show,
    /// Print the SHA-256 fingerprint of the authority, to compare when logging in.
    Fingerprint,
}

fn hours(text: &str) -> Result<i64, String> {
    let fits = |hours: &i64| (1..=TOKEN_HOURS_MAX).contains(hours);
    text.parse().ok().filter(fits).ok_or_else(|| format!("a whole number from 1 to {TOKEN_HOURS_MAX}"))
}

/// Parses the name of a role.
pub(super) fn role() -> impl TypedValueParser<Value = Role> {
    let words = PossibleValuesParser::new(Role::ALL.map(Role::as_str));
    words.map(|word| Role::parse(&word).expect("only words of roles are taken"))
}
