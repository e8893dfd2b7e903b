//! A fleet in trouble, as the portal shows it: what is down and why, what is deleted on purpose, who is not ready, and what can be
//! done about it.

use crate::api_support::{NONE, Server, check};
use crate::portal_console::hosts;
use crate::portal_support::{Browser, between, vm_id};
use serde_json::{Value, json};

/// A scale set `web` of two instances with terminate notification, one of which is being deleted.
fn deleting() -> (Server, Value) {
    let server = Server::start();
    let model = json!({ "terminateNotification": { "notBeforeTimeout": "PT5M" } });
    let set = json!({ "name": "web", "capacity": 2, "orchestration": "Uniform", "model": model });
    check(&server, "POST /scale-sets", set, 201, json!({}));
    server.listen_as("web_0");
    let operation = check(&server, "DELETE /machines/web_1", NONE, 202, json!({}));
    (server, operation)
}

fn id_of(value: &Value) -> String {
    value["id"].as_str().unwrap().to_owned()
}

fn advance(server: &Server, seconds: u32) {
    check(server, "POST /clock/advance", json!({ "seconds": seconds }), 200, json!({}));
}

fn status(page: &str) -> String {
    between(page, "id=\"status-content\"", "<p class=\"say-sub\">")
}

fn attention(page: &str, id: &str) -> String {
    between(page, &format!("<li id=\"attention-{id}\""), "</li>")
}

fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn machines_that_are_down_are_counted_by_cause() {
    let server = hosts();
    check(&server, "POST /machines", json!({ "name": "lone" }), 201, json!({}));
    let failure = check(&server, "POST /hosts/n-1/hardware-failure", json!({ "type": "Redeploy" }), 202, json!({}));
    let restart = check(&server, "POST /machines/lone/restart", NONE, 202, json!({}));
    check(&server, "POST /hosts/n-2/fence", NONE, 200, json!({}));
    let page = Browser::at_once(&server).page("/");
    let failed = format!("<b>1</b> <a href=\"/operations/{}\">Hardware failure on host n-1</a>", id_of(&failure));
    let restarted = format!("<b>1</b> <a href=\"/operations/{}\">Restart of lone</a>", id_of(&restart));
    let off = "<b>1</b> <a href=\"/hosts/n-2\">Host n-2 is off</a>";
    assert_has(&status(&page), &["3 machines down now", &failed, &restarted, off]);
    assert!(page.contains("<title>(3 down) Overview"), "{page}");
    assert_has(
        &attention(&page, "host-n-2"),
        &["1 machine down", "<small>db-2</small>", "no operation: needs action", "stays down", "Open host"],
    );
    assert_has(
        &attention(&page, &format!("op-{}", id_of(&failure))),
        &["1 machine down", "<small>db-1</small>", "nothing to do"],
    );
}

#[test]
fn many_causes_are_counted_by_kind() {
    let server = Server::start();
    for number in 1..=5 {
        check(&server, "POST /machines", json!({ "name": format!("vm-{number}") }), 201, json!({}));
        check(&server, &format!("POST /machines/vm-{number}/restart"), NONE, 202, json!({}));
    }
    let page = Browser::at_once(&server).page("/");
    let counted = "<b>5</b> <a href=\"/operations?show=running\">5 user requests</a>";
    assert_has(&status(&page), &["5 machines down now", counted]);
}

#[test]
fn a_deletion_is_not_an_outage() {
    let (server, operation) = deleting();
    let browser = Browser::at_once(&server);
    let page = browser.page("/");
    let link = format!("<b>1</b> <a href=\"/operations/{}\">Deletion of web_1</a>", id_of(&operation));
    assert_has(
        &status(&page),
        &[
            "No machines are down. <span class=\"red\">1 machine is deleted at <time",
            "<dt>Next</dt>",
            "<dt>Not ready</dt>",
            &link,
        ],
    );
    let row = attention(&page, &format!("op-{}", id_of(&operation)));
    assert_has(
        &row,
        &[
            "not ready: web_1",
            "1 machine to delete",
            "<small>web_1</small>",
            "Approve 1…",
            "deleted at <time",
            "approved or not; cannot be canceled",
        ],
    );
    assert!(!row.contains("value=\"cancel\""), "{row}");
    assert!(page.contains("<title>Overview"), "{page}");
    assert_has(&browser.page(&format!("/operations/{}", id_of(&operation))), &["<b>Deletion started</b>"]);
}

