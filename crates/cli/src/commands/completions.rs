//! `forewarn completions`: shell completions and manual pages. `forewarn __complete`: what the shells ask for.

use std::fs;
use std::path::Path;

use crate::args::{CompletionsCommand, EXIT_CODES, command_line};
use crate::completion;
use crate::failure::Failure;
use crate::output;

pub fn run(command: CompletionsCommand) -> Result<(), Failure> {
    match command {
        CompletionsCommand::Bash => print_script(completion::BASH),
        CompletionsCommand::Zsh => print_script(completion::ZSH),
        CompletionsCommand::Fish => print_script(completion::FISH),
        CompletionsCommand::Man { directory } => write_manual(&directory),
    }
}

fn print_script(script: &str) -> Result<(), Failure> {
    output::print_line(script.trim_end())
}

/// Prints the candidates for the last word: a word, a tab and its description per line.
pub fn complete(words: &[String]) -> Result<(), Failure> {
    for candidate in completion::complete(words) {
        output::print_line(&format!("{}\t{}", candidate.word, candidate.description))?;
    }
    Ok(())
}

/// One page per command: forewarn.1, forewarn-vm.1, forewarn-vm-restart.1 and so on. The first also lists the exit codes.
fn write_manual(directory: &Path) -> Result<(), Failure> {
    let pages = command_line().after_help(EXIT_CODES);
    let written = fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(pages, directory));
    written.map_err(|error| Failure::Refused(format!("cannot write {}: {error}", directory.display())))
}
