//! Helpers for every program on a terminal: text that cannot move the cursor, and whether to use colors.

use std::io::IsTerminal;

/// Replaces control characters, so that external text cannot move the cursor.
pub fn escape(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Whether the stream is a terminal and NO_COLOR is not set.
pub fn use_color(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
