//! How a command ends when it does not end well: a sentence or two, and an exit code.

#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server, or this machine, said no.
    Refused(String),
    /// What was typed or configured is wrong.
    Usage(String),
    Unreachable(String),
    /// What was waited for ended otherwise than wished.
    Failed(String),
    /// What was waited for did not come true in time.
    TimedOut(String),
    /// What was waited for cannot come true any more.
    Missed(String),
    /// Nobody reads our output any more: `forewarn history | head`.
    Silent,
    /// A program was to be run, and was not; with an exit code that programs seldom use themselves.
    NotRun(u8, String),
}

/// As `env`, `timeout` and shells count.
pub const NOT_RUN: u8 = 125;
pub const CANNOT_RUN: u8 = 126;
pub const NOT_FOUND: u8 = 127;

impl Failure {
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Refused(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Unreachable(_) => 3,
            Failure::Failed(_) => 4,
            Failure::TimedOut(_) => 5,
            Failure::Missed(_) => 6,
            Failure::Silent => 0,
            Failure::NotRun(code, _) => *code,
        }
    }

    pub fn message(&self) -> Option<&str> {
        match self {
            Failure::Refused(text)
            | Failure::Usage(text)
            | Failure::Unreachable(text)
            | Failure::Failed(text)
            | Failure::TimedOut(text)
            | Failure::Missed(text)
            | Failure::NotRun(_, text) => Some(text),
            Failure::Silent => None,
        }
    }
}

impl Failure {
    /// The same with one sentence more.
    pub fn and(self, more: &str) -> Failure {
        let longer = |text: String| format!("{text} {more}");
        match self {
            Failure::Refused(text) => Failure::Refused(longer(text)),
            Failure::Usage(text) => Failure::Usage(longer(text)),
            Failure::Unreachable(text) => Failure::Unreachable(longer(text)),
            Failure::Failed(text) => Failure::Failed(longer(text)),
            Failure::TimedOut(text) => Failure::TimedOut(longer(text)),
            Failure::Missed(text) => Failure::Missed(longer(text)),
            Failure::NotRun(code, text) => Failure::NotRun(code, longer(text)),
            Failure::Silent => Failure::Silent,
        }
    }
}

/// An error's words as a sentence for people. Paths and names of files stay as they are.
pub fn sentence(words: &str) -> String {
    let first = words.split_whitespace().next().unwrap_or_default().trim_end_matches(['.', ',', ':']);
    let mut letters = words.chars();
    let text: String = if first.contains(['/', '.']) {
        words.into()
    } else {
        letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
    };
    if text.ends_with('.') { text } else { format!("{text}.") }
}

/// What the system says of an error, without the number that it has there: `(os error 2)`.
pub fn without_numbers(words: &str) -> String {
    let mut parts = words.split(" (os error ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| match part.split_once(')') {
        Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => text + rest,
        Some(_) | None => format!("{text} (os error {part}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_numbers_are_left_out() {
        for (words, expected) in [
            ("x: No such file (os error 2). Do y.", "x: No such file. Do y."),
            ("a (os error 1) b (os error 22)", "a b"),
            ("a (os error x)", "a (os error x)"),
            ("plain", "plain"),
        ] {
            assert_eq!(without_numbers(words), expected);
        }
    }

    #[test]
    fn sentences_begin_with_a_capital_unless_with_a_path() {
        for (words, expected) in [
            ("no room", "No room."),
            ("is it over.", "Is it over."),
            ("data/forewarn.db is locked", "data/forewarn.db is locked."),
            ("forewarn.db: no such file", "forewarn.db: no such file."),
            ("failed.", "Failed."),
        ] {
            assert_eq!(sentence(words), expected);
        }
    }
}
