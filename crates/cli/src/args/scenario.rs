//! `forewarn scenario`.

use clap::Subcommand;

use crate::parse;

#[derive(Debug, Subcommand)]
pub enum ScenarioCommand {
    /// The scenarios that come with the program.
    List,
    /// Show the file of one of them, to begin your own with.
    Show {
        /// The name of a scenario.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Run a scenario on the server, step by step.
    Run {
        /// The name of a scenario that comes with the program, or a file.
        #[arg(value_name = "NAME|FILE")]
        scenario: String,
        /// The machine that takes the place of the scenario's own.
        #[arg(long, value_name = "NAME")]
        vm: Option<String>,
        /// Wait until a handler asks for that machine's document, instead of pretending that it did.
        #[arg(long)]
        handler: bool,
        /// Do not wait for the end.
        #[arg(long)]
        no_wait: bool,
    },
    /// The runs of this server, those that ended lately included.
    Runs,
    /// Stop a run.
    Stop {
        /// The number of the run.
        #[arg(value_name = "RUN", value_parser = parse::ordinal)]
        run: u64,
    },
}
