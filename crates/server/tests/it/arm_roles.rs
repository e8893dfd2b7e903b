//! Roles in the ARM API: every route of its table as a reader, an operator and an owner, over HTTP and HTTPS.

use std::collections::BTreeSet;
use std::path::Path;

use crate::api_support::{Answer, Client, Server, open};
use crate::arm_support;
use crate::arm_support::path;
use crate::https;
use forewarn_access::{AUDIENCE, Role, SignIn, Subject, TOKEN_SECS};
use forewarn_arm::shapes;
use forewarn_core::Settings;
use forewarn_server::{ClockSetting, Config};
use serde_json::{Value, json};

/// Readers can read everything. Each change is in one of these two lists, in an order in which all of them succeed.
const OPERATOR: &[&str] = &[
    "POST G/Microsoft.Compute/virtualMachines/*/restart",
    "POST G/Microsoft.Compute/virtualMachines/*/redeploy",
    "POST G/Microsoft.Compute/virtualMachines/*/performMaintenance",
    "POST G/Microsoft.Compute/virtualMachineScaleSets/*/restart",
    "POST G/Microsoft.Compute/virtualMachineScaleSets/*/redeploy",
    "POST G/Microsoft.Compute/virtualMachineScaleSets/*/performMaintenance",
    "POST G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/restart",
    "POST G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/redeploy",
    "POST G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/performMaintenance",
    "POST G/Microsoft.Compute/virtualMachines/*//Microsoft.Maintenance/scheduledevents",
    "POST G/Microsoft.Compute/virtualMachineScaleSets/*//Microsoft.Maintenance/scheduledevents",
    "POST G/Microsoft.Compute/availabilitySets/*//Microsoft.Maintenance/scheduledevents",
    "POST G/Microsoft.Compute/virtualMachines/*//Microsoft.Maintenance/scheduledevents/*/acknowledge",
    "POST G/Microsoft.Compute/virtualMachineScaleSets/*//Microsoft.Maintenance/scheduledevents/*/acknowledge",
    "POST G/Microsoft.Compute/availabilitySets/*//Microsoft.Maintenance/scheduledevents/*/acknowledge",
    // Sets before their machines: updates of a machine continue those of its set.
    "PUT G/Microsoft.Compute/availabilitySets/*//Microsoft.Maintenance/applyUpdates/*",
    "PUT G/Microsoft.Compute/virtualMachineScaleSets/*//Microsoft.Maintenance/applyUpdates/*",
    "PUT G/Microsoft.Compute/virtualMachines/*//Microsoft.Maintenance/applyUpdates/*",
    "PUT G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*//Microsoft.Maintenance/applyUpdates/*",
];

const OWNER: &[&str] = &[
    "PUT G",
    "PATCH G",
    "PUT network",
    "PATCH network",
    "PUT G/Microsoft.Resources/deployments/*",
    "PUT G/Microsoft.Compute/availabilitySets/*",
    "PATCH G/Microsoft.Compute/availabilitySets/*",
    "PUT G/Microsoft.Compute/virtualMachines/*",
    "PATCH G/Microsoft.Compute/virtualMachines/*",
    "PUT G/Microsoft.Compute/virtualMachineScaleSets/*",
    "PATCH G/Microsoft.Compute/virtualMachineScaleSets/*",
    "PUT G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*",
    "PUT G/Microsoft.Maintenance/maintenanceConfigurations/*",
    "PATCH G/Microsoft.Maintenance/maintenanceConfigurations/*",
    "PUT G/Microsoft.Compute/virtualMachines/*//Microsoft.Maintenance/configurationAssignments/*",
    "PUT G/Microsoft.Compute/virtualMachineScaleSets/*//Microsoft.Maintenance/configurationAssignments/*",
    "PUT G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*//Microsoft.Maintenance/configurationAssignments/*",
    "PUT G/Microsoft.Compute/availabilitySets/*//Microsoft.Maintenance/configurationAssignments/*",
    "DELETE G/Microsoft.Compute/virtualMachines/*//Microsoft.Maintenance/configurationAssignments/*",
    "DELETE G/Microsoft.Compute/virtualMachineScaleSets/*//Microsoft.Maintenance/configurationAssignments/*",
    "DELETE G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*//Microsoft.Maintenance/configurationAssignments/*",
    "DELETE G/Microsoft.Compute/availabilitySets/*//Microsoft.Maintenance/configurationAssignments/*",
    "DELETE G/Microsoft.Maintenance/maintenanceConfigurations/*",
    "POST G/Microsoft.Compute/virtualMachines/*/reimage",
    "POST G/Microsoft.Compute/virtualMachines/*/simulateEviction",
    "POST G/Microsoft.Compute/virtualMachines/*/powerOff",
    "POST G/Microsoft.Compute/virtualMachines/*/deallocate",
    "POST G/Microsoft.Compute/virtualMachines/*/start",
    "POST G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/reimage",
    "POST G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/reimageAll",
    "POST G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/simulateEviction",
    "POST G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/powerOff",
    "POST G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/deallocate",
    "POST G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/start",
    "POST G/Microsoft.Compute/virtualMachineScaleSets/*/reimage",
    "POST G/Microsoft.Compute/virtualMachineScaleSets/*/reimageAll",
    "POST G/Microsoft.Compute/virtualMachineScaleSets/*/powerOff",
    "POST G/Microsoft.Compute/virtualMachineScaleSets/*/deallocate",
    "POST G/Microsoft.Compute/virtualMachineScaleSets/*/start",
    "POST G/Microsoft.Compute/virtualMachineScaleSets/*/manualUpgrade",
    "POST G/Microsoft.Compute/virtualMachineScaleSets/*/delete",
    "DELETE G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*",
    "DELETE G/Microsoft.Compute/virtualMachineScaleSets/*",
    "DELETE G/Microsoft.Compute/virtualMachines/*",
    "DELETE G/Microsoft.Compute/availabilitySets/*",
    "DELETE G/Microsoft.Resources/deployments/*",
    "DELETE network",
    "DELETE G",
];

