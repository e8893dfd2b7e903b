//! Tables of results and targets, in the format of `docs/performance.md`, next to the figures that the page has.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

pub struct Table {
    title: String,
    rows: Vec<Row>,
    figures: Map<String, Value>,
}

/// A label and its cells: measured, target, result.
struct Row {
    label: String,
    cells: [String; 3],
}

/// The target of a figure.
#[derive(Clone, Copy)]
pub enum Target {
    AtLeast(f64),
    AtMost(f64),
}

/// Figures of the documentation by label.
pub type Documented = BTreeMap<String, String>;

impl Table {
    pub fn new(title: &str) -> Table {
        Table { title: title.to_owned(), rows: Vec::new(), figures: Map::new() }
    }

    /// A text for information.
    pub fn tell(&mut self, label: &str, figure: String) {
        self.rows.push(Row { label: label.to_owned(), cells: [figure, String::new(), String::new()] });
    }

    /// A figure for information; `name` is its stable name, `unit` follows the number.
    pub fn note(&mut self, name: &str, label: &str, figure: f64, unit: &str) {
        self.keep(name, figure);
        self.tell(label, format!("{}{unit}", short(figure)));
    }

    /// A figure with a target.
    pub fn judge(&mut self, name: &str, label: &str, figure: f64, unit: &str, target: Target) {
        self.keep(name, figure);
        let (word, limit, holds, missed_by) = match target {
            Target::AtLeast(limit) => ("≥", limit, figure >= limit, limit / figure),
            Target::AtMost(limit) => ("≤", limit, figure <= limit, figure / limit),
        };
        let result = if holds { "met".into() } else { format!("missed by {:.0} %", (missed_by - 1.0) * 100.0) };
        let cells = [format!("{}{unit}", short(figure)), format!("{word} {}{unit}", short(limit)), result];
        self.rows.push(Row { label: label.to_owned(), cells });
    }

    /// The figures under their stable names.
    pub fn into_figures(self) -> Map<String, Value> {
        self.figures
    }

    /// The table in Markdown, with the documented figure beside each measured one.
    pub fn render(&self, documented: &Documented) -> String {
        let rows = self.rows.iter().map(|Row { label, cells: [figure, target, result] }| {
            let before = documented.get(label).map_or("", String::as_str);
            [label.as_str(), figure, before, target, result]
        });
        let lines = render_lines(["", "measured", "documented", "target", "result"], rows);
        format!("\n{}\n\n{}\n", self.title, lines.join("\n"))
    }

    /// The lines of the table on the page.
    fn document(&self) -> Vec<String> {
        let rows = self.rows.iter().map(|Row { label, cells: [figure, target, result] }| {
            let cells: [&str; 4] = [label, figure, target, result];
            cells
        });
        render_lines(["", "measured", "target", "result"], rows)
    }

    /// Puts the table on the page, in place of the first one after the command of the benchmark.
    pub fn write_on(&self, page: &str, bench: &str) -> String {
        let mut lines: Vec<String> = page.lines().map(str::to_owned).collect();
        let starts = |at: &usize| lines[*at].starts_with('|');
        let after = lines.iter().position(|line| line.contains(&command(bench))).unwrap_or(lines.len());
        let from = (after..lines.len()).find(starts).unwrap_or(lines.len());
        let to = (from..lines.len()).find(|at| !starts(at)).unwrap_or(lines.len());
        lines.splice(from..to, if from < to { self.document() } else { Vec::new() });
        lines.join("\n") + "\n"
    }

    fn keep(&mut self, name: &str, figure: f64) {
        let rounded = (figure * 1e4).round() / 1e4;
        self.figures.insert(name.to_owned(), rounded.into());
    }
}

fn render_lines<'a, const N: usize>(heads: [&'a str; N], rows: impl Iterator<Item = [&'a str; N]>) -> Vec<String> {
    let rows: Vec<[&str; N]> = std::iter::once(heads).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut lines: Vec<String> = rows.iter().map(|row| render_line(row, &widths)).collect();
    lines.insert(1, format!("|{}|", widths.map(|width| "-".repeat(width + 2)).join("|")));
    lines
}

fn render_line(row: &[&str], widths: &[usize]) -> String {
    let cells = row.iter().zip(widths).map(|(cell, width)| format!(" {cell:<width$} "));
    format!("|{}|", cells.collect::<Vec<_>>().join("|"))
}

/// The command of a benchmark, as the page has it above its table.
fn command(bench: &str) -> String {
    format!("`cargo xtask bench {bench}`")
}

/// The figures that a page documents for a benchmark: those of the first table after its command.
pub fn read_documented(page: &str, bench: &str) -> Documented {
    let after = page.lines().skip_while(|line| !line.contains(&command(bench)));
    let table = after.skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = table.map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    cells.filter(|cells| cells.len() > 3).map(|cells| (cells[1].to_owned(), cells[2].to_owned())).collect()
}

/// Three significant digits.
pub fn short(number: f64) -> String {
    match number.abs() {
        n if n >= 100.0 => format!("{number:.0}"),
        n if n >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

pub fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
`cargo xtask bench NAME` runs one.

`cargo xtask bench get`: reads.

|       | measured | target   | result |
|-------|----------|----------|--------|
| ratio | 1.06 x   | ≥ 1.00 x | met    |

`cargo xtask bench paths`: callers.

| | measured |
|---|---|
| ratio | 0.74 x |
";

    #[test]
    fn documented_figures_are_those_of_the_table_after_the_command() {
        assert_eq!(read_documented(PAGE, "get")["ratio"], "1.06 x");
        assert_eq!(read_documented(PAGE, "paths")["ratio"], "0.74 x");
        assert!(read_documented(PAGE, "hold").is_empty());
    }

    #[test]
    fn a_table_shows_measured_and_documented_figures_and_keeps_names() {
        let mut table = Table::new("Reads");
        table.judge("get_ratio", "ratio", 0.51234, " x", Target::AtLeast(1.0));
        table.note("get_p99_ratio", "p99", 120.4, " µs");
        let expected = "
Reads

|       | measured | documented | target   | result         |
|-------|----------|------------|----------|----------------|
| ratio | 0.51 x   | 1.06 x     | ≥ 1.00 x | missed by 95 % |
| p99   | 120 µs   |            |          |                |
";
        assert_eq!(table.render(&read_documented(PAGE, "get")), expected);
        let updated = table.write_on(PAGE, "get");
        assert_eq!(read_documented(&updated, "get")["p99"], "120 µs");
        assert_eq!(table.write_on(&updated, "get"), updated);
        assert!(updated.ends_with(PAGE.split_once("met    |\n").unwrap().1), "{updated}");
        assert_eq!(table.write_on(PAGE, "hold"), PAGE);
        let names: Vec<String> = table.into_figures().keys().cloned().collect();
        assert_eq!(names, ["get_p99_ratio", "get_ratio"]);
    }
}
