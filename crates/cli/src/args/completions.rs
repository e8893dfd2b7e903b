//! Arguments of `forewarn completions`.

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum CompletionsCommand {
    /// Print the completion script for bash.
    Bash,
    /// Print the completion script for zsh.
    Zsh,
    /// Print the completion script for fish.
    Fish,
    /// Write the manual pages of all commands to a directory.
    Man {
        /// Directory to write to; created if missing.
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}
