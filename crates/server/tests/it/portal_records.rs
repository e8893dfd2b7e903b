//! The content of the portal and the API beyond the current state: everything about an operation, operations and events that have ended,
//! pages of the history, search, the calendar; and the actions that a role may perform.

use crate::api_support::{NONE, Server, check};
use crate::portal_console::hosts;
use crate::portal_support::{Browser, between, token_for};
use forewarn_access::Role;
use serde_json::{Value, json};

fn id_of(value: &Value) -> String {
    value["id"].as_str().unwrap().to_owned()
}

fn advance(server: &Server, seconds: u32) {
    check(server, "POST /clock/advance", json!({ "seconds": seconds }), 200, json!({}));
}

fn maintain(server: &Server, host: &str) -> Value {
    let plan = json!({ "target": { "host": host }, "type": "Reboot", "description": "CHG-9 DIMM" });
    check(server, "POST /maintenance", plan, 202, json!({}))
}

fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn the_api_and_the_page_of_an_operation_have_the_same_content() {
    let server = hosts();
    let id = id_of(&maintain(&server, "n-1"));
    let other = id_of(&maintain(&server, "n-2"));
    let operation = check(&server, &format!("GET /operations/{id}"), NONE, 200, json!({ "notReadyCount": 1 }));
    let missing = &operation["notReady"][0];
    assert_eq!((&missing["machine"], &missing["group"]), (&json!("db-1"), &json!("db")));
    assert_eq!((&missing["handler"], &missing["reason"]), (&json!("Polling"), &json!("NotApproved")));
    let capacity = json!({ "group": "db", "resourceGroup": "default", "up": 4, "upThen": 2, "returning": 0, "machines": 4,
        "machinesThen": 4, "floor": 3 });
    assert_eq!(operation["capacity"], json!([capacity]));
    assert_eq!(operation["conflicts"], json!([{ "operation": other, "title": "Reboot of host n-2" }]));
    let page = Browser::at_once(&server).page(&format!("/operations/{id}"));
    let row = between(&page, "<tr id=\"missing-", "</tr>");
    assert_has(&row, &["polling", "Has read the event but has not approved it yet.", "data-label=\"Reason\""]);
    assert_has(&page, &["4 → 2</span>", "floor 3", ">Reboot of host n-2</a>"]);
    let list = check(&server, "GET /operations", NONE, 200, json!({}));
    let listed = &list["value"][0];
    assert!(["notReady", "notReadyCount", "capacity", "conflicts"].iter().all(|key| listed[key].is_null()), "{listed}");
}

#[test]
fn an_operation_of_last_night_keeps_its_title_ticket_and_host() {
    let server = hosts();
    let made = maintain(&server, "n-2");
    let (id, event) = (id_of(&made), id_of(&made["events"][0]));
    advance(&server, 2 * 3600);
    advance(&server, 3600);
    let browser = Browser::at_once(&server);
    let page = browser.page(&format!("/operations/{id}"));
    let here = format!("<a href=\"/operations/{id}\">");
    assert_has(
        &page,
        &[
            "<h1>Reboot of host n-2</h1>",
            "Ticket <b>CHG-9</b>",
            "<b>DIMM</b>",
            "This operation has ended.",
            "href=\"/hosts/n-2\"",
        ],
    );
    assert_has(&page, &[&format!("href=\"/events/{event}\""), "HostMaintenance", "db-2"]);
    assert!(!between(&page, "id=\"history\"", "</section>").contains(&here), "{page}");
    let past = json!({ "description": "CHG-9 DIMM", "ticket": "CHG-9", "host": "n-2", "cause": "HostMaintenance", "type": "Reboot",
        "machines": ["db-2"], "state": "Succeeded" });
    check(&server, &format!("GET /operations/{id}"), NONE, 200, past);
    let page = browser.page(&format!("/events/{event}"));
    assert_has(&page, &["Reboot of db-2</h1>", &format!("{here}Reboot of host n-2</a>"), "href=\"/hosts/n-2\""]);
    let own = format!("href=\"/events/{event}\"");
    assert!(!between(&page, "id=\"history\"", "</section>").contains(&own), "{page}");
    for (text, expected) in [(&id, "Reboot of host n-2</a>"), (&event, "Reboot of db-2</a>")] {
        assert_has(&browser.page(&format!("/search?q={text}")), &[expected, "ended"]);
    }
}

