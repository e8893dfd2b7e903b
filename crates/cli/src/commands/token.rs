//! `forewarn token`: the token in the data directory.

use std::fs;
use std::path::Path;

use crate::args::TokenCommand;
use crate::config::data_directory;
use crate::failure::Failure;
use crate::output;

pub fn run(command: TokenCommand) -> Result<(), Failure> {
    match command {
        TokenCommand::Show(args) => show(&data_directory(args.data)?.join("token")),
        TokenCommand::Rotate(_) => Err(Failure::Refused("Not there yet.".into())),
    }
}

fn show(file: &Path) -> Result<(), Failure> {
    let token = fs::read_to_string(file).map_err(|error| {
        Failure::Refused(format!(
            "{} cannot be read: {error}. `forewarn serve` makes it at its first start; name its data directory with --data DIR.",
            file.display()
        ))
    })?;
    output::line(token.trim())
}
