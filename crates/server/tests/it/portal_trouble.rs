//! A fleet in trouble, as the portal shows it: what is down and why, what is deleted on purpose, who is not ready, and what can be
//! done about it.

use crate::api_support::{NONE, Server, check};
use crate::portal_console::hosts;
use crate::portal_support::{Browser, between, token_for, vm_id};
use forewarn_access::Role;
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

/// The sentence at the top of a page.
fn state_of(browser: &Browser<'_>, path: &str) -> String {
    between(&browser.page(path), "id=\"status-content\"", "</p>")
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
    let failed = format!(
        "<b>1</b> <a href=\"/operations/{}\">Hardware failure on host n-1</a> <small>recovering</small>",
        id_of(&failure)
    );
    let restarted = format!("<b>1</b> <a href=\"/operations/{}\">Restart of lone</a></span>", id_of(&restart));
    let off = "<b>1</b> <a href=\"/hosts/n-2\">Host n-2 is off</a> <small>until you act</small>";
    let sentence = "<span class=\"red\">3 machines down now</span>, 2 because of failures";
    assert_has(&status(&page), &[sentence, "; <a href=\"/groups/", "has 2 of 4 up, below its floor of 3"]);
    assert_order(&between(&status(&page), "<p class=\"by\">", "</p>"), &[&failed, off, &restarted]);
    assert!(page.contains("<title>(3 down) Overview"), "{page}");
    assert_has(
        &attention(&page, "host-n-2"),
        &[
            "1 machine down",
            "<small class=\"\">in db</small>",
            "failed and fenced; stopped: db-2",
            "<b>stays down</b><small>until you activate the host</small>",
            "action=\"/portal/hosts\"",
            "name=\"host\" value=\"n-2\"",
            "name=\"act\" value=\"activate\"",
        ],
    );
    assert_has(
        &attention(&page, &format!("op-{}", id_of(&failure))),
        &["1 machine down", "<small class=\"\">in db</small>", "ends by itself", "in progress since <time"],
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
    let counted = "<b>5</b> <a href=\"/operations?show=running\">5 user requests</a></span>";
    assert_has(&status(&page), &["5 machines down now", counted]);
}

#[test]
fn a_deletion_is_not_an_outage() {
    let (server, operation) = deleting();
    let browser = Browser::at_once(&server);
    let page = browser.page("/");
    let next = "No machines are down. Next: <span class=\"red\">1 machine deleted at <time";
    assert_has(&status(&page), &[next, "</span>.</p>"]);
    let row = attention(&page, &format!("op-{}", id_of(&operation)));
    assert_has(
        &row,
        &[
            "not ready: web_1 (silent)",
            "<b>1 machine</b><small class=\"\">web: 2 → 1</small>",
            "<b>deleted <span",
            "</time>, cannot be canceled</small>",
            ">Scale out web</a>",
            ">Open operation</a>",
        ],
    );
    assert!(!row.contains("value=\"cancel\"") && !row.contains("value=\"approve\""), "{row}");
    assert!(page.contains("<title>Overview"), "{page}");
    let page = browser.page(&format!("/operations/{}", id_of(&operation)));
    assert_has(&page, &["<b>Deletion started</b>", "2 → 1</span><span class=\"qq\">, floor 0</span>"]);
    assert_has(
        &between(&page, "id=\"status-content\"", "</p>"),
        &["Starts <span", "</span> web shrinks from 2 to 1 machine <span"],
    );
    let group = check(&server, "GET /scale-sets/web", NONE, 200, json!({}))["id"].clone();
    let state = between(&browser.page(&format!("/groups/{group}")), "id=\"status-content\"", "</p>");
    assert_has(&state, &["1 is deleted <span", ", leaving <span class=\"amber\">1, 1 above the floor</span>"]);
}

#[test]
fn the_headline_names_what_comes_first() {
    let server = hosts();
    let model = json!({ "terminateNotification": { "notBeforeTimeout": "PT5M" } });
    let set = json!({ "name": "web", "capacity": 2, "orchestration": "Uniform", "model": model });
    check(&server, "POST /scale-sets", set, 201, json!({}));
    server.listen_as("web_0");
    maintain(&server, "n-1", "Reboot");
    advance(&server, 400);
    check(&server, "DELETE /machines/web_1", NONE, 202, json!({}));
    let headline = || between(&Browser::at_once(&server).page("/"), "<p class=\"say\">", "</p>");
    assert_order(&headline(), &["Next: ", "1 machine deleted at <time", "1 down at <time", ">db</a>"]);
    check(&server, "POST /hosts/n-2/fence", NONE, 200, json!({}));
    assert_order(&headline(), &["1 machine down now", "Next: ", ">1 deleted at <time", ">1 more down at <time"]);
}

#[test]
fn a_deletion_of_a_standalone_machine_says_what_can_still_be_done() {
    let server = Server::start();
    let lone = json!({ "name": "lone", "terminateNotification": { "notBeforeTimeout": "PT5M" } });
    check(&server, "POST /machines", lone, 201, json!({}));
    server.listen_as("lone");
    let id = id_of(&check(&server, "DELETE /machines/lone", NONE, 202, json!({})));
    let page = Browser::at_once(&server).page("/");
    assert_has(&status(&page), &["<span class=\"red\">1 machine deleted at <time"]);
    let row = attention(&page, &format!("op-{id}"));
    assert_has(&row, &["<b>1 machine</b><small class=\"\">standalone", "</time>, save the data first</small>"]);
    assert_has(&row, &[&format!("href=\"/operations/{id}\">Open operation</a>")]);
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
    assert!(!status.contains("class=\"by\""), "{status}");
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
    assert_has(&row, &["<b>down <span", "</time>, ready or not</small>"]);
    let cancel = [("act", "cancel"), ("id", id.as_str()), ("back", "/")];
    let confirmation = browser.post("/portal/operations", &cancel).text();
    assert_has(&confirmation, &["Cancel: Reboot of host n-2?", "Reboot of db-2 is canceled.", "href=\"/\">Back</a>"]);
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
    let meter = ["0/2 <small>ready</small>", "1 without a handler"];
    assert_has(&row, &[&meter[..], &["<b>2 machines</b><small class=\"\">in 2 groups</small>"]].concat());
    let lane = between(&overview, &format!("id=\"op-{id}\""), "</svg>");
    assert_has(&lane, &["0/2 ready, 1 without a handler", "class=\"no x-amber\""]);
    assert_has(&browser.page("/operations"), &meter);
    let names = "db-2 (silent) and lone (no handler)";
    assert_has(&row, &[&format!("not ready: {names}")]);
    assert_has(&state_of(&browser, "/hosts/n-2"), &[&format!("<span class=\"amber\">not ready: {names}</span>")]);
    // The counts are the same on the page of the operation, and say why.
    let state = state_of(&browser, &format!("/operations/{id}"));
    assert_has(&state, &[&format!("<span class=\"amber\">2 of 2 not ready: {names}</span>")]);
    let progress = || between(&browser.page(&format!("/operations/{id}")), "id=\"progress-content\"", "</section>");
    for (stage, count) in [
        ("Announced", "1/2, 1 without a handler"),
        ("Seen", "0/2, 1 has not"),
        ("Ready", "0/2, 2 not ready"),
        ("Down", "0/2, <time"),
        ("Up again", "0/2<"),
    ] {
        assert_has(&progress(), &[&format!("<b>{stage}</b> <span>{count}")]);
    }
    advance(&server, 1);
    server.listen_as("db-2");
    assert_has(&progress(), &["<b>Seen</b> <span>1/2</span>"]);
    // Events are named after their machines.
    let page = browser.page(&format!("/operations/{id}"));
    assert_has(&page, &[">db-2 <small>Scheduled</small></a>", ">lone <small>Scheduled</small></a>"]);
}

#[test]
fn a_machine_without_a_handler_is_listed_before_it_goes_down() {
    let server = Server::start();
    check(&server, "POST /machines", json!({ "name": "lone", "host": "n-1" }), 201, json!({}));
    let plan = json!({ "target": { "host": "n-1" }, "type": "Reboot", "at": "2026-03-01T12:20:00Z" });
    let id = id_of(&check(&server, "POST /maintenance", plan, 202, json!({})));
    advance(&server, 660);
    let browser = Browser::at_once(&server);
    let row = attention(&browser.page("/"), &format!("op-{id}"));
    assert_has(&row, &["no handler, not notified: lone", "<b>down <span", "</time>, without notice</small>"]);
    assert_has(&state_of(&browser, "/hosts/n-1"), &["Reboot <span", "not ready: lone (no handler)"]);
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
    assert_has(&drawn, &["1 machine not ready", "aria-label=\"n-1: in progress, notice from", "class=\"g-now\""]);
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
    let way_out = format!("href=\"/operations/{other}\">Open Reboot of host n-2</a>");
    assert_has(&between(&page, "class=\"ways\"", "</p>"), &[&way_out]);
    assert_has(&page, &["4 → 2</span>", "<span class=\"red\">db falls to 2 up, floor 3</span>"]);
    // The other operation is on the timeline, too.
    assert_has(&page, &[&format!("id=\"op-{first}\" class=\"lane"), &format!("id=\"op-{other}\" class=\"lane")]);
    let group = check(&server, "GET /availability-sets/db", NONE, 200, json!({}))["id"].clone();
    let page = browser.page(&format!("/groups/{group}"));
    assert!(!page.contains("conflict-content"), "they start later: {page}");
    advance(&server, 400);
    let page = browser.page("/");
    let group = browser.page(&format!("/groups/{group}"));
    assert_has(&between(&group, "id=\"conflict-content\"", "</p></div>"), &["db falls to 2 up, floor 3", &way_out]);
    // Each row offers to cancel, and to open the other operation.
    for (id, other) in [(&first, &other), (&other, &first)] {
        let link = format!("<a href=\"/operations/{other}\">Open Reboot of host");
        let parts = ["db falls to 2 up, floor 3", " · not ready: db-", "value=\"cancel\"", &link];
        assert_has(&attention(&page, &format!("op-{id}")), &parts);
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
    assert_has(&warning, &["1 other operation on machines of this rollout", &link]);
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
    let state = |path: &str| state_of(&browser, path);
    assert_has(&state(&format!("/groups/{group}")), &["4 of 4 up", "no events scheduled"]);
    assert_has(&state(&machine), &["Running", "handler polls"]);
    advance(&server, 1);
    check(&server, "POST /machines/db-1/restart", NONE, 202, json!({}));
    assert_has(&state(&format!("/groups/{group}")), &["4 of 4 up", "1 goes down <span class=\"count\""]);
    assert_has(&state(&machine), &["Running", "restarts <span", "handler has not read it"]);
    assert_has(&state("/hosts/n-1"), &["Active", "1 machine", "Reboot <span", "not ready: db-1<"]);
    assert_has(&state(&format!("/groups/{group}")), &["not ready: db-1<"]);
    server.listen_as("db-1");
    assert_has(&state(&machine), &["handler has read it, not ready"]);
    assert_has(&browser.page(&machine), &["<details id=\"do-approve\" class=\"action\""]);
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

/// Whether these texts occur in this order.
fn assert_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let at = rest.find(part).unwrap_or_else(|| panic!("{part} is missing or too early: {text}"));
        rest = &rest[at + part.len()..];
    }
}

fn maintain(server: &Server, host: &str, kind: &str) -> String {
    let plan = json!({ "target": { "host": host }, "type": kind });
    id_of(&check(server, "POST /maintenance", plan, 202, json!({})))
}

#[test]
fn what_can_be_prevented_comes_first_by_severity_and_then_by_deadline() {
    let server = hosts();
    for (name, host) in [("mail", "r-1"), ("wiki", "r-2")] {
        check(&server, "POST /machines", json!({ "name": name, "host": host }), 201, json!({}));
        server.listen_as(name);
    }
    let reboot = maintain(&server, "r-1", "Reboot");
    advance(&server, 310);
    // The more severe event starts ten seconds later.
    let redeploy = maintain(&server, "r-2", "Redeploy");
    advance(&server, 60);
    let failure = check(&server, "POST /hosts/n-1/hardware-failure", json!({ "type": "Redeploy" }), 202, json!({}));
    check(&server, "POST /hosts/n-2/fence", NONE, 200, json!({}));
    // As severe as the redeployment and earlier, but it cannot be canceled.
    let notified = json!({ "name": "old", "terminateNotification": { "notBeforeTimeout": "PT5M" } });
    check(&server, "POST /machines", notified, 201, json!({}));
    server.listen_as("old");
    let deletion = id_of(&check(&server, "DELETE /machines/old", NONE, 202, json!({})));
    let browser = Browser::at_once(&server);
    let rows = [
        "id=\"attention-first\" class=\"part\" data-sort=\"a\"><h3>Start here</h3>".to_owned(),
        format!("id=\"attention-op-{redeploy}\""),
        "id=\"attention-next\"".to_owned(),
        format!("id=\"attention-op-{reboot}\""),
        format!("id=\"attention-op-{deletion}\""),
        "id=\"attention-host-n-2\"".to_owned(),
        "id=\"attention-calm\"".to_owned(),
        format!("id=\"attention-op-{}\"", id_of(&failure)),
    ];
    let page = browser.page("/");
    assert_order(&page, &rows.each_ref().map(String::as_str));
    assert_has(&attention(&page, &format!("op-{reboot}")), &["requested by you"]);
    // Only the first row has the primary button of the page.
    assert_has(&attention(&page, &format!("op-{redeploy}")), &["value=\"cancel\" class=\"primary\""]);
    assert_eq!(page.matches("class=\"primary\"").count(), 1, "{page}");
    // One heading says that the other rows need nothing, even if there are no others.
    let server = hosts();
    check(&server, "POST /hosts/n-1/hardware-failure", json!({ "type": "Redeploy" }), 202, json!({}));
    let page = Browser::at_once(&server).page("/");
    assert_order(&page, &["id=\"attention-head\"", "In progress, no action needed", "id=\"attention-op-"]);
    assert!(!page.contains("Start here") && !page.contains("primary"), "{page}");
}

#[test]
fn of_rows_with_the_same_deadline_the_largest_comes_first() {
    let server = hosts();
    check(&server, "POST /machines", json!({ "name": "lone", "host": "n-2" }), 201, json!({}));
    let [one, two] = ["n-1", "n-2"].map(|host| maintain(&server, host, "Reboot"));
    advance(&server, 360);
    let page = Browser::at_once(&server).page("/");
    assert_order(&page, &[&format!("id=\"attention-op-{two}\""), &format!("id=\"attention-op-{one}\"")]);
}

#[test]
fn other_people_are_requesters_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::guarded(dir.path());
    check(&server, "POST /machines", json!({ "name": "web" }), 201, json!({}));
    let id = id_of(&check(&server, "POST /machines/web/restart", NONE, 202, json!({})));
    let page = |browser: &Browser<'_>| attention(&browser.page("/"), &format!("op-{id}"));
    assert_has(&page(&Browser::by_link(&server)), &["requested by you"]);
    let reader = Browser::with_token(&server, &token_for(dir.path(), Role::Reader));
    let row = page(&reader);
    assert!(row.contains("requested by owner") && !row.contains("by you"), "{row}");
    assert_has(&reader.page(&format!("/operations/{id}")), &["Requested by <b>owner</b>"]);
}