#[test]
fn a_recommendation_takes_no_machine_down() {
    let server = Server::with_preview_version();
    check(&server, "POST /machines", json!({ "name": "spot", "priority": "Spot" }), 201, json!({}));
    server.listen_as("spot");
    check(&server, "POST /machines/spot/recommend-rebalance", NONE, 202, json!({}));
    advance(&server, 6 * 60);
    let status = status(&Browser::at_once(&server).page("/"));
    assert_has(&status, &["No machines are down. Next:", "Rebalance recommendation"]);
    assert!(!status.contains("<dt>"), "{status}");
}

#[test]
fn a_deletion_says_why_it_cannot_be_canceled() {
    let (server, operation) = deleting();
    let browser = Browser::at_once(&server);
    let event = id_of(&operation["events"][0]);
    for here in [format!("/operations/{}", id_of(&operation)), format!("/events/{event}")] {
        let page = browser.page(&here);
        let cancel = between(&page, "id=\"do-cancel-operation\"", "</details>");
        assert_has(&cancel, &["A deletion cannot be canceled, as on Azure.", "raise the capacity of web"]);
        assert!(!cancel.contains("<button"), "{cancel}");
    }
}

#[test]
fn an_operation_is_canceled_from_the_overview() {
    let server = hosts();
    let plan = json!({ "target": { "host": "n-2" }, "type": "Reboot" });
    let id = id_of(&check(&server, "POST /maintenance", plan, 202, json!({})));
    advance(&server, 360);
    let browser = Browser::at_once(&server);
    let row = attention(&browser.page("/"), &format!("op-{id}"));
    assert_has(&row, &["name=\"act\" value=\"approve\"", "name=\"act\" value=\"cancel\"", &format!("value=\"{id}\"")]);
    assert_has(&row, &["starts at <time", "approved or not"]);
    let cancel = [("act", "cancel"), ("id", id.as_str()), ("back", "/")];
    let confirmation = browser.post("/portal/operations", &cancel).text();
    assert_has(&confirmation, &["Cancel 1 operation?", "Reboot of db-2 is canceled.", "href=\"/\">Back</a>"]);
    let done = browser.post("/portal/operations", &[&cancel[..], &[("confirmed", "on")]].concat());
    assert_eq!((done.status, done.header("location")), (303, Some("/")));
    check(&server, &format!("GET /operations/{id}"), NONE, 200, json!({ "state": "Canceled" }));
}

#[test]
fn an_eviction_is_canceled_while_it_is_scheduled() {
    let server = Server::start();
    check(&server, "POST /machines", json!({ "name": "spot", "priority": "Spot" }), 201, json!({}));
    server.listen_as("spot");
    let operation = check(&server, "POST /machines/spot/evict", NONE, 202, json!({}));
    let page = Browser::at_once(&server).page(&format!("/events/{}", id_of(&operation["events"][0])));
    assert!(page.contains("id=\"confirm-do-cancel\""), "{page}");
}

