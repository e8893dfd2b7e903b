//! Template functions that depend only on their arguments.
//!
//! Names are not case-sensitive. Error messages continue the name of the function, as in `split() requires two
//! strings`.

use serde_json::{Map, Value};

/// Maximum length of a text that a function returns. Otherwise a few short arguments could exhaust the memory.
const TEXT_BYTES_MAX: usize = 1024 * 1024;

/// Maximum number of separators in one call. Each requires a pass over the text.
const SEPARATORS_MAX: usize = 16;

/// Returns the result, or the problem with the arguments.
pub(super) type PureFunction = fn(&[Value]) -> Result<Value, String>;

/// Finds a function by its name in lower case.
pub(super) fn find(name: &str) -> Option<PureFunction> {
    Some(match name {
        "concat" => concat,
        "tolower" => |arguments| one_string(arguments).map(|text| text.to_lowercase().into()),
        "toupper" => |arguments| one_string(arguments).map(|text| text.to_uppercase().into()),
        "trim" => |arguments| one_string(arguments).map(|text| text.trim().into()),
        "format" => format_string,
        "string" => |arguments| one_argument(arguments).map(|value| to_text(value).into()),
        "int" => to_int,
        "bool" => to_bool,
        "add" => |arguments| arithmetic(arguments, i64::checked_add),
        "sub" => |arguments| arithmetic(arguments, i64::checked_sub),
        "mul" => |arguments| arithmetic(arguments, i64::checked_mul),
        "div" => |arguments| arithmetic(arguments, i64::checked_div),
        "mod" => |arguments| arithmetic(arguments, i64::checked_rem),
        "less" => |arguments| two_numbers(arguments).map(|[a, b]| (a < b).into()),
        "lessorequals" => |arguments| two_numbers(arguments).map(|[a, b]| (a <= b).into()),
        "greater" => |arguments| two_numbers(arguments).map(|[a, b]| (a > b).into()),
        "greaterorequals" => |arguments| two_numbers(arguments).map(|[a, b]| (a >= b).into()),
        "equals" => |arguments| two_arguments(arguments).map(|[a, b]| (a == b).into()),
        "not" => |arguments| one_argument(arguments).and_then(|value| boolean(value).map(|value| (!value).into())),
        "true" => |arguments| no_arguments(arguments, Value::Bool(true)),
        "false" => |arguments| no_arguments(arguments, Value::Bool(false)),
        "null" => |arguments| no_arguments(arguments, Value::Null),
        "empty" => |arguments| one_argument(arguments).and_then(is_empty),
        "length" => |arguments| one_argument(arguments).and_then(length),
        "first" => |arguments| one_argument(arguments).and_then(|value| take_end(value, End::First)),
        "last" => |arguments| one_argument(arguments).and_then(|value| take_end(value, End::Last)),
        "split" => split,
        "join" => join,
        "replace" => replace,
        "substring" => substring,
        "startswith" => {
            |arguments| two_strings(arguments).map(|[a, b]| a.to_lowercase().starts_with(&b.to_lowercase()).into())
        }
        "endswith" => {
            |arguments| two_strings(arguments).map(|[a, b]| a.to_lowercase().ends_with(&b.to_lowercase()).into())
        }
        "contains" => contains,
        "createarray" => |arguments| Ok(Value::Array(arguments.to_vec())),
        "createobject" => create_object,
        "uniquestring" => unique_string,
        _ => return None,
    })
}

/// Returns a boolean argument.
pub(super) fn boolean(value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| "requires true or false".to_owned())
}

fn concat(arguments: &[Value]) -> Result<Value, String> {
    if arguments.first().is_some_and(Value::is_array) {
        let lists: Option<Vec<&Vec<Value>>> = arguments.iter().map(Value::as_array).collect();
        let lists = lists.ok_or("requires either strings or lists, not both")?;
        return Ok(Value::Array(lists.into_iter().flatten().cloned().collect()));
    }
    let plain = |value: &Value| !(value.is_array() || value.is_object());
    if arguments.is_empty() || !arguments.iter().all(plain) {
        return Err("requires at least one string or list".to_owned());
    }
    Ok(arguments.iter().map(to_text).collect::<String>().into())
}

