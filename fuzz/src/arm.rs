//! The bytes that ARM clients send: resource IDs, bodies of resources, and deployment templates.

use forewarn_wire::arm::id::{Path, ResourceId};
use forewarn_wire::arm::merge;
use forewarn_wire::arm::template::{Target, Template};
use serde_json::Value;

pub fn check_id(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let _ = Path::parse(text);
    let Ok(id) = ResourceId::parse(text) else { return };
    let again = match id.to_string().as_str() {
        // The tenant, which is written as `/`.
        "" => ResourceId::parse("/"),
        written => ResourceId::parse(written),
    };
    assert_eq!(again.as_ref().ok(), Some(&id), "{id} does not parse to itself");
}

/// Two JSON values on two lines: the stored body, and the body of a request.
pub fn check_body(input: &[u8]) {
    let mut lines = input.splitn(2, |byte| *byte == b'\n').map(serde_json::from_slice::<Value>);
    let (Some(Ok(existing)), Some(Ok(given))) = (lines.next(), lines.next()) else { return };
    let put = merge::put(&existing, &given);
    assert_eq!(merge::put(&put, &given), put, "a repeated PUT changes the body");
    let patched = merge::patch(&existing, &given);
    assert_eq!(merge::patch(&patched, &given), patched, "a repeated PATCH changes the body");
}

pub fn check_template(input: &[u8]) {
    let Ok(body) = serde_json::from_slice::<Value>(input) else { return };
    let target = Target {
        tenant: "00000000-0000-0000-0000-000000000001".into(),
        subscription: "00000000-0000-0000-0000-000000000000".into(),
        subscription_name: "default".into(),
        group: "group".into(),
        location: "westeurope".into(),
        deployment: "deployment".into(),
    };
    if let Ok(plan) = Template::from_request(&body, &target) {
        let _ = plan.outputs(&|_| None);
        let _ = plan.parameters();
    }
}
