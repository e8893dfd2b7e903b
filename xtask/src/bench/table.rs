//! Tables of results and targets, in the format of `docs/performance.md`.

pub struct Table {
    title: String,
    rows: Vec<[String; 4]>,
}

/// The target of a figure.
#[derive(Clone, Copy)]
pub enum Target {
    AtLeast(f64),
    AtMost(f64),
}

impl Table {
    pub fn new(title: &str) -> Table {
        Table { title: title.to_owned(), rows: Vec::new() }
    }

    /// A figure for information.
    pub fn tell(&mut self, what: &str, figure: String) {
        self.rows.push([what.to_owned(), figure, String::new(), String::new()]);
    }

    /// A figure with a target; `unit` follows the number.
    pub fn judge(&mut self, what: &str, figure: f64, unit: &str, target: Target) {
        let (word, limit, holds, missed_by) = match target {
            Target::AtLeast(limit) => ("≥", limit, figure >= limit, limit / figure),
            Target::AtMost(limit) => ("≤", limit, figure <= limit, figure / limit),
        };
        let verdict = if holds { "holds".into() } else { format!("missed by {:.0} %", (missed_by - 1.0) * 100.0) };
        self.rows.push([
            what.to_owned(),
            format!("{}{unit}", short(figure)),
            format!("{word} {}{unit}", short(limit)),
            verdict,
        ]);
    }

    pub fn print(&self) {
        let heads = ["", "measured", "target", "verdict"].map(str::to_owned);
        let width =
            |column: usize| self.rows.iter().chain([&heads]).map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths = [width(0), width(1), width(2), width(3)];
        println!("\n{}\n", self.title);
        for (n, row) in [&heads].into_iter().chain(&self.rows).enumerate() {
            println!("{}", line(row, &widths));
            if n == 0 {
                println!("|{}|", widths.map(|width| "-".repeat(width + 2)).join("|"));
            }
        }
        println!();
    }
}

fn line(row: &[String; 4], widths: &[usize; 4]) -> String {
    let cells = row.iter().zip(widths).map(|(cell, width)| format!(" {cell:<width$} "));
    format!("|{}|", cells.collect::<Vec<_>>().join("|"))
}

/// Three significant digits.
pub fn short(number: f64) -> String {
    match number.abs() {
        n if n >= 1000.0 => format!("{number:.0}"),
        n if n >= 100.0 => format!("{number:.0}"),
        n if n >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

pub fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