/// Converts a value to text like Azure, which writes booleans with a capital letter.
fn to_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// `{0}` stands for the first argument after the pattern, `{{` and `}}` for a brace.
fn format_string(arguments: &[Value]) -> Result<Value, String> {
    let [Value::String(pattern), values @ ..] = arguments else {
        return Err("requires a format string such as '{0}', and its values".to_owned());
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
        let (number, after) = place.ok_or("has an unmatched brace; write a literal brace as {{ or }}")?;
        let value = number.parse::<usize>().ok().and_then(|number| values.get(number));
        text.push_str(&to_text(value.ok_or(
            "has a placeholder that is not the number of an argument; formats such as {0:D3} are not supported",
        )?));
        check_length(text.len())?;
        rest = after;
    }
    text.push_str(rest);
    Ok(text.into())
}

fn to_int(arguments: &[Value]) -> Result<Value, String> {
    let number = match one_argument(arguments)? {
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_i64(),
    };
    number.map(Value::from).ok_or_else(|| "requires a whole number, or a string that contains one".to_owned())
}

fn to_bool(arguments: &[Value]) -> Result<Value, String> {
    let value = one_argument(arguments)?;
    let truth = match value {
        Value::String(text) if text.eq_ignore_ascii_case("true") => Some(true),
        Value::String(text) if text.eq_ignore_ascii_case("false") => Some(false),
        value => value.as_bool().or(value.as_i64().map(|number| number != 0)),
    };
    truth.map(Value::from).ok_or_else(|| "requires true, false or a number".to_owned())
}

fn arithmetic(arguments: &[Value], operation: fn(i64, i64) -> Option<i64>) -> Result<Value, String> {
    let [left, right] = two_numbers(arguments)?;
    let result = operation(left, right).ok_or("has no 64-bit result: it is too large, or a division by zero")?;
    Ok(result.into())
}

fn is_empty(value: &Value) -> Result<Value, String> {
    Ok(match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => return Err("requires a string, a list or an object".to_owned()),
    }
    .into())
}

fn length(value: &Value) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => text.chars().count(),
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            return Err("requires a string, a list or an object".to_owned());
        }
    }
    .into())
}

#[derive(Clone, Copy)]
enum End {
    First,
    Last,
}

fn take_end(value: &Value, end: End) -> Result<Value, String> {
    let character = |c: Option<char>| Value::from(c.map(String::from).unwrap_or_default());
    match (value, end) {
        (Value::Array(items), End::First) => Ok(items.first().cloned().unwrap_or_default()),
        (Value::Array(items), End::Last) => Ok(items.last().cloned().unwrap_or_default()),
        (Value::String(text), End::First) => Ok(character(text.chars().next())),
        (Value::String(text), End::Last) => Ok(character(text.chars().next_back())),
        (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_), _) => {
            Err("requires a string or a list".to_owned())
        }
    }
}

fn split(arguments: &[Value]) -> Result<Value, String> {
    let wrong = || "requires a string, and a separator or a list of separators".to_owned();
    let [text, at] = two_arguments(arguments)?;
    let text = text.as_str().ok_or_else(wrong)?;
    let separators: Vec<&str> = match at {
        Value::String(separator) => vec![separator],
        Value::Array(items) => items.iter().map(Value::as_str).collect::<Option<_>>().ok_or_else(wrong)?,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => return Err(wrong()),
    };
    if separators.len() > SEPARATORS_MAX {
        return Err(format!("accepts at most {SEPARATORS_MAX} separators"));
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
            let texts: Vec<String> = items.iter().map(to_text).collect();
            let bytes = texts.iter().map(String::len).sum::<usize>();
            check_length(bytes.saturating_add(separator.len().saturating_mul(texts.len())))?;
            Ok(texts.join(separator).into())
        }
        _ => Err("requires a list and a separator".to_owned()),
    }
}