#[test]
fn search_finds_the_tickets_of_past_operations() {
    let server = hosts();
    let past = id_of(&maintain(&server, "n-2"));
    let rollout = json!({ "type": "Reboot", "hosts": ["n-1"], "description": "CHG-9 fans" });
    let rollout = id_of(&check(&server, "POST /rollouts", rollout, 202, json!({})));
    advance(&server, 3 * 3600);
    let current = id_of(&maintain(&server, "n-3"));
    let browser = Browser::at_once(&server);
    for text in ["chg-9", "DIMM+CHG-9"] {
        let page = browser.page(&format!("/search?q={text}"));
        let row = between(&page, &format!("href=\"/operations/{past}\""), "</tr>");
        assert_has(&row, &["Reboot of host n-2</a>", "Operation, ended", "ticket CHG-9 DIMM"]);
    }
    let page = browser.page("/search?q=chg-9");
    for href in [format!("/operations/{past}"), format!("/operations/{current}"), format!("/rollouts/{rollout}")] {
        assert_eq!(page.matches(&format!("href=\"{href}\"")).count(), 1, "{href}: {page}");
    }
    // The step of the rollout is not listed beside it.
    assert!(!page.contains("Reboot of host n-1</a>"), "{page}");
    assert_has(&browser.page("/search?q=chg"), &["CHG-9 DIMM"]);
    let partial = browser.page("/search?q=chg");
    assert!(!partial.contains(&past), "{partial}");
}

#[test]
fn history_is_shown_in_pages() {
    let server = hosts();
    for _ in 0..130 {
        check(&server, "POST /hosts/n-1/drain", NONE, 202, json!({}));
        check(&server, "POST /hosts/n-1/activate", NONE, 200, json!({}));
    }
    let browser = Browser::at_once(&server);
    let count = |page: &str| page.matches("<p id=\"row-").count();
    let older = |page: &str| {
        between(
            &between(page, "<p id=\"history-more\" class=\"foot\" data-sort=\"~\"><span></span>", "</p>"),
            "href=\"",
            "\"",
        )
    };
    for (path, size) in [("/history", 200), ("/hosts/n-1", 50), ("/history?actor=owner", 200)] {
        let page = browser.page(path);
        assert_eq!(count(&page), size, "{path}");
        let next = older(&page).replace("&#38;", "&");
        let following = browser.page(&next);
        assert!(count(&following) > 0, "{next}");
        let first = between(&following, "<p id=\"row-", "\"");
        assert!(!page.contains(&format!("id=\"row-{first}\"")), "{next} repeats a row");
    }
    assert_eq!(count(&browser.page("/history?actor=stranger")), 0);
    assert_has(&browser.page("/history"), &["drain host n-1, requested by", "href=\"/hosts/n-1\""]);
}

#[test]
fn exact_results_come_first_and_the_rest_is_counted() {
    let server = Server::start();
    for number in 0..25 {
        check(&server, "POST /machines", json!({ "name": format!("a-web-{number}") }), 201, json!({}));
    }
    let web = json!({ "name": "web", "tags": { "team": "shop" } });
    check(&server, "POST /machines", web, 201, json!({}));
    check(&server, "POST /machines", json!({ "name": "web-2", "host": "h1" }), 201, json!({}));
    let plan = json!({ "type": "Reboot", "hosts": ["h1"], "description": "CHG-42 Firmware" });
    let rollout = id_of(&check(&server, "POST /rollouts", plan, 202, json!({})));
    let restart = id_of(&check(&server, "POST /machines/web/restart", NONE, 202, json!({})));
    let browser = Browser::at_once(&server);
    let names = |text: &str| -> Vec<String> {
        let page = browser.page(&format!("/search?q={text}"));
        let rows = between(&page, "<tbody id=\"results\"", "</tbody>");
        rows.split("<a href").skip(1).map(|row| between(row, ">", "</a>")).collect()
    };
    let found = names("web");
    assert_eq!(found[..2], ["web", "web-2"], "{found:?}");
    assert_has(&browser.page("/search?q=web"), &["20 of 27 machines"]);
    assert_eq!(names("shop"), ["web"]);
    assert_eq!(names(&rollout), ["CHG-42 Firmware"]);
    assert_eq!(names("chg-42")[0], "CHG-42 Firmware");
    assert_eq!(names(&restart), ["Restart of web"]);
    let machine = check(&server, "GET /machines/web-2", NONE, 200, json!({}));
    if let Some(address) = machine["addresses"][0].as_str() {
        assert_eq!(names(address)[0], "web-2");
    }
}

#[test]
fn the_calendar_has_planned_rollouts_and_their_next_steps() {
    let server = hosts();
    let planned = json!({ "type": "Reboot", "hosts": ["n-3"], "at": "2026-03-03T10:00:00Z", "description": "CHG-1" });
    check(&server, "POST /rollouts", planned, 202, json!({ "state": "Planned" }));
    let running = json!({ "type": "Reboot", "hosts": ["n-1", "n-2"], "pauseSeconds": 7200, "description": "CHG-2" });
    check(&server, "POST /rollouts", running, 202, json!({}));
    let calendar = Browser::at_once(&server).page("/calendar");
    assert_has(&between(&calendar, "id=\"day-2026-03-03\"", "</section>"), &[">Start of CHG-1</a>", "1 machine<"]);
    assert_has(&between(&calendar, "id=\"day-2026-03-01\"", "</section>"), &[">Step 2 of CHG-2</a>", "1 machine<"]);
}

