//! What a reader of data says of data that does not fit, in words for people. Such readers speak of sequences,
//! maps and `u32`; people wrote lists, objects and numbers.

use crate::nearest::hint;

/// What a thing with keys is called where it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    Json,
    Toml,
}

/// The same message, without the position in a text that nobody typed.
pub fn plainly(message: &str, written: Written) -> String {
    let message = without_position(message);
    let said = unknown(message).or_else(|| about_key(message)).or_else(|| misfit(message, written));
    said.or_else(|| of_text(message)).unwrap_or_else(|| message.to_owned())
}

/// `…at line 1 column 28` is a place in a body that a program wrote.
pub fn without_position(message: &str) -> &str {
    let Some((rest, place)) = message.rsplit_once(" at line ") else { return message };
    let numbers = place.replace(" column ", "");
    if numbers.bytes().all(|byte| byte.is_ascii_digit()) { rest } else { message }
}

/// `unknown field` and `unknown variant`, with the nearest of those that were expected.
fn unknown(message: &str) -> Option<String> {
    let (what, rest) = [("field", "key"), ("variant", "word")]
        .iter()
        .find_map(|(said, meant)| message.strip_prefix(&format!("unknown {said} `")).map(|rest| (*meant, rest)))?;
    let (word, expected) = rest.split_once('`')?;
    let known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    let near = hint(word, known.iter().copied());
    let all = if known.is_empty() { String::new() } else { format!(" It may be one of: {}", known.join(", ")) };
    Some(format!("the {what} '{word}' is not known here.{near}{all}"))
}

fn about_key(message: &str) -> Option<String> {
    let key = |beginning: &str| message.strip_prefix(beginning)?.strip_suffix('`');
    let missing = key("missing field `").map(|key| format!("the key '{key}' is missing"));
    missing.or_else(|| key("duplicate field `").map(|key| format!("the key '{key}' is there twice")))
}

/// `invalid type: string "x", expected a sequence`.
fn misfit(message: &str, written: Written) -> Option<String> {
    let of_type = message.strip_prefix("invalid type: ");
    let (found, expected) = of_type.or_else(|| message.strip_prefix("invalid value: "))?.rsplit_once(", expected ")?;
    // Its limits matter to a number alone.
    let wanted = wanted(expected, written);
    let wanted = if of_type.is_some() { wanted.split(" from 0").next().unwrap_or_default() } else { &wanted };
    Some(format!("there must be {wanted} here, not {}", given(found, written)))
}

fn with_keys(written: Written) -> &'static str {
    match written {
        Written::Json => "an object",
        Written::Toml => "a table",
    }
}

fn wanted(expected: &str, written: Written) -> String {
    let below = |bits: u32| format!("a whole number from 0 to {}", 2_u64.pow(bits) - 1);
    match expected {
        "a string" | "string" | "a borrowed string" => "a text".into(),
        "a sequence" | "sequence" => "a list".into(),
        "a map" | "map" | "an object" => with_keys(written).into(),
        "a boolean" | "boolean" => "true or false".into(),
        "f32" | "f64" => "a number".into(),
        "u8" => below(8),
        "u16" => below(16),
        "u32" => below(32),
        "u64" | "usize" | "NonZeroU64" => "a whole number from 0".into(),
        "i32" | "i64" => "a whole number".into(),
        shape if shape.starts_with("struct ") => with_keys(written).into(),
        ours => ours.into(),
    }
}

fn given(found: &str, written: Written) -> String {
    let quoted = |beginning: &str, mark: char| found.strip_prefix(beginning)?.strip_suffix(mark);
    if let Some(text) = quoted("string \"", '"') {
        return format!("the text '{text}'");
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

/// What parsers of single words say.
fn of_text(message: &str) -> Option<String> {
    let said = match message {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "there must be a whole number from 0 here"
        }
        "duplicate key" => "this key is there twice",
        "number too large to fit in target type" => "the number is too large",
        "provided string was not `true` or `false`" => "there must be true or false here",
        other if other.starts_with("data did not match any variant") => "this is nothing that may stand here",
        _ => return None,
    };
    Some(said.into())
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
    fn what_serde_says_is_said_plainly() {
        let check = |json: &str, expected: &str| {
            let error = serde_json::from_str::<Shape>(json).unwrap_err().to_string();
            assert_eq!(plainly(&error, Written::Json), expected, "{error}");
        };
        check(r#"{"names": "x"}"#, "there must be a list here, not the text 'x'");
        check(r#"{"names": [], "count": -1}"#, "there must be a whole number from 0 to 65535 here, not the number -1");
        check(r#"{"names": [], "count": "x"}"#, "there must be a whole number here, not the text 'x'");
        check(r#"{"names": [], "inner": [1]}"#, "there must be an object here, not a list");
        check(r#"{"names": [], "inner": {"a": 1}}"#, "there must be true or false here, not the number 1");
        check(r#"{"names": [true]}"#, "there must be a text here, not true");
        check("{}", "the key 'names' is missing");
        check(r#"{"names": [], "names": []}"#, "the key 'names' is there twice");
        let near =
            "the key 'nmaes' is not known here. Did you mean 'names'? It may be one of: names, count, inner, kind";
        check(r#"{"nmaes": 1}"#, near);
        let near = "the word 'Spott' is not known here. Did you mean 'Spot'? It may be one of: Regular, Spot";
        check(r#"{"names": [], "kind": "Spott"}"#, near);
    }

    #[test]
    fn in_a_file_tables_are_tables() {
        let error = toml::from_str::<Shape>("names = []\ninner = 1\n").unwrap_err();
        assert_eq!(plainly(error.message(), Written::Toml), "there must be a table here, not the number 1");
    }

    #[test]
    fn what_is_said_plainly_already_stays() {
        for text in ["'x' is not an address. Write one like 10.0.0.4", "it was at line 7 of the list"] {
            assert_eq!(plainly(text, Written::Json), text);
        }
    }
}