fn replace(arguments: &[Value]) -> Result<Value, String> {
    match arguments {
        [Value::String(text), Value::String(old), Value::String(new)] if !old.is_empty() => {
            check_length(text.len().saturating_add(text.matches(old).count().saturating_mul(new.len())))?;
            Ok(text.replace(old, new).into())
        }
        _ => Err("requires three strings, the second not empty".to_owned()),
    }
}

fn substring(arguments: &[Value]) -> Result<Value, String> {
    let (text, start, count) = match arguments {
        [Value::String(text), start] => (text, start.as_u64(), None),
        [Value::String(text), start, count] => (text, start.as_u64(), Some(count)),
        _ => (const { &String::new() }, None, None),
    };
    let wrong = || "requires a string, a start index and optionally a length, within the string".to_owned();
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
    let [container, item] = two_arguments(arguments)?;
    match (container, item) {
        (Value::Array(items), item) => Ok(items.contains(item).into()),
        (Value::Object(members), Value::String(name)) => {
            Ok(members.keys().any(|key| key.eq_ignore_ascii_case(name)).into())
        }
        (Value::String(text), Value::String(_) | Value::Number(_)) => Ok(text.contains(&to_text(item)).into()),
        (_, _) => Err("requires a list and an item, an object and a name, or two strings".to_owned()),
    }
}

fn create_object(arguments: &[Value]) -> Result<Value, String> {
    let pairs = arguments.chunks(2).map(|pair| match pair {
        [Value::String(name), value] => Ok((name.clone(), value.clone())),
        _ => Err("requires alternating names and values".to_owned()),
    });
    pairs.collect::<Result<Map<_, _>, _>>().map(Value::Object)
}

/// Thirteen letters and digits that depend only on the arguments. They differ from Azure's, whose hash function
/// is not documented.
fn unique_string(arguments: &[Value]) -> Result<Value, String> {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    const LENGTH: usize = 13;
    let texts: Option<Vec<&str>> = arguments.iter().map(Value::as_str).collect();
    let texts = texts.filter(|texts| !texts.is_empty()).ok_or("requires at least one string")?;
    // FNV-1a. The separator, a byte that does not occur in UTF-8, distinguishes 'ab','c' from 'a','bc'.
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

fn check_length(bytes: usize) -> Result<(), String> {
    if bytes > TEXT_BYTES_MAX { Err(format!("cannot return more than {TEXT_BYTES_MAX} bytes")) } else { Ok(()) }
}

fn no_arguments(arguments: &[Value], value: Value) -> Result<Value, String> {
    if arguments.is_empty() { Ok(value) } else { Err("takes no arguments".to_owned()) }
}

fn one_argument(arguments: &[Value]) -> Result<&Value, String> {
    match arguments {
        [value] => Ok(value),
        _ => Err("requires one argument".to_owned()),
    }
}

fn one_string(arguments: &[Value]) -> Result<&str, String> {
    one_argument(arguments)?.as_str().ok_or_else(|| "requires a string".to_owned())
}

fn two_arguments(arguments: &[Value]) -> Result<[&Value; 2], String> {
    match arguments {
        [left, right] => Ok([left, right]),
        _ => Err("requires two arguments".to_owned()),
    }
}

fn two_strings(arguments: &[Value]) -> Result<[&str; 2], String> {
    match two_arguments(arguments)?.map(Value::as_str) {
        [Some(left), Some(right)] => Ok([left, right]),
        _ => Err("requires two strings".to_owned()),
    }
}

fn two_numbers(arguments: &[Value]) -> Result<[i64; 2], String> {
    match two_arguments(arguments)?.map(Value::as_i64) {
        [Some(left), Some(right)] => Ok([left, right]),
        _ => Err("requires two whole numbers".to_owned()),
    }
}
