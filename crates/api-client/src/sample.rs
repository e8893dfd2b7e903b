//! Answers of the server for tests, complete but for the facts that a test is about.

use forewarn_api_types::{Event, Machine, Operation};
use serde_json::{Value, json};

use crate::decode::decode;

/// The facts replace fields of a complete event.
pub fn event(facts: Value) -> Event {
    let event = json!({"id": "602D9444-D2CD-49C7-8624-8643E7171297", "number": 1, "type": "Reboot",
        "status": "Scheduled", "cause": "UserRestart", "source": "User", "visible": true, "eventGroup": 1,
        "resources": ["web_1"], "appeared": "2026-07-28T10:00:00Z", "notBefore": "2026-07-28T10:15:00Z",
        "description": "", "durationSeconds": -1, "operations": ["51941b56-8080-45ac-81ae-8bda818f5958"]});
    decode(&merge(event, facts)).unwrap()
}

pub fn operation(facts: Value) -> Operation {
    let operation = json!({"id": "51941b56-8080-45ac-81ae-8bda818f5958", "kind": "Restart", "requestedBy": "b",
        "state": "Running", "machines": [], "events": []});
    decode(&merge(operation, facts)).unwrap()
}

pub fn machine(facts: Value) -> Machine {
    let machine = json!({"id": 1, "vmId": "51941b56-8080-45ac-81ae-8bda818f5958", "name": "web_1",
        "subscription": "s", "resourceGroup": "default", "eventGroup": 1, "handlerConnected": true, "incarnation": 1,
        "updateDomain": 0, "faultDomain": 0, "priority": "Regular", "evictionPolicy": "Deallocate",
        "power": "Running", "addresses": [], "protected": false, "details": {}, "tags": {}});
    decode(&merge(machine, facts)).unwrap()
}

fn merge(mut base: Value, facts: Value) -> Value {
    base.as_object_mut().unwrap().extend(facts.as_object().unwrap().clone());
    base
}
