//! What people see: tables, lines, colours when somebody looks.

use std::io::{self, IsTerminal, Write};

use serde_json::Value;

use crate::failure::Failure;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    Plain,
    Yellow,
    Red,
    Green,
    Grey,
}

#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    colour: Colour,
}

impl Cell {
    pub fn new(text: impl Into<String>) -> Cell {
        Cell { text: tame(&text.into()), colour: Colour::Plain }
    }

    pub fn coloured(text: impl Into<String>, colour: Colour) -> Cell {
        Cell { colour, ..Cell::new(text) }
    }
}

/// Text from elsewhere must not move the cursor of the reader's terminal.
pub fn tame(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Columns as wide as they need to be. Without rows only the sentence `nothing`.
pub fn table(head: &[&str], rows: &[Vec<Cell>], nothing: &str) -> Result<(), Failure> {
    if rows.is_empty() {
        return line(nothing);
    }
    line(&table_text(head, rows, colours(&io::stdout())))
}

fn table_text(head: &[&str], rows: &[Vec<Cell>], coloured: bool) -> String {
    let head: Vec<Cell> = head.iter().map(|text| Cell::coloured(*text, Colour::Grey)).collect();
    let all: Vec<&Vec<Cell>> = std::iter::once(&head).chain(rows).collect();
    let width = |column: usize| all.iter().map(|row| row[column].text.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let row_text = |row: &&Vec<Cell>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| {
            let gap = " ".repeat(width - cell.text.chars().count());
            format!("{}{gap}", painted(&cell.text, cell.colour, coloured))
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    all.iter().map(row_text).collect::<Vec<_>>().join("\n")
}

fn painted(text: &str, colour: Colour, coloured: bool) -> String {
    let code = match colour {
        Colour::Yellow => 33,
        Colour::Red => 31,
        Colour::Green => 32,
        Colour::Grey => 90,
        Colour::Plain => 0,
    };
    if coloured && colour != Colour::Plain { format!("\x1b[{code}m{text}\x1b[0m") } else { text.into() }
}

fn colours(stream: &impl IsTerminal) -> bool {
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

pub fn json(value: &Value) -> Result<(), Failure> {
    line(&format!("{value:#}"))
}

/// Something for the person who waits; not part of the result.
pub fn aside(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// A line on the terminal that is written over and over. Nothing where nobody looks.
pub struct StatusLine {
    terminal: bool,
    shown: bool,
}

impl StatusLine {
    pub fn new() -> StatusLine {
        StatusLine { terminal: io::stderr().is_terminal(), shown: false }
    }

    pub fn show(&mut self, text: &str) {
        if self.terminal {
            // A line that wraps could not be written over.
            let shown: String = tame(text).chars().take(width().saturating_sub(1)).collect();
            let _ = write!(io::stderr(), "\r\x1b[K{shown}");
            self.shown = true;
        }
    }

    pub fn show_gone(&mut self) {
        self.show("The server cannot be reached, trying again (Ctrl-C: stop)");
    }

    /// Makes place for other lines.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr());
    size.ok().map(|size| size.ws_col.into()).filter(|columns| *columns > 0).unwrap_or(80)
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec![Cell::new("é"), Cell::new("x")], vec![Cell::new("long\n"), Cell::new("")]];
        assert_eq!(table_text(&["A", "B"], &rows, false), "A      B\né      x\nlong?");
    }

    #[test]
    fn colours_do_not_change_widths() {
        let rows = [vec![Cell::coloured("ab", Colour::Red), Cell::new("c")]];
        assert_eq!(table_text(&["A", "B"], &rows, true), "\x1b[90mA\x1b[0m   \x1b[90mB\x1b[0m\n\x1b[31mab\x1b[0m  c");
    }
}
