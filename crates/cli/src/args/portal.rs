//! Arguments of `forewarn portal`.

use super::connection::Connection;

#[derive(Debug, clap::Args)]
pub struct PortalArgs {
    #[command(flatten)]
    pub connection: Connection,
    /// Print the sign-in link instead of opening a browser.
    #[arg(long)]
    pub print: bool,
}
