//! Scenarios through the API on a manual clock: the built-in ones pass, and errors name their position.

use crate::api_support::{NONE, Server, check, refused};
use serde_json::{Value, json};

fn begin(server: &Server, body: Value) -> u64 {
    check(server, "POST /scenario-runs", body, 202, json!({}))["id"].as_u64().unwrap()
}

/// Waits for the end of a run; each request returns when the run has made progress.
fn ended(server: &Server, id: u64) -> Value {
    loop {
        let run = check(server, &format!("GET /scenario-runs/{id}?wait=20"), NONE, 200, json!({ "id": id }));
        if run["state"] != "Running" {
            return run;
        }
    }
}

fn run_text(server: &Server, steps: &str) -> Value {
    let text = format!("title = \"t\"\n[[machine]]\nname = \"web_0\"\n{steps}");
    let id = begin(server, json!({ "text": text }));
    ended(server, id)
}

#[test]
fn the_preview_of_a_scenario_lists_its_steps_and_changes_nothing() {
    let server = Server::start();
    let state =
        || ["machines", "scenario-runs", "history"].map(|list| server.call(&format!("GET /{list}"), &NONE).json());
    let before = state();
    let preview = check(&server, "POST /scenario-runs/preview", json!({ "scenario": "user-reboot" }), 200, json!({}));
    assert_eq!(state(), before);
    let id = begin(&server, json!({ "scenario": "user-reboot" }));
    let texts = |steps: &Value| steps.as_array().unwrap().iter().map(|step| step["text"].clone()).collect::<Vec<_>>();
    assert_eq!(texts(&preview["steps"]), texts(&ended(&server, id)["steps"]));
    let text = "title = \"t\"\n[[step]]\nrestart = \"nothing\"\n";
    refused(&server, "POST /scenario-runs/preview", json!({ "text": text }), 409, "InvalidScenario");
}

#[test]
fn every_built_in_scenario_passes_on_a_manual_clock() {
    let server = Server::start();
    let listed = check(&server, "GET /scenarios", NONE, 200, json!({}));
    for scenario in listed["value"].as_array().unwrap() {
        let name = scenario["name"].as_str().unwrap();
        let id = begin(&server, json!({ "scenario": name }));
        let run = ended(&server, id);
        assert_eq!(run["state"], "Passed", "{run:#}");
        assert!(run["steps"].as_array().unwrap().iter().all(|step| step["state"] == "Done" && step["at"].is_string()));
        check(&server, &format!("GET /scenarios/{name}"), NONE, 200, json!({ "name": name }));
        // Again, with the existing resources.
        if name != "terminate" && name != "terminate-gate" && name != "eviction" {
            let again = begin(&server, json!({ "scenario": name }));
            assert_eq!(ended(&server, again)["state"], "Passed", "{name} again");
        }
    }
    let history = check(&server, "GET /history?kind=audit", NONE, 200, json!({}));
    assert!(history.to_string().contains("scenario.run"), "{history}");
}

#[test]
fn another_machine_can_replace_the_subject() {
    let server = Server::with_machines(&["mine"]);
    let id = begin(&server, json!({ "scenario": "user-reboot", "subject": "mine" }));
    assert_eq!(ended(&server, id)["state"], "Passed");
    let machines = check(&server, "GET /machines", NONE, 200, json!({})).to_string();
    assert!(machines.contains("\"mine\"") && !machines.contains("\"web_0\""), "{machines}");
    let rows = check(&server, "GET /history?machine=mine&kind=appeared", NONE, 200, json!({}));
    assert_eq!(rows["value"].as_array().unwrap().len(), 1);
}

#[test]
fn an_invalid_subject_is_refused_and_nothing_is_created() {
    let server = Server::with_machines(&["mine"]);
    let before = check(&server, "GET /machines", NONE, 200, json!({}));
    for (scenario, subject, status, code, part) in [
        ("user-reboot", "mien", 404, "MachineNotFound", "No machine is named 'mien'"),
        ("terminate", "mine", 409, "InvalidScenario", "'pool_2' is an instance of a scale set"),
    ] {
        let body = json!({ "scenario": scenario, "subject": subject });
        let message = refused(&server, "POST /scenario-runs", body, status, code);
        assert!(message.contains(part), "{message}");
    }
    let message = refused(
        &server,
        "POST /scenario-runs",
        json!({ "text": "title = \"t\"", "subject": "mine" }),
        409,
        "InvalidScenario",
    );
    assert!(message.contains("has no subject"), "{message}");
    assert_eq!(check(&server, "GET /machines", NONE, 200, json!({})), before);
    let id = begin(&server, json!({ "scenario": "user-reboot", "subject": "web_0" }));
    assert_eq!(ended(&server, id)["state"], "Passed", "the scenario's own machine is made");
}

