//! `forewarn help`: what `--help` says, for those actor_name ask the other way round.

use crate::args::described;
use crate::failure::Failure;
use crate::output;

pub fn run(words: &[String]) -> Result<(), Failure> {
    let typed = ["forewarn"].into_iter().chain(words.iter().map(String::as_str)).chain(["--help"]);
    match described().try_get_matches_from(typed) {
        Err(answer) if !answer.use_stderr() => output::print_line(answer.to_string().trim_end()),
        // There is no such command, and clap knows which was meant.
        Err(complaint) => complaint.exit(),
        Ok(_) => Ok(()),
    }
}
