//! `forewarn portal`.

use super::connection::Connection;

#[derive(Debug, clap::Args)]
pub struct PortalArgs {
    #[command(flatten)]
    pub connection: Connection,
    /// Only print the link.
    #[arg(long)]
    pub print: bool,
}
