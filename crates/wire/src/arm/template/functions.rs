//! The functions that need nothing but their arguments.
//!
//! Names are found without regard to case. Each function says what is wrong with its arguments in the words after its name:
//! `split() wants two texts`.

use serde_json::{Map, Value};

/// A text that a function makes is not longer: a few short arguments could otherwise fill the memory.
const TEXT_BYTES_MAX: usize = 1024 * 1024;

/// Texts to split at in one call; each costs a pass over the whole.
const SEPARATORS_MAX: usize = 16;

/// What a function makes of its arguments, or what is wrong with them.
pub(super) type Pure = fn(&[Value]) -> Result<Value, String>;

/// The function of this name, in lower case.
pub(super) fn find(name: &str) -> Option<Pure> {
    Some(match name {
        "concat" => concat,
        "tolower" => |arguments| one_text(arguments).map(|text| text.to_lowercase().into()),
        "toupper" => |arguments| one_text(arguments).map(|text| text.to_uppercase().into()),
        "trim" => |arguments| one_text(arguments).map(|text| text.trim().into()),
        "format" => formatted,
        "string" => |arguments| one(arguments).map(|value| text_of(value).into()),
        "int" => int,
        "bool" => bool_of,
        "add" => |arguments| arithmetic(arguments, i64::checked_add),
        "sub" => |arguments| arithmetic(arguments, i64::checked_sub),
        "mul" => |arguments| arithmetic(arguments, i64::checked_mul),
        "div" => |arguments| arithmetic(arguments, i64::checked_div),
        "mod" => |arguments| arithmetic(arguments, i64::checked_rem),
        "less" => |arguments| two_numbers(arguments).map(|[a, b]| (a < b).into()),
        "lessorequals" => |arguments| two_numbers(arguments).map(|[a, b]| (a <= b).into()),
        "greater" => |arguments| two_numbers(arguments).map(|[a, b]| (a > b).into()),
        "greaterorequals" => |arguments| two_numbers(arguments).map(|[a, b]| (a >= b).into()),
        "equals" => |arguments| two(arguments).map(|[a, b]| (a == b).into()),
        "not" => |arguments| one(arguments).and_then(|value| boolean(value).map(|value| (!value).into())),
        "true" => |arguments| none(arguments, Value::Bool(true)),
        "false" => |arguments| none(arguments, Value::Bool(false)),
        "null" => |arguments| none(arguments, Value::Null),
        "empty" => |arguments| one(arguments).and_then(empty),
        "length" => |arguments| one(arguments).and_then(length),
        "first" => |arguments| one(arguments).and_then(|value| end_of(value, End::First)),
        "last" => |arguments| one(arguments).and_then(|value| end_of(value, End::Last)),
        "split" => split,
        "join" => join,
        "replace" => replace,
        "substring" => substring,
        "startswith" => {
            |arguments| two_texts(arguments).map(|[a, b]| a.to_lowercase().starts_with(&b.to_lowercase()).into())
        }
        "endswith" => {
            |arguments| two_texts(arguments).map(|[a, b]| a.to_lowercase().ends_with(&b.to_lowercase()).into())
        }
        "contains" => contains,
        "createarray" => |arguments| Ok(Value::Array(arguments.to_vec())),
        "createobject" => create_object,
        "uniquestring" => unique_string,
        _ => return None,
    })
}

/// A truth value, for the functions that decide.
pub(super) fn boolean(value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| "wants true or false".to_owned())
}

fn concat(arguments: &[Value]) -> Result<Value, String> {
    if arguments.first().is_some_and(Value::is_array) {
        let lists: Option<Vec<&Vec<Value>>> = arguments.iter().map(Value::as_array).collect();
        let lists = lists.ok_or("wants either texts or lists, not both")?;
        return Ok(Value::Array(lists.into_iter().flatten().cloned().collect()));
    }
    let plain = |value: &Value| !(value.is_array() || value.is_object());
    if arguments.is_empty() || !arguments.iter().all(plain) {
        return Err("wants either texts or lists, at least one".to_owned());
    }
    Ok(arguments.iter().map(text_of).collect::<String>().into())
}

