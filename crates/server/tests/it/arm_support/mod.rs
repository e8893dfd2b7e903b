//! Support for tests of the ARM API: `arm` sends a request and compares the response.

use serde_json::{Value, json};

use crate::api_support::{Answer, Client, NONE, Server, check, contains};

pub const SUBSCRIPTION: &str = "5a0b1c2d-0000-4000-8000-000000000001";

/// An api-version that has all features.
const VERSION: &str = "2024-11-01";

/// Abbreviations for the beginning of a path, as in `VM vm1/restart`.
const SHORT: &[(&str, &str)] = &[
    ("T", ""),
    ("S", "/subscriptions/{S}"),
    ("G", "/subscriptions/{S}/resourceGroups/rg"),
    ("VM", "/subscriptions/{S}/resourceGroups/rg/providers/Microsoft.Compute/virtualMachines"),
    ("SET", "/subscriptions/{S}/resourceGroups/rg/providers/Microsoft.Compute/virtualMachineScaleSets"),
    ("AS", "/subscriptions/{S}/resourceGroups/rg/providers/Microsoft.Compute/availabilitySets"),
    ("NET", "/subscriptions/{S}/resourceGroups/rg/providers/Microsoft.Network"),
    ("DEP", "/subscriptions/{S}/resourceGroups/rg/providers/Microsoft.Resources/deployments"),
];

pub fn path(short: &str) -> String {
    let (first, rest) =
        short.split_once('/').map_or((short, String::new()), |(first, rest)| (first, format!("/{rest}")));
    let long = SHORT.iter().find(|(word, _)| *word == first).map(|(_, long)| *long).expect("a known beginning");
    format!("{}{rest}", long.replace("{S}", SUBSCRIPTION))
}

/// A server with the resource group `rg`.
pub fn server() -> Server {
    let server = Server::start();
    with_group(&server);
    server
}

pub fn with_group(server: &Server) {
    arm(server, "PUT G", json!({ "location": "westeurope" }), 201, json!({ "name": "rg", "location": "westeurope" }));
}

/// Sends `line` (method and path, the beginning short) with `body` and expects `status` and an answer that has at least
/// what `expected` has.
#[track_caller]
pub fn arm(server: &Server, line: &str, body: Value, status: u16, expected: Value) -> Value {
    let answer = send(server, line, &body);
    assert_eq!(answer.status, status, "{line} {body}: {}", answer.text());
    let found = if answer.text().is_empty() { NONE } else { answer.json() };
    if let Err(difference) = contains(&found, &expected) {
        panic!("{line} {body}: {difference}\n{found:#}");
    }
    found
}

/// The same for a refusal, whose message must be a sentence.
#[track_caller]
pub fn refused(server: &Server, line: &str, body: Value, status: u16, code: &str) -> String {
    let answer = arm(server, line, body, status, json!({ "error": { "code": code } }));
    let message = answer["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.len() > 15, "not a sentence: {message}");
    message
}

/// Sends a request that starts a long-running operation, and returns the status URL.
#[track_caller]
pub fn long(server: &Server, line: &str, body: Value) -> String {
    let answer = send(server, line, &body);
    assert!([200, 201, 202].contains(&answer.status), "{line} {body}: {} {}", answer.status, answer.text());
    assert_eq!(answer.header("retry-after"), Some("1"), "{line}");
    let url = answer.header("azure-asyncoperation").expect("an address to ask").to_owned();
    let base = format!("http://{}", server.management);
    url.strip_prefix(&base).unwrap_or_else(|| panic!("{url} is not below {base}")).to_owned()
}

/// The status of a long-running operation.
#[track_caller]
pub fn status(server: &Server, address: &str) -> Value {
    let answer = raw(server, &format!("GET {address}"), &NONE);
    assert_eq!(answer.status, 200, "{address}: {}", answer.text());
    answer.json()
}

#[track_caller]
pub fn check_status(server: &Server, address: &str, expected: &str) {
    assert_eq!(status(server, address)["status"], expected, "{:#}", status(server, address));
}

/// The api-version is added where none is given.
pub fn send(server: &Server, line: &str, body: &Value) -> Answer {
    let (method, short) = line.split_once(' ').unwrap();
    let (short, query) = short.split_once('?').unwrap_or((short, ""));
    let mut query = query.to_owned();
    if !query.contains("api-version") {
        query = format!("api-version={VERSION}&{query}");
    }
    raw(server, &format!("{method} {}?{}", path(short), query.trim_end_matches('&')), body)
}

/// Sends exactly this line.
pub fn raw(server: &Server, line: &str, body: &Value) -> Answer {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let client = Client::to(server.management).header("Content-Type", "application/json");
    client.send(server.management, line, text.as_bytes())
}

/// A Uniform set of `capacity` instances whose deletions are announced ten minutes before.
pub fn set_body(capacity: u32, mode: &str, terminate: Option<&str>) -> Value {
    let mut body = json!({
        "location": "westeurope",
        "sku": { "name": "Standard_D2s_v5", "capacity": capacity },
        "properties": {
            "orchestrationMode": "Uniform",
            "upgradePolicy": { "mode": mode },
            "virtualMachineProfile": { "osProfile": { "computerNamePrefix": "su", "adminUsername": "me", "adminPassword": "hush" } },
        },
    });
    if let Some(timeout) = terminate {
        body["properties"]["virtualMachineProfile"]["scheduledEventsProfile"] = profile(timeout);
    }
    body
}

pub fn profile(timeout: &str) -> Value {
    json!({ "terminateNotificationProfile": { "enable": true, "notBeforeTimeout": timeout } })
}

/// The names of a set's instances.
pub fn instances(server: &Server, set: &str) -> Vec<String> {
    let list = arm(server, &format!("GET SET/{set}/virtualMachines"), NONE, 200, json!({}));
    list["value"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

pub fn advance(server: &Server, seconds: u32) {
    check(server, "POST /clock/advance", json!({ "seconds": seconds }), 200, json!({}));
}

/// Type, status and machines of each event that a machine sees.
pub fn events(server: &Server, machine: &str) -> Vec<(String, String, Vec<String>)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let document = server.document(machine);
    let events = document["Events"].as_array().unwrap().iter();
    let resources = |event: &Value| event["Resources"].as_array().unwrap().iter().map(text).collect();
    events.map(|event| (text(&event["EventType"]), text(&event["EventStatus"]), resources(event))).collect()
}

/// The id of the event about `machine`, as `asking` sees it.
#[track_caller]
pub fn event_of(server: &Server, asking: &str, machine: &str) -> String {
    let document = server.document(asking);
    let event = document["Events"].as_array().unwrap().iter().find(|event| event["Resources"][0] == machine);
    event.unwrap_or_else(|| panic!("no event of {machine}: {document}"))["EventId"].as_str().unwrap().to_owned()
}

pub fn vm_body() -> Value {
    json!({
        "location": "westeurope",
        "tags": { "team": "blue" },
        "properties": {
            "hardwareProfile": { "vmSize": "Standard_D4s_v5" },
            "osProfile": { "computerName": "one", "adminPassword": "hush", "linuxConfiguration": {} },
        },
    })
}
