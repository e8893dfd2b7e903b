//! The one way in which answers of the server reach standard output, alone or in lists, in every format.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Cell, line, table, yaml};
use crate::args::Output;
use crate::client;
use crate::failure::Failure;

/// A thing that has a row in a table.
pub trait Shown: DeserializeOwned {
    const HEAD: &'static [&'static str];
    /// What is said where there are none.
    const NONE: &'static str;

    fn row(&self) -> Vec<Cell>;
}

#[derive(Clone, Copy)]
pub enum Answer<'a> {
    One(&'a Value),
    Many(&'a [Value]),
}

/// A table for people.
pub fn list<T: Shown>(values: &[Value], output: Output) -> Result<(), Failure> {
    show(Answer::Many(values), output, |things: &[T]| table(T::HEAD, &rows(things), T::NONE))
}

/// Lines for people.
pub fn one<T: Shown>(value: &Value, output: Output, for_people: impl FnOnce(&T) -> Vec<String>) -> Result<(), Failure> {
    show(Answer::One(value), output, |things: &[T]| {
        things.first().map(for_people).unwrap_or_default().iter().try_for_each(|text| line(text))
    })
}

/// What the API answered, as it is or as rows; people get what they are told.
pub fn show<T: Shown>(
    answer: Answer<'_>,
    output: Output,
    for_people: impl FnOnce(&[T]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    match (output, answer) {
        (Output::Json | Output::Yaml, Answer::One(one)) => value(one, output),
        (Output::Json | Output::Yaml, Answer::Many(many)) => value(&Value::from(many), output),
        (Output::Tsv, _) => rows(&answer.read::<T>()?).iter().try_for_each(|row| line(&tabs(row))),
        (Output::Table, _) => for_people(&answer.read()?),
    }
}

/// A value as it is, in YAML when that is asked for.
pub fn value(value: &Value, output: Output) -> Result<(), Failure> {
    match output {
        Output::Yaml => line(&yaml::text(value)),
        Output::Json | Output::Table | Output::Tsv => line(&format!("{value:#}")),
    }
}

/// Names and what they are, one below the other.
pub fn facts(pairs: &[(&str, String)]) -> Vec<String> {
    let width = pairs.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    pairs.iter().map(|(name, text)| format!("{name:<width$}  {}", super::tame(text))).collect()
}

impl Answer<'_> {
    fn read<T: DeserializeOwned>(&self) -> Result<Vec<T>, Failure> {
        match self {
            Answer::One(value) => Ok(vec![client::read(value)?]),
            Answer::Many(values) => client::read_all(values),
        }
    }
}

fn rows<T: Shown>(things: &[T]) -> Vec<Vec<Cell>> {
    things.iter().map(T::row).collect()
}

/// Columns as in the table. Cells have no tabs: they are tame.
fn tabs(row: &[Cell]) -> String {
    row.iter().map(Cell::text).collect::<Vec<_>>().join("\t")
}
