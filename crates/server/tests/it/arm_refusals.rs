//! Errors of the ARM API: code, status and message, and that nothing has changed.

use crate::api_support::{Client, NONE, Server};
use crate::arm_support;
use crate::arm_support::{SUBSCRIPTION, arm, raw, refused, send, server, set_body};
use serde_json::{Value, json};

#[test]
fn every_request_requires_an_api_version() {
    let server = server();
    for (query, code) in [
        ("", "MissingApiVersionParameter"),
        ("?api-version=", "MissingApiVersionParameter"),
        ("?api-version=latest", "InvalidApiVersionParameter"),
        ("?api-version=2024-11", "InvalidApiVersionParameter"),
        ("?api-version=2024-13-41", "InvalidApiVersionParameter"),
        ("?api-version=2023-02-29-preview", "InvalidApiVersionParameter"),
        ("?api-version=2024-11-01&api-version=2024-11-01", "InvalidApiVersionParameter"),
    ] {
        let answer = raw(&server, &format!("GET /subscriptions/{SUBSCRIPTION}/resourcegroups{query}"), &NONE);
        assert_eq!((answer.status, answer.code().as_str()), (400, code), "{query}");
    }
    for version in ["1999-01-01", "2026-04-01", "2030-12-31-preview"] {
        arm(&server, &format!("GET G?api-version={version}"), NONE, 200, json!({}));
    }
}

#[test]
fn paths_are_read_without_regard_to_case_and_doubled_slashes() {
    let server = server();
    arm(&server, "PUT AS/As1", json!({ "location": "x" }), 200, json!({}));
    let path = format!(
        "//SUBSCRIPTIONS/{SUBSCRIPTION}/resourcegroups/RG//providers/microsoft.COMPUTE//availabilitysets/aS1/?api-version=2024-11-01"
    );
    let answer = raw(&server, &format!("GET {path}"), &NONE);
    assert_eq!((answer.status, &answer.json()["name"]), (200, &json!("As1")), "{}", answer.text());
    for path in ["/subscriptions/a/b/c", "/subscriptions/%ff", "/providers/x/y/z/w/providers/a/b/c/d/e/f"] {
        let answer = raw(&server, &format!("GET {path}?api-version=2024-11-01"), &NONE);
        assert!([400, 404].contains(&answer.status), "{path}: {} {}", answer.status, answer.text());
        assert!(!answer.code().is_empty());
    }
}

#[test]
fn missing_properties_of_new_resources_are_named() {
    let server = server();
    let mut no_capacity = set_body(1, "Manual", None);
    no_capacity["sku"] = json!({ "name": "Standard_D2s_v5" });
    let without = |mut body: Value, key: &str| {
        body.as_object_mut().unwrap().remove(key);
        body
    };
    for (line, body, target) in [
        ("PUT SET/new", without(set_body(1, "Manual", None), "location"), "location"),
        ("PUT SET/new", without(set_body(1, "Manual", None), "sku"), "sku"),
        ("PUT SET/new", no_capacity, "sku.capacity"),
        ("PUT VM/new", json!({ "properties": {} }), "location"),
        ("PUT AS/new", json!({}), "location"),
        ("PUT S/resourceGroups/new", json!({}), "location"),
    ] {
        let message = refused(&server, line, body.clone(), 400, "InvalidParameter");
        assert!(message.contains(&format!("'{target}'")), "{message}");
        let answer = send(&server, line, &body).json();
        assert_eq!(answer["error"]["target"], target);
        let gone = send(&server, &line.replace("PUT", "GET"), &NONE).status;
        assert_eq!(gone, 404, "{line}");
    }
}

#[test]
fn invalid_properties_are_named() {
    let server = server();
    let with = |place: &str, value: Value| {
        let mut body = set_body(1, "Manual", None);
        *place.split('.').fold(&mut body, |body, key| &mut body[key]) = value;
        body
    };
    for (place, value) in [
        ("location", json!(7)),
        ("tags", json!("none")),
        ("tags", json!({ "a": 7 })),
        ("zones", json!("1")),
        ("zones", json!([7])),
        ("sku.capacity", json!(-1)),
        ("sku.capacity", json!(1.5)),
        ("sku.capacity", json!("many")),
        ("properties.orchestrationMode", json!("Chaotic")),
        ("properties.upgradePolicy.mode", json!("Sometimes")),
        ("properties.singlePlacementGroup", json!("perhaps")),
        ("properties.virtualMachineProfile.priority", json!("High")),
        ("properties.virtualMachineProfile.evictionPolicy", json!("Forget")),
    ] {
        let answer = send(&server, "PUT SET/new", &with(place, value.clone()));
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, "InvalidParameter"),
            "{place} {value}: {}",
            answer.text()
        );
        let last = place.rsplit('.').next().unwrap();
        assert!(answer.json()["error"]["target"].as_str().unwrap().ends_with(last), "{}", answer.text());
        refused(&server, "GET SET/new", NONE, 404, "ResourceNotFound");
    }
    arm(&server, "PUT SET/su", set_body(1, "Manual", None), 201, json!({}));
    let flexible = json!({ "properties": { "orchestrationMode": "Flexible" } });
    refused(&server, "PATCH SET/su", flexible, 409, "PropertyChangeNotAllowed");
    refused(&server, "PATCH SET/su", json!({ "zones": ["1"] }), 409, "PropertyChangeNotAllowed");
    refused(&server, "PUT SET/su", json!({ "sku": { "capacity": 10_001 } }), 409, "TooManyMachines");
    refused(
        &server,
        "PUT VM/new",
        json!({ "location": "x", "properties": { "availabilitySet": { "id": "as1" } } }),
        400,
        "InvalidParameter",
    );
    refused(&server, "PUT VM/n%20w", json!({ "location": "x" }), 400, "InvalidPath");
    refused(&server, "PUT VM/new*", json!({ "location": "x" }), 400, "InvalidParameter");
}

