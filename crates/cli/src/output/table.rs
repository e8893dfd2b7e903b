//! Tables: columns as wide as they need to be, colours when somebody looks.

use std::io;

use super::{colours, line, tame};
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

    pub fn text(&self) -> &str {
        &self.text
    }
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
