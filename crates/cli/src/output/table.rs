//! Tables with aligned columns, colored on a terminal.

use std::cmp::Reverse;
use std::io;

use super::width::stdout_columns;
use super::{escape, print_line, use_color};
use crate::failure::Failure;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    Plain,
    Yellow,
    Red,
    Green,
    Gray,
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
    print_line(&table_lines(head, rows).join("\n"))
}

/// The lines of a table: the header, then one line per row. On a terminal, long cells are shortened to fit it, and the last
/// columns are omitted if that is not enough. Put the least important columns last.
pub fn table_lines(head: &[&str], rows: &[Vec<Cell>]) -> Vec<String> {
    render_table(head, rows, use_color(&io::stdout()), stdout_columns())
}

/// Space between two columns.
const GAP: &str = "  ";

/// The least that is shown of a long cell: enough of an ID to use it as an argument.
const CELL_CHARS_MIN: usize = 9;

fn render_table(head: &[&str], rows: &[Vec<Cell>], colored: bool, columns: Option<usize>) -> Vec<String> {
    let head: Vec<Cell> = head.iter().map(|text| Cell::colored(*text, Color::Gray)).collect();
    let all: Vec<&Vec<Cell>> = std::iter::once(&head).chain(rows).collect();
    let width = |column: usize| all.iter().map(|row| row[column].text.chars().count()).max().unwrap_or(0);
    let mut widths: Vec<usize> = (0..head.len()).map(width).collect();
    if let Some(columns) = columns {
        let importance: Vec<Importance> = (0..head.len()).map(|column| importance(rows, column)).collect();
        fit(&mut widths, &head, &importance, columns);
    }
    let row_text = |row: &&Vec<Cell>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| {
            let text = shorten(&cell.text, *width);
            let gap = " ".repeat(width - text.chars().count());
            format!("{}{gap}", paint(&text, cell.color, colored))
        });
        cells.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
    };
    all.iter().map(row_text).collect()
}

/// How much a column loses when its cells are shortened. Columns that lose least are narrowed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Importance {
    /// The beginning of an ID is as good as the ID.
    Ids,
    Text,
    /// The end of a time is what differs between rows.
    Times,
}

fn importance(rows: &[Vec<Cell>], column: usize) -> Importance {
    let all = |is_match: fn(&str) -> bool| {
        let mut cells = rows.iter().map(|row| row[column].text.as_str()).filter(|text| !text.is_empty()).peekable();
        cells.peek().is_some() && cells.all(is_match)
    };
    if all(is_id) {
        Importance::Ids
    } else if all(is_time) {
        Importance::Times
    } else {
        Importance::Text
    }
}

fn is_id(text: &str) -> bool {
    text.len() == 36 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// `2026-07-28 10:00:00`.
fn is_time(text: &str) -> bool {
    text.len() == 19 && text.bytes().all(|byte| byte.is_ascii_digit() || b"-: ".contains(&byte))
}

/// Omits the last columns until the others fit at their narrowest. Then narrows the widest of the least important columns until
/// the table fits.
fn fit(widths: &mut Vec<usize>, head: &[Cell], importance: &[Importance], columns: usize) {
    let total = |widths: &[usize]| widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1);
    let least = |cell: &Cell| cell.text.chars().count().max(CELL_CHARS_MIN);
    let mut narrowest: Vec<usize> = widths.iter().zip(head).map(|(width, cell)| least(cell).min(*width)).collect();
    while narrowest.len() > 1 && total(&narrowest) > columns {
        narrowest.pop();
    }
    widths.truncate(narrowest.len());
    while total(widths) > columns {
        let narrowable = (0..widths.len()).filter(|&column| widths[column] > narrowest[column]);
        let next = narrowable.max_by_key(|&column| (Reverse(importance[column]), widths[column]));
        let Some(column) = next else { return };
        widths[column] -= 1;
    }
}

fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

fn paint(text: &str, color: Color, colored: bool) -> String {
    let code = match color {
        Color::Yellow => 33,
        Color::Red => 31,
        Color::Green => 32,
        Color::Gray => 90,
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
        assert_eq!(render_table(&["A", "B"], &rows, false, None), ["A      B", "é      x", "long?"]);
    }

    #[test]
    fn colors_do_not_change_widths() {
        let rows = [vec![Cell::colored("ab", Color::Red), Cell::new("c")]];
        let lines = render_table(&["A", "B"], &rows, true, None);
        assert_eq!(lines, ["\x1b[90mA\x1b[0m   \x1b[90mB\x1b[0m", "\x1b[31mab\x1b[0m  c"]);
    }

    #[test]
    fn the_widest_columns_are_shortened_to_fit_the_terminal() {
        let id = "602D9444-D2CD-49C7-8624-8643E7171297";
        let rows = [vec![Cell::new(id), Cell::new("Reboot"), Cell::new("web_0, web_1, web_2, web_3")]];
        let lines = render_table(&["ID", "TYPE", "RESOURCES"], &rows, false, Some(40));
        assert_eq!(lines, ["ID         TYPE    RESOURCES", "602D9444…  Reboot  web_0, web_1, web_2,…"]);
        let narrow = render_table(&["ID", "TYPE", "RESOURCES"], &rows, false, Some(28));
        assert_eq!(narrow[1], "602D9444…  Reboot  web_0, w…", "an ID stays long enough to be used");
        let narrower = render_table(&["ID", "TYPE", "RESOURCES"], &rows, false, Some(27));
        assert_eq!(
            narrower,
            ["ID                   TYPE", "602D9444-D2CD-49C7…  Reboot"],
            "the last column is omitted"
        );
    }

    #[test]
    fn times_stay_whole_as_long_as_other_columns_can_be_shortened() {
        let id = "602D9444-D2CD-49C7-8624-8643E7171297";
        let row = [id, "Started, unseen", "2026-07-28 10:15:00", "web_0, web_1, web_2"].map(Cell::new).to_vec();
        let lines = render_table(&["ID", "STATUS", "NOT BEFORE", "RESOURCES"], &[row], false, Some(60));
        assert_eq!(lines[1], "602D9444…  Started, uns…  2026-07-28 10:15:00  web_0, web_1…");
    }
}