/// As the original writes values into texts: truth values with a capital letter.
fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// `{0}` stands for the first argument after the pattern, `{{` and `}}` for a brace.
fn formatted(arguments: &[Value]) -> Result<Value, String> {
    let [Value::String(pattern), values @ ..] = arguments else {
        return Err("wants a text with places such as {0}, and what goes there".to_owned());
    };
    let mut text = String::new();
    let mut rest = pattern.as_str();
    while let Some(brace) = rest.find(['{', '}']) {
        text.push_str(&rest[..brace]);
        let doubled = ["{{", "}}"].iter().find(|pair| rest[brace..].starts_with(**pair));
        if let Some(pair) = doubled {
            text.push_str(&pair[..1]);
            rest = &rest[brace + 2..];
            continue;
        }
        let place = rest[brace..].strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let (number, after) = place.ok_or("has a brace without its partner; a brace itself is written {{ or }}")?;
        let value = number.parse::<usize>().ok().and_then(|number| values.get(number));
        text.push_str(&text_of(
            value
                .ok_or("has a place that is not the number of an argument; formats such as {0:D3} are not supported")?,
        ));
        short_enough(text.len())?;
        rest = after;
    }
    text.push_str(rest);
    Ok(text.into())
}

fn int(arguments: &[Value]) -> Result<Value, String> {
    let number = match one(arguments)? {
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_i64(),
    };
    number.map(Value::from).ok_or_else(|| "wants a whole number, or a text that is one".to_owned())
}

fn bool_of(arguments: &[Value]) -> Result<Value, String> {
    let value = one(arguments)?;
    let truth = match value {
        Value::String(text) if text.eq_ignore_ascii_case("true") => Some(true),
        Value::String(text) if text.eq_ignore_ascii_case("false") => Some(false),
        value => value.as_bool().or(value.as_i64().map(|number| number != 0)),
    };
    truth.map(Value::from).ok_or_else(|| "wants true, false or a number".to_owned())
}

fn arithmetic(arguments: &[Value], operation: fn(i64, i64) -> Option<i64>) -> Result<Value, String> {
    let [left, right] = two_numbers(arguments)?;
    let result = operation(left, right).ok_or("has no result of 64 bits: too large, or a division by zero")?;
    Ok(result.into())
}

fn empty(value: &Value) -> Result<Value, String> {
    Ok(match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => return Err("wants a text, a list or an object".to_owned()),
    }
    .into())
}

fn length(value: &Value) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => text.chars().count(),
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) => return Err("wants a text, a list or an object".to_owned()),
    }
    .into())
}

#[derive(Clone, Copy)]
enum End {
    First,
    Last,
}

fn end_of(value: &Value, end: End) -> Result<Value, String> {
    let character = |c: Option<char>| Value::from(c.map(String::from).unwrap_or_default());
    match (value, end) {
        (Value::Array(items), End::First) => Ok(items.first().cloned().unwrap_or_default()),
        (Value::Array(items), End::Last) => Ok(items.last().cloned().unwrap_or_default()),
        (Value::String(text), End::First) => Ok(character(text.chars().next())),
        (Value::String(text), End::Last) => Ok(character(text.chars().next_back())),
        (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_), _) => {
            Err("wants a text or a list".to_owned())
        }
    }
}

fn split(arguments: &[Value]) -> Result<Value, String> {
    let wrong = || "wants a text, and a text or a list of texts to split it at".to_owned();
    let [text, at] = two(arguments)?;
    let text = text.as_str().ok_or_else(wrong)?;
    let separators: Vec<&str> = match at {
        Value::String(separator) => vec![separator],
        Value::Array(items) => items.iter().map(Value::as_str).collect::<Option<_>>().ok_or_else(wrong)?,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => return Err(wrong()),
    };
    if separators.len() > SEPARATORS_MAX {
        return Err(format!("splits at {SEPARATORS_MAX} texts at most"));
    }
    let mut parts = vec![text];
    for separator in separators.into_iter().filter(|separator| !separator.is_empty()) {
        parts = parts.into_iter().flat_map(|part| part.split(separator)).collect();
    }
    Ok(parts.into())
}

fn join(arguments: &[Value]) -> Result<Value, String> {
    match arguments {
        [Value::Array(items), Value::String(separator)] => {
            let texts: Vec<String> = items.iter().map(text_of).collect();
            let bytes = texts.iter().map(String::len).sum::<usize>();
            short_enough(bytes.saturating_add(separator.len().saturating_mul(texts.len())))?;
            Ok(texts.join(separator).into())
        }
        _ => Err("wants a list and a text to put between".to_owned()),
    }
}

