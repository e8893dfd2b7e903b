//! What people and programs see: tables, facts, JSON, YAML, lines with tabs; colours when somebody looks.

mod show;
mod status;
mod table;
mod yaml;

use std::io::{self, IsTerminal, Write};

pub use show::{Answer, Shown, facts, list, one, show, value};
pub use status::StatusLine;
pub use table::{Cell, Colour, table};

use crate::failure::Failure;

/// Text from elsewhere must not move the cursor of the reader's terminal.
pub fn tame(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Whether somebody looks who has nothing against colours.
pub fn colours(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// One line, or several, on standard output.
pub fn line(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::NobodyReads,
        _ => Failure::Refused(format!("The output cannot be written: {error}.")),
    })
}

/// Something for the person who waits; not part of the result.
pub fn aside(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
