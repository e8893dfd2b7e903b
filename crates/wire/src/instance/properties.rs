//! Properties that a machine was given through the ARM API, converted for its instance document, where every value is a
//! string.

use serde_json::{Map, Value};

use super::{InstanceView, texts};

/// The properties that the instance document shows.
const PROPERTIES: [&str; 6] = [
    "licenseType",
    "osProfile.adminUsername",
    "osProfile.linuxConfiguration",
    "storageProfile.dataDisks",
    "storageProfile.osDisk",
    "userData",
];

/// The part of a machine's properties that its instance document shows, for another program that renders it.
pub fn select_properties(properties: &Value) -> Value {
    let mut shown = Map::new();
    // Whether a machine has a profile determines which properties are filled in.
    if properties.get("storageProfile").is_some_and(Value::is_object) {
        shown.insert("storageProfile".to_owned(), Value::Object(Map::new()));
    }
    for place in PROPERTIES {
        let Some(value) = at(properties, place) else { continue };
        match place.split_once('.') {
            Some((section, key)) => {
                let section = shown.entry(section).or_insert_with(|| Value::Object(Map::new()));
                section[key] = value.clone();
            }
            None => {
                shown.insert(place.to_owned(), value.clone());
            }
        }
    }
    Value::Object(shown)
}

/// The text at a place of the properties, such as `osProfile.adminUsername`; empty if there is none.
pub(super) fn text(view: &InstanceView<'_>, place: &str) -> String {
    view.properties.map_or_else(String::new, |properties| text_at(properties, place))
}

/// The same below any value.
pub(super) fn text_at(value: &Value, place: &str) -> String {
    match at(value, place) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::Bool(flag)) => flag.to_string(),
        Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => String::new(),
    }
}

/// Whether passwords are disabled. By default they are on Linux, because no password is known.
pub(super) fn disables_password(view: &InstanceView<'_>) -> &'static str {
    match text(view, "osProfile.linuxConfiguration.disablePasswordAuthentication").to_ascii_lowercase().as_str() {
        "true" => "true",
        "false" => "false",
        _ if view.os_type.eq_ignore_ascii_case("Windows") => "false",
        _ => "true",
    }
}

pub(super) fn public_keys(view: &InstanceView<'_>) -> Value {
    let keys = list(view, "osProfile.linuxConfiguration.ssh.publicKeys");
    keys.map(|key| texts([("keyData", &text_at(key, "keyData")), ("path", &text_at(key, "path"))])).collect()
}

/// The entries of a list; none if there is no list.
pub(super) fn list<'a>(view: &InstanceView<'a>, place: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    view.properties.and_then(|properties| at(properties, place)).and_then(Value::as_array).into_iter().flatten()
}

fn at<'a>(value: &'a Value, place: &str) -> Option<&'a Value> {
    place.split('.').try_fold(value, |value, key| value.get(key))
}