fn replace(arguments: &[Value]) -> Result<Value, String> {
    match arguments {
        [Value::String(text), Value::String(old), Value::String(new)] if !old.is_empty() => {
            short_enough(text.len().saturating_add(text.matches(old).count().saturating_mul(new.len())))?;
            Ok(text.replace(old, new).into())
        }
        _ => Err("wants three texts, the second not empty".to_owned()),
    }
}

fn substring(arguments: &[Value]) -> Result<Value, String> {
    let (text, start, count) = match arguments {
        [Value::String(text), start] => (text, start.as_u64(), None),
        [Value::String(text), start, count] => (text, start.as_u64(), Some(count)),
        _ => (const { &String::new() }, None, None),
    };
    let wrong = || "wants a text, where to begin and perhaps how many characters, within the text".to_owned();
    let chars: Vec<char> = text.chars().collect();
    let start = usize::try_from(start.ok_or_else(wrong)?).map_err(|_| wrong())?;
    let rest = chars.get(start..).ok_or_else(wrong)?;
    let part = match count {
        None => rest,
        Some(count) => {
            let count = count.as_u64().and_then(|count| usize::try_from(count).ok());
            count.and_then(|count| rest.get(..count)).ok_or_else(wrong)?
        }
    };
    Ok(part.iter().collect::<String>().into())
}

fn contains(arguments: &[Value]) -> Result<Value, String> {
    let [container, item] = two(arguments)?;
    match (container, item) {
        (Value::Array(items), item) => Ok(items.contains(item).into()),
        (Value::Object(members), Value::String(name)) => {
            Ok(members.keys().any(|key| key.eq_ignore_ascii_case(name)).into())
        }
        (Value::String(text), Value::String(_) | Value::Number(_)) => Ok(text.contains(&text_of(item)).into()),
        (_, _) => Err("wants a list and an item, an object and a name, or two texts".to_owned()),
    }
}

fn create_object(arguments: &[Value]) -> Result<Value, String> {
    let pairs = arguments.chunks(2).map(|pair| match pair {
        [Value::String(name), value] => Ok((name.clone(), value.clone())),
        _ => Err("wants names and values in turn".to_owned()),
    });
    pairs.collect::<Result<Map<_, _>, _>>().map(Value::Object)
}

/// Thirteen letters and digits that are always the same for the same texts. They are not those of the original, whose hash
/// is not documented.
fn unique_string(arguments: &[Value]) -> Result<Value, String> {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    const LENGTH: usize = 13;
    let texts: Option<Vec<&str>> = arguments.iter().map(Value::as_str).collect();
    let texts = texts.filter(|texts| !texts.is_empty()).ok_or("wants texts, at least one")?;
    // FNV-1a; a byte that is in no text keeps 'ab','c' apart from 'a','bc'.
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0xFF]));
    let mut hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let mut text = String::with_capacity(LENGTH);
    for _ in 0..LENGTH {
        text.push(char::from(LETTERS[(hash & 31) as usize]));
        hash = hash.rotate_right(5);
    }
    Ok(text.into())
}

fn short_enough(bytes: usize) -> Result<(), String> {
    if bytes > TEXT_BYTES_MAX { Err(format!("makes texts of at most {TEXT_BYTES_MAX} bytes")) } else { Ok(()) }
}

fn none(arguments: &[Value], value: Value) -> Result<Value, String> {
    if arguments.is_empty() { Ok(value) } else { Err("takes no arguments".to_owned()) }
}

fn one(arguments: &[Value]) -> Result<&Value, String> {
    match arguments {
        [value] => Ok(value),
        _ => Err("wants one argument".to_owned()),
    }
}

fn one_text(arguments: &[Value]) -> Result<&str, String> {
    one(arguments)?.as_str().ok_or_else(|| "wants a text".to_owned())
}

fn two(arguments: &[Value]) -> Result<[&Value; 2], String> {
    match arguments {
        [left, right] => Ok([left, right]),
        _ => Err("wants two arguments".to_owned()),
    }
}

fn two_texts(arguments: &[Value]) -> Result<[&str; 2], String> {
    match two(arguments)?.map(Value::as_str) {
        [Some(left), Some(right)] => Ok([left, right]),
        _ => Err("wants two texts".to_owned()),
    }
}

fn two_numbers(arguments: &[Value]) -> Result<[i64; 2], String> {
    match two(arguments)?.map(Value::as_i64) {
        [Some(left), Some(right)] => Ok([left, right]),
        _ => Err("wants two whole numbers".to_owned()),
    }
}
