//! `forewarn completions`.

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum CompletionsCommand {
    /// For ~/.local/share/bash-completion/completions/forewarn, or: source <(forewarn completions bash).
    Bash,
    /// For a file _forewarn in a directory of $fpath.
    Zsh,
    /// For ~/.config/fish/completions/forewarn.fish.
    Fish,
    /// Write the manual pages of all commands into a directory.
    Man {
        /// The directory; it is made when it is not there.
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}
