//! What PUT and PATCH make of a body that is there.
//!
//! | in the request | PUT | PATCH |
//! |---|---|---|
//! | absent | stays | stays |
//! | `null` | stays | is removed |
//! | an object | is merged, member by member | is merged, member by member |
//! | a list, a value | replaces | replaces |
//! | `tags` | replaces | replaces |
//!
//! PUT keeps what is absent because clients send parts (`az vmss scale` sends `location` and `sku`, `az vmss update` drops the
//! image, the tutorial on terminate notification has nothing but the profile), and keeps what is `null` because they write
//! `null` for what they do not know (`singlePlacementGroup`). Tags are a set that is always sent whole, so that one can be
//! taken away. A new resource is a PUT onto [`Value::Null`]: its `null`s go.
//!
//! On the way `"true"` and `"false"` become booleans where a boolean is meant, and passwords are left out: the original
//! shows neither, and what is not kept cannot leak.

use serde_json::{Map, Value};

/// Where templates of clients write a boolean as a string.
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

/// What is taken, may be used, and is never shown again.
const SECRETS: &[&str] = &["adminPassword", "customData", "protectedSettings"];

/// Members whose own members are names that users chose: nothing in them is ours to interpret.
const FREE: &[&str] = &["tags"];

/// The body after a PUT of `given` onto `existing`, which is [`Value::Null`] for a new resource.
pub fn put(existing: &Value, given: &Value) -> Value {
    merged(existing.clone(), given, Nulls::Keep)
}

/// The body after a PATCH of `given`.
pub fn patch(existing: &Value, given: &Value) -> Value {
    merged(existing.clone(), given, Nulls::Remove)
}

#[derive(Clone, Copy)]
enum Nulls {
    Keep,
    Remove,
}

fn merged(existing: Value, given: &Value, nulls: Nulls) -> Value {
    let Value::Object(given) = given else {
        return normalised(given);
    };
    let mut members = match existing {
        Value::Object(members) => members,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    };
    for (name, value) in given {
        match (value, nulls) {
            _ if is_in(SECRETS, name) => {}
            (Value::Null, Nulls::Keep) => {}
            (Value::Null, Nulls::Remove) => {
                members.remove(name);
            }
            (value, _) if is_in(FREE, name) => {
                members.insert(name.clone(), value.clone());
            }
            (value, _) => {
                let before = members.remove(name).unwrap_or(Value::Null);
                members.insert(name.clone(), typed(name, merged(before, value, nulls)));
            }
        }
    }
    Value::Object(members)
}

/// The value of something new: the same rules, with nothing to keep.
fn normalised(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(normalised).collect()),
        Value::Object(_) => merged(Value::Null, value, Nulls::Keep),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn typed(name: &str, value: Value) -> Value {
    match value.as_str() {
        Some(text) if is_in(BOOLEANS, name) && text.eq_ignore_ascii_case("true") => Value::Bool(true),
        Some(text) if is_in(BOOLEANS, name) && text.eq_ignore_ascii_case("false") => Value::Bool(false),
        Some(_) | None => value,
    }
}

fn is_in(names: &[&str], name: &str) -> bool {
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
    fn put_keeps_what_is_absent_or_null() {
        check(
            put,
            json!({"location": "here", "sku": {"name": "small", "capacity": 2}, "properties": {"a": 1}}),
            json!({"location": null, "sku": {"capacity": 5}}),
            json!({"location": "here", "sku": {"name": "small", "capacity": 5}, "properties": {"a": 1}}),
        );
        check(put, json!({"a": {"b": 1}}), json!({"a": null}), json!({"a": {"b": 1}}));
    }

    #[test]
    fn the_tutorials_body_touches_the_profile_alone() {
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
    fn patch_removes_what_is_null() {
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
    fn strings_become_booleans_where_those_are_meant() {
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
    fn passwords_are_not_kept() {
        let given = json!({"osProfile": {"adminUsername": "me", "adminPassword": "secret", "customData": "c2g="},
            "list": [{"adminpassword": "secret"}]});
        let kept = json!({"osProfile": {"adminUsername": "me"}, "list": [{}]});
        check(put, Value::Null, given.clone(), kept.clone());
        check(patch, Value::Null, given, kept);
    }
}
