//! `forewarn completions`: shell completions and manual pages, generated from the command line.

use std::fs;
use std::path::Path;

use clap_complete::Shell;

use crate::args::{CompletionsCommand, EXIT_CODES, command_line, complete_command_line};
use crate::failure::Failure;
use crate::output;

const NAME: &str = "forewarn";

pub fn run(command: CompletionsCommand) -> Result<(), Failure> {
    match command {
        CompletionsCommand::Bash => print_script(Shell::Bash),
        CompletionsCommand::Zsh => print_script(Shell::Zsh),
        CompletionsCommand::Fish => print_script(Shell::Fish),
        CompletionsCommand::Man { directory } => write_manual(&directory),
    }
}

fn print_script(shell: Shell) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    clap_complete::generate(shell, &mut complete_command_line(), NAME, &mut bytes);
    output::print_line(String::from_utf8_lossy(&bytes).trim_end())
}

/// One page per command: forewarn.1, forewarn-vm.1, forewarn-vm-restart.1 and so on. The first also lists the exit codes.
fn write_manual(directory: &Path) -> Result<(), Failure> {
    let pages = command_line().after_help(EXIT_CODES);
    let written = fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(pages, directory));
    written.map_err(|error| Failure::Refused(format!("cannot write {}: {error}", directory.display())))
}
