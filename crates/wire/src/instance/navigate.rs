//! Paths into the instance document, and the two listings next to it.
//!
//! | requested | as JSON | as text |
//! |---|---|---|
//! | an object or a list | the subtree | its children, one per line, with a trailing `/` if they have children |
//! | a value | an error | the bare value |
//!
//! List items are addressed by index. Names are case-sensitive, as in Azure.

use serde_json::Value;

use crate::error::MetadataError;
use crate::version::InstanceVersion;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Json,
    Text,
}

impl Format {
    /// Parses the value of the `format` parameter; `None` if it is missing.
    pub fn parse(given: Option<&str>) -> Result<Format, MetadataError> {
        match given {
            None => Ok(Format::Json),
            Some(format) if format.eq_ignore_ascii_case("json") => Ok(Format::Json),
            Some(format) if format.eq_ignore_ascii_case("text") => Ok(Format::Text),
            Some(format) => Err(MetadataError::BadFormat { given: format.to_owned() }),
        }
    }
}

/// A body and its content type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceResponse {
    pub media: ContentType,
    pub body: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentType {
    Json,
    Text,
}

impl ContentType {
    pub const fn content_type(self) -> &'static str {
        match self {
            ContentType::Json => "application/json; charset=utf-8",
            ContentType::Text => "text/plain; charset=utf-8",
        }
    }
}

/// The element of `tree` at `path`, which is the part of the URL after `/metadata/instance`, including its
/// slash. Empty segments, such as a trailing slash, are ignored.
pub fn navigate(tree: &Value, path: &str, format: Format) -> Result<InstanceResponse, MetadataError> {
    let whole_path = || format!("/metadata/instance{path}");
    let mut node = tree;
    for step in path.split('/').filter(|step| !step.is_empty()) {
        node = find_child(node, step).ok_or_else(|| MetadataError::UnknownElement { path: whole_path() })?;
    }
    match format {
        Format::Text => Ok(text_answer(render_text(node))),
        Format::Json if is_container(node) => {
            Ok(InstanceResponse { media: ContentType::Json, body: node.to_string().into_bytes() })
        }
        Format::Json => Err(MetadataError::TextFormatNeeded { path: whole_path() }),
    }
}

/// The response to `/metadata` itself, which is only available as text.
pub fn root_listing(format: Format) -> Result<InstanceResponse, MetadataError> {
    match format {
        Format::Text => Ok(text_answer("instance/\nscheduledevents/".to_owned())),
        Format::Json => Err(MetadataError::TextFormatNeeded { path: "/metadata".to_owned() }),
    }
}

/// The body of `/metadata/versions`, oldest first.
pub fn versions_body() -> Vec<u8> {
    let versions = InstanceVersion::ALL.map(|version| format!("\"{version}\"")).join(",");
    format!("{{\"apiVersions\":[{versions}]}}").into_bytes()
}

fn text_answer(body: String) -> InstanceResponse {
    InstanceResponse { media: ContentType::Text, body: body.into_bytes() }
}

fn find_child<'t>(node: &'t Value, step: &str) -> Option<&'t Value> {
    match node {
        Value::Object(members) => members.get(step),
        Value::Array(items) => items.get(parse_index(step)?),
        _ => None,
    }
}

/// Accepts only digits; `parse` alone would accept a sign.
fn parse_index(step: &str) -> Option<usize> {
    let digits = step.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| step.parse().ok()).flatten()
}

fn is_container(node: &Value) -> bool {
    node.is_object() || node.is_array()
}

fn render_text(node: &Value) -> String {
    match node {
        Value::Object(members) => join_lines(members.iter().map(|(key, value)| render_entry(key, value))),
        Value::Array(items) => {
            join_lines(items.iter().enumerate().map(|(index, item)| render_entry(&index.to_string(), item)))
        }
        Value::String(value) => value.clone(),
        other => other.to_string(),
    }
}

fn render_entry(name: &str, node: &Value) -> String {
    let slash = if is_container(node) { "/" } else { "" };
    format!("{name}{slash}")
}

fn join_lines(entries: impl Iterator<Item = String>) -> String {
    entries.collect::<Vec<_>>().join("\n")
}
