//! Hints after usage errors that clap cannot explain.

use std::ffi::{OsStr, OsString};

use clap::error::ErrorKind;

/// Commands that run another command after `--`.
const RUNNERS: [&str; 2] = ["run", "check"];

/// A hint for `forewarn run ./handler`, which lacks `--`.
pub fn suggest_separator(words: &[OsString], kind: ErrorKind) -> Option<String> {
    let runner = words.get(1)?.to_str().filter(|word| RUNNERS.contains(word))?;
    let relevant = matches!(kind, ErrorKind::UnknownArgument | ErrorKind::MissingRequiredArgument);
    if !relevant || words.iter().any(|word| word == "--") {
        return None;
    }
    let command = words.iter().skip(2).position(|word| !is_option(word))?;
    let (options, command) = words[2..].split_at(command);
    let join = |words: &[OsString]| words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let options = if options.is_empty() { String::new() } else { format!("{} ", join(options)) };
    Some(format!("hint: put -- before the command: forewarn {runner} {options}-- {}", join(command)))
}

fn is_option(word: &OsStr) -> bool {
    word.as_encoded_bytes().starts_with(b"-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_without_a_separator_gets_a_hint() {
        let hint = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            suggest_separator(&words, ErrorKind::UnknownArgument)
        };
        let expected = "hint: put -- before the command: forewarn run -- ./handler --fast";
        assert_eq!(hint("forewarn run ./handler --fast").as_deref(), Some(expected));
        let expected = "hint: put -- before the command: forewarn check --verbose -- ./handler";
        assert_eq!(hint("forewarn check --verbose ./handler").as_deref(), Some(expected));
        assert_eq!(hint("forewarn run --quik -- ./handler"), None);
        assert_eq!(hint("forewarn vm lst"), None);
    }
}
