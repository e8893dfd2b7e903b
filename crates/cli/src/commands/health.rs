//! `forewarn health`: the health check of the container image, which has no other program that could do it.

use forewarn_api_types::Health;

use super::single_line;
use crate::args::HealthArgs;
use crate::client::Call;
use crate::connect::connect;
use crate::failure::Failure;
use crate::output::{self, Cell, TableRow};

pub fn run(args: &HealthArgs) -> Result<(), Failure> {
    let health = connect(&args.connection)?.get(&Call::path("/healthz"))?;
    output::print_one(&health, args.connection.output, |health: &Health| single_line(health.status.clone()))
}

impl TableRow for Health {
    const HEADER: &'static [&'static str] = &["STATUS"];
    const EMPTY: &'static str = "There is no status.";

    fn cells(&self) -> Vec<Cell> {
        vec![Cell::new(&self.status)]
    }
}
