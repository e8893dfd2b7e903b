//! A labelled control of a form: what was typed stays in it, and what is wrong with it is said beside it.

use std::collections::HashMap;

use askama::Template;

use super::sign_in::rendered;
use forewarn_api::ResourceName;

/// What is wrong, by the name of the field.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    said: HashMap<&'static str, String>,
    /// The one that was found first has the focus: problems are looked for in the order of the fields.
    first: Option<&'static str>,
}

#[derive(Template)]
#[template(path = "field.html")]
pub struct Field<'a> {
    pub name: &'static str,
    pub label: &'a str,
    pub value: &'a str,
    /// What may be typed, or what it means to type nothing.
    pub hint: &'a str,
    pub control: Control<'a>,
    pub problem: &'a str,
    /// Whether the page opens here.
    pub has_focus: bool,
    /// Of a form whose first choice decides which fields it has: the choices that have this one, separated by blanks.
    pub only_for: &'a str,
}

/// How it is filled in.
pub enum Control<'a> {
    Line,
    /// A line with names to choose from, in the list with this id.
    Named(&'a str),
    Number,
    /// UTC; script shows the reader's zone.
    Time,
    Text,
    /// Values and what people read.
    Choice(Vec<(&'a str, &'a str)>),
    Tick,
}

impl Problems {
    pub fn add(&mut self, field: &'static str, problem: impl Into<String>) {
        self.said.entry(field).or_insert_with(|| problem.into());
        self.first.get_or_insert(field);
    }

    /// What is wrong is kept, and nothing comes of it.
    pub fn take<T>(&mut self, field: &'static str, result: Result<T, String>) -> Option<T> {
        result.map_err(|problem| self.add(field, problem)).ok()
    }

    pub fn of(&self, field: &str) -> &str {
        self.said.get(field).map_or("", String::as_str)
    }

    pub fn is_empty(&self) -> bool {
        self.said.is_empty()
    }

    pub fn is_first(&self, field: &str) -> bool {
        self.first == Some(field)
    }
}

impl<'a> Field<'a> {
    pub fn new(name: &'static str, label: &'a str, value: &'a str, problems: &'a Problems) -> Field<'a> {
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

    pub fn as_(self, control: Control<'a>) -> Field<'a> {
        Field { control, ..self }
    }

    pub fn hint(self, hint: &'a str) -> Field<'a> {
        Field { hint, ..self }
    }

    pub fn only_for(self, choices: &'a str) -> Field<'a> {
        Field { only_for: choices, ..self }
    }

    pub fn html(&self) -> String {
        rendered(self).0
    }

    fn is_on(&self) -> bool {
        self.value == "on"
    }

    fn is_chosen(&self, option: &str) -> bool {
        self.value == option
    }

    /// What a reader hears beside the label.
    fn described(&self) -> String {
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

/// A name, as people are told of it.
pub fn name(text: &str) -> Result<ResourceName, String> {
    match text {
        "" => Err("Write a name.".into()),
        text => ResourceName::new(text.to_owned()).map_err(|problem| format!("{problem}.")),
    }
}
