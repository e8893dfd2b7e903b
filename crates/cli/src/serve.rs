//! `forewarn serve`: read the configuration, start the server, say where it is, stop when told.

use crate::args::ServeArgs;
use crate::config::{self, Sources};
use crate::failure::Failure;
use crate::output;

pub fn run(args: ServeArgs) -> Result<(), Failure> {
    let sources = Sources { file: args.config, environment: std::env::vars().collect(), flags: args.flags };
    let effective = config::read(&sources)?;
    let config = effective.choices.meant()?;
    if args.print_config {
        return output::line(config::print(&effective.choices).trim_end());
    }
    drop(config);
    Ok(())
}
