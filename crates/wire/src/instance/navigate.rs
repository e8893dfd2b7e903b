//! Paths into the instance document, and the two listings beside it.
//!
//! | asked for | as JSON | as text |
//! |---|---|---|
//! | an object or a list | the subtree | its children, one a line, a `/` behind those that have children |
//! | a value | refused | the bare value |
//!
//! Lists are entered by index. Names are compared with regard to case, as the original's are.

use serde_json::Value;

use crate::error::Refusal;
use crate::version::InstanceVersion;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Json,
    Text,
}

impl Format {
    /// Reads the value of the `format` parameter, `None` when there is no such parameter.
    pub fn parse(given: Option<&str>) -> Result<Format, Refusal> {
        match given {
            None => Ok(Format::Json),
            Some(format) if format.eq_ignore_ascii_case("json") => Ok(Format::Json),
            Some(format) if format.eq_ignore_ascii_case("text") => Ok(Format::Text),
            Some(format) => Err(Refusal::BadFormat { given: format.to_owned() }),
        }
    }
}

/// A body, and what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub media: Media,
    pub body: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    Json,
    Text,
}

impl Media {
    pub const fn content_type(self) -> &'static str {
        match self {
            Media::Json => "application/json; charset=utf-8",
            Media::Text => "text/plain; charset=utf-8",
        }
    }
}

/// What is at `path` in the document `tree`. The path is what follows `/metadata/instance`, with
/// its slash; empty steps in it, so also a slash at its end, do not count.
pub fn navigate(tree: &Value, path: &str, format: Format) -> Result<Answer, Refusal> {
    let whole_path = || format!("/metadata/instance{path}");
    let mut node = tree;
    for step in path.split('/').filter(|step| !step.is_empty()) {
        node = child(node, step).ok_or_else(|| Refusal::UnknownElement { path: whole_path() })?;
    }
    match format {
        Format::Text => Ok(text(text_of(node))),
        Format::Json if is_container(node) => Ok(Answer { media: Media::Json, body: node.to_string().into_bytes() }),
        Format::Json => Err(Refusal::TextFormatNeeded { path: whole_path() }),
    }
}

/// The answer to `/metadata` itself, which is there only as text.
pub fn root_listing(format: Format) -> Result<Answer, Refusal> {
    match format {
        Format::Text => Ok(text("instance/\nscheduledevents/".to_owned())),
        Format::Json => Err(Refusal::TextFormatNeeded { path: "/metadata".to_owned() }),
    }
}

/// The body of `/metadata/versions`, oldest first.
pub fn versions_body() -> Vec<u8> {
    let versions = InstanceVersion::ALL.map(|version| format!("\"{version}\"")).join(",");
    format!("{{\"apiVersions\":[{versions}]}}").into_bytes()
}

fn text(body: String) -> Answer {
    Answer { media: Media::Text, body: body.into_bytes() }
}

fn child<'t>(node: &'t Value, step: &str) -> Option<&'t Value> {
    match node {
        Value::Object(members) => members.get(step),
        Value::Array(items) => items.get(index(step)?),
        _ => None,
    }
}

/// Digits only: `parse` alone would take a sign.
fn index(step: &str) -> Option<usize> {
    let digits = step.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| step.parse().ok()).flatten()
}

fn is_container(node: &Value) -> bool {
    node.is_object() || node.is_array()
}

fn text_of(node: &Value) -> String {
    match node {
        Value::Object(members) => lines(members.iter().map(|(key, value)| entry(key, value))),
        Value::Array(items) => lines(items.iter().enumerate().map(|(index, item)| entry(&index.to_string(), item))),
        Value::String(value) => value.clone(),
        other => other.to_string(),
    }
}

fn entry(name: &str, node: &Value) -> String {
    let slash = if is_container(node) { "/" } else { "" };
    format!("{name}{slash}")
}

fn lines(entries: impl Iterator<Item = String>) -> String {
    entries.collect::<Vec<_>>().join("\n")
}
