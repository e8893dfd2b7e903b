//! The one way in which answers of the server reach standard output, alone or in lists, in every format.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Cell, print_line, print_table, yaml};
use crate::args::Output;
use crate::decode::{decode, decode_all};
use crate::failure::Failure;

/// A thing that has a row in a table.
pub trait TableRow: DeserializeOwned {
    const HEADER: &'static [&'static str];
    /// What is said where there are none.
    const EMPTY: &'static str;

    fn cells(&self) -> Vec<Cell>;
}

#[derive(Clone, Copy)]
pub enum Answer<'a> {
    One(&'a Value),
    Many(&'a [Value]),
}

/// A table for people.
pub fn print_list<T: TableRow>(values: &[Value], output: Output) -> Result<(), Failure> {
    print_answer(Answer::Many(values), output, |things: &[T]| print_table(T::HEADER, &rows(things), T::EMPTY))
}

/// Lines for people.
pub fn print_one<T: TableRow>(
    value: &Value,
    output: Output,
    render: impl FnOnce(&T) -> Vec<String>,
) -> Result<(), Failure> {
    print_answer(Answer::One(value), output, |things: &[T]| {
        things.first().map(render).unwrap_or_default().iter().try_for_each(|text| print_line(text))
    })
}

/// What the API answered, as it is or as rows; people get what they are told.
pub fn print_answer<T: TableRow>(
    answer: Answer<'_>,
    output: Output,
    render: impl FnOnce(&[T]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    match (output, answer) {
        (Output::Json | Output::Yaml, Answer::One(one)) => print_value(one, output),
        (Output::Json | Output::Yaml, Answer::Many(many)) => print_value(&Value::from(many), output),
        (Output::Tsv, _) => rows(&answer.read::<T>()?).iter().try_for_each(|row| print_line(&join_with_tabs(row))),
        (Output::Table, _) => render(&answer.read()?),
    }
}

/// A value as it is, in YAML when that is asked for.
pub fn print_value(value: &Value, output: Output) -> Result<(), Failure> {
    match output {
        Output::Yaml => print_line(&yaml::text(value)),
        Output::Json | Output::Table | Output::Tsv => print_line(&format!("{value:#}")),
    }
}

/// Names and what they are, one below the other.
pub fn format_fields(pairs: &[(&str, String)]) -> Vec<String> {
    let width = pairs.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    pairs.iter().map(|(name, text)| format!("{name:<width$}  {}", super::escape(text))).collect()
}

impl Answer<'_> {
    fn read<T: DeserializeOwned>(&self) -> Result<Vec<T>, Failure> {
        match self {
            Answer::One(value) => Ok(vec![decode(value)?]),
            Answer::Many(values) => decode_all(values),
        }
    }
}

fn rows<T: TableRow>(things: &[T]) -> Vec<Vec<Cell>> {
    things.iter().map(T::cells).collect()
}

/// Columns as in the table. Cells have no tabs: they are escape.
fn join_with_tabs(row: &[Cell]) -> String {
    row.iter().map(Cell::text).collect::<Vec<_>>().join("\t")
}
