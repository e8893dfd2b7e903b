//! Arguments of `forewarn health`.

use super::connection::Connection;

#[derive(Debug, clap::Args)]
pub struct HealthArgs {
    #[command(flatten)]
    pub connection: Connection,
}