#[test]
fn machines_without_a_handler_are_part_of_the_readiness() {
    let server = hosts();
    check(&server, "POST /machines", json!({ "name": "lone", "host": "n-2" }), 201, json!({}));
    let plan = json!({ "target": { "host": "n-2" }, "type": "Reboot" });
    let id = id_of(&check(&server, "POST /maintenance", plan, 202, json!({})));
    advance(&server, 360);
    let browser = Browser::at_once(&server);
    let overview = browser.page("/");
    let row = attention(&overview, &format!("op-{id}"));
    let meter = ["0/2 <small>ready</small>", "1 no handler"];
    assert_has(&row, &[&meter[..], &["<b>2 machines</b><small>db-2 and lone</small>"]].concat());
    let lane = between(&overview, &format!("id=\"op-{id}\""), "</svg>");
    assert_has(&lane, &["0/2 ready, 1 no handler", "class=\"no x-amber\""]);
    assert_has(&browser.page("/operations"), &meter);
    // Events are named after their machines.
    let page = browser.page(&format!("/operations/{id}"));
    assert_has(&page, &[">db-2 <small>Scheduled</small></a>", ">lone <small>Scheduled</small></a>"]);
}

#[test]
fn the_course_of_a_rollout_is_drawn_with_failures_on_top() {
    let server = hosts();
    let plan = json!({ "type": "Reboot", "hosts": ["n-1", "n-2", "n-3"], "maxFailures": 1 });
    let id = id_of(&check(&server, "POST /rollouts", plan, 202, json!({})));
    let browser = Browser::at_once(&server);
    let here = format!("/rollouts/{id}");
    let chart = || between(&browser.page(&here), "id=\"rollout-progress-content\"", "id=\"panel-steps\"");
    let drawn = chart();
    assert_eq!(drawn.matches("class=\"g-lane").count(), 3, "{drawn}");
    assert_eq!(drawn.matches("g-lane g-expected").count(), 2, "{drawn}");
    assert_has(&drawn, &["1 approval missing", "aria-label=\"n-1: in progress, notice from", "class=\"g-now\""]);
    advance(&server, 901);
    check(&server, "POST /hosts/n-1/fence", NONE, 200, json!({}));
    let drawn = chart();
    let failed = drawn.find("id=\"wave-failed\"").unwrap_or_else(|| panic!("{drawn}"));
    // The group has lost a machine, so the other hosts wait.
    assert!(failed < drawn.find("<b>No time yet</b>").unwrap(), "failures are on top: {drawn}");
    assert_has(&drawn, &["g-lane g-failed", "aria-label=\"n-1: failed"]);
    assert!(!drawn.contains(">paused</text>"), "{drawn}");
    let pause = [("act", "pause-rollout"), ("target", id.as_str()), ("back", here.as_str()), ("now", "on")];
    assert_eq!(browser.post("/portal/act", &pause).status, 303);
    assert_has(&chart(), &["<b>No time yet</b>", ">paused</text>"]);
}

#[test]
fn steps_are_sorted_and_failed_ones_stay_on_top() {
    let server = hosts();
    let plan = json!({ "type": "Reboot", "hosts": ["n-2", "n-1", "n-3"], "maxFailures": 1 });
    let id = id_of(&check(&server, "POST /rollouts", plan, 202, json!({})));
    let browser = Browser::at_once(&server);
    let names = |sort: &str| -> Vec<String> {
        let table = between(&browser.page(&format!("/rollouts/{id}?sort={sort}")), "<tbody id=\"steps\"", "</tbody>");
        table.split("class=\"name\"><a").skip(1).map(|row| between(row, ">", "</a>")).collect()
    };
    assert_eq!(names(""), ["n-2", "n-1", "n-3"]);
    assert_eq!(names("step"), ["n-1", "n-2", "n-3"]);
    assert_eq!(names("-step"), ["n-3", "n-2", "n-1"]);
    assert_eq!(names("-time"), ["n-3", "n-1", "n-2"]);
    advance(&server, 901);
    check(&server, "POST /hosts/n-2/fence", NONE, 200, json!({}));
    assert_eq!(names("step"), ["n-2", "n-1", "n-3"]);
    let again = "href=\"/maintenance?what=host&#38;name=n-2&#38;kind=Reboot&#38;description=\">Plan again</a>";
    let page = browser.page(&format!("/rollouts/{id}"));
    assert!(page.contains(again), "the rollout still runs: {page}");
    let head = format!("href=\"/rollouts/{id}?sort=-step\"");
    assert!(browser.page(&format!("/rollouts/{id}?sort=step")).contains(&head), "a second click reverses the order");
}