#[test]
fn the_headline_names_the_group_that_falls_below_its_floor() {
    let server = hosts();
    maintain(&server, "n-1", "Reboot");
    advance(&server, 400);
    let headline = |server: &Server| between(&Browser::at_once(server).page("/"), "<p class=\"say\">", "</p>");
    assert_has(&headline(&server), &["1 machine down at", "<span class=\"\">falls to its floor of 3</span>"]);
    maintain(&server, "n-2", "Redeploy");
    assert_has(&headline(&server), &[">db</a> <span class=\"red\">falls below its floor of 3</span>"]);
}

#[test]
fn a_forecast_counts_machines_that_may_return_late() {
    let server = hosts();
    maintain(&server, "n-2", "Reboot");
    maintain(&server, "n-3", "Reboot");
    advance(&server, 360);
    let short = json!({ "target": { "host": "n-1" }, "type": "Reboot", "durationSeconds": 60 });
    let event = id_of(&check(&server, "POST /maintenance", short, 202, json!({}))["events"][0]);
    check(&server, &format!("POST /events/{event}/approve"), NONE, 200, json!({}));
    let page = Browser::at_once(&server).page("/");
    let verdict = ">db</a> <span class=\"red\">falls below its floor of 3</span>";
    let headline = between(&page, "<p class=\"say\">", "</p>");
    assert_has(&headline, &["1 machine down now for planned work", "2 more down at", verdict]);
    assert_has(&page, &["<small class=\"red\">db: 1 to 2 up, floor 3</small>"]);
}