#[test]
fn every_route_requires_its_role_and_changes_nothing_without_it() {
    let directory = tempfile::tempdir().unwrap();
    let stage = Stage::set(directory.path());
    let routes: Vec<String> = shapes().map(|(method, shape)| format!("{method} {shape}")).collect();
    let before = stage.server.revision();
    for line in &routes {
        let needs = needed(line);
        for role in Role::ALL.into_iter().filter(|role| *role < needs) {
            for door in [Door::Http, Door::Https] {
                check_refusal(line, role, needs, &stage.ask(door, role, line));
            }
        }
    }
    assert_eq!(stage.server.revision(), before, "a refused request has changed something");

    let reads = routes.iter().map(String::as_str).filter(|line| needed(line) == Role::Reader);
    for line in reads.chain(OPERATOR.iter().copied()).chain(OWNER.iter().copied()) {
        for role in Role::ALL.into_iter().filter(|role| *role >= needed(line)) {
            let answer = stage.ask(Door::Http, role, line);
            assert!((200..300).contains(&answer.status), "{line} as {}: {}", role.as_str(), answer.text());
        }
    }
    let answer = stage.ask(Door::Https, Role::Owner, "PUT G");
    assert_eq!(answer.status, 201, "{}", answer.text());
}

#[test]
fn every_expectation_names_an_existing_route() {
    let routes: BTreeSet<String> = shapes().map(|(method, shape)| format!("{method} {shape}")).collect();
    for line in OPERATOR.iter().chain(OWNER) {
        assert!(routes.contains(*line), "{line}");
    }
}

fn needed(line: &str) -> Role {
    if line.starts_with("GET ") || line.starts_with("HEAD ") {
        return Role::Reader;
    }
    match (OPERATOR.contains(&line), OWNER.contains(&line)) {
        (true, false) => Role::Operator,
        (false, true) => Role::Owner,
        (true, true) | (false, false) => panic!("Who may {line}? Put it into one of the lists."),
    }
}

/// ARM's shape, and a sentence.
#[track_caller]
fn check_refusal(line: &str, role: Role, needs: Role, answer: &Answer) {
    let (role, needs) = (role.as_str(), needs.as_str());
    let message = format!(
        "This action requires the role {needs}, but '{role}' has the role {role}. Use a token with a higher role."
    );
    let expected = json!({ "error": { "code": "AuthorizationFailed", "message": message } });
    assert_eq!((answer.status, answer.text()), (403, expected.to_string()), "{line}");
}

#[derive(Clone, Copy)]
enum Door {
    Http,
    Https,
}

/// A server with one of everything, and a token for each role.
struct Stage {
    server: Server,
    authority: String,
    tokens: [String; 3],
    /// Of the machine and of the instance.
    events: [String; 2],
    operation: String,
}

impl Stage {
    fn set(directory: &Path) -> Stage {
        let rules = Settings { user_operations_max: 0, ..Settings::default() };
        let clock = ClockSetting::Manual { start: None };
        let server = Server::secured_with(directory, Config { clock, rules, ..open() });
        let authority = https::authority_in(directory);
        let sign_in = SignIn::in_directory(directory).unwrap();
        let token = |role: Role| {
            let (name, id) = (role.as_str().to_owned(), role.as_str().to_owned());
            let subject = Subject { name, client_id: id.clone(), object_id: id, role };
            sign_in.issue(&subject, AUDIENCE, jiff::Timestamp::now().as_second(), TOKEN_SECS).token
        };
        let tokens = Role::ALL.map(token);
        let mut stage =
            Stage { server, authority, tokens, events: [String::new(), String::new()], operation: String::new() };
        for line in [
            "PUT G",
            "PUT network",
            "PUT G/Microsoft.Compute/availabilitySets/*",
            "PUT G/Microsoft.Compute/virtualMachines/*",
            "PUT G/Microsoft.Compute/virtualMachineScaleSets/*",
            "PUT G/Microsoft.Resources/deployments/*",
            "PUT G/Microsoft.Maintenance/maintenanceConfigurations/*",
            "PUT G/Microsoft.Compute/virtualMachines/*//Microsoft.Maintenance/configurationAssignments/*",
            "PUT G/Microsoft.Compute/virtualMachineScaleSets/*//Microsoft.Maintenance/configurationAssignments/*",
            "PUT G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*//Microsoft.Maintenance/configurationAssignments/*",
            "PUT G/Microsoft.Compute/availabilitySets/*//Microsoft.Maintenance/configurationAssignments/*",
        ] {
            let answer = stage.ask(Door::Http, Role::Owner, line);
            assert!((200..300).contains(&answer.status), "{line}: {}", answer.text());
        }
        for (n, machine, line) in [
            (0, "web", "POST G/Microsoft.Compute/virtualMachines/*/restart"),
            (1, "su_0", "POST G/Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/restart"),
        ] {
            stage.server.listen_as(machine);
            let answer = stage.ask(Door::Http, Role::Owner, line);
            assert_eq!(answer.status, 202, "{}", answer.text());
            stage.events[n] = arm_support::event_of(&stage.server, machine, machine);
            let address = answer.header("azure-asyncoperation").unwrap();
            stage.operation = address.split('?').next().unwrap().rsplit('/').next().unwrap().to_owned();
        }
        stage
    }