#[test]
fn webhooks_are_sorted() {
    let server = Server::start();
    for (name, port) in [("b", 9), ("a", 9), ("c", 8)] {
        let hook = json!({ "name": name, "url": format!("http://127.0.0.1:{port}/hook") });
        check(&server, "POST /webhooks", hook, 201, json!({}));
    }
    let browser = Browser::at_once(&server);
    let names = |sort: &str| -> Vec<String> {
        let table = between(&browser.page(&format!("/webhooks?sort={sort}")), "<tbody id=\"webhooks\"", "</tbody>");
        table.split("class=\"name\">").skip(1).map(|row| between(&format!(">{row}"), ">", "</th>")).collect()
    };
    assert_eq!(names("name"), ["a", "b", "c"]);
    assert_eq!(names("-name"), ["c", "b", "a"]);
    assert_eq!(names("url"), ["c", "a", "b"]);
}

#[test]
fn operations_that_take_a_group_below_its_floor_together_name_each_other() {
    let server = hosts();
    let maintain = |host: &str| {
        let plan = json!({ "target": { "host": host }, "type": "Reboot" });
        id_of(&check(&server, "POST /maintenance", plan, 202, json!({})))
    };
    let first = maintain("n-1");
    let browser = Browser::at_once(&server);
    let alone = browser.page(&format!("/operations/{first}"));
    assert!(alone.contains("4 → 3</span>") && !alone.contains("conflict-content"), "{alone}");
    let other = maintain("n-2");
    let page = browser.page(&format!("/operations/{first}"));
    let link = format!("<a href=\"/operations/{other}\">Reboot of host n-2</a>");
    assert_has(&between(&page, "id=\"conflict-content\"", "</p>"), &["db falls to 2 up, floor 3", &link]);
    assert_has(&page, &["4 → 2</span>"]);
    advance(&server, 400);
    let page = browser.page("/");
    for id in [first, other] {
        assert_has(&attention(&page, &format!("op-{id}")), &["db falls to 2 up, floor 3"]);
    }
}

#[test]
fn a_rollout_and_operations_on_its_hosts_name_each_other() {
    let server = hosts();
    let plan = json!({ "type": "Reboot", "hosts": ["n-1", "n-2"] });
    let rollout = id_of(&check(&server, "POST /rollouts", plan, 202, json!({})));
    let browser = Browser::at_once(&server);
    let machine = format!("/machines/{}", vm_id(&server, "db-2"));
    let owner = format!(
        "Host n-2 belongs to the rollout <a href=\"/rollouts/{rollout}\">Reboot of 2 hosts</a>, which reaches it later."
    );
    assert_has(&between(&browser.page(&machine), "id=\"do-restart\"", "</form>"), &[&owner]);
    assert_has(&between(&browser.page("/hosts/n-2"), "id=\"do-drain-host\"", "</form>"), &[&owner]);
    assert!(!browser.page(&format!("/rollouts/{rollout}")).contains("conflict-content"));
    let of_host = |name: &str| between(&browser.page("/hosts"), &format!("id=\"host-{name}\""), "</tr>");
    assert_has(&of_host("n-2"), &["waits in <a"]);
    let restart = id_of(&check(&server, "POST /machines/db-2/restart", NONE, 202, json!({})));
    let page = browser.page(&format!("/rollouts/{rollout}"));
    assert_has(&of_host("n-2"), &[", then <a"]);
    let link = format!("<a href=\"/operations/{restart}\">Restart of db-2</a>");
    let warning = between(&page, "id=\"conflict-content\"", "</p>");
    assert_has(&warning, &["1 other operation on the same machines", &link]);
    let page = browser.page(&format!("/operations/{restart}"));
    assert_has(&between(&page, "id=\"conflict-content\"", "</p>"), &["Rollout: Reboot of 2 hosts</a>"]);
}