#[test]
fn an_approval_that_starts_the_impact_is_marked_and_names_groups_below_their_floor() {
    let server = hosts();
    let id = maintain(&server, "n-2", "Reboot");
    let browser = Browser::at_once(&server);
    let page = browser.page(&format!("/operations/{id}"));
    assert_order(
        &page,
        &["id=\"do-cancel-operation\" class=\"action\"", "id=\"do-approve-operation\" class=\"action danger\""],
    );
    assert!(!page.contains("falls to"), "{page}");
    check(&server, "POST /hosts/n-1/hardware-failure", json!({ "type": "Redeploy" }), 202, json!({}));
    let approve = [("act", "approve"), ("id", id.as_str()), ("back", "/")];
    let confirmation = browser.post("/portal/operations", &approve).text();
    let below = "<span class=\"red\">db falls to 2 up, floor 3.</span>";
    let button = "<button class=\"danger\">Approve and start now</button>";
    assert_has(&confirmation, &["Approve: Reboot of host n-2?", "Not ready: db-2.", below, button]);
    assert_has(&browser.page(&format!("/operations/{id}")), &["Not ready: db-2.", below]);
}

#[test]
fn all_pages_show_the_floor_that_the_rules_enforce() {
    let server = hosts();
    let group = check(&server, "GET /availability-sets/db", NONE, 200, json!({}))["id"].clone();
    let browser = Browser::at_once(&server);
    let of_group = || between(&browser.page(&format!("/groups/{group}")), "<p class=\"head-facts\">", "</p>");
    assert_has(&of_group(), &["Floor <b>3</b></span>"]);
    let plan = json!({ "type": "Reboot", "hosts": ["n-1", "n-2"], "maxUnavailable": 2, "description": "CHG-1" });
    let rollout = id_of(&check(&server, "POST /rollouts", plan, 202, json!({})));
    let owner = format!("Floor <b>2</b> (at most 2 down, by <a href=\"/rollouts/{rollout}\">Rollout: CHG-1</a>)");
    assert_has(&of_group(), &[&owner]);
    let of_rollout = || between(&browser.page(&format!("/rollouts/{rollout}")), "id=\"capacity-content\"", "</dl>");
    assert_has(&of_rollout(), &["4/4, floor 2</dd>"]);
    let of_host = || between(&browser.page("/hosts"), "id=\"host-n-1\"", "</tr>");
    assert_has(&of_host(), &["4 → 3 <span class=\"qq\">· floor 2</span>"]);
    // A drain that may take down one machine only is stricter.
    let drain = id_of(&check(&server, "POST /hosts/n-3/drain", NONE, 202, json!({})));
    assert_has(&of_group(), &["Floor <b>3</b> (at most 1 down, by"]);
    assert_has(&of_rollout(), &["4/4, floor 3<small>at most 1 down, by <a", &format!("/operations/{drain}\"")]);
    assert_has(&of_host(), &["class=\"amber\">4 → 3 <span class=\"qq\">· floor 3</span>"]);
}

