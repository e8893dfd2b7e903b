//! Access to the properties of a JSON body by their path, such as `properties.hardwareProfile.vmSize`. A null counts as a
//! missing property, and `"true"` as true, because templates contain both.

use forewarn_core::settings::NAME_BYTES_MAX;
use serde_json::{Map, Value};

use forewarn_api::error::{ApiError, ErrorCode};
use forewarn_api_types::{TEXT_CHARS_MAX, Tags};

pub fn at<'a>(value: &'a Value, place: &str) -> Option<&'a Value> {
    let found = place.split('.').try_fold(value, |value, key| value.get(key))?;
    (!found.is_null()).then_some(found)
}

pub fn read_text<'a>(value: &'a Value, place: &str) -> Result<Option<&'a str>, ApiError> {
    match at(value, place) {
        None => Ok(None),
        Some(Value::String(text)) if text.contains(char::is_control) => {
            Err(invalid(place, "must not contain control characters"))
        }
        Some(Value::String(text)) if text.chars().count() <= TEXT_CHARS_MAX => Ok(Some(text)),
        Some(Value::String(_)) => Err(invalid(place, format!("must have at most {TEXT_CHARS_MAX} characters"))),
        Some(_) => Err(invalid(place, "must be a string")),
    }
}

pub fn read_bool(value: &Value, place: &str) -> Result<Option<bool>, ApiError> {
    match at(value, place) {
        None => Ok(None),
        Some(Value::Bool(given)) => Ok(Some(*given)),
        Some(Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(Some(true)),
        Some(Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(Some(false)),
        Some(_) => Err(invalid(place, "must be true or false")),
    }
}

/// An unsigned integer. Templates also contain them as strings.
pub fn read_number(value: &Value, place: &str) -> Result<Option<u32>, ApiError> {
    let number = match at(value, place) {
        None => return Ok(None),
        Some(Value::Number(number)) => number.as_u64().and_then(|number| u32::try_from(number).ok()),
        Some(Value::String(text)) => text.parse().ok(),
        Some(_) => None,
    };
    number.map(Some).ok_or_else(|| invalid(place, "must be a non-negative integer"))
}

/// One of these names, without regard to case.
pub fn read_keyword<T: Copy>(value: &Value, place: &str, names: &[(&str, T)]) -> Result<Option<T>, ApiError> {
    let Some(given) = read_text(value, place)? else { return Ok(None) };
    match names.iter().find(|(name, _)| name.eq_ignore_ascii_case(given)) {
        Some((_, value)) => Ok(Some(*value)),
        None => {
            let known = names.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            Err(invalid(place, format!("is '{given}', but must be one of {known}")))
        }
    }
}

/// A list of names, such as zones.
pub fn read_names<'a>(value: &'a Value, place: &str, count_max: usize) -> Result<Vec<&'a str>, ApiError> {
    let list = match at(value, place) {
        None => return Ok(Vec::new()),
        Some(Value::Array(list)) if list.len() <= count_max => list,
        Some(Value::Array(_)) => return Err(invalid(place, format!("must have at most {count_max} entries"))),
        Some(_) => return Err(invalid(place, "must be a list")),
    };
    let name = |value: &'a Value| value.as_str().filter(|name| (1..=NAME_BYTES_MAX).contains(&name.len()));
    list.iter().map(|value| name(value).ok_or_else(|| invalid(place, "must be a list of names"))).collect()
}

pub fn read_tags(value: &Value) -> Result<Option<Vec<(String, String)>>, ApiError> {
    let Some(given) = at(value, "tags") else { return Ok(None) };
    let tags: Tags = serde_json::from_value(given.clone()).map_err(|error| invalid("tags", error))?;
    Ok(Some(tags.0.into_iter().collect()))
}

/// Sets a property and creates the objects on its path.
pub fn put(value: &mut Value, place: &str, new: impl Into<Value>) {
    let (parents, key) = place.rsplit_once('.').map_or((None, place), |(parents, key)| (Some(parents), key));
    let mut object = value;
    for step in parents.into_iter().flat_map(|parents| parents.split('.')) {
        object = members(object).entry(step).or_insert_with(|| Value::Object(Map::new()));
    }
    members(object).insert(key.to_owned(), new.into());
}

pub fn remove(value: &mut Value, place: &str) {
    let (parents, key) = place.rsplit_once('.').map_or((None, place), |(parents, key)| (Some(parents), key));
    let mut object = value;
    for step in parents.into_iter().flat_map(|parents| parents.split('.')) {
        let Some(next) = object.get_mut(step) else { return };
        object = next;
    }
    if let Value::Object(members) = object {
        members.remove(key);
    }
}

/// The members of an object. Any other value is replaced by an empty object.
fn members(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(members) => members,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            unreachable!("it has just become an object")
        }
    }
}

pub fn invalid(place: &str, problem: impl std::fmt::Display) -> ApiError {
    ApiError::new(ErrorCode::InvalidParameter, format!("The property '{place}' {problem}.")).with_target(place)
}

/// The error for a name that is not valid.
pub fn invalid_name(place: &str, reason: impl std::fmt::Display) -> ApiError {
    ApiError::new(ErrorCode::InvalidParameter, format!("The property '{place}': {reason}.")).with_target(place)
}

/// The error for a property that a new resource requires.
pub fn missing(place: &str) -> ApiError {
    let message = format!("Required parameter '{place}' is missing (null): a new resource needs it.");
    ApiError::new(ErrorCode::InvalidParameter, message).with_target(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn properties_are_read_set_and_removed_by_path() {
        let mut body = json!({ "a": { "b": "x", "gone": null }, "n": "7" });
        assert_eq!(read_text(&body, "a.b").unwrap(), Some("x"));
        assert_eq!(read_text(&body, "a.gone").unwrap(), None);
        assert_eq!(read_number(&body, "n").unwrap(), Some(7));
        assert!(read_text(&body, "a").is_err());
        put(&mut body, "a.c.d", true);
        remove(&mut body, "a.b");
        remove(&mut body, "no.such.place");
        assert_eq!(body, json!({ "a": { "gone": null, "c": { "d": true } }, "n": "7" }));
    }

    #[test]
    fn keywords_and_booleans_are_read_in_any_case_and_as_strings() {
        let body = json!({ "mode": "manual", "yes": "True", "no": false, "odd": "perhaps" });
        assert_eq!(read_keyword(&body, "mode", &[("Automatic", 1), ("Manual", 2)]).unwrap(), Some(2));
        assert_eq!(read_bool(&body, "yes").unwrap(), Some(true));
        assert_eq!(read_bool(&body, "no").unwrap(), Some(false));
        assert!(read_bool(&body, "odd").is_err());
        let refused = read_keyword(&body, "odd", &[("Automatic", 1)]).unwrap_err();
        assert_eq!(refused.message, "The property 'odd' is 'perhaps', but must be one of Automatic.");
    }
}