#[test]
fn ended_steps_are_folded_and_can_be_planned_again() {
    let server = hosts();
    let hosts = ["n-1", "n-2", "n-3", "n-4"];
    let plan = json!({ "type": "Reboot", "hosts": hosts, "pauseSeconds": 300, "maxFailures": 2 });
    let id = id_of(&check(&server, "POST /rollouts", plan, 202, json!({})));
    let browser = Browser::at_once(&server);
    let here = format!("/rollouts/{id}");
    assert!(!browser.page(&here).contains("again</a>"), "a rollout that runs owns its hosts");
    check(&server, &format!("POST /rollouts/{id}/stop"), NONE, 200, json!({}));
    let page = browser.page(&here);
    assert!(page.contains(">4 canceled</a>") && !page.contains("id=\"step-0\""), "{page}");
    let page = browser.page(&format!("{here}?steps=ended"));
    assert!(hosts.iter().enumerate().all(|(number, _)| page.contains(&format!("id=\"step-{number}\""))), "{page}");
    let href = between(&page, "id=\"do-rest\"", "</p>");
    assert_has(&href, &["Plan 4 canceled steps again"]);
    let planner = browser.page(&between(&href, "href=\"", "\"").replace("&#38;", "&"));
    for field in ["value=\"n-1,n-2,n-3,n-4\"", "name=\"pause\" value=\"5m\"", "name=\"failures\" value=\"2\""] {
        assert!(planner.contains(field), "{field}: {planner}");
    }
}

#[test]
fn pages_of_a_group_a_machine_and_a_host_begin_with_their_state() {
    let server = hosts();
    let group = check(&server, "GET /availability-sets/db", NONE, 200, json!({}))["id"].clone();
    let machine = format!("/machines/{}", vm_id(&server, "db-1"));
    let browser = Browser::at_once(&server);
    let state = |path: &str| between(&browser.page(path), "id=\"status-content\"", "</p>");
    assert_has(&state(&format!("/groups/{group}")), &["4 of 4 up", "no events scheduled"]);
    assert_has(&state(&machine), &["Running", "handler polls"]);
    advance(&server, 1);
    check(&server, "POST /machines/db-1/restart", NONE, 202, json!({}));
    assert_has(&state(&format!("/groups/{group}")), &["4 of 4 up", "1 goes down <span class=\"count\""]);
    assert_has(&state(&machine), &["Running", "restarts <span", "handler has not read it"]);
    assert_has(&state("/hosts/n-1"), &["Active", "1 machine", "Reboot <span"]);
    server.listen_as("db-1");
    assert_has(&state(&machine), &["handler has read it, not ready"]);
    advance(&server, 900);
    assert_has(&state(&format!("/groups/{group}")), &["3 of 4 up"]);
    assert_has(&state(&machine), &["Rebooting"]);
    assert_has(&state("/hosts/n-1"), &["1 down"]);
}

#[test]
fn pages_of_a_group_and_a_host_have_one_lane_per_operation() {
    let server = hosts();
    let group = check(&server, "GET /availability-sets/db", NONE, 200, json!({}))["id"].clone();
    let plan = json!({ "target": { "host": "n-1" }, "type": "Reboot" });
    let id = id_of(&check(&server, "POST /maintenance", plan, 202, json!({})));
    let browser = Browser::at_once(&server);
    for (path, below) in [(format!("/groups/{group}"), "Machines"), ("/hosts/n-1".to_owned(), "Groups")] {
        let lane = between(&browser.page(&path), &format!("id=\"op-{id}\""), "</svg>");
        let links = [format!("href=\"/operations/{id}\""), format!("href=\"{path}?open=op-{id}\"")];
        assert_has(&lane, &[&links[0], &links[1], &format!("{below} of Reboot of host n-1")]);
        let page = browser.page(&format!("{path}?open=op-{id}"));
        assert_eq!(page.matches("class=\"lane op l1").count(), 1, "{page}");
    }
    assert!(!browser.page("/hosts/n-2").contains("class=\"lane"));
}
