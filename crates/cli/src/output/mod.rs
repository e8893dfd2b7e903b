//! Output for people and programs: tables, fields, JSON, YAML, tab-separated values; colors on a terminal.

mod print;
mod status;
mod table;
mod yaml;

use std::io::{self, IsTerminal, Write};

pub use print::{Answer, TableRow, format_fields, print_answer, print_list, print_one, print_value};
pub use status::StatusLine;
pub use table::{Cell, Color, print_table};

use crate::failure::Failure;

/// Replaces control characters, so that external text cannot move the cursor.
pub fn escape(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Whether the stream is a terminal and NO_COLOR is not set.
pub fn use_color(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Prints text to standard output.
pub fn print_line(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::Silent,
        _ => Failure::Refused(format!("cannot write output: {error}")),
    })
}

/// Prints a message for the user to standard error.
pub fn print_stderr(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
