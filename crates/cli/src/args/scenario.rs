//! Arguments of `forewarn scenario`.

use clap::Subcommand;
use forewarn_config::parse;

#[derive(Debug, Subcommand)]
pub enum ScenarioCommand {
    /// List the built-in scenarios.
    List,
    /// Print the file of a built-in scenario.
    Show {
        /// Name of the scenario.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Run a scenario on the server.
    Run {
        /// Name of a built-in scenario, or a file.
        #[arg(value_name = "NAME|FILE")]
        scenario: String,
        /// Machine to use instead of the scenario's own.
        #[arg(long, value_name = "NAME")]
        vm: Option<String>,
        /// Wait for a handler to poll the machine's document instead of simulating a poll.
        #[arg(long)]
        handler: bool,
        /// Check the scenario and print its steps without running it.
        #[arg(long, conflicts_with = "no_wait")]
        dry_run: bool,
        /// Return immediately instead of waiting for the run to finish.
        #[arg(long)]
        no_wait: bool,
    },
    /// List running and recent scenario runs.
    Runs,
    /// Stop a scenario run.
    Stop {
        /// Run ID.
        #[arg(value_name = "RUN", value_parser = parse::id_number)]
        run: u64,
    },
}
