//! `forewarn token`: the token in the data directory.

use std::fs;
use std::path::Path;

use forewarn_server::api::{TOKEN_FILE, rotate_token};

use crate::args::TokenCommand;
use crate::config::data_directory;
use crate::failure::Failure;
use crate::output;

pub fn run(command: TokenCommand) -> Result<(), Failure> {
    match command {
        TokenCommand::Show(args) => show(&data_directory(args.data)?.join(TOKEN_FILE)),
        TokenCommand::Rotate(args) => rotate(&data_directory(args.data)?),
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

fn rotate(directory: &Path) -> Result<(), Failure> {
    let file = directory.join(TOKEN_FILE);
    rotate_token(directory).map_err(|error| {
        let cause = std::error::Error::source(&error).map_or(String::new(), |cause| format!(": {cause}"));
        Failure::Refused(format!(
            "No new token is made, {error}{cause}. Name the server's data directory with --data DIR."
        ))
    })?;
    output::aside(&format!("A new token is in {}.", file.display()));
    Ok(())
}