#[test]
fn a_host_that_failed_after_its_step_is_shown_as_failed() {
    let server = hosts();
    let plan = json!({ "type": "Reboot", "hosts": ["n-1", "n-3"], "pauseSeconds": 3600, "durationSeconds": 60 });
    let id = id_of(&check(&server, "POST /rollouts", plan, 202, json!({})));
    advance(&server, 1600);
    let browser = Browser::at_once(&server);
    let page = |part: &str| {
        let page = browser.page(&format!("/rollouts/{id}"));
        match part {
            "status" => between(&page, "id=\"status-content\"", "</p>"),
            "step" => between(&page, "id=\"step-0\"", "</tr>"),
            _ => between(&page, "id=\"rollout-progress-content\"", "id=\"panel-steps\""),
        }
    };
    assert_has(&page("status"), &["1 of 2 hosts finished", "next step announced at <time", "</time>, after the pause"]);
    assert_has(&page("step"), &[">Finished</span>"]);
    check(&server, "POST /hosts/n-1/fence", NONE, 200, json!({}));
    assert_has(
        &page("status"),
        &["1 of 2 hosts finished", "<span class=\"red\">failed or unreachable since: n-1</span>"],
    );
    check(
        &server,
        &format!("GET /rollouts/{id}"),
        NONE,
        200,
        json!({ "failures": 0, "steps": [{ "state": "Succeeded" }, {}] }),
    );
    assert_has(&page("step"), &["class=\"pin\"", "st down\">Host failed</span>", "the host is off"]);
    assert_has(&page("chart"), &["id=\"wave-failed\"", ">host failed</text>"]);
}