#[test]
fn bodies_must_be_json_objects() {
    let server = server();
    let post = |body: &[u8], kind: &str| {
        let line = format!("PUT {}?api-version=2024-11-01", arm_support::path("VM/one"));
        Client::to(server.management).header("Content-Type", kind).send(server.management, &line, body)
    };
    for (body, kind, status, code) in [
        (&b"{"[..], "application/json", 400, "InvalidRequestContent"),
        (b"", "application/json", 400, "InvalidRequestContent"),
        (b"[]", "application/json", 400, "InvalidRequestContent"),
        (b"{}", "text/plain", 415, "UnsupportedMediaType"),
    ] {
        let answer = post(body, kind);
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{}", answer.text());
    }
}

#[test]
fn unknown_types_methods_and_operations_are_refused_with_a_reason() {
    let server = server();
    refused(&server, "GET G/providers/Microsoft.Storage/storageAccounts/x", NONE, 404, "InvalidResourceType");
    for (line, why) in [
        ("GET G/providers/Microsoft.Compute/disks", "the resource type 'Microsoft.Compute/disks' is not supported."),
        ("GET S/providers/Microsoft.Compute/disks", "the resource type 'Microsoft.Compute/disks' is not supported."),
        ("GET G/providers/Microsoft.Compute/disks/d", "the resource type 'Microsoft.Compute/disks' is not supported."),
        (
            "POST G/providers/Microsoft.Compute/disks/d/grow",
            "the resource type 'Microsoft.Compute/disks' is not supported.",
        ),
        ("POST VM/one/explode", "'Microsoft.Compute/virtualMachines' has no action or child 'explode'."),
        (
            "GET S/providers/Microsoft.Compute/virtualMachines/one",
            "'Microsoft.Compute/virtualMachines' is not available at this scope.",
        ),
        (
            "GET NET/networkInterfaces/nic/dance",
            "'Microsoft.Network/networkInterfaces' has no action or child 'dance'.",
        ),
        ("GET G/resources", "/resources'."),
        (
            "PUT VM/one/extensions/x",
            "the resource type 'Microsoft.Compute/virtualMachines/extensions' is not supported.",
        ),
        ("POST VM/one/runCommand", "'Microsoft.Compute/virtualMachines' has no action or child 'runCommand'."),
        (
            "GET S/providers/Microsoft.Authorization/locks",
            "the resource type 'Microsoft.Authorization/locks' is not supported.",
        ),
        (
            "PUT S/providers/Microsoft.Resources/deployments/d",
            "'Microsoft.Resources/deployments' is not available at this scope.",
        ),
    ] {
        let message = refused(&server, line, NONE, 404, "InvalidResourceType");
        assert!(message.ends_with(why), "{line}: {message}");
    }
    let answer = send(&server, "DELETE G/providers/Microsoft.Compute/virtualMachines", &NONE);
    assert_eq!((answer.status, answer.header("allow")), (405, Some("GET")));
    let operations = "S/providers/Microsoft.Compute/locations/local/operations";
    refused(&server, &format!("GET {operations}/nonsense"), NONE, 404, "OperationNotFound");
    refused(&server, &format!("GET {operations}/{SUBSCRIPTION}"), NONE, 404, "OperationNotFound");
    refused(&server, "GET VM?$filter=name%20eq%20'x'", NONE, 400, "InvalidQuery");
    refused(&server, "GET VM?$top=0", NONE, 400, "InvalidQuery");
    refused(&server, "GET VM?$skiptoken=x", NONE, 400, "InvalidQuery");
}

#[test]
fn requests_without_a_token_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::guarded(directory.path());
    for line in ["GET T/subscriptions", "PUT G", "GET VM/one", "POST VM/one/restart", "DELETE G"] {
        let answer = send(&server, line, &NONE);
        assert_eq!(answer.status, 401, "{line}: {}", answer.text());
        assert!(!answer.code().is_empty());
    }
    let open = raw(&server, "GET /aliases.json", &NONE);
    assert_eq!(open.status, 200);
    assert!(open.text().contains("UbuntuLTS"));
}

#[test]
fn control_characters_are_refused_in_texts_and_tags() {
    let server = server();
    for (line, body) in [
        ("PUT AS/new", json!({ "location": "west\neurope" })),
        ("PUT AS/new", json!({ "location": "x", "tags": { "a": "b\u{0}" } })),
        ("PUT S/resourceGroups/new", json!({ "location": "x", "tags": { "a\tb": "c" } })),
        ("PUT VM/new", json!({ "location": "x\u{7}", "properties": {} })),
    ] {
        let answer = send(&server, line, &body);
        assert_eq!(answer.status, 400, "{line} {body}: {}", answer.text());
        assert!(answer.text().contains("control characters"), "{}", answer.text());
    }
    arm(&server, "GET AS/new", NONE, 404, json!({}));
}
