//! Tables with aligned columns, colored on a terminal.

use std::io;

use super::{escape, print_line, use_color};
use crate::failure::Failure;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    Plain,
    Yellow,
    Red,
    Green,
    Grey,
}

#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    color: Color,
}

impl Cell {
    pub fn new(text: impl Into<String>) -> Cell {
        Cell { text: escape(&text.into()), color: Color::Plain }
    }

    pub fn colored(text: impl Into<String>, color: Color) -> Cell {
        Cell { color, ..Cell::new(text) }
    }

    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Prints a table, or `nothing` if it has no rows.
pub fn print_table(head: &[&str], rows: &[Vec<Cell>], nothing: &str) -> Result<(), Failure> {
    if rows.is_empty() {
        return print_line(nothing);
    }
    print_line(&render_table(head, rows, use_color(&io::stdout())))
}

fn render_table(head: &[&str], rows: &[Vec<Cell>], colored: bool) -> String {
    let head: Vec<Cell> = head.iter().map(|text| Cell::colored(*text, Color::Grey)).collect();
    let all: Vec<&Vec<Cell>> = std::iter::once(&head).chain(rows).collect();
    let width = |column: usize| all.iter().map(|row| row[column].text.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let row_text = |row: &&Vec<Cell>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| {
            let gap = " ".repeat(width - cell.text.chars().count());
            format!("{}{gap}", paint(&cell.text, cell.color, colored))
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    all.iter().map(row_text).collect::<Vec<_>>().join("\n")
}

fn paint(text: &str, color: Color, colored: bool) -> String {
    let code = match color {
        Color::Yellow => 33,
        Color::Red => 31,
        Color::Green => 32,
        Color::Grey => 90,
        Color::Plain => 0,
    };
    if colored && color != Color::Plain { format!("\x1b[{code}m{text}\x1b[0m") } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec![Cell::new("é"), Cell::new("x")], vec![Cell::new("long\n"), Cell::new("")]];
        assert_eq!(render_table(&["A", "B"], &rows, false), "A      B\né      x\nlong?");
    }

    #[test]
    fn colors_do_not_change_widths() {
        let rows = [vec![Cell::colored("ab", Color::Red), Cell::new("c")]];
        assert_eq!(render_table(&["A", "B"], &rows, true), "\x1b[90mA\x1b[0m   \x1b[90mB\x1b[0m\n\x1b[31mab\x1b[0m  c");
    }
}