#[test]
fn a_step_whose_host_was_fenced_before_its_impact_has_failed() {
    let server = hosts();
    server.listen_as("db-1");
    let plan = json!({ "type": "Reboot", "hosts": ["n-1", "n-3"], "pauseSeconds": 3600, "maxFailures": 1 });
    let id = id_of(&check(&server, "POST /rollouts", plan, 202, json!({})));
    check(&server, "POST /hosts/n-1/fence", NONE, 200, json!({}));
    let step = json!({ "host": "n-1", "state": "Failed", "outcome": "Failed", "reason": "HostFailed" });
    let rollout = json!({ "state": "Waiting", "failures": 1, "steps": [step, { "state": "Pending" }] });
    check(&server, &format!("GET /rollouts/{id}"), NONE, 200, rollout);
    let page = Browser::at_once(&server).page(&format!("/rollouts/{id}"));
    assert_has(
        &between(&page, "id=\"status-content\"", "</p>"),
        &["0 of 2 hosts finished", "<span class=\"red\">1 failed: n-1</span>"],
    );
    assert_has(
        &between(&page, "id=\"step-0\"", "</tr>"),
        &["st down\">Failed</span>", "HostFailed", "the host is off"],
    );
    assert_has(&page, &["step ended, host n-1: failed: HostFailed"]);
}

