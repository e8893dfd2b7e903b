//! Output for people and programs: tables, fields, JSON, YAML, tab-separated values; colors on a terminal.

mod print;
mod status;
mod table;
mod width;
mod yaml;

use std::io::{self, Write};

pub use forewarn_api_client::terminal::{escape, use_color};
pub use print::{ApiValue, TableRow, format_fields, print_answer, print_list, print_one, print_value, to_value};
pub use status::{StatusLine, clear_status};
pub use table::{Cell, Color, print_table, table_lines};
pub use width::wrap;

use crate::failure::Failure;

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
