//! Global options: the connection options can be given before the command as well as after it.
//!
//! `forewarn --server URL vm list` is parsed as `forewarn vm --server URL list`, so that commands without a
//! connection reject these options with the usual error.

use std::ffi::{OsStr, OsString};

use clap::{Arg, Args as _, Command};

use super::Connection;

/// Flags of [`Connection`], each with a value.
const FLAGS: [&str; 5] = ["--server", "--data", "--token", "--output", "-o"];

/// The connection options as options of the root command, which lists them in its help.
pub fn root_arguments() -> Vec<Arg> {
    let command = Connection::augment_args(Command::new("forewarn"));
    command.get_arguments().map(|arg| arg.clone().global(false)).collect()
}

/// Moves the connection options behind the command. Other flags stay in place and are rejected by clap.
pub fn move_behind_command(words: Vec<OsString>) -> Vec<OsString> {
    let mut end = 1;
    while let Some(length) = words.get(end).and_then(|word| flag_length(word)) {
        end += length;
    }
    if end == 1 || end >= words.len() {
        return words;
    }
    let mut ordered = vec![words[0].clone(), words[end].clone()];
    ordered.extend_from_slice(&words[1..end]);
    ordered.extend_from_slice(&words[end + 1..]);
    ordered
}

/// The number of words that a connection option takes, including its value.
fn flag_length(word: &OsStr) -> Option<usize> {
    let word = word.to_str()?;
    if FLAGS.contains(&word) {
        return Some(2);
    }
    let joined = FLAGS.iter().any(|flag| word.strip_prefix(flag).is_some_and(|rest| rest.starts_with('=')));
    let short = word.starts_with("-o") && word.len() > 2;
    (joined || short).then_some(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_before_the_command_move_behind_it() {
        let check = |typed: &str, expected: &str| {
            let words = typed.split(' ').map(OsString::from).collect();
            let ordered: Vec<String> =
                move_behind_command(words).into_iter().map(|word| word.into_string().unwrap()).collect();
            assert_eq!(ordered.join(" "), expected);
        };
        check("forewarn --server http://h:1 -o json vm list", "forewarn vm --server http://h:1 -o json list");
        check("forewarn --data=/d -ojson history --limit 1", "forewarn history --data=/d -ojson --limit 1");
        check("forewarn vm list --server x", "forewarn vm list --server x");
        check("forewarn --server x", "forewarn --server x");
        check("forewarn --server", "forewarn --server");
        check("forewarn --help", "forewarn --help");
        check("forewarn --serve x vm", "forewarn --serve x vm");
        check("forewarn --data d run -- a --server b", "forewarn run --data d -- a --server b");
    }
}
