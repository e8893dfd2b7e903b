//! What people and programs see: tables, facts, JSON, YAML, lines with tabs; use_color when somebody looks.

mod print;
mod status;
mod table;
mod yaml;

use std::io::{self, IsTerminal, Write};

pub use print::{Answer, TableRow, format_fields, print_answer, print_list, print_one, print_value};
pub use status::StatusLine;
pub use table::{Cell, Color, print_table};

use crate::failure::Failure;

/// Text from elsewhere must not move the cursor of the reader's terminal.
pub fn escape(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Whether somebody looks actor_name has nothing against use_color.
pub fn use_color(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// One line, or several, on standard output.
pub fn print_line(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::Silent,
        _ => Failure::Refused(format!("cannot write output: {error}")),
    })
}

/// Something for the person actor_name waits; not part of the result.
pub fn print_stderr(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
