//! Reading and writing the members of bodies by their place, `properties.hardwareProfile.vmSize`. A null is a member
//! that is not there, and `"true"` is true: templates are written so.

use forewarn_core::settings::NAME_BYTES_MAX;
use serde_json::{Map, Value};

use forewarn_api::error::{ApiError, Refusal};
use forewarn_api::text::{TEXT_CHARS_MAX, Tags};

pub fn at<'a>(value: &'a Value, place: &str) -> Option<&'a Value> {
    let found = place.split('.').try_fold(value, |value, key| value.get(key))?;
    (!found.is_null()).then_some(found)
}

pub fn text<'a>(value: &'a Value, place: &str) -> Result<Option<&'a str>, ApiError> {
    match at(value, place) {
        None => Ok(None),
        Some(Value::String(text)) if text.chars().count() <= TEXT_CHARS_MAX => Ok(Some(text)),
        Some(Value::String(_)) => Err(invalid(place, format!("may have {TEXT_CHARS_MAX} characters"))),
        Some(_) => Err(invalid(place, "must be a text")),
    }
}

pub fn boolean(value: &Value, place: &str) -> Result<Option<bool>, ApiError> {
    match at(value, place) {
        None => Ok(None),
        Some(Value::Bool(given)) => Ok(Some(*given)),
        Some(Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(Some(true)),
        Some(Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(Some(false)),
        Some(_) => Err(invalid(place, "must be true or false")),
    }
}

/// A whole number. Templates give them as text, too.
pub fn number(value: &Value, place: &str) -> Result<Option<u32>, ApiError> {
    let number = match at(value, place) {
        None => return Ok(None),
        Some(Value::Number(number)) => number.as_u64().and_then(|number| u32::try_from(number).ok()),
        Some(Value::String(text)) => text.parse().ok(),
        Some(_) => None,
    };
    number.map(Some).ok_or_else(|| invalid(place, "must be a whole number from 0"))
}

/// One of these words, in any case.
pub fn word<T: Copy>(value: &Value, place: &str, words: &[(&str, T)]) -> Result<Option<T>, ApiError> {
    let Some(given) = text(value, place)? else { return Ok(None) };
    match words.iter().find(|(word, _)| word.eq_ignore_ascii_case(given)) {
        Some((_, meaning)) => Ok(Some(*meaning)),
        None => {
            let known = words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
            Err(invalid(place, format!("is '{given}', and must be one of {known}")))
        }
    }
}

/// Texts that are names, such as zones.
pub fn names<'a>(value: &'a Value, place: &str, count_max: usize) -> Result<Vec<&'a str>, ApiError> {
    let list = match at(value, place) {
        None => return Ok(Vec::new()),
        Some(Value::Array(list)) if list.len() <= count_max => list,
        Some(Value::Array(_)) => return Err(invalid(place, format!("may have {count_max} entries"))),
        Some(_) => return Err(invalid(place, "must be a list")),
    };
    let name = |value: &'a Value| value.as_str().filter(|name| (1..=NAME_BYTES_MAX).contains(&name.len()));
    list.iter().map(|value| name(value).ok_or_else(|| invalid(place, "must be a list of names"))).collect()
}

pub fn tags(value: &Value) -> Result<Option<Vec<(String, String)>>, ApiError> {
    let Some(given) = at(value, "tags") else { return Ok(None) };
    let tags: Tags = serde_json::from_value(given.clone()).map_err(|error| invalid("tags", error))?;
    Ok(Some(tags.0.into_iter().collect()))
}

/// Puts a member in its place and makes the objects on the way.
pub fn put(value: &mut Value, place: &str, new: impl Into<Value>) {
    let (way, key) = place.rsplit_once('.').map_or((None, place), |(way, key)| (Some(way), key));
    let mut object = value;
    for step in way.into_iter().flat_map(|way| way.split('.')) {
        object = members(object).entry(step).or_insert_with(|| Value::Object(Map::new()));
    }
    members(object).insert(key.to_owned(), new.into());
}

pub fn remove(value: &mut Value, place: &str) {
    let (way, key) = place.rsplit_once('.').map_or((None, place), |(way, key)| (Some(way), key));
    let mut object = value;
    for step in way.into_iter().flat_map(|way| way.split('.')) {
        let Some(next) = object.get_mut(step) else { return };
        object = next;
    }
    if let Value::Object(members) = object {
        members.remove(key);
    }
}

/// The members of an object; what is none becomes one.
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
    ApiError::new(Refusal::InvalidParameter, format!("The member '{place}' {problem}.")).about(place)
}

/// A new resource needs it.
pub fn missing(place: &str) -> ApiError {
    let message = format!("Required parameter '{place}' is missing (null): a new resource needs it.");
    ApiError::new(Refusal::InvalidParameter, message).about(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn members_are_found_put_and_removed_by_their_place() {
        let mut body = json!({ "a": { "b": "x", "gone": null }, "n": "7" });
        assert_eq!(text(&body, "a.b").unwrap(), Some("x"));
        assert_eq!(text(&body, "a.gone").unwrap(), None);
        assert_eq!(number(&body, "n").unwrap(), Some(7));
        assert!(text(&body, "a").is_err());
        put(&mut body, "a.c.d", true);
        remove(&mut body, "a.b");
        remove(&mut body, "no.such.place");
        assert_eq!(body, json!({ "a": { "gone": null, "c": { "d": true } }, "n": "7" }));
    }

    #[test]
    fn words_and_truth_come_in_any_case_and_as_text() {
        let body = json!({ "mode": "manual", "yes": "True", "no": false, "odd": "perhaps" });
        assert_eq!(word(&body, "mode", &[("Automatic", 1), ("Manual", 2)]).unwrap(), Some(2));
        assert_eq!(boolean(&body, "yes").unwrap(), Some(true));
        assert_eq!(boolean(&body, "no").unwrap(), Some(false));
        assert!(boolean(&body, "odd").is_err());
        let refused = word(&body, "odd", &[("Automatic", 1)]).unwrap_err();
        assert_eq!(refused.message, "The member 'odd' is 'perhaps', and must be one of Automatic.");
    }
}
