//! The overview of a large fleet: chunks near the viewport are rendered, the others are links; the timeline by event group; the
//! stream sends changes to what is on screen, and nothing that the page already has.

use std::sync::mpsc;

use crate::api_support::{NONE, Server, check};
use crate::portal_support::{Browser, PATIENCE, await_html, between};
use serde_json::{Value, json};

/// Event groups per chunk.
const CHUNK_SIZE: usize = 12;

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

fn restart(server: &Server, machine: &str) -> String {
    let operation = check(server, &format!("POST /machines/{machine}/restart"), NONE, 202, json!({}));
    operation["events"][0]["id"].as_str().unwrap().to_owned()
}

/// The IDs of the fragments in a message.
fn fragment_ids(message: &Value) -> Vec<&str> {
    message["put"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect()
}

fn next(messages: &mpsc::Receiver<Value>) -> Value {
    messages.recv_timeout(PATIENCE).expect("a message")
}

#[test]
fn chunks_outside_the_view_are_links_to_the_page_that_starts_with_them() {
    let server = fleet(5 * CHUNK_SIZE + 1);
    let browser = Browser::at_once(&server);
    let page = browser.page("/");
    let is_shown = |page: &str, number: usize| page.contains(&format!(">m-{number:03}</a></h3>"));
    assert!(is_shown(&page, 0) && is_shown(&page, 2 * CHUNK_SIZE - 1) && !is_shown(&page, 2 * CHUNK_SIZE), "{page}");
    let last = between(&page, "id=\"scopes-5\" class=\"chunk\"><p class=\"more\"><a href=\"", "</a>");
    assert_eq!(last, "/?from=60#scopes-5\">Event groups 61 to 61 of 61");
    let there = browser.page("/?from=60");
    assert!(is_shown(&there, 60) && !is_shown(&there, 0), "{there}");
    // Every event group is on one of the linked pages.
    let pages: String = (0..3).map(|n| browser.page(&format!("/?from={}", 2 * n * CHUNK_SIZE))).collect();
    assert!((0..=5 * CHUNK_SIZE).all(|number| is_shown(&pages, number)));
}

#[test]
fn the_stream_sends_the_chunks_in_view_and_drops_the_others() {
    let server = fleet(4 * CHUNK_SIZE);
    let browser = Browser::at_once(&server);
    let (name, messages) = browser.watch("/&chunks=scopes-0");
    let first = next(&messages);
    assert_eq!(first["chunks"]["scopes"], 4, "{first}");
    assert_eq!(fragment_ids(&first).iter().filter(|id| id.starts_with("scope-")).count(), CHUNK_SIZE, "{first}");
    // A change outside the view only updates the counts.
    server.listen_as("m-040");
    let change = next(&messages);
    assert_eq!(fragment_ids(&change), ["counts-content"], "{change}");
    let set_view = |stream: &str, chunks: &str| browser.post("/portal/view", &[("stream", stream), ("chunks", chunks)]);
    assert_eq!(set_view(&name, "scopes-3").status, 204);
    let moved = next(&messages);
    assert!(moved["put"].to_string().contains(">m-040</a>") && !moved["put"].to_string().contains(">m-000</a>"));
    assert_eq!(moved["drop"].as_array().unwrap().len(), CHUNK_SIZE, "{moved}");
    assert!(moved["put"].as_array().unwrap().iter().all(|one| one["list"] == "scopes-3"), "{moved}");
    // An unknown stream, and the stream of another session.
    assert_eq!(set_view("0", "scopes-0").status, 404);
    let other = Browser::at_once(&server);
    assert_eq!(other.post("/portal/view", &[("stream", &name), ("chunks", "scopes-0")]).status, 404);
    assert_eq!(browser.post_plain("/portal/view", &[("stream", &name)]).status, 403);
}

#[test]
fn a_current_page_is_not_sent_again() {
    let server = fleet(2);
    let browser = Browser::at_once(&server);
    let revision = between(&browser.page("/"), "data-revision=\"", "\"");
    let (_, messages) = browser.watch(&format!("/&since={revision}&chunks=scopes-0+timeline-0"));
    let first = next(&messages);
    assert!(first["put"].is_null() && first["all"].is_null() && first["now"].is_i64(), "{first}");
    server.listen_as("m-001");
    let change = next(&messages);
    assert_eq!(fragment_ids(&change).len(), 2, "the counts and one event group: {change}");
    // An older page gets everything, with the list of all fragments.
    let (_, messages) = browser.watch(&format!("/&since={revision}&chunks=scopes-0+timeline-0"));
    let first = next(&messages);
    assert!(first["all"].as_array().unwrap().len() == 3 && fragment_ids(&first).len() == 3, "{first}");
}

#[test]
fn lanes_are_grouped_by_event_group_and_collapsed_when_there_are_many() {
    let server = Server::start();
    let set = |name: &str, capacity: usize| json!({ "name": name, "capacity": capacity, "orchestration": "Flexible" });
    check(&server, "POST /scale-sets", set("small", 2), 201, json!({}));
    let names = |group: &str| -> Vec<String> {
        let listed = check(&server, "GET /machines", NONE, 200, json!({}));
        let names = listed["value"].as_array().unwrap().iter().map(|machine| machine["name"].as_str().unwrap());
        names.filter(|name| name.starts_with(group)).map(str::to_owned).collect()
    };
    let few = names("small");
    server.listen_as(&few[0]);
    let lane = |id: &str| format!("id=\"lane-{id}\"");
    let (one, other) = (restart(&server, &few[0]), restart(&server, &few[1]));
    let browser = Browser::at_once(&server);
    let page = browser.page("/");
    let header = page.find("aria-expanded=\"true\" aria-label=\"Events of small\"").expect("an open group");
    assert!(header < page.find(&lane(&one)).unwrap() && page.contains(&lane(&other)) && page.contains("2 scheduled"));

    check(&server, "POST /scale-sets", set("large", 41), 201, json!({}));
    let many = names("large");
    server.listen_as(&many[0]);
    let scheduled: Vec<String> = many.iter().take(8).map(|name| restart(&server, name)).collect();
    check(&server, "POST /maintenance", json!({ "target": { "group": "large" }, "type": "Freeze" }), 202, json!({}));
    for name in &many {
        let plan = json!({ "target": { "machine": name }, "type": "Freeze", "at": "2026-03-02T12:00:00Z" });
        check(&server, "POST /maintenance", plan, 202, json!({}));
    }
    let page = browser.page("/");
    assert!(page.contains("aria-expanded=\"false\" aria-label=\"Events of large\""), "{page}");
    assert!(!page.contains(&lane(&scheduled[0])) && !page.contains(&lane(&one)), "{page}");
    let number = between(&page, "data-group=\"", "\"");
    let (name, messages) = browser.watch("/&chunks=timeline-0");
    next(&messages);
    let fields = [("stream", name.as_str()), ("chunks", "timeline-0"), ("opened", number.as_str())];
    assert_eq!(browser.post("/portal/view", &fields).status, 204);
    let opened = await_html(&messages, "lane-");
    assert!(opened["put"].to_string().contains("aria-expanded=\\\"true\\\""), "{opened}");
}

#[test]
fn a_long_timeline_is_split_into_linked_pages() {
    let server = fleet(45);
    let events: Vec<String> = (0..45)
        .map(|number| {
            let name = format!("m-{number:03}");
            server.listen_as(&name);
            let plan = json!({ "target": { "machine": name }, "type": "Freeze" });
            let operation = check(&server, "POST /maintenance", plan, 202, json!({}));
            operation["events"][0]["id"].as_str().unwrap().to_owned()
        })
        .collect();
    let browser = Browser::at_once(&server);
    let has = |page: &str, number: usize| page.contains(&format!("id=\"lane-{}\"", events[number]));
    let page = browser.page("/");
    assert!(has(&page, 0) && !has(&page, 20) && !has(&page, 44));
    let link = between(&page, "id=\"timeline-2\" class=\"chunk\"><p class=\"more\"><a href=\"", "</a>");
    assert_eq!(link, "/?events=40#timeline-2\">Event groups with events, 41 to 45 of 45");
    let page = browser.page("/?events=40");
    assert!(!has(&page, 0) && has(&page, 40) && has(&page, 44));
}

#[test]
fn an_empty_page_is_live_too() {
    let server = empty_fleet();
    let browser = Browser::at_once(&server);
    let revision = between(&browser.page("/scale-sets"), "data-revision=\"", "\"");
    let (_, messages) = browser.watch(&format!("/scale-sets&since={revision}&chunks="));
    assert!(next(&messages)["now"].is_i64());
}

#[test]
fn search_and_filter_apply_to_timeline_and_machines() {
    let server = fleet(3);
    for machine in ["m-000", "m-001"] {
        server.listen_as(machine);
    }
    let (scheduled, started) = (restart(&server, "m-000"), restart(&server, "m-001"));
    check(&server, &format!("POST /events/{started}/approve"), NONE, 200, json!({}));
    let browser = Browser::at_once(&server);
    let shown = |address: &str| {
        let page = browser.page(address);
        let cards = (0..3).filter(|number| page.contains(&format!(">m-{number:03}</a></h3>"))).collect::<Vec<_>>();
        let lanes = [&scheduled, &started].map(|id| page.contains(&format!("id=\"lane-{id}\"")));
        (cards, lanes)
    };
    assert_eq!(shown("/"), (vec![0, 1, 2], [true, true]));
    assert_eq!(shown("/?show=scheduled"), (vec![0], [true, false]));
    assert_eq!(shown("/?show=in-progress"), (vec![1], [false, true]));
    assert_eq!(shown("/?search=M-001"), (vec![1], [false, true]));
    assert_eq!(shown("/?search=m-001&show=scheduled"), (vec![], [false, false]));
    // "No matching events" differs from "no events".
    for (address, is_all) in [("/", true), ("/?search=zzz", false), ("/?show=in-progress&search=m-000", false)] {
        let said = between(&browser.page(address), "id=\"panel-timeline\"", "</section>");
        let said = between(&said, "<p class=\"empty\">", "</p>");
        assert_eq!(said.starts_with("No events are scheduled"), is_all, "{address}: {said}");
        assert_eq!(said == "No matching events.", !is_all, "{address}: {said}");
    }
    let page = browser.page("/?search=%26%22&show=scheduled");
    assert!(page.contains("href=\"/?search=%26%22&#38;show=in-progress&#38;\""), "{page}");
}

#[test]
fn event_groups_with_the_same_name_show_their_resource_group() {
    let server = empty_fleet();
    let machine = |name: &str, group: &str| json!({ "name": name, "resourceGroup": group });
    let set =
        |group: &str| json!({ "name": "shop", "resourceGroup": group, "capacity": 1, "orchestration": "Uniform" });
    check(&server, "POST /machines", machine("web", "one"), 201, json!({}));
    check(&server, "POST /machines", machine("alone", "one"), 201, json!({}));
    check(&server, "POST /scale-sets", set("one"), 201, json!({}));
    server.listen_as("web");
    let over = restart(&server, "web");
    check(&server, "POST /clock/advance", json!({ "seconds": 3600 }), 200, json!({}));
    let browser = Browser::at_once(&server);
    let page = browser.page("/");
    let card = |page: &str, name: &str| page.contains(&format!(">{name}</a></h3>"));
    assert!(["web", "alone", "shop"].iter().all(|name| card(&page, name)) && !page.contains("one/"), "{page}");
    // This includes finished events.
    check(&server, "POST /machines", machine("WEB", "two"), 201, json!({}));
    check(&server, "POST /scale-sets", set("two"), 201, json!({}));
    let page = browser.page("/");
    let names = ["one/web", "two/WEB", "one/shop", "two/shop", "alone"];
    assert!(names.iter().all(|name| card(&page, name)), "{page}");
    let lane = between(&page, &format!("id=\"lane-{over}\""), "</dl>");
    assert!(lane.contains("one/web · Completed") && lane.contains("<dd>one/web</dd>"), "{lane}");
    let found = browser.page("/?search=two%2F");
    assert!(card(&found, "two/WEB") && card(&found, "two/shop") && !card(&found, "one/web"), "{found}");
}

#[test]
fn counts_use_the_singular_for_one() {
    let server = fleet(1);
    let browser = Browser::at_once(&server);
    let counted = |address: &str| between(&browser.page(address), "id=\"counts-content\"", "</div>");
    assert!(
        counted("/").contains("<b>1</b> machine</p>\n<p><b>1</b> event group, 0 with a handler"),
        "{}",
        counted("/")
    );
    assert!(counted("/?search=m-000").contains(">1 event group shown<"));
    assert!(counted("/?search=zzz").contains(">0 event groups shown<"));
    check(&server, "POST /machines", json!({ "name": "m-001" }), 201, json!({}));
    assert!(
        counted("/").contains("<b>2</b> machines</p>\n<p><b>2</b> event groups, 0 with a handler"),
        "{}",
        counted("/")
    );
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
fn finished_events_are_counted_as_the_history_grows() {
    let server = fleet(1);
    server.listen_as("m-000");
    let browser = Browser::at_once(&server);
    for round in 1..=3 {
        restart(&server, "m-000");
        check(&server, "POST /clock/advance", json!({ "seconds": 3600 }), 200, json!({}));
        assert!(browser.page("/").contains(&format!("{round} finished")) || round == 1);
    }
    // Finished events disappear after a day.
    check(&server, "POST /clock/advance", json!({ "seconds": 24 * 3600 }), 200, json!({}));
    let page = browser.page("/");
    assert!(!page.contains("id=\"scope-group-") && !page.contains("id=\"lane-"), "{page}");
}

#[test]
fn update_domains_that_a_rollout_has_not_visited_are_shown_as_expected() {
    let server = Server::start();
    let set = json!({ "name": "web", "capacity": 6, "orchestration": "Uniform" });
    check(&server, "POST /scale-sets", set, 201, json!({}));
    server.listen_as("web_0");
    let plan = json!({ "target": { "group": "web" }, "type": "Reboot", "durationSeconds": 0 });
    let made = check(&server, "POST /maintenance", plan, 202, json!({}));
    let [operation, event] = [&made["id"], &made["events"][0]["id"]].map(|id| id.as_str().unwrap().to_owned());
    let browser = Browser::at_once(&server);
    let page = browser.page("/");
    // Each comes 30 minutes after the previous one has ended, plus 15 minutes of notice.
    for (domain, due) in [(1, "13:00"), (2, "13:45"), (3, "14:30")] {
        let said = format!("update domain {domain}: expected about 2026-03-01 {due}:00 UTC");
        assert!(page.contains(&said), "{said}: {page}");
    }
    assert!(between(&page, "<small>Update domain 3, about", "</small>").ends_with("; 1 more"), "{page}");
    assert!(!browser.page("/?show=in-progress").contains("id=\"expected-"));
    // After a cancellation the event in progress finishes, and no others follow.
    check(&server, &format!("POST /events/{event}/approve"), NONE, 200, json!({}));
    assert!(browser.page("/").contains("id=\"expected-"));
    check(&server, &format!("POST /operations/{operation}/cancel"), NONE, 200, json!({}));
    assert!(!browser.page("/").contains("id=\"expected-"));
}
