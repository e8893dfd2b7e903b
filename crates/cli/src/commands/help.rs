//! `forewarn help`: prints the help of a command, as `--help` does, or a help topic.

use crate::args::{command_line, find_topic};
use crate::failure::Failure;
use crate::output;

pub fn run(words: &[String]) -> Result<(), Failure> {
    if let [word] = words
        && let Some(text) = find_topic(word)
    {
        return output::print_line(text);
    }
    let arguments = ["forewarn"].into_iter().chain(words.iter().map(String::as_str)).chain(["--help"]);
    match command_line().try_get_matches_from(arguments) {
        Err(help) if !help.use_stderr() => output::print_line(help.to_string().trim_end()),
        // The command is unknown; clap suggests the closest one.
        Err(error) => error.exit(),
        Ok(_) => Ok(()),
    }
}
