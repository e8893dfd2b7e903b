//! The overview by cause: the status sentence, what needs attention, one lane per operation, the table of groups. The stream sends
//! only what has changed.

use std::sync::mpsc;

use crate::api_support::{NONE, Server, check};
use crate::portal_support::{Browser, PATIENCE, await_html, between};
use serde_json::{Value, json};

fn empty_fleet() -> Server {
    let server = Server::start();
    check(&server, "DELETE /machines/vm", NONE, 202, json!({}));
    server
}

/// Standalone machines `m-000`, `m-001`, …
fn fleet(machines: usize) -> Server {
    let server = empty_fleet();
    for number in 0..machines {
        check(&server, "POST /machines", json!({ "name": format!("m-{number:03}") }), 201, json!({}));
    }
    server
}

/// The ID of an operation and of its first event.
fn restart(server: &Server, machine: &str) -> (String, String) {
    let operation = check(server, &format!("POST /machines/{machine}/restart"), NONE, 202, json!({}));
    let [id, event] = [&operation["id"], &operation["events"][0]["id"]].map(|id| id.as_str().unwrap().to_owned());
    (id, event)
}

/// The IDs of the fragments in a message.
fn fragment_ids(message: &Value) -> Vec<&str> {
    message["put"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect()
}

fn next(messages: &mpsc::Receiver<Value>) -> Value {
    messages.recv_timeout(PATIENCE).expect("a message")
}

fn has_lane(page: &str, operation: &str) -> bool {
    page.contains(&format!("id=\"op-{operation}\""))
}

/// The names in the table of groups, in order.
fn group_names(page: &str) -> Vec<String> {
    let table = between(page, "<tbody id=\"groups\"", "</tbody>");
    table.split("class=\"name\"><a").skip(1).map(|row| between(row, ">", "</a>")).collect()
}

#[test]
fn a_current_page_is_not_sent_again() {
    let server = fleet(2);
    let browser = Browser::at_once(&server);
    let revision = between(&browser.page("/"), "data-revision=\"", "\"");
    let messages = browser.live(&format!("/&since={revision}"));
    let first = next(&messages);
    assert!(first["put"].is_null() && first["all"].is_null() && first["now"].is_i64(), "{first}");
    server.listen_as("m-001");
    let change = next(&messages);
    assert_eq!(fragment_ids(&change).len(), 2, "the status and one group: {change}");
    // An older page gets everything, with the list of all fragments.
    let messages = browser.live(&format!("/&since={revision}"));
    let first = next(&messages);
    assert!(first["all"].as_array().unwrap().len() == 3 && fragment_ids(&first).len() == 3, "{first}");
}

#[test]
fn an_operation_has_one_lane_that_expands_to_groups_and_machines() {
    let server = empty_fleet();
    for set in ["red", "blue"] {
        check(&server, "POST /availability-sets", json!({ "name": set }), 201, json!({}));
        for number in 0..3 {
            let machine = json!({ "name": format!("{set}-{number}"), "availabilitySet": set, "host": "rack-1" });
            check(&server, "POST /machines", machine, 201, json!({}));
        }
    }
    server.listen_as("red-0");
    let plan = json!({ "target": { "host": "rack-1" }, "type": "Reboot", "description": "CHG-7" });
    let operation = check(&server, "POST /maintenance", plan, 202, json!({}));
    let id = operation["id"].as_str().unwrap();
    let browser = Browser::at_once(&server);
    let page = browser.page("/");
    assert_eq!(page.matches("class=\"lane op").count(), 1, "{page}");
    assert!(page.contains("Reboot of host rack-1</a>") && page.contains("aria-expanded=\"false\""), "{page}");
    let open = format!("/?open=op-{id}");
    assert!(page.contains(&format!("href=\"{open}\"")), "the fold is a link: {page}");
    let page = browser.page(&open);
    assert_eq!(page.matches("class=\"lane op l1").count(), 2, "{page}");
    let fold = between(&page, &format!("id=\"op-{id}-g"), "\"");
    let page = browser.page(&format!("{open},op-{id}-g{fold}"));
    assert_eq!(page.matches("class=\"lane op l2").count(), 3, "{page}");
    // The open page keeps its folds.
    let messages = browser.live(&format!("{open}&since=0").replace('?', "%3F").replace('=', "%3D"));
    let first = next(&messages);
    assert!(fragment_ids(&first).iter().any(|id| id.contains("-g")), "{first}");
}

#[test]
fn a_long_timeline_links_to_the_page_of_operations() {
    let server = fleet(45);
    for number in 0..45 {
        let name = format!("m-{number:03}");
        server.listen_as(&name);
        check(&server, "POST /maintenance", json!({ "target": { "machine": name }, "type": "Freeze" }), 202, json!({}));
    }
    let browser = Browser::at_once(&server);
    let page = browser.page("/");
    assert_eq!(page.matches("class=\"lane op").count(), 40);
    assert!(page.contains("40 of 45"), "{page}");
    assert_eq!(group_names(&page).len(), 20);
    assert!(page.contains("20 of 45") && page.contains("href=\"/groups\">Show all 45</a>"), "{page}");
    assert_eq!(group_names(&browser.page("/groups")).len(), 45);
    let operations = browser.page("/operations?show=running");
    assert_eq!(operations.matches("<tr id=\"op-").count(), 45);
}

#[test]
fn an_empty_page_is_live_too() {
    let server = empty_fleet();
    let browser = Browser::at_once(&server);
    let revision = between(&browser.page("/scale-sets"), "data-revision=\"", "\"");
    let messages = browser.live(&format!("/scale-sets&since={revision}"));
    assert!(next(&messages)["now"].is_i64());
}

#[test]
fn the_filter_applies_to_the_timeline_and_links_keep_the_other_fields() {
    let server = fleet(3);
    for machine in ["m-000", "m-001"] {
        server.listen_as(machine);
    }
    let ((scheduled, _), (started, event)) = (restart(&server, "m-000"), restart(&server, "m-001"));
    check(&server, &format!("POST /events/{event}/approve"), NONE, 200, json!({}));
    let browser = Browser::at_once(&server);
    let shown = |address: &str| {
        let page = browser.page(address);
        [&scheduled, &started].map(|id| has_lane(&page, id))
    };
    assert_eq!(shown("/"), [true, true]);
    assert_eq!(shown("/?show=scheduled"), [true, false]);
    assert_eq!(shown("/?show=in-progress"), [false, true]);
    let page = browser.page("/?show=in-progress&sort=-name&span=240");
    assert!(page.contains("href=\"/?show=in-progress&#38;sort=-name\""), "the default span: {page}");
    assert!(page.contains("href=\"/?sort=-name&#38;span=240\""), "all: {page}");
    assert_eq!(group_names(&page), ["m-002", "m-001", "m-000"]);
    assert_eq!(group_names(&browser.page("/?groups=no-handler")), ["m-002"]);
    assert_eq!(group_names(&browser.page("/?groups=affected")), ["m-001", "m-000"]);
}

#[test]
fn groups_with_the_same_name_show_their_resource_group() {
    let server = empty_fleet();
    let machine = |name: &str, group: &str| json!({ "name": name, "resourceGroup": group });
    let set =
        |group: &str| json!({ "name": "shop", "resourceGroup": group, "capacity": 1, "orchestration": "Uniform" });
    check(&server, "POST /machines", machine("web", "one"), 201, json!({}));
    check(&server, "POST /machines", machine("alone", "one"), 201, json!({}));
    check(&server, "POST /scale-sets", set("one"), 201, json!({}));
    let browser = Browser::at_once(&server);
    assert_eq!(group_names(&browser.page("/?sort=name")), ["alone", "shop", "web"]);
    check(&server, "POST /machines", machine("WEB", "two"), 201, json!({}));
    check(&server, "POST /scale-sets", set("two"), 201, json!({}));
    let names = ["alone", "one/shop", "one/web", "two/shop", "two/WEB"];
    assert_eq!(group_names(&browser.page("/?sort=name")), names);
}

#[test]
fn the_status_sentence_counts_machines_that_are_down_or_soon_will_be() {
    let server = fleet(1);
    let browser = Browser::at_once(&server);
    let said = |browser: &Browser| between(&browser.page("/"), "id=\"status-content\"", "</section>");
    assert!(said(&browser).contains("No machines are down. No events are scheduled."), "{}", said(&browser));
    assert!(said(&browser).contains("1 machine in 1 group · 0 operations"), "{}", said(&browser));
    server.listen_as("m-000");
    let (operation, event) = restart(&server, "m-000");
    assert!(said(&browser).contains("No machines are down. Next:"), "{}", said(&browser));
    check(&server, "POST /clock/advance", json!({ "seconds": 360 }), 200, json!({}));
    assert!(said(&browser).contains("1 machine down at <time"), "{}", said(&browser));
    let page = browser.page("/");
    assert!(page.contains(&format!("id=\"attention-op-{operation}\"")) && page.contains("not ready: "));
    check(&server, &format!("POST /events/{event}/approve"), NONE, 200, json!({}));
    let page = browser.page("/");
    assert!(page.contains("1 machine down now") && page.contains("<title>(1 down) Overview"), "{page}");
}

#[test]
fn an_empty_fleet_shows_how_to_get_started() {
    let server = empty_fleet();
    let browser = Browser::at_once(&server);
    assert!(browser.page("/").contains("forewarn vm create web"));
    let messages = browser.live("/");
    next(&messages);
    check(&server, "POST /machines", json!({ "name": "web" }), 201, json!({}));
    let change = await_html(&messages, ">web</a>");
    assert_eq!(change["drop"], json!(["start-content"]), "{change}");
    assert!(!browser.page("/").contains("forewarn vm create web"));
}

#[test]
fn finished_operations_are_gray_and_leave_the_time_span() {
    let server = fleet(1);
    server.listen_as("m-000");
    let browser = Browser::at_once(&server);
    let (operation, event) = restart(&server, "m-000");
    check(&server, &format!("POST /events/{event}/approve"), NONE, 200, json!({}));
    check(&server, "POST /clock/advance", json!({ "seconds": 600 }), 200, json!({}));
    let page = browser.page("/");
    let lane = between(&page, &format!("id=\"op-{operation}\""), "</svg>");
    assert!(lane.contains("l0 finished") && lane.contains("im x-amber over"), "{lane}");
    check(&server, "POST /clock/advance", json!({ "seconds": 3 * 3600 }), 200, json!({}));
    assert!(!has_lane(&browser.page("/"), &operation));
    assert!(has_lane(&browser.page("/?span=1440"), &operation));
    // The operation itself is only in the history by now.
    let past = browser.page(&format!("/operations/{operation}"));
    assert!(past.contains("This operation has ended.") && past.contains("ended: completed"), "{past}");
    check(&server, "POST /clock/advance", json!({ "seconds": 24 * 3600 }), 200, json!({}));
    assert!(!has_lane(&browser.page("/?span=1440"), &operation));
}

#[test]
fn update_domains_that_maintenance_has_not_visited_are_shown_as_expected() {
    let server = Server::start();
    let set = json!({ "name": "web", "capacity": 6, "orchestration": "Uniform" });
    check(&server, "POST /scale-sets", set, 201, json!({}));
    server.listen_as("web_0");
    let plan = json!({ "target": { "group": "web" }, "type": "Reboot", "durationSeconds": 0 });
    let made = check(&server, "POST /maintenance", plan, 202, json!({}));
    let [operation, event] = [&made["id"], &made["events"][0]["id"]].map(|id| id.as_str().unwrap().to_owned());
    let browser = Browser::at_once(&server);
    // Each comes 30 minutes after the previous one has ended, plus 15 minutes of notice.
    let page = browser.page("/?span=240");
    let minute = |clock: i64| 1_772_366_400_000 + clock * 60_000;
    for (from, due) in [(45, 60), (90, 105), (135, 150)] {
        let bar = format!("class=\"ex\" data-from=\"{}\" data-to=\"{}\"", minute(from), minute(due));
        assert!(page.contains(&bar), "{bar}: {page}");
    }
    // After a cancellation the event in progress finishes, and no others follow.
    check(&server, &format!("POST /events/{event}/approve"), NONE, 200, json!({}));
    assert!(browser.page("/").contains("class=\"ex\""));
    check(&server, &format!("POST /operations/{operation}/cancel"), NONE, 200, json!({}));
    assert!(!browser.page("/").contains("class=\"ex\""));
}