#[test]
fn a_bulk_action_says_what_was_done_and_what_was_refused() {
    let server = hosts();
    let (first, second) = (id_of(&maintain(&server, "n-1")), id_of(&maintain(&server, "n-2")));
    let approve = |id: &str| check(&server, &format!("POST /operations/{id}/approve"), NONE, 200, json!({}));
    let browser = Browser::at_once(&server);
    approve(&second);
    let cancel =
        [("act", "cancel"), ("id", &first), ("id", &second), ("confirmed", "on"), ("back", "/operations?sort=name")];
    let done = browser.post("/portal/operations", &cancel);
    assert_eq!(done.status, 303, "{}", done.text());
    let list = done.header("location").unwrap().to_owned();
    assert!(list.starts_with("/operations?selected=") && list.ends_with("&sort=name"), "{list}");
    let page = browser.page(&list);
    let toast = between(&page, "id=\"toast\"", "</div>");
    let link = format!("href=\"/operations/{first}\">Open operation</a>");
    assert_has(&toast, &["Canceled 1 operation; &#39;Reboot of host n-2&#39; was refused: ", &link]);
    // With nothing done, the refusal is an error.
    let refused = browser.post("/portal/operations", &[("act", "cancel"), ("id", &second), ("confirmed", "on")]);
    assert_eq!(refused.status, 409, "{}", refused.text());
    check(&server, "POST /hosts/n-4/fence", NONE, 200, json!({}));
    let activate = [("act", "activate"), ("host", "n-4"), ("confirmed", "on"), ("back", "/")];
    let done = browser.post("/portal/hosts", &activate);
    assert_eq!((done.status, done.header("location")), (303, Some("/")));
    assert_has(&browser.page("/"), &["Activated 1 host.", "href=\"/hosts/n-4\">Open host</a>"]);
}

#[test]
fn a_bulk_approval_is_one_request_for_the_operation() {
    let server = hosts();
    let id = id_of(&maintain(&server, "n-1"));
    let browser = Browser::at_once(&server);
    let approve = [("act", "approve"), ("id", id.as_str()), ("confirmed", "on"), ("back", "/operations")];
    assert_eq!(browser.post("/portal/operations", &approve).status, 303);
    let audits = check(&server, "GET /history?kind=audit&newest=true&limit=1", NONE, 200, json!({}));
    let audit = &audits["value"][0];
    assert_eq!((&audit["outcome"], &audit["target"]), (&json!("operation.approve"), &json!(id)));
}

#[test]
fn actions_are_offered_only_to_roles_that_may_perform_them() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::guarded(dir.path());
    let model = json!({ "terminateNotification": { "notBeforeTimeout": "PT5M" } });
    let set = json!({ "name": "web", "capacity": 2, "orchestration": "Uniform", "model": model });
    let group = check(&server, "POST /scale-sets", set, 201, json!({}))["id"].to_string();
    check(&server, "POST /machines", json!({ "name": "db", "host": "h1" }), 201, json!({}));
    server.listen_as("web_0");
    check(&server, "DELETE /machines/web_1", NONE, 202, json!({}));
    let [owner, operator, reader] = [Role::Owner, Role::Operator, Role::Reader]
        .map(|role| Browser::with_token(&server, &token_for(dir.path(), role)));
    let has = |browser: &Browser<'_>, path: &str, text: &str| browser.page(path).contains(text);
    assert!(has(&owner, "/", ">Scale out web</a>") && !has(&operator, "/", ">Scale out web</a>"));
    assert!(has(&operator, "/", "an owner can scale out"));
    let group = format!("/groups/{group}");
    for (path, text) in
        [(group.as_str(), "Plan a rollout"), (&group, "Plan maintenance"), ("/hosts/h1", "Plan maintenance")]
    {
        assert!(has(&operator, path, text) && !has(&reader, path, text), "{path}: {text}");
    }
    assert!(has(&owner, "/groups", "Add a scale set") && !has(&operator, "/groups", "Add a scale set"));
    let box_of = "type=\"checkbox\" form=\"selection\"";
    assert!(has(&operator, "/operations", box_of) && !has(&reader, "/operations", box_of));
    assert!(has(&reader, "/", "<p class=\"user-phone\">"));
    let rollout = "href=\"/rollouts/plan?groups=default%2Fweb\"";
    assert!(has(&operator, &group, rollout));
}