#[test]
fn a_run_fails_at_the_step_whose_expectation_is_not_met() {
    let server = Server::start();
    let steps = "[[step]]\npoll = \"web_0\"\n[[step]]\nrestart = \"web_0\"\nas = \"r\"\n\
                 [[step]]\nexpect = \"started\"\nof = \"r\"\nwithin = \"0s\"\n[[step]]\nwait = \"1h\"\n";
    let run = run_text(&server, steps);
    assert_eq!(run["state"], "Failed", "{run:#}");
    let states: Vec<_> = run["steps"].as_array().unwrap().iter().map(|step| step["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["Done", "Done", "Failed", "Waiting"]);
    assert_eq!(run["steps"][2]["message"], "not met within 0s: the event is Scheduled");
    assert_eq!(run["reason"], run["steps"][2]["message"]);
}

#[test]
fn an_expectation_that_can_never_be_met_fails_at_once() {
    let server = Server::start();
    let steps = "[[step]]\npoll = \"web_0\"\n[[step]]\nrestart = \"web_0\"\nas = \"r\"\n[[step]]\nwait = \"1h\"\n\
                 [[step]]\nexpect = \"scheduled\"\nof = \"r\"\nwithin = \"300d\"\n";
    assert_eq!(
        run_text(&server, steps)["reason"],
        "the event ended with Completed, so the expectation can no longer be met"
    );
    let hidden = "[[step]]\nmaintain = { target = { machine = \"web_9\" }, type = \"Reboot\", noticeSeconds = 9000 }\nas = \"m\"\n\
                  [[step]]\nexpect = \"scheduled\"\nof = \"m\"\nwithin = \"0s\"\n";
    check(&server, "POST /machines", json!({ "name": "web_9" }), 201, json!({}));
    let reason = run_text(&server, hidden)["reason"].as_str().unwrap().to_string();
    assert!(reason.ends_with("no machine of the event group has requested the document"), "{reason}");
}

#[test]
fn a_rejection_fails_its_step() {
    let server = Server::start();
    let run = run_text(&server, "[[step]]\nevict = \"web_0\"\n");
    assert_eq!(run["state"], "Failed");
    assert!(run["reason"].as_str().unwrap().contains("Spot"), "{run:#}");
    let run = run_text(&server, "[[step]]\nrecommendRebalance = \"web_0\"\n");
    assert!(run["reason"].as_str().unwrap().contains("--preview-version"), "{run:#}");
}

#[test]
fn a_run_can_be_stopped() {
    let server = Server::on_the_real_clock();
    let text = "title = \"t\"\n[[step]]\nwait = \"300d\"\n";
    let id = begin(&server, json!({ "text": text, "name": "long" }));
    check(&server, "GET /scenario-runs", NONE, 200, json!({ "value": [{ "name": "long", "state": "Running" }] }));
    assert_eq!(server.call(&format!("DELETE /scenario-runs/{id}"), &NONE).status, 204);
    assert_eq!(ended(&server, id)["state"], "Stopped");
}

#[test]
fn errors_are_reported_before_anything_happens() {
    let server = Server::start();
    let before = check(&server, "GET /machines", NONE, 200, json!({}));
    let message = refused(&server, "POST /scenario-runs", json!({ "scenario": "user-rebot" }), 404, "ScenarioNotFound");
    assert!(message.contains("Did you mean 'user-reboot'?"), "{message}");
    let text = "title = \"t\"\n[[machine]]\nname = \"web_0\"\n[[step]]\nrestart = \"web_00\"\n";
    let message = refused(&server, "POST /scenario-runs", json!({ "text": text }), 409, "InvalidScenario");
    assert_eq!(
        message,
        "No machine is named 'web_00' (line 4 of the file). Did you mean 'web_0'? Use a machine of the file or of the server."
    );
    refused(&server, "POST /scenario-runs", json!({}), 409, "InvalidScenario");
    refused(&server, "POST /scenario-runs", json!({ "text": "title = 1" }), 409, "InvalidScenario");
    refused(&server, "GET /scenario-runs/7", NONE, 404, "RunNotFound");
    refused(&server, "GET /scenario-runs/x", NONE, 404, "RunNotFound");
    refused(&server, "DELETE /scenario-runs/7", NONE, 404, "RunNotFound");
    assert_eq!(check(&server, "GET /machines", NONE, 200, json!({})), before);
    check(&server, "GET /history?kind=audit", NONE, 200, json!({ "value": [] }));
}
