//! `forewarn completions`: what shells and `man` read, made from the command line itself.

use std::fs;
use std::path::Path;

use clap_complete::Shell;

use crate::args::{CompletionsCommand, described};
use crate::failure::Failure;
use crate::output;

const NAME: &str = "forewarn";

pub fn run(command: CompletionsCommand) -> Result<(), Failure> {
    match command {
        CompletionsCommand::Bash => script(Shell::Bash),
        CompletionsCommand::Zsh => script(Shell::Zsh),
        CompletionsCommand::Fish => script(Shell::Fish),
        CompletionsCommand::Man { directory } => manual(&directory),
    }
}

fn script(shell: Shell) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    clap_complete::generate(shell, &mut described(), NAME, &mut bytes);
    output::print_line(String::from_utf8_lossy(&bytes).trim_end())
}

/// One page for each command: forewarn.1, forewarn-vm.1, forewarn-vm-restart.1 and so on.
fn manual(directory: &Path) -> Result<(), Failure> {
    let written = fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(described(), directory));
    written.map_err(|error| Failure::Refused(format!("{} cannot be written: {error}.", directory.display())))
}