#[test]
fn a_failed_step_is_retried_on_the_page_of_its_rollout() {
    let server = hosts();
    let plan = json!({ "type": "Reboot", "hosts": ["n-1", "n-3"], "pauseSeconds": 3600, "maxFailures": 1 });
    let id = id_of(&check(&server, "POST /rollouts", plan, 202, json!({})));
    let path = format!("/rollouts/{id}");
    let browser = Browser::at_once(&server);
    let retry = |step: &str| {
        let fields = [("act", "retry-steps"), ("target", id.as_str()), ("back", path.as_str()), ("step", step)];
        let answer = browser.post("/portal/act", &fields);
        (answer.status, answer.text())
    };
    assert!(!browser.page(&path).contains("id=\"do-retry-steps\""), "no step has failed");
    check(&server, "POST /hosts/n-1/fence", NONE, 200, json!({}));
    let button = between(&browser.page(&path), "id=\"do-retry-steps\"", "</details>");
    assert_has(&button, &["name=\"step\" value=\"0\" checked> n-1</label>", "earlier failures keep counting"]);
    let refusals =
        [("1", 409, "is Pending. Only a failed step can be retried"), ("none", 422, "Select at least one step.")];
    for (step, status, message) in refusals {
        let (found, page) = retry(step);
        assert_eq!(found, status, "{page}");
        assert_has(&page, &[message]);
    }
    assert_eq!(retry("0").0, 303);
    let page = browser.page(&path);
    assert!(!page.contains("id=\"do-retry-steps\""), "{page}");
    assert_has(&between(&page, "id=\"step-0\"", "</tr>"), &["st idle\">Failed, retried</span>"]);
    assert_has(&between(&page, "id=\"step-2\"", "</tr>"), &[">n-1 (retry)</a>", ">Pending</span>"]);
    assert_has(&page, &["step retried, host n-1"]);
    let steps =
        json!([{ "state": "Failed" }, { "state": "Pending" }, { "state": "Pending", "host": "n-1", "retryOf": 0 }]);
    check(&server, &format!("GET {path}"), NONE, 200, json!({ "failures": 1, "steps": steps }));
}

