//! Templates as the Azure CLI sends them, and the plans that result.

use forewarn_wire::arm::id::ResourceId;
use forewarn_wire::arm::merge;
use forewarn_wire::arm::template::{Plan, Target, Template};
use serde_json::{Value, json};

use crate::support::{check_golden, read_golden};

fn plan(name: &str) -> Plan {
    let request: Value = serde_json::from_slice(&read_golden(&format!("{name}.json"))).expect("the request is JSON");
    let target = Target {
        tenant: "T".to_owned(),
        subscription: "S".to_owned(),
        subscription_name: "Local".to_owned(),
        group: "rg".to_owned(),
        location: "westeurope".to_owned(),
        deployment: "deploy".to_owned(),
    };
    Template::from_request(&request, &target).expect("clients send templates that can be read")
}

/// Renders the IDs in order, their dependencies, and the bodies as they would be stored.
fn check_plan(name: &str) {
    let last = |id: &ResourceId| id.name().map(ToString::to_string);
    let resources: Vec<Value> = plan(name)
        .resources
        .iter()
        .map(|resource| {
            json!({
                "id": resource.id.to_string(),
                "kind": resource.kind,
                "apiVersion": resource.api_version,
                "location": resource.location,
                "dependsOn": resource.depends_on.iter().map(last).collect::<Vec<_>>(),
                "body": merge::put(&Value::Null, &resource.body),
            })
        })
        .collect();
    let text = serde_json::to_string_pretty(&resources).expect("JSON can be written");
    check_golden(&format!("{name}.plan.json"), format!("{text}\n").as_bytes());
}

#[test]
fn a_scale_set_with_load_balancer_and_security_group() {
    check_plan("template-vmss-create");
}

#[test]
fn three_machines_at_once() {
    check_plan("template-vm-create-count");
}

#[test]
fn an_availability_set() {
    check_plan("template-availability-set-create");
}

#[test]
fn the_output_of_a_scale_set_is_its_properties() {
    let set = json!({"name": "ss", "properties": {"orchestrationMode": "Flexible"}});
    let outputs = plan("template-vmss-create").outputs(&|id| id.name()?.is("ss").then(|| set.clone()));
    assert_eq!(outputs.unwrap(), json!({"VMSS": {"type": "Object", "value": {"orchestrationMode": "Flexible"}}}));
}

#[test]
fn a_password_is_in_the_plan_but_not_in_the_stored_body() {
    let plan = plan("template-vmss-create");
    let set = plan.resources.last().expect("the scale set is last");
    let password = "/properties/virtualMachineProfile/osProfile/adminPassword";
    assert_eq!(set.body.pointer(password), Some(&json!("Correct-horse-9")));
    assert_eq!(merge::put(&Value::Null, &set.body).pointer(password), None);
    assert_eq!(plan.parameters(), json!({"adminPassword": {"type": "SecureString"}}));
}
