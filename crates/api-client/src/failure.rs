//! The ways in which a command can fail, each with a message and an exit code.

use forewarn_connect::ConnectError;

#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server or the local system refused or failed.
    Refused(String),
    /// The arguments or the configuration are invalid.
    Usage(String),
    Unreachable(String),
    /// An operation, a scenario or a check ended without success.
    Failed(String),
    TimedOut(String),
    /// The awaited status can no longer be reached.
    Missed(String),
    /// SIGINT or SIGTERM ended the command.
    Interrupted,
    /// Nothing to report, for example because the reader of a pipe is gone: `forewarn history | head`.
    Silent,
    /// A program could not be run; with the exit code that shells use for it.
    NotRun(u8, String),
}

/// Exit codes of [`Failure::NotRun`], as used by `env`, `timeout` and shells.
pub const NOT_RUN: u8 = 125;
pub const CANNOT_RUN: u8 = 126;
pub const NOT_FOUND: u8 = 127;

/// The exit code that shells use for a program that SIGINT ended.
pub const INTERRUPTED: u8 = 130;

impl Failure {
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Refused(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Unreachable(_) => 3,
            Failure::Failed(_) => 4,
            Failure::TimedOut(_) => 5,
            Failure::Missed(_) => 6,
            Failure::Interrupted => INTERRUPTED,
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
            Failure::Interrupted | Failure::Silent => None,
        }
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Failure {
        match error {
            ConnectError::Usage(text) => Failure::Usage(text),
            ConnectError::Refused(text) => Failure::Refused(text),
        }
    }
}

impl Failure {
    /// Appends advice to the message.
    pub fn with_advice(self, advice: &str) -> Failure {
        let longer = |text: String| format!("{}; {advice}", text.trim_end_matches('.'));
        match self {
            Failure::Refused(text) => Failure::Refused(longer(text)),
            Failure::Usage(text) => Failure::Usage(longer(text)),
            Failure::Unreachable(text) => Failure::Unreachable(longer(text)),
            Failure::Failed(text) => Failure::Failed(longer(text)),
            Failure::TimedOut(text) => Failure::TimedOut(longer(text)),
            Failure::Missed(text) => Failure::Missed(longer(text)),
            Failure::NotRun(code, text) => Failure::NotRun(code, longer(text)),
            Failure::Interrupted => Failure::Interrupted,
            Failure::Silent => Failure::Silent,
        }
    }
}

/// Removes the codes of system errors, such as `(os error 2)`, from a message.
pub fn strip_os_codes(words: &str) -> String {
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
    fn os_error_codes_are_removed() {
        for (words, expected) in [
            ("x: No such file (os error 2). Do y.", "x: No such file. Do y."),
            ("a (os error 1) b (os error 22)", "a b"),
            ("a (os error x)", "a (os error x)"),
            ("plain", "plain"),
        ] {
            assert_eq!(strip_os_codes(words), expected);
        }
    }
}
