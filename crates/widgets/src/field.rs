//! Labeled form controls. They keep what was typed and show errors next to the field.

use std::collections::HashMap;

use askama::Template;

use super::html;
use forewarn_api_types::span::parse_span;
use forewarn_api_types::{ResourceName, Time};

/// Errors by field.
#[derive(Clone, Debug, Default)]
pub struct FieldErrors {
    messages: HashMap<&'static str, String>,
    /// The first field with an error gets the focus. Fields are checked in the order in which they are shown.
    first: Option<&'static str>,
}

#[derive(Template)]
#[template(path = "field.html")]
pub struct Field<'a> {
    pub name: &'static str,
    pub label: &'a str,
    pub value: &'a str,
    /// The format and the default.
    pub hint: &'a str,
    pub control: Control<'a>,
    pub problem: &'a str,
    pub has_focus: bool,
    /// If the first choice of the form decides which fields apply: the choices that have this field, separated by spaces.
    pub only_for: &'a str,
}

pub enum Control<'a> {
    Line,
    /// A line with suggestions from the list with this ID.
    Suggested(&'a str),
    Number,
    /// A time in UTC. The script shows it in the reader's time zone.
    Time,
    Text,
    /// Values with their labels.
    Choice(Vec<(&'a str, &'a str)>),
    /// Values to choose from, each with a description.
    Cards(Vec<FieldCard<'a>>),
    Checkbox,
}

/// One of the values of [`Control::Cards`].
pub struct FieldCard<'a> {
    pub value: &'a str,
    /// Beside the value.
    pub aside: String,
    pub text: &'a str,
}

impl FieldErrors {
    /// Adds an error. The first error of a field wins.
    pub fn add(&mut self, field: &'static str, problem: impl Into<String>) {
        self.messages.entry(field).or_insert_with(|| problem.into());
        self.first.get_or_insert(field);
    }

    /// The value of a result, after recording its error.
    pub fn take<T>(&mut self, field: &'static str, result: Result<T, String>) -> Option<T> {
        result.map_err(|problem| self.add(field, problem)).ok()
    }

    /// The error of a field, or an empty text.
    pub fn of(&self, field: &str) -> &str {
        self.messages.get(field).map_or("", String::as_str)
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub fn is_first(&self, field: &str) -> bool {
        self.first == Some(field)
    }
}

impl<'a> Field<'a> {
    pub fn new(name: &'static str, label: &'a str, value: &'a str, problems: &'a FieldErrors) -> Field<'a> {
        Field {
            name,
            label,
            value,
            hint: "",
            control: Control::Line,
            problem: problems.of(name),
            has_focus: problems.is_first(name),
            only_for: "",
        }
    }

    pub fn with_control(self, control: Control<'a>) -> Field<'a> {
        Field { control, ..self }
    }

    pub fn with_hint(self, hint: &'a str) -> Field<'a> {
        Field { hint, ..self }
    }

    pub fn only_for(self, choices: &'a str) -> Field<'a> {
        Field { only_for: choices, ..self }
    }

    pub fn render(&self) -> String {
        html::render(self)
    }

    fn is_on(&self) -> bool {
        self.value == "on"
    }

    fn is_selected(&self, option: &str) -> bool {
        self.value == option
    }

    /// Attributes for screen readers and the focus.
    fn attributes(&self) -> String {
        let ids = [("hint", self.hint), ("wrong", self.problem)];
        let ids: Vec<String> =
            ids.iter().filter(|(_, text)| !text.is_empty()).map(|(what, _)| format!("{what}-{}", self.name)).collect();
        let wrong = if self.problem.is_empty() { "" } else { r#" aria-invalid="true""# };
        let described =
            if ids.is_empty() { String::new() } else { format!(r#" aria-describedby="{}""#, ids.join(" ")) };
        let focus = if self.has_focus { " autofocus" } else { "" };
        format!("{described}{wrong}{focus}")
    }
}

pub fn parse_name(text: &str) -> Result<ResourceName, String> {
    match text {
        "" => Err("Enter a name.".into()),
        text => ResourceName::new(text.to_owned()).map_err(|problem| format!("{problem}.")),
    }
}

pub fn parse_number(text: &str, label: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("{label} must be a whole number, not '{text}'."))
}

pub fn parse_seconds(label: &str, text: &str) -> Result<u64, String> {
    let read = parse_span(text).map_err(|must| format!("{label} must be {must}."))?;
    if read.subsec_millis() > 0 { Err(format!("{label} must be in whole seconds.")) } else { Ok(read.as_secs()) }
}

/// An empty field has no value.
/// Browsers send times without a time zone, with or without seconds. They are in UTC.
pub fn parse_time(text: &str) -> Result<Time, String> {
    let candidates = [text.to_owned(), format!("{text}Z"), format!("{text}:00Z")];
    candidates
        .iter()
        .find_map(|text| Time::parse(text).ok())
        .ok_or_else(|| format!("'{text}' is not a valid time. Use the format 2026-03-01T12:00, in UTC."))
}

pub fn parse_optional<T>(text: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    if text.is_empty() { Ok(None) } else { parse(text).map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc_with_or_without_seconds() {
        for text in ["2026-03-01T12:00", "2026-03-01T12:00:00", "2026-03-01T12:00:00Z", "2026-03-01T13:00:00+01:00"] {
            assert_eq!(parse_time(text).unwrap().to_string(), "2026-03-01T12:00:00Z", "{text}");
        }
        assert!(parse_time("tomorrow").unwrap_err().contains("in UTC"));
    }

    #[test]
    fn spans_are_whole_seconds() {
        assert_eq!(parse_seconds("It", "1h30m"), Ok(5400));
        assert!(parse_seconds("It", "1s500ms").unwrap_err().contains("whole seconds"));
        assert!(parse_seconds("It", "soon").unwrap_err().contains("such as 90s"));
    }
}
