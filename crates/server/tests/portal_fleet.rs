//! The overview of a large fleet: what is looked at is there, the rest is a link; the time line by scope; a stream that sends
//! what changed of what is looked at, and nothing that the page has.

mod api_support;
mod portal_support;

use std::sync::mpsc;

use api_support::{NONE, Server, check};
use portal_support::{Browser, PATIENCE, await_html, between};
use serde_json::{Value, json};

/// Scopes that are drawn together.
const SHELF: usize = 12;

fn nobody() -> Server {
    let server = Server::start();
    check(&server, "DELETE /machines/vm", NONE, 202, json!({}));
    server
}

/// As many machines on their own, `m-000` and so on.
fn fleet(machines: usize) -> Server {
    let server = nobody();
    for number in 0..machines {
        check(&server, "POST /machines", json!({ "name": format!("m-{number:03}") }), 201, json!({}));
    }
    server
}

fn restart(server: &Server, machine: &str) -> String {
    let operation = check(server, &format!("POST /machines/{machine}/restart"), NONE, 202, json!({}));
    operation["events"][0]["id"].as_str().unwrap().to_owned()
}

/// The ids of what a message brings.
fn brought(message: &Value) -> Vec<&str> {
    message["put"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect()
}

fn next(messages: &mpsc::Receiver<Value>) -> Value {
    messages.recv_timeout(PATIENCE).expect("a message")
}

#[test]
fn what_is_not_looked_at_is_a_link_to_the_page_that_begins_with_it() {
    let server = fleet(5 * SHELF + 1);
    let browser = Browser::at_once(&server);
    let page = browser.page("/");
    let is_shown = |page: &str, number: usize| page.contains(&format!(">m-{number:03}</a></h3>"));
    assert!(is_shown(&page, 0) && is_shown(&page, 2 * SHELF - 1) && !is_shown(&page, 2 * SHELF), "{page}");
    let last = between(&page, "id=\"scopes-5\" class=\"shelf\"><p class=\"more\"><a href=\"", "</a>");
    assert_eq!(last, "/?from=60#scopes-5\">Scopes 61 to 61 of 61");
    let there = browser.page("/?from=60");
    assert!(is_shown(&there, 60) && !is_shown(&there, 0), "{there}");
    // Nothing is lost: each scope is on the page that the links lead to.
    let pages: String = (0..3).map(|n| browser.page(&format!("/?from={}", 2 * n * SHELF))).collect();
    assert!((0..=5 * SHELF).all(|number| is_shown(&pages, number)));
}

#[test]
fn the_stream_brings_what_is_looked_at_and_forgets_the_rest() {
    let server = fleet(4 * SHELF);
    let browser = Browser::at_once(&server);
    let (name, messages) = browser.watch("/&shelves=scopes-0");
    let first = next(&messages);
    assert_eq!(first["shelves"]["scopes"], 4, "{first}");
    assert_eq!(brought(&first).iter().filter(|id| id.starts_with("scope-")).count(), SHELF, "{first}");
    // A change where nobody looks: only the counts.
    server.listen_as("m-040");
    let change = next(&messages);
    assert_eq!(brought(&change), ["counts-content"], "{change}");
    let look = |stream: &str, shelves: &str| browser.post("/portal/look", &[("stream", stream), ("shelves", shelves)]);
    assert_eq!(look(&name, "scopes-3").status, 204);
    let moved = next(&messages);
    assert!(moved["put"].to_string().contains(">m-040</a>") && !moved["put"].to_string().contains(">m-000</a>"));
    assert_eq!(moved["drop"].as_array().unwrap().len(), SHELF, "{moved}");
    assert!(moved["put"].as_array().unwrap().iter().all(|one| one["list"] == "scopes-3"), "{moved}");
    // Somebody else's stream, or none.
    assert_eq!(look("0", "scopes-0").status, 404);
    let other = Browser::at_once(&server);
    assert_eq!(other.post("/portal/look", &[("stream", &name), ("shelves", "scopes-0")]).status, 404);
    assert_eq!(browser.post_plain("/portal/look", &[("stream", &name)]).status, 403);
}

#[test]
fn a_page_that_is_current_is_not_sent_again() {
    let server = fleet(2);
    let browser = Browser::at_once(&server);
    let revision = between(&browser.page("/"), "data-revision=\"", "\"");
    let (_, messages) = browser.watch(&format!("/&since={revision}&shelves=scopes-0+timeline-0"));
    let first = next(&messages);
    assert!(first["put"].is_null() && first["all"].is_null() && first["now"].is_i64(), "{first}");
    server.listen_as("m-001");
    let change = next(&messages);
    assert_eq!(brought(&change).len(), 2, "the counts and one scope: {change}");
    // One that is older gets everything, and what there is at all.
    let (_, messages) = browser.watch(&format!("/&since={revision}&shelves=scopes-0+timeline-0"));
    let first = next(&messages);
    assert!(first["all"].as_array().unwrap().len() == 3 && brought(&first).len() == 3, "{first}");
}

#[test]
fn lanes_stand_below_their_scope_and_fold_when_there_are_many() {
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
    let head = page.find("aria-expanded=\"true\" aria-label=\"Events of small\"").expect("an open head");
    assert!(head < page.find(&lane(&one)).unwrap() && page.contains(&lane(&other)) && page.contains("2 coming"));

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
    let (name, messages) = browser.watch("/&shelves=timeline-0");
    next(&messages);
    let fields = [("stream", name.as_str()), ("shelves", "timeline-0"), ("opened", number.as_str())];
    assert_eq!(browser.post("/portal/look", &fields).status, 204);
    let opened = await_html(&messages, "lane-");
    assert!(opened["put"].to_string().contains("aria-expanded=\\\"true\\\""), "{opened}");
}

#[test]
fn a_long_time_line_is_reached_by_links_too() {
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
    let link = between(&page, "id=\"timeline-2\" class=\"shelf\"><p class=\"more\"><a href=\"", "</a>");
    assert_eq!(link, "/?events=40#timeline-2\">Scopes with events, 41 to 45 of 45");
    let page = browser.page("/?events=40");
    assert!(!has(&page, 0) && has(&page, 40) && has(&page, 44));
}

#[test]
fn a_page_without_anything_is_live_as_well() {
    let server = nobody();
    let browser = Browser::at_once(&server);
    let revision = between(&browser.page("/scale-sets"), "data-revision=\"", "\"");
    let (_, messages) = browser.watch(&format!("/scale-sets&since={revision}&shelves="));
    assert!(next(&messages)["now"].is_i64());
}

#[test]
fn the_search_and_the_filter_hold_for_time_line_and_machines() {
    let server = fleet(3);
    for machine in ["m-000", "m-001"] {
        server.listen_as(machine);
    }
    let (coming, started) = (restart(&server, "m-000"), restart(&server, "m-001"));
    check(&server, &format!("POST /events/{started}/approve"), NONE, 200, json!({}));
    let browser = Browser::at_once(&server);
    let shown = |address: &str| {
        let page = browser.page(address);
        let cards = (0..3).filter(|number| page.contains(&format!(">m-{number:03}</a></h3>"))).collect::<Vec<_>>();
        let lanes = [&coming, &started].map(|id| page.contains(&format!("id=\"lane-{id}\"")));
        (cards, lanes)
    };
    assert_eq!(shown("/"), (vec![0, 1, 2], [true, true]));
    assert_eq!(shown("/?show=coming"), (vec![0], [true, false]));
    assert_eq!(shown("/?show=under-way"), (vec![1], [false, true]));
    assert_eq!(shown("/?search=M-001"), (vec![1], [false, true]));
    assert_eq!(shown("/?search=m-001&show=coming"), (vec![], [false, false]));
    // Nothing found is not nothing coming.
    for (address, is_all) in [("/", true), ("/?search=zzz", false), ("/?show=under-way&search=m-000", false)] {
        let said = between(&browser.page(address), "id=\"panel-timeline\"", "</section>");
        let said = between(&said, "<p class=\"empty\">", "</p>");
        assert_eq!(said.starts_with("Nothing is coming"), is_all, "{address}: {said}");
        assert_eq!(said == "No event is found.", !is_all, "{address}: {said}");
    }
    let page = browser.page("/?search=%26%22&show=coming");
    assert!(page.contains("href=\"/?search=%26%22&#38;show=under-way&#38;\""), "{page}");
}

#[test]
fn scopes_of_the_same_name_are_told_apart_by_their_resource_group() {
    let server = nobody();
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
    // What is over is told apart as well.
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
fn one_is_said_as_one() {
    let server = fleet(1);
    let browser = Browser::at_once(&server);
    let counted = |address: &str| between(&browser.page(address), "id=\"counts-content\"", "</div>");
    assert!(counted("/").contains("<b>1</b> machine</p>\n<p><b>1</b> scope, 0 listening"), "{}", counted("/"));
    assert!(counted("/?search=m-000").contains(">1 scope shown<"));
    assert!(counted("/?search=zzz").contains(">0 scopes shown<"));
    check(&server, "POST /machines", json!({ "name": "m-001" }), 201, json!({}));
    assert!(counted("/").contains("<b>2</b> machines</p>\n<p><b>2</b> scopes, 0 listening"), "{}", counted("/"));
}

#[test]
fn an_empty_fleet_is_told_how_to_begin() {
    let server = nobody();
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
fn what_is_over_is_read_once_and_then_as_it_grows() {
    let server = fleet(1);
    server.listen_as("m-000");
    let browser = Browser::at_once(&server);
    for round in 1..=3 {
        restart(&server, "m-000");
        check(&server, "POST /clock/advance", json!({ "seconds": 3600 }), 200, json!({}));
        assert!(browser.page("/").contains(&format!("{round} over")) || round == 1);
    }
    // A day later nothing is left of it.
    check(&server, "POST /clock/advance", json!({ "seconds": 24 * 3600 }), 200, json!({}));
    let page = browser.page("/");
    assert!(!page.contains("id=\"strand-") && !page.contains("id=\"lane-"), "{page}");
}

#[test]
fn domains_of_a_roll_out_that_are_still_to_come_are_drawn_as_expected() {
    let server = Server::start();
    let set = json!({ "name": "web", "capacity": 6, "orchestration": "Uniform" });
    check(&server, "POST /scale-sets", set, 201, json!({}));
    server.listen_as("web_0");
    let plan = json!({ "target": { "group": "web" }, "type": "Reboot", "durationSeconds": 0 });
    let made = check(&server, "POST /maintenance", plan, 202, json!({}));
    let [operation, event] = [&made["id"], &made["events"][0]["id"]].map(|id| id.as_str().unwrap().to_owned());
    let browser = Browser::at_once(&server);
    let page = browser.page("/");
    // Each half an hour after the end of the one before, and then a quarter's notice.
    for (domain, due) in [(1, "13:00"), (2, "13:45"), (3, "14:30")] {
        let said = format!("update domain {domain}: expected about 2026-03-01 {due}:00 UTC");
        assert!(page.contains(&said), "{said}: {page}");
    }
    assert!(between(&page, "<small>Domain 3, about", "</small>").ends_with("; 1 more"), "{page}");
    assert!(!browser.page("/?show=under-way").contains("id=\"ghost-"));
    // What has started finishes, and nothing follows it.
    check(&server, &format!("POST /events/{event}/approve"), NONE, 200, json!({}));
    assert!(browser.page("/").contains("id=\"ghost-"));
    check(&server, &format!("POST /operations/{operation}/cancel"), NONE, 200, json!({}));
    assert!(!browser.page("/").contains("id=\"ghost-"));
}
