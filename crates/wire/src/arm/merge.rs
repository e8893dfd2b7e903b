//! The effect of PUT and PATCH on an existing body.
//!
//! | in the request | PUT | PATCH |
//! |---|---|---|
//! | absent | keeps the value | keeps the value |
//! | `null` | keeps the value | removes it |
//! | an object | merges it, member by member | merges it, member by member |
//! | a list or a value | replaces it | replaces it |
//! | `tags` | replaces them | replaces them |
//!
//! PUT keeps absent members because clients send partial bodies (`az vmss scale` sends `location` and `sku`,
//! `az vmss update` drops the image, the tutorial on terminate notification sends only the profile). It keeps
//! `null` members because clients write `null` for properties that they do not know (`singlePlacementGroup`).
//! Tags are always sent in full, so that a tag can be removed. A new resource is a PUT onto [`Value::Null`],
//! and its `null` members are dropped.
//!
//! The merge also converts `"true"` and `"false"` to booleans where a boolean is expected, and drops passwords:
//! Azure does not return them either, and data that is not stored cannot leak.

use serde_json::{Map, Value};

/// Properties for which some clients' templates write a boolean as a string.
const BOOLEANS: &[&str] = &[
    "allowExtensionOperations",
    "automaticallyApprove",
    "disableIPSourceAddressForwarding",
    "disablePasswordAuthentication",
    "disableTcpStateTracking",
    "enable",
    "enableAcceleratedNetworking",
    "enableAutomaticOSUpgrade",
    "enableAutomaticUpdates",
    "enabled",
    "enableFloatingIP",
    "enableIPForwarding",
    "enableTcpReset",
    "overprovision",
    "primary",
    "protectFromScaleIn",
    "protectFromScaleSetActions",
    "provisionVMAgent",
    "secureBootEnabled",
    "singlePlacementGroup",
    "ultraSSDEnabled",
    "vTpmEnabled",
];

/// Properties that are accepted but never returned.
const SECRETS: &[&str] = &["adminPassword", "customData", "protectedSettings"];

/// Members whose own members are user-defined names and are not interpreted.
const FREE: &[&str] = &["tags"];

/// The body after a PUT of `given` onto `existing`, which is [`Value::Null`] for a new resource.
pub fn put(existing: &Value, given: &Value) -> Value {
    merge(existing.clone(), given, Nulls::Keep)
}

/// The body after a PATCH with `given`.
pub fn patch(existing: &Value, given: &Value) -> Value {
    merge(existing.clone(), given, Nulls::Remove)
}

#[derive(Clone, Copy)]
enum Nulls {
    Keep,
    Remove,
}

fn merge(existing: Value, given: &Value, nulls: Nulls) -> Value {
    let Value::Object(given) = given else {
        return normalize(given);
    };
    let mut members = match existing {
        Value::Object(members) => members,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    };
    for (name, value) in given {
        match (value, nulls) {
            _ if contains_name(SECRETS, name) => {}
            (Value::Null, Nulls::Keep) => {}
            (Value::Null, Nulls::Remove) => {
                members.remove(name);
            }
            (value, _) if contains_name(FREE, name) => {
                members.insert(name.clone(), value.clone());
            }
            (value, _) => {
                let before = members.remove(name).unwrap_or(Value::Null);
                members.insert(name.clone(), to_boolean(name, merge(before, value, nulls)));
            }
        }
    }
    Value::Object(members)
}

/// Applies the same rules to a new value, where there is nothing to keep.
fn normalize(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(normalize).collect()),
        Value::Object(_) => merge(Value::Null, value, Nulls::Keep),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn to_boolean(name: &str, value: Value) -> Value {
    match value.as_str() {
        Some(text) if contains_name(BOOLEANS, name) && text.eq_ignore_ascii_case("true") => Value::Bool(true),
        Some(text) if contains_name(BOOLEANS, name) && text.eq_ignore_ascii_case("false") => Value::Bool(false),
        Some(_) | None => value,
    }
}

fn contains_name(names: &[&str], name: &str) -> bool {
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(method: fn(&Value, &Value) -> Value, existing: Value, given: Value, expected: Value) {
        assert_eq!(method(&existing, &given), expected, "{existing} and {given}");
    }

    #[test]
    fn put_keeps_absent_and_null_members() {
        check(
            put,
            json!({"location": "here", "sku": {"name": "small", "capacity": 2}, "properties": {"a": 1}}),
            json!({"location": null, "sku": {"capacity": 5}}),
            json!({"location": "here", "sku": {"name": "small", "capacity": 5}, "properties": {"a": 1}}),
        );
        check(put, json!({"a": {"b": 1}}), json!({"a": null}), json!({"a": {"b": 1}}));
    }

    #[test]
    fn the_body_of_the_tutorial_changes_only_the_profile() {
        let set = json!({"location": "here", "sku": {"capacity": 3}, "properties": {
            "upgradePolicy": {"mode": "Manual"},
            "virtualMachineProfile": {"osProfile": {"computerNamePrefix": "ss"}}}});
        let profile = json!({"terminateNotificationProfile": {"notBeforeTimeout": "PT5M", "enable": true}});
        let mut expected = set.clone();
        expected["properties"]["virtualMachineProfile"]["scheduledEventsProfile"] = profile.clone();
        let given = json!({"properties": {"virtualMachineProfile": {"scheduledEventsProfile": profile}}});
        check(put, set, given, expected);
    }

    #[test]
    fn patch_removes_null_members() {
        check(
            patch,
            json!({"properties": {"a": 1, "b": {"c": 2}}}),
            json!({"properties": {"a": null, "b": {"c": null, "d": 3}, "x": null}}),
            json!({"properties": {"b": {"d": 3}}}),
        );
    }

    #[test]
    fn lists_values_and_tags_are_replaced() {
        for method in [put, patch] {
            check(method, json!({"a": [1, 2], "b": {"c": 1}}), json!({"a": [3], "b": 7}), json!({"a": [3], "b": 7}));
            check(
                method,
                json!({"tags": {"a": "1", "b": "2"}}),
                json!({"tags": {"b": "3"}}),
                json!({"tags": {"b": "3"}}),
            );
        }
    }

    #[test]
    fn a_new_resource_has_no_nulls_at_any_depth() {
        check(
            put,
            Value::Null,
            json!({"zones": null, "properties": {"a": null, "list": [{"b": null, "c": 1}, null]}}),
            json!({"properties": {"list": [{"c": 1}, null]}}),
        );
        check(patch, json!({}), json!({"list": [{"b": null}]}), json!({"list": [{}]}));
    }

    #[test]
    fn strings_become_booleans_where_booleans_are_expected() {
        check(
            put,
            Value::Null,
            json!({"enable": "true", "list": [{"primary": "False"}], "name": "true", "mode": "false"}),
            json!({"enable": true, "list": [{"primary": false}], "name": "true", "mode": "false"}),
        );
        check(put, json!({"enable": true}), json!({"enable": "maybe"}), json!({"enable": "maybe"}));
        check(put, Value::Null, json!({"tags": {"enable": "true"}}), json!({"tags": {"enable": "true"}}));
    }

    #[test]
    fn passwords_are_dropped() {
        let given = json!({"osProfile": {"adminUsername": "me", "adminPassword": "secret", "customData": "c2g="},
            "list": [{"adminpassword": "secret"}]});
        let kept = json!({"osProfile": {"adminUsername": "me"}, "list": [{}]});
        check(put, Value::Null, given.clone(), kept.clone());
        check(patch, Value::Null, given, kept);
    }
}
