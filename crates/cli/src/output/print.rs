//! Prints answers of the server in every output format.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Cell, print_line, print_table, yaml};
use crate::args::Output;
use crate::decode::{decode, decode_all};
use crate::failure::Failure;

/// A value that can be shown as a table row.
pub trait TableRow: DeserializeOwned {
    const HEADER: &'static [&'static str];
    /// Message for an empty list.
    const EMPTY: &'static str;

    fn cells(&self) -> Vec<Cell>;
}

#[derive(Clone, Copy)]
pub enum ApiValue<'a> {
    One(&'a Value),
    Many(&'a [Value]),
}

/// A row that this program makes itself, as the value to print.
pub fn to_value(row: &impl Serialize) -> Value {
    serde_json::to_value(row).expect("rows consist of texts, numbers and lists")
}

/// Prints a list; as a table for people.
pub fn print_list<T: TableRow>(values: &[Value], output: Output) -> Result<(), Failure> {
    print_answer(ApiValue::Many(values), output, |things: &[T]| print_table(T::HEADER, &rows(things), T::EMPTY))
}

/// Prints one value; as lines for people.
pub fn print_one<T: TableRow>(
    value: &Value,
    output: Output,
    render: impl FnOnce(&T) -> Vec<String>,
) -> Result<(), Failure> {
    print_answer(ApiValue::One(value), output, |things: &[T]| {
        things.first().map(render).unwrap_or_default().iter().try_for_each(|text| print_line(text))
    })
}

/// Prints an answer as JSON, YAML or tab-separated rows, or renders it for people.
pub fn print_answer<T: TableRow>(
    answer: ApiValue<'_>,
    output: Output,
    render: impl FnOnce(&[T]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    match (output, answer) {
        (Output::Json | Output::Yaml, ApiValue::One(one)) => print_value(one, output),
        (Output::Json | Output::Yaml, ApiValue::Many(many)) => print_value(&Value::from(many), output),
        (Output::Tsv, _) => rows(&answer.decode::<T>()?).iter().try_for_each(|row| print_line(&join_with_tabs(row))),
        (Output::Table, _) => render(&answer.decode()?),
    }
}

/// Prints a value as YAML or JSON.
pub fn print_value(value: &Value, output: Output) -> Result<(), Failure> {
    match output {
        Output::Yaml => print_line(&yaml::render(value)),
        Output::Json | Output::Table | Output::Tsv => print_line(&format!("{value:#}")),
    }
}

/// Aligned labels and values, one per line.
pub fn format_fields(pairs: &[(&str, String)]) -> Vec<String> {
    let width = pairs.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    pairs.iter().map(|(name, text)| format!("{name:<width$}  {}", super::escape(text))).collect()
}

impl ApiValue<'_> {
    fn decode<T: DeserializeOwned>(&self) -> Result<Vec<T>, Failure> {
        match self {
            ApiValue::One(value) => Ok(vec![decode(value)?]),
            ApiValue::Many(values) => decode_all(values),
        }
    }
}

fn rows<T: TableRow>(things: &[T]) -> Vec<Vec<Cell>> {
    things.iter().map(T::cells).collect()
}

/// Cells contain no tabs, because they are escaped.
fn join_with_tabs(row: &[Cell]) -> String {
    row.iter().map(Cell::text).collect::<Vec<_>>().join("\t")
}
