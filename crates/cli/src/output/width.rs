//! The width of the terminal, and text that fits it.

use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd;

/// Width of a terminal that does not report one.
const COLUMNS_DEFAULT: usize = 80;

/// The columns of a terminal.
pub fn columns(stream: impl AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(stream);
    size.ok().map(|size| size.ws_col.into()).filter(|columns| *columns > 0).unwrap_or(COLUMNS_DEFAULT)
}

/// The columns of standard output; None if it is not a terminal, where lines have no limit.
pub fn stdout_columns() -> Option<usize> {
    io::stdout().is_terminal().then(|| columns(io::stdout()))
}

/// Breaks text into indented lines that fit the terminal.
pub fn wrap(text: &str, indent: &str) -> Vec<String> {
    wrap_to(text, indent, stdout_columns())
}

fn wrap_to(text: &str, indent: &str, columns: Option<usize>) -> Vec<String> {
    let most = columns.unwrap_or(usize::MAX);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(format!("{indent}{word}")),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_between_words() {
        let text = "approved its own Reboot after 0.5 s";
        assert_eq!(wrap_to(text, "  ", Some(20)), ["  approved its own", "  Reboot after 0.5 s"]);
        assert_eq!(wrap_to(text, "  ", None), ["  approved its own Reboot after 0.5 s"]);
        assert_eq!(wrap_to("", "  ", None), Vec::<String>::new());
    }
}