    fn ask(&self, door: Door, role: Role, line: &str) -> Answer {
        let address = match door {
            Door::Http => self.server.management,
            Door::Https => self.server.https.unwrap(),
        };
        let token = Role::ALL.iter().zip(&self.tokens).find(|(one, _)| **one == role).unwrap().1;
        let client = Client::to(address)
            .header("Authorization", &format!("Bearer {token}"))
            .header("Content-Type", "application/json");
        let (method, shape) = line.split_once(' ').unwrap();
        let request = format!("{method} {}?api-version=2024-11-01", self.path(shape));
        let body = self.body(line);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        match door {
            Door::Http => client.send(address, &request, body.as_bytes()),
            Door::Https => {
                let stream = https::connect(address, &self.authority, "127.0.0.1").unwrap();
                client.send_over(stream, &request, body.as_bytes())
            }
        }
    }

    /// A path of this shape to an existing resource.
    fn path(&self, shape: &str) -> String {
        match shape {
            "network" => return path("NET/virtualNetworks/net"),
            "network/list" => return path("NET/virtualNetworks"),
            _ => {}
        }
        let spelt = shape.replacen("/Microsoft", "/providers/Microsoft", 1).replace("//", "/providers/");
        let (scope, below) = spelt.split_once('/').unwrap_or((&spelt, ""));
        let mut found = path(scope);
        let mut kind = "";
        for word in below.split('/').filter(|word| !word.is_empty()) {
            let name = if word == "*" { self.name(kind, &found) } else { word };
            found += &format!("/{name}");
            kind = word;
        }
        found
    }

    fn name(&self, kind: &str, before: &str) -> &str {
        let in_set = before.contains("virtualMachineScaleSets");
        match kind {
            "virtualMachines" if in_set => "0",
            "virtualMachines" => "web",
            "virtualMachineScaleSets" => "su",
            "availabilitySets" => "as",
            "scheduledevents" => &self.events[usize::from(in_set)],
            "operations" => &self.operation,
            "versions" => "1.0.0",
            "maintenanceConfigurations" | "configurationAssignments" | "applyUpdates" => "one",
            "locations" | "publishers" | "artifacttypes" | "offers" | "skus" | "deployments" | "operationStatuses" => {
                "one"
            }
            kind => panic!("What is the name of one of {kind}?"),
        }
    }

    /// The smallest body that the route accepts.
    fn body(&self, line: &str) -> Value {
        let spot = json!({ "location": "x", "properties": {
            "priority": "Spot", "availabilitySet": { "id": path("AS/as") },
        } });
        let set = json!({ "location": "x", "sku": { "name": "Standard_D2s_v5", "capacity": 2 }, "properties": {
            "orchestrationMode": "Uniform", "virtualMachineProfile": { "priority": "Spot" },
        } });
        match line {
            "PUT G/Microsoft.Compute/virtualMachines/*" => spot,
            "PUT G/Microsoft.Compute/virtualMachineScaleSets/*" => set,
            "PUT G/Microsoft.Resources/deployments/*" => json!({ "properties": { "template": { "resources": [] } } }),
            "POST G/Microsoft.Compute/virtualMachineScaleSets/*/delete" => json!({ "instanceIds": ["1"] }),
            line if line.starts_with("PUT ") && line.contains("configurationAssignments") => {
                let id = path("G/providers/Microsoft.Maintenance/maintenanceConfigurations/one");
                json!({ "properties": { "maintenanceConfigurationId": id } })
            }
            line if line.starts_with("PUT ") => json!({ "location": "x" }),
            line if line.starts_with("PATCH ") => json!({ "tags": { "a": "b" } }),
            line if line.ends_with("scheduledevents") && line.starts_with("POST ") => {
                json!({ "value": [self.events[usize::from(line.contains("virtualMachineScaleSets"))]] })
            }
            _ => Value::Null,
        }
    }
}