#[test]
fn a_fenced_host_names_who_fenced_it_and_when() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::kept_in(dir.path());
    check(&server, "POST /machines", json!({ "name": "db", "host": "n-1" }), 201, json!({}));
    check(&server, "POST /hosts/n-1/fence", NONE, 200, json!({}));
    let row = |server: &Server| between(&Browser::at_once(server).page("/hosts"), "id=\"host-n-1\"", "</tr>");
    let fenced = |server: &Server| between(&row(server), "<small>fenced by owner, <time", "</small>");
    let first = fenced(&server);
    check(&server, "POST /hosts/n-1/activate", NONE, 200, json!({}));
    assert!(!row(&server).contains("fenced by"));
    advance(&server, 600);
    check(&server, "POST /hosts/n-1/fence", NONE, 200, json!({}));
    // Other entries about the host and its machines follow.
    check(&server, "PATCH /hosts/n-1", json!({ "pool": "spare" }), 200, json!({}));
    let latest = fenced(&server);
    assert_ne!(first, latest, "the latest statement counts");
    server.stop();
    let server = Server::kept_in(dir.path());
    assert_eq!(fenced(&server), latest, "after a restart");
    let page = Browser::at_once(&server).page("/hosts/n-1");
    for part in [between(&page, "id=\"status-content\"", "</p>"), between(&page, "<dt>State</dt>", "</dd>")] {
        assert_has(&part, &["fenced by owner, <time", &latest]);
    }
}

