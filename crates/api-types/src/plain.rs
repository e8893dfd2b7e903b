//! Rewrites serde's error messages for users: lists, objects and numbers instead of sequences, maps and `u32`, and a
//! suggestion for a misspelled key or value.
//!
//! The messages reach people who wrote TOML or options of a command, not Rust: `u32` or `struct NewGroup` means nothing to
//! them.

use crate::nearest::suggest;

/// The format of the input, which decides whether an object is called an object or a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceFormat {
    Json,
    Toml,
}

/// Rewrites a message and removes its position.
pub fn reword_serde_error(message: &str, written: SourceFormat) -> String {
    let message = strip_position(message);
    let rewritten = unknown(message).or_else(|| about_key(message)).or_else(|| wrong_type(message, written));
    rewritten.or_else(|| about_text(message)).unwrap_or_else(|| message.to_owned())
}

/// Removes `at line 1 column 28`, which is of no use for a body that a program generated.
pub fn strip_position(message: &str) -> &str {
    let Some((rest, place)) = message.rsplit_once(" at line ") else { return message };
    let numbers = place.replace(" column ", "");
    if numbers.bytes().all(|byte| byte.is_ascii_digit()) { rest } else { message }
}

/// Rewrites `unknown field` and `unknown variant` and suggests the closest known name.
fn unknown(message: &str) -> Option<String> {
    let (what, rest) = [("field", "key"), ("variant", "value")]
        .iter()
        .find_map(|(term, name)| message.strip_prefix(&format!("unknown {term} `")).map(|rest| (*name, rest)))?;
    let (word, expected) = rest.split_once('`')?;
    let known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    let near = suggest(word, known.iter().copied());
    let all = if known.is_empty() { String::new() } else { format!(" Use one of: {}", known.join(", ")) };
    Some(format!("unknown {what} '{word}'.{near}{all}"))
}

fn about_key(message: &str) -> Option<String> {
    let key = |beginning: &str| message.strip_prefix(beginning)?.strip_suffix('`');
    let missing = key("missing field `").map(|key| format!("the key '{key}' is missing"));
    missing.or_else(|| key("duplicate field `").map(|key| format!("the key '{key}' appears twice")))
}

/// Rewrites messages such as `invalid type: string "x", expected a sequence`.
fn wrong_type(message: &str, written: SourceFormat) -> Option<String> {
    let of_type = message.strip_prefix("invalid type: ");
    let (found, expected) = of_type.or_else(|| message.strip_prefix("invalid value: "))?.rsplit_once(", expected ")?;
    // The limits of a number only matter if a number was given.
    let wanted = describe_expected(expected, written);
    let wanted = if of_type.is_some() { wanted.split(" from 0").next().unwrap_or_default() } else { &wanted };
    Some(format!("expected {wanted}, found {}", describe_found(found, written)))
}

fn with_keys(written: SourceFormat) -> &'static str {
    match written {
        SourceFormat::Json => "an object",
        SourceFormat::Toml => "a table",
    }
}

fn describe_expected(expected: &str, written: SourceFormat) -> String {
    let below = |bits: u32| format!("an integer from 0 to {}", 2_u64.pow(bits) - 1);
    match expected {
        "a string" | "string" | "a borrowed string" => "a string".into(),
        "a sequence" | "sequence" => "a list".into(),
        "a map" | "map" | "an object" => with_keys(written).into(),
        "a boolean" | "boolean" => "true or false".into(),
        "f32" | "f64" => "a number".into(),
        "u8" => below(8),
        "u16" => below(16),
        "u32" => below(32),
        "u64" | "usize" | "NonZeroU64" => "an integer from 0".into(),
        "i32" | "i64" => "an integer".into(),
        shape if shape.starts_with("struct ") => with_keys(written).into(),
        ours => ours.into(),
    }
}

fn describe_found(found: &str, written: SourceFormat) -> String {
    let quoted = |beginning: &str, mark: char| found.strip_prefix(beginning)?.strip_suffix(mark);
    if let Some(text) = quoted("string \"", '"') {
        return format!("the string '{text}'");
    }
    let number = quoted("integer `", '`').or_else(|| quoted("floating point `", '`'));
    if let Some(number) = number {
        return format!("the number {number}");
    }
    if let Some(word) = quoted("boolean `", '`') {
        return word.into();
    }
    match found {
        "sequence" => "a list".into(),
        "map" => with_keys(written).into(),
        "null" | "unit value" | "Option value" => "null".into(),
        other => other.into(),
    }
}

/// Rewrites messages of parsers of single values.
fn about_text(message: &str) -> Option<String> {
    let text = match message {
        "invalid digit found in string" | "cannot parse integer from empty string" => "expected a non-negative integer",
        "duplicate key" => "this key appears twice",
        "number too large to fit in target type" => "the number is too large",
        "provided string was not `true` or `false`" => "expected true or false",
        other if other.starts_with("data did not match any variant") => "invalid value",
        _ => return None,
    };
    Some(text.into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Shape {
        #[serde(rename = "names")]
        _names: Vec<String>,
        #[serde(rename = "count")]
        _count: Option<u16>,
        #[serde(rename = "inner")]
        _inner: Option<BTreeMap<String, bool>>,
        #[serde(rename = "kind")]
        _kind: Option<Kind>,
    }

    #[derive(Debug, Deserialize)]
    enum Kind {
        Regular,
        Spot,
    }

    #[test]
    fn serde_errors_are_rewritten() {
        let check = |json: &str, expected: &str| {
            let error = serde_json::from_str::<Shape>(json).unwrap_err().to_string();
            assert_eq!(reword_serde_error(&error, SourceFormat::Json), expected, "{error}");
        };
        check(r#"{"names": "x"}"#, "expected a list, found the string 'x'");
        check(r#"{"names": [], "count": -1}"#, "expected an integer from 0 to 65535, found the number -1");
        check(r#"{"names": [], "count": "x"}"#, "expected an integer, found the string 'x'");
        check(r#"{"names": [], "inner": [1]}"#, "expected an object, found a list");
        check(r#"{"names": [], "inner": {"a": 1}}"#, "expected true or false, found the number 1");
        check(r#"{"names": [true]}"#, "expected a string, found true");
        check("{}", "the key 'names' is missing");
        check(r#"{"names": [], "names": []}"#, "the key 'names' appears twice");
        let near = "unknown key 'nmaes'. Did you mean 'names'? Use one of: names, count, inner, kind";
        check(r#"{"nmaes": 1}"#, near);
        let near = "unknown value 'Spott'. Did you mean 'Spot'? Use one of: Regular, Spot";
        check(r#"{"names": [], "kind": "Spott"}"#, near);
    }

    #[test]
    fn objects_are_called_tables_in_toml() {
        let error = toml::from_str::<Shape>("names = []\ninner = 1\n").unwrap_err();
        assert_eq!(reword_serde_error(error.message(), SourceFormat::Toml), "expected a table, found the number 1");
    }

    #[test]
    fn other_messages_are_kept() {
        for text in ["'x' is not an IP address. Use the form 10.0.0.4", "it was at line 7 of the list"] {
            assert_eq!(reword_serde_error(text, SourceFormat::Json), text);
        }
    }
}
