//! Finds out what the last word of an unfinished command line can be. Pure.

use clap::{Arg, Command};

use super::values::TypedWords;

/// Where the typed words lead to.
pub struct Position<'a> {
    pub command: &'a Command,
    /// The names of the commands so far, without the program.
    pub path: Vec<&'a str>,
    /// The connection options so far.
    pub connection: TypedWords,
    /// The option that the next word is a value of.
    pending: Option<&'a Arg>,
    /// The number of words so far that are no commands and no options.
    positionals: usize,
    /// `--` was typed: no more options.
    is_escaped: bool,
}

/// The roles that a word can have.
pub enum Slot<'a> {
    Nothing,
    /// A value of this option.
    Value(&'a Arg),
    Flag,
    /// A command, or a value of this positional argument.
    Word(Option<&'a Arg>),
}

impl<'a> Position<'a> {
    pub fn find(root: &'a Command, words: &[String]) -> Position<'a> {
        let mut position = Position {
            command: root,
            path: Vec::new(),
            connection: TypedWords::default(),
            pending: None,
            positionals: 0,
            is_escaped: false,
        };
        words.iter().for_each(|word| position.step(word));
        position
    }

    /// The unchangeable beginning of a word, its rest, and what the rest can be.
    pub fn slot<'w>(&self, word: &'w str) -> (&'w str, &'w str, Slot<'a>) {
        if let Some(arg) = self.pending {
            return ("", word, Slot::Value(arg));
        }
        if self.is_escaped {
            return ("", word, self.positional().map_or(Slot::Nothing, Slot::Value));
        }
        if let Some((flag, value)) = word.split_once('=')
            && let Some(arg) = self.long(flag)
        {
            return (&word[..word.len() - value.len()], value, Slot::Value(arg));
        }
        match word.starts_with('-') {
            true => ("", word, Slot::Flag),
            false => ("", word, Slot::Word(self.positional())),
        }
    }

    fn step(&mut self, word: &str) {
        if let Some(arg) = self.pending.take() {
            self.connection.note(arg, word);
        } else if self.is_escaped {
            self.positionals += 1;
        } else if word == "--" {
            self.is_escaped = true;
        } else if let Some((flag, value)) = word.split_once('=')
            && let Some(arg) = self.long(flag)
        {
            self.connection.note(arg, value);
        } else if word.starts_with("--") {
            self.pending = self.long(word).filter(|arg| takes_value(arg));
        } else if word.starts_with('-') && word.len() > 1 {
            self.step_short(&word[1..]);
        } else if self.positionals == 0
            && let Some(command) = self.command.find_subcommand(word)
        {
            self.command = command;
            self.path.push(command.get_name());
        } else {
            self.positionals += 1;
        }
    }

    /// Short options can be joined, and the last one with its value.
    fn step_short(&mut self, letters: &str) {
        for (at, letter) in letters.char_indices() {
            let Some(arg) = self.command.get_arguments().find(|arg| arg.get_short() == Some(letter)) else { return };
            if takes_value(arg) {
                let value = &letters[at + letter.len_utf8()..];
                match value.is_empty() {
                    true => self.pending = Some(arg),
                    false => self.connection.note(arg, value.trim_start_matches('=')),
                }
                return;
            }
        }
    }

    fn long(&self, flag: &str) -> Option<&'a Arg> {
        let name = flag.strip_prefix("--")?;
        self.command.get_arguments().find(|arg| {
            arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
        })
    }

    /// The positional argument that comes next. One with several values takes all further words.
    fn positional(&self) -> Option<&'a Arg> {
        let mut positionals: Vec<&Arg> = self.command.get_positionals().collect();
        positionals.sort_by_key(|arg| arg.get_index());
        let last = positionals.last().copied().filter(|arg| is_repeatable(arg));
        positionals.get(self.positionals).copied().or(last)
    }
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values() && arg.get_num_args().is_none_or(|count| count.min_values() > 0)
}

fn is_repeatable(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|count| count.max_values() > 1)
}
