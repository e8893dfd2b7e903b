//! The binary `forewarn`: `serve` runs the server, everything else is a client of its management API
//! or works on the data directory of a server that does not run.

mod args;
mod config;
mod words;

use clap::Parser as _;

fn main() {
    let args = args::Args::parse();
    let args::Command::Serve(serve) = args.command else { return };
    let effective = config::read(&config::Sources {
        file: serve.config,
        environment: std::env::vars().collect(),
        flags: serve.flags,
    })
    .unwrap();
    let _ = effective.choices.meant().unwrap();
    print!("{}", config::print(&effective.choices));
}