#[test]
fn hosts_show_failures_the_share_of_affected_machines_and_the_floor() {
    let server = hosts();
    check(&server, "POST /machines", json!({ "name": "lone", "host": "n-2" }), 201, json!({}));
    server.listen_as("lone");
    check(&server, "POST /machines/lone/restart", NONE, 202, json!({}));
    let browser = Browser::at_once(&server);
    let of_host = |name: &str| between(&browser.page("/hosts"), &format!("id=\"host-{name}\""), "</tr>");
    assert_has(&of_host("n-2"), &["<span class=\"q\">1 of 2 machines</span>", "st \">Active</span>"]);
    assert_has(&of_host("n-1"), &["class=\"amber\">4 → 3"]);
    let state = between(&browser.page("/hosts/n-2"), "id=\"status-content\"", "</p>");
    assert_has(&state, &["Reboot of 1 of 2 machines <span class=\"count\""]);
    maintain(&server, "n-3", "Reboot");
    assert!(!of_host("n-3").contains("1 machine"), "every machine is affected: {}", of_host("n-3"));
    check(&server, "POST /hosts/n-4/hardware-failure", json!({ "type": "Redeploy" }), 202, json!({}));
    assert_has(&of_host("n-4"), &["st down\">Hardware failure</span>", "in progress"]);
    assert_has(&of_host("n-1"), &["class=\"red\">3 → 2"]);
    assert_order(&browser.page("/hosts"), &["id=\"host-n-4\"", "id=\"host-n-3\"", "id=\"host-n-1\""]);
    assert!(browser.page("/hosts?state=failed").contains("id=\"host-n-4\""));
    assert_has(&status(&browser.page("/")), &["<b class=\"red\">1</b> <span>host failed or unreachable</span>"]);
    assert_has(&between(&browser.page("/hosts/n-4"), "id=\"status-content\"", "</p>"), &["Hardware failure"]);
}

#[test]
fn machines_of_a_group_that_are_down_come_first_with_the_reason() {
    let server = hosts();
    for number in 1..=4 {
        server.listen_as(&format!("db-{number}"));
    }
    let group = check(&server, "GET /availability-sets/db", NONE, 200, json!({}))["id"].clone();
    let browser = Browser::at_once(&server);
    let page = || browser.page(&format!("/groups/{group}"));
    assert_has(&page(), &["Handlers polling: <b>4 of the 4 that are up"]);
    let failure = check(&server, "POST /hosts/n-3/hardware-failure", json!({ "type": "Redeploy" }), 202, json!({}));
    check(&server, "POST /hosts/n-4/fence", NONE, 200, json!({}));
    // The failure is over by then: it is expected to last ten minutes.
    maintain(&server, "n-2", "Reboot");
    let table = between(&page(), "<tbody id=\"machines\"", "</tbody>");
    let row = |name: &str| {
        let rows: Vec<&str> = table.split("<tr ").filter(|row| row.contains(&format!(">{name}</a>"))).collect();
        rows[0].to_owned()
    };
    assert_has(
        &row("db-3"),
        &[
            "Redeploying",
            &format!("<small><a href=\"/operations/{}\">Hardware failure on host n-3</a></small>", id_of(&failure)),
            "data-label=\"Last poll\">–</td>",
        ],
    );
    let off = "st down\">Stopped</span><small><a href=\"/hosts/n-4\">Host n-4 is off</a></small>";
    assert_has(&row("db-4"), &[off, "data-label=\"Last poll\">–</td>"]);
    assert_has(&row("db-1"), &["Running", "under 1 min ago"]);
    assert_order(&table, &[">db-4</a>", ">db-2</a>", ">db-1</a>"]);
    assert_order(&table, &[">db-3</a>", ">db-2</a>", ">db-1</a>"]);
    let headline = between(&page(), "id=\"status-content\"", "</p>");
    let next = "<span class=\"red\">2, 1 below the floor</span>";
    assert_has(&headline, &["2 of 4 up, 1 below the floor", "1 goes down <span", next]);
    assert_has(&page(), &["Handlers polling: <b>2 of the 2 that are up"]);
}

#[test]
fn a_clock_that_is_not_real_is_labeled() {
    assert!(Browser::at_once(&hosts()).page("/").contains(">manual<span class=\"wide\"> clock</span></a>"));
}
