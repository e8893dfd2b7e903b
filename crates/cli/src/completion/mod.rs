//! Shell completion: the scripts for the shells, and the candidates that they ask for with `forewarn __complete`.
//!
//! ```text
//!  shell script ──words──▶ position: what is being typed ─▶ flags, commands, fixed values
//!                                                        └▶ values: names and IDs from the server
//! ```
//!
//! Candidates are computed when they are needed, because names and IDs come from the server. Completion never reports an
//! error and never starts a server: without an answer there are no candidates, and the shell offers files.

mod position;
mod values;

use position::{Position, Slot};

pub const BASH: &str = include_str!("scripts/forewarn.bash");
pub const ZSH: &str = include_str!("scripts/forewarn.zsh");
pub const FISH: &str = include_str!("scripts/forewarn.fish");

/// A word that the shell can insert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub word: String,
    /// Shown by zsh and fish.
    pub description: String,
}

impl Candidate {
    fn new(word: impl Into<String>, description: impl Into<String>) -> Candidate {
        Candidate { word: word.into(), description: description.into() }
    }

    fn starts_with(&self, typed: &str) -> bool {
        self.word.get(..typed.len()).is_some_and(|start| start.eq_ignore_ascii_case(typed))
    }
}

/// The candidates for the last word. `words`: the typed words after the name of the program.
pub fn complete(words: &[String]) -> Vec<Candidate> {
    let mut command = crate::args::complete_command_line();
    command.build();
    let Some((typed, before)) = words.split_last() else { return Vec::new() };
    let position = Position::find(&command, before);
    let (prefix, typed, slot) = position.slot(typed);
    let found = match slot {
        Slot::Nothing => Vec::new(),
        Slot::Value(arg) => values_of(&position, arg, typed),
        Slot::Flag => flags(position.command),
        Slot::Word(positional) => {
            let values = positional.map(|arg| values_of(&position, arg, typed)).unwrap_or_default();
            commands(position.command).chain(values).collect()
        }
    };
    let matching = found.into_iter().filter(|candidate| candidate.starts_with(typed));
    matching.map(|candidate| Candidate { word: format!("{prefix}{}", candidate.word), ..candidate }).collect()
}

fn values_of(position: &Position<'_>, arg: &clap::Arg, typed: &str) -> Vec<Candidate> {
    let possible = arg.get_possible_values();
    if !possible.is_empty() {
        let shown = possible.iter().filter(|value| !value.is_hide_set());
        return shown.map(|value| Candidate::new(value.get_name(), describe(value.get_help()))).collect();
    }
    let Some(kind) = values::kind_of(&position.path, arg) else { return Vec::new() };
    values::fetch(kind, &position.connection, typed)
}

fn commands(command: &clap::Command) -> impl Iterator<Item = Candidate> {
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown.flat_map(|command| {
        let names = std::iter::once(command.get_name()).chain(command.get_visible_aliases());
        names.map(|name| Candidate::new(name, describe(command.get_about())))
    })
}

fn flags(command: &clap::Command) -> Vec<Candidate> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    shown.filter_map(|arg| Some(Candidate::new(format!("--{}", arg.get_long()?), describe(arg.get_help())))).collect()
}

/// The first line, without control characters, which end a candidate.
fn describe(help: Option<&clap::builder::StyledStr>) -> String {
    let text = help.map(ToString::to_string).unwrap_or_default();
    text.lines().next().unwrap_or_default().replace(char::is_control, " ")
}
