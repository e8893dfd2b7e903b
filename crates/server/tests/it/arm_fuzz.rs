//! Random requests to the ARM API: each gets a success or an error in ARM's format, never an internal error, and the server
//! stays available.

use crate::api_support::{NONE, Server};
use crate::arm_support;
use crate::arm_support::{arm, path, raw, set_body};
use proptest::prelude::*;
use serde_json::{Value, json};

fn check(server: &Server, method: &str, path: &str, body: &Value) {
    let answer = raw(server, &format!("{method} {path}"), body);
    assert!(answer.status < 500, "{method} {path} {body}: {} {}", answer.status, answer.text());
    if answer.status >= 400 && method != "HEAD" {
        assert!(!answer.code().is_empty(), "{method} {path} {body}: {}", answer.text());
    }
}

fn method() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["GET", "GET", "PUT", "PATCH", "POST", "DELETE", "HEAD"])
}

/// Prefixes of valid paths, followed by other segments.
fn paths() -> impl Strategy<Value = String> {
    let beginning = prop::sample::select(vec!["T/subscriptions", "S", "G", "VM", "SET", "AS", "NET", "DEP"]);
    let piece = prop::sample::select(vec![
        "su",
        "one",
        "0",
        "virtualMachines",
        "restart",
        "DELETE",
        "delete",
        "instanceView",
        "manualUpgrade",
        "poweroff",
        "providers",
        "Microsoft.Maintenance",
        "scheduledevents",
        "acknowledge",
        "virtualNetworks",
        "subnets",
        "operationStatuses",
        "00000000-0000-4000-8000-000000000000",
        "00000000-0000-4000-8000-000000000000.7",
        "..",
        "%2f",
        "%",
        "%00",
        "*",
        "",
    ]);
    let query =
        prop::sample::select(vec!["", "&$top=1", "&$top=-1", "&$skiptoken=%00", "&$expand=instanceView", "&$filter=x"]);
    (beginning, prop::collection::vec(piece, 0..5), query).prop_map(|(beginning, pieces, query)| {
        let mut path = path(beginning);
        pieces.iter().for_each(|piece| path += &format!("/{piece}"));
        format!("{path}?api-version=2024-11-01{query}")
    })
}

/// Values of every kind.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2i64..5000).prop_map(Value::from),
        prop::sample::select(vec![
            "",
            "true",
            "PT5M",
            "Spot",
            "Uniform",
            "*",
            "x",
            "/subscriptions/s",
            "[concat('a')]",
            "[oops("
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,4}", inner, 0..3).prop_map(|map| json!(map)),
        ]
    })
}

/// A body of a set, a machine, an action or a deployment with something else in some of its places.
fn bodies() -> impl Strategy<Value = Value> {
    let places = prop::sample::select(vec![
        "/location",
        "/sku",
        "/sku/capacity",
        "/tags",
        "/zones",
        "/identity",
        "/properties",
        "/properties/orchestrationMode",
        "/properties/virtualMachineProfile",
        "/properties/virtualMachineProfile/scheduledEventsProfile",
        "/properties/priority",
        "/properties/availabilitySet",
        "/properties/networkProfile",
        "/properties/scheduledEventsPolicy",
        "/properties/template",
        "/properties/mode",
        "/instanceIds",
        "/value",
    ]);
    prop::collection::vec((places, value()), 0..4).prop_map(|changes| {
        let mut body = set_body(2, "Manual", Some("PT5M"));
        body["properties"]["template"] = json!({ "resources": [] });
        for (place, value) in changes {
            let (parent, key) = place.rsplit_once('/').unwrap();
            if let Some(Value::Object(members)) = body.pointer_mut(parent) {
                members.insert(key.to_owned(), value);
            }
        }
        body
    })
}

#[test]
fn every_request_gets_a_valid_response() {
    let server = arm_support::server();
    arm(&server, "PUT SET/su", set_body(2, "Manual", Some("PT5M")), 201, json!({}));
    arm(&server, "PUT VM/one", json!({ "location": "x" }), 201, json!({}));
    let group = format!("{}?api-version=2024-11-01", path("G"));
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig { cases: 1500, ..Default::default() });
    let strategy = (method(), paths(), prop_oneof![1 => Just(NONE), 4 => bodies()]);
    runner
        .run(&strategy, |(method, path, body)| {
            check(&server, method, &path, &body);
            // One of them deletes the group, and the rest would find nothing.
            check(&server, "PUT", &group, &json!({ "location": "westeurope" }));
            Ok(())
        })
        .unwrap();
    arm(&server, "GET T/subscriptions", NONE, 200, json!({}));
}
