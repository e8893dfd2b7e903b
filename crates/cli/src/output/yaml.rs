//! Renders JSON values as block-style YAML. Strings that could be misread are quoted as in JSON.
//!
//! Written by hand, because only scalars, lists and objects are printed and nothing is read, while the general YAML crates
//! are either archived or forks with a single maintainer.

use serde_json::{Map, Value};

/// Words that YAML 1.1 or 1.2 does not read as text.
const WORDS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];

pub fn render(value: &Value) -> String {
    let mut out = String::new();
    push_block(value, 0, &mut out);
    out.trim_end().to_owned()
}

/// Appends the lines of a value at a depth.
fn push_block(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Object(fields) if !fields.is_empty() => push_object(fields, depth, out),
        Value::Array(items) if !items.is_empty() => items.iter().for_each(|item| {
            let mut lines = String::new();
            push_block(item, depth + 1, &mut lines);
            // The first line follows the dash.
            out.push_str(&format!("{}- {}", indent(depth), lines.trim_start()));
        }),
        Value::Object(_) | Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.push_str(&format!("{}{}\n", indent(depth), render_scalar(value)));
        }
    }
}

fn push_object(fields: &Map<String, Value>, depth: usize, out: &mut String) {
    for (name, value) in fields {
        let name = render_string(name);
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                out.push_str(&format!("{}{name}:\n", indent(depth)));
                push_block(value, depth + 1, out);
            }
            Value::Array(inner) if !inner.is_empty() => {
                out.push_str(&format!("{}{name}:\n", indent(depth)));
                push_block(value, depth, out);
            }
            scalar_value => out.push_str(&format!("{}{name}: {}\n", indent(depth), render_scalar(scalar_value))),
        }
    }
}

fn indent(depth: usize) -> String {
    "  ".repeat(depth)
}

fn render_scalar(value: &Value) -> String {
    match value {
        Value::String(text) => render_string(text),
        other => other.to_string(),
    }
}

fn render_string(text: &str) -> String {
    let first = text.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_' || c == '/');
    let rest = text.chars().all(|c| c.is_ascii_alphanumeric() || "_./-() ".contains(c));
    let word = WORDS.iter().any(|word| word.eq_ignore_ascii_case(text));
    if first && rest && !word && !text.ends_with(' ') { text.to_owned() } else { quote(text) }
}

/// JSON does not escape DEL and C1 control characters, which YAML forbids.
fn quote(text: &str) -> String {
    let json = Value::from(text).to_string();
    json.chars().map(|c| if c.is_control() { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_become_blocks() {
        let value = json!([
            {"name": "web_1", "power": "Running", "tags": {}, "addresses": [{"ip": "10.0.0.4", "network": "default"}], "count": 3},
            {"name": "no", "zone": null, "details": {"size": "", "mac": "a: b"}, "deep": [[1, 2], [], "x"]},
        ]);
        let expected = "\
- addresses:
  - ip: \"10.0.0.4\"
    network: default
  count: 3
  name: web_1
  power: Running
  tags: {}
- deep:
  - - 1
    - 2
  - []
  - x
  details:
    mac: \"a: b\"
    size: \"\"
  name: \"no\"
  zone: null";
        assert_eq!(render(&value), expected);
    }

    #[test]
    fn ambiguous_strings_are_quoted() {
        for (given, expected) in [
            ("web_1", "web_1"),
            ("a b", "a b"),
            ("a ", "\"a \""),
            ("2026-07-28T10:00:00Z", "\"2026-07-28T10:00:00Z\""),
            ("True", "\"True\""),
            ("- x", "\"- x\""),
            ("x #y", "\"x #y\""),
            ("tab\t\u{7f}\u{9b}", "\"tab\\t\\u007f\\u009b\""),
            ("ü", "\"ü\""),
        ] {
            assert_eq!(render(&json!(given)), expected);
        }
        assert_eq!((render(&json!([])), render(&json!({}))), ("[]".into(), "{}".into()));
    }
}
