//! Operations, hosts, rollouts, search and lists in the portal, without JavaScript.

use crate::api_support::{NONE, Server, check};
use crate::portal_support::{Browser, between, vm_id};
use serde_json::{Value, json};

/// Hosts `n-1` to `n-4` with one machine of group `db` each; `db-1` has a handler.
pub fn hosts() -> Server {
    let server = Server::start();
    check(&server, "POST /availability-sets", json!({ "name": "db" }), 201, json!({}));
    for number in 1..=4 {
        let machine = json!({ "name": format!("db-{number}"), "availabilitySet": "db", "host": format!("n-{number}") });
        check(&server, "POST /machines", machine, 201, json!({}));
    }
    server.listen_as("db-1");
    server
}

fn id_of(value: &Value) -> String {
    value["id"].as_str().unwrap().to_owned()
}

#[test]
fn an_operation_says_what_it_waits_for_and_is_approved_at_once() {
    let server = hosts();
    let plan = json!({ "target": { "host": "n-2" }, "type": "Reboot", "description": "CHG-1 <b>" });
    let id = id_of(&check(&server, "POST /maintenance", plan, 202, json!({})));
    let browser = Browser::at_once(&server);
    let here = format!("/operations/{id}");
    let page = browser.page(&here);
    for part in [
        "1 of 1 not ready: db-2 (silent)",
        "<b>Seen</b> <span>0/1, 1 has not</span>",
        "id=\"confirm-approve-",
        "CHG-1 &#60;b&#62;",
        "href=\"/hosts/n-2\"",
        "Requested by <b>you</b>",
        "Has never polled; other machines of its group do. Check its handler.",
        "1 machine goes down now instead of at <time",
        "Not ready: db-2.",
        "Reboot of db-2 is canceled.",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let fields = [("act", "approve-operation"), ("target", id.as_str()), ("back", here.as_str())];
    let done = browser.post("/portal/act", &fields);
    assert_eq!((done.status, done.header("location")), (303, Some(here.as_str())));
    let page = browser.page(&here);
    assert!(page.contains("1 machine down") && page.contains("class=\"toast\""), "{page}");
    assert!(!browser.page(&here).contains("class=\"toast\""), "a confirmation is shown once");
    // A second approval finds nothing to do.
    assert_eq!(browser.post("/portal/act", &fields).status, 422);
    assert_eq!(browser.get("/operations/00000000-0000-0000-0000-000000000009").status, 404);
}

#[test]
fn several_operations_are_canceled_after_a_confirmation() {
    let server = hosts();
    let ids: Vec<String> = (1..=2)
        .map(|number| {
            let plan = json!({ "target": { "host": format!("n-{number}") }, "type": "Freeze" });
            id_of(&check(&server, "POST /maintenance", plan, 202, json!({})))
        })
        .collect();
    let browser = Browser::at_once(&server);
    let selected: Vec<(&str, &str)> = ids.iter().map(|id| ("id", id.as_str())).collect();
    let cancel = [&[("act", "cancel")], &selected[..]].concat();
    let confirmation = browser.post("/portal/operations", &cancel);
    assert!(confirmation.text().contains("Cancel 2 operations?"), "{}", confirmation.text());
    check(&server, &format!("GET /operations/{}", ids[0]), NONE, 200, json!({ "state": "Running" }));
    let done = browser.post("/portal/operations", &[&cancel[..], &[("confirmed", "on")]].concat());
    assert_eq!(done.status, 303, "{}", done.text());
    check(&server, &format!("GET /operations/{}", ids[1]), NONE, 200, json!({ "state": "Canceled" }));
    assert!(browser.page("/operations").contains("Canceled 2 operations."));
    assert_eq!(browser.post("/portal/operations", &[("act", "cancel")]).status, 422);
}

#[test]
fn hosts_are_filtered_sorted_drained_and_activated() {
    let server = hosts();
    let browser = Browser::at_once(&server);
    let names = |address: &str| -> Vec<String> {
        let table = between(&browser.page(address), "<tbody id=\"hosts\"", "</tbody>");
        table.split("class=\"name\"><a").skip(1).map(|row| between(row, ">", "</a>")).collect()
    };
    assert_eq!(names("/hosts?sort=-name"), ["n-4", "n-3", "n-2", "n-1"]);
    assert_eq!(names("/hosts?q=n-3"), ["n-3"]);
    assert_eq!(names("/hosts?q=N-*&state=draining"), [""; 0]);
    let page = browser.page("/hosts");
    assert!(page.contains("4 → 3 <span class=\"qq\">· floor 3</span>"), "{page}");
    let drain = [("act", "drain"), ("host", "n-1"), ("host", "n-2")];
    let confirmation = browser.post("/portal/hosts", &drain).text();
    assert!(confirmation.contains("Drain n-1 and n-2?") && confirmation.contains("1 machine is "), "{confirmation}");
    assert_eq!(browser.post("/portal/hosts", &[&drain[..], &[("confirmed", "on")]].concat()).status, 303);
    check(&server, "GET /hosts/n-1", NONE, 200, json!({ "state": "Draining" }));
    assert_eq!(names("/hosts?state=draining"), ["n-1", "n-2"]);
    assert_eq!(names("/hosts")[..2], ["n-1", "n-2"], "hosts that need a look are first");
    let page = browser.page("/hosts/n-1");
    assert!(page.contains("The drain of n-1 is canceled."), "{page}");
    let activate = [("act", "activate-host"), ("target", "n-1"), ("back", "/hosts/n-1")];
    assert_eq!(browser.post("/portal/act", &activate).status, 303);
    check(&server, "GET /hosts/n-1", NONE, 200, json!({ "state": "Active" }));
    assert_eq!(browser.post("/portal/hosts", &[("act", "drain")]).status, 422);
    let plan = browser.post("/portal/hosts", &[("act", "plan"), ("host", "n-3"), ("host", "n-4")]);
    assert_eq!(plan.header("location"), Some("/rollouts/plan?hosts=n-3%2Cn-4"));
}

#[test]
fn a_rollout_is_previewed_scheduled_paused_resumed_and_stopped() {
    let server = hosts();
    let browser = Browser::at_once(&server);
    let plan = "/rollouts/plan?hosts=n-1,n-2,n-3&type=Reboot&pause=10m&description=CHG-9";
    let page = browser.page(plan);
    assert_eq!(page.matches("class=\"g-lane\"").count(), 3, "{page}");
    assert!(page.contains("4 → 3, floor 3") && page.contains("Schedule 3 hosts"), "{page}");
    assert!(browser.page("/operations").contains("No operations."), "a preview schedules nothing");
    let wrong = browser.page("/rollouts/plan?hosts=n-1&pause=soon&parallel=x");
    assert!(wrong.contains("id=\"wrong-pause\"") && wrong.contains("id=\"wrong-parallel\""), "{wrong}");
    assert!(wrong.contains("value=\"soon\"") && !wrong.contains("Schedule 1 host"), "input is kept: {wrong}");
    assert!(browser.page("/rollouts/plan?hosts=n-9").contains("id=\"wrong-hosts\""));
    let fields = [("hosts", "n-1,n-2,n-3"), ("type", "Reboot"), ("pause", "10m"), ("description", "CHG-9")];
    let made = browser.post("/rollouts", &fields);
    let here = made.header("location").unwrap_or_else(|| panic!("{}", made.text())).to_owned();
    let id = here.strip_prefix("/rollouts/").unwrap().to_owned();
    let page = browser.page(&here);
    assert!(
        page.contains("<h1>CHG-9</h1>") && page.contains("0 of 3 hosts finished") && page.contains("Missing: db-1"),
        "{page}"
    );
    assert!(page.contains("Scheduled a rollout with 3 steps."), "{page}");
    assert!(
        page.contains("ends about <time data-minutes") && page.matches(">about <time").count() == 4,
        "expected times: {page}"
    );
    // The owner of a host is named.
    let second = browser.post("/rollouts", &fields);
    assert!(second.status == 409 && second.text().contains("class=\"problem\""), "{}", second.text());
    let act = |act: &'static str| browser.post("/portal/act", &[("act", act), ("target", &id), ("back", &here)]).status;
    assert_eq!(act("pause-rollout"), 303);
    let paused = browser.page(&here);
    assert!(paused.contains("<span class=\"amber\">Paused</span>") && !paused.contains(">about <time"), "{paused}");
    assert_eq!(act("resume-rollout"), 303);
    assert!(!browser.page(&here).contains("<span class=\"amber\">Paused</span>"));
    assert_eq!(act("stop-rollout"), 303);
    let page = browser.page(&here);
    assert!(page.contains("Stopped by owner") && page.contains("rollout: stopped"), "{page}");
    assert!(browser.page("/?span=60").contains("No operations are scheduled"), "nothing is left");
}

#[test]
fn a_rollout_over_machines_is_planned_for_a_chosen_time() {
    let server = hosts();
    let browser = Browser::at_once(&server);
    let plan = browser.page("/rollouts/plan?machines=db-1,db-3&type=Reboot&at=2026-03-01T14:00");
    assert!(plan.contains("<b>db-1,db-3</b>, in order") && plan.contains("Schedule 2 steps"), "{plan}");
    assert_eq!(plan.matches("class=\"g-lane\"").count(), 2, "{plan}");
    assert!(browser.page("/rollouts/plan?machines=db-9").contains("id=\"wrong-machines\""));
    assert!(browser.page("/rollouts/plan?machines=db-1&at=2026-03-01T11:00").contains("id=\"wrong-at\""));
    let fields = [("machines", "db-1,db-3"), ("type", "Reboot"), ("at", "2026-03-01T14:00")];
    let made = browser.post("/rollouts", &fields);
    let page = browser.page(made.header("location").unwrap_or_else(|| panic!("{}", made.text())));
    assert!(page.contains("0 of 2 machines finished") && page.contains("first step announced at <time"), "{page}");
    assert!(page.contains("<h1>Reboot of db-1 and db-3</h1>") && page.contains("Not before"), "{page}");
}

#[test]
fn a_plan_names_conflicts_and_groups_without_a_handler() {
    let server = hosts();
    check(&server, "POST /machines", json!({ "name": "lonely", "host": "n-1" }), 201, json!({}));
    check(&server, "POST /maintenance", json!({ "target": { "host": "n-2" }, "type": "Freeze" }), 202, json!({}));
    let page = Browser::at_once(&server).page("/rollouts/plan?hosts=n-1,n-2");
    assert!(
        page.contains("1 other operation on machines of this rollout") && page.contains("Freeze of host n-2</a>"),
        "{page}"
    );
    assert!(page.contains("1 group without a handler") && page.contains("lonely: no notice"), "{page}");
}

/// `hosts()`, with a host `n-5` that has a machine of its own.
fn hosts_and_another() -> Server {
    let server = hosts();
    check(&server, "POST /machines", json!({ "name": "mail", "host": "n-5" }), 201, json!({}));
    server
}

#[test]
fn a_plan_in_which_a_group_falls_below_its_floor_names_the_steps_and_offers_a_fix() {
    let server = hosts_and_another();
    check(&server, "POST /machines/db-4/stop", NONE, 200, json!({}));
    let browser = Browser::at_once(&server);
    let plan = "/rollouts/plan?hosts=n-1,n-2,n-5&type=Reboot&parallel=2&unavailable=2";
    let page = browser.page(plan);
    let foot = between(&page, "class=\"planfoot\"", "</form>");
    let expected = ["db would have 1 of 4 up at <time", "floor 2.</b>", "n-1 and n-2 are both in wave 1."];
    assert!(expected.iter().all(|part| foot.contains(part)), "{foot}");
    assert!(foot.contains("required> Schedule even though db falls below its floor"), "{foot}");
    assert!(foot.contains(">Move n-2 to wave 2</a>"), "{foot}");
    let lanes: Vec<&str> = page.split("<div class=\"g-lane").skip(1).collect();
    let in_conflict: Vec<bool> = lanes.iter().map(|lane| lane.starts_with(" g-conflict\"")).collect();
    assert_eq!(in_conflict, [true, true, false], "{page}");
    assert!(lanes[1].contains(">db-2</text>") && lanes[1].contains("url(#hatch)"), "{}", lanes[1]);
    assert_eq!(page.matches("</span> conflict</span>").count(), 1, "the legend: {page}");
    let capacity = between(&page, "id=\"panel-capacity\"", "</section>");
    assert_eq!(capacity.matches("class=\"cp-bad\"").count(), 1, "{capacity}");

    let fix = between(&between(&foot, "class=\"button\"", ">Move"), "href=\"", "\"").replace("&#38;", "&");
    assert!(fix.contains("hosts=n-1%2Cn-5%2Cn-2"), "{fix}");
    let page = browser.page(&fix);
    assert!(page.contains("Schedule 3 hosts") && !page.contains("g-conflict"), "{page}");
    assert!(!page.contains("Schedule even though") && !page.contains("cp-bad"), "{page}");
    let moved = between(&page, "id=\"moved\"", "</p>");
    assert!(moved.contains("n-2 is now in wave 2: down from <time"), "{moved}");
    // In the wave of another machine of the group, it would be the same.
    let other = browser.page("/rollouts/plan?hosts=n-1,n-2,n-3&type=Reboot&parallel=2&unavailable=2");
    assert!(other.contains("n-1 and n-2 are both in wave 1.") && !other.contains(">Move n-2"), "{other}");
}

#[test]
fn a_plan_says_that_other_operations_take_a_group_below_its_floor() {
    let server = hosts();
    for host in ["n-1", "n-2"] {
        let plan = json!({ "target": { "host": host }, "type": "Reboot" });
        check(&server, "POST /maintenance", plan, 202, json!({}));
    }
    let page = Browser::at_once(&server).page("/rollouts/plan?hosts=n-3&type=Reboot");
    let capacity = between(&page, "id=\"panel-capacity\"", "</section>");
    assert!(capacity.contains("because of other operations: <a href=\"/groups/"), "{capacity}");
    assert!(!page.contains("Schedule even though"), "{page}");
}

#[test]
fn a_plan_that_takes_a_group_below_its_floor_is_scheduled_only_after_a_confirmation() {
    let server = hosts_and_another();
    check(&server, "POST /machines/db-4/stop", NONE, 200, json!({}));
    let browser = Browser::at_once(&server);
    let plan = [("hosts", "n-1,n-2,n-5"), ("type", "Reboot"), ("parallel", "2"), ("unavailable", "2")];
    let refused = browser.post("/rollouts", &plan);
    assert_eq!(refused.status, 422);
    assert!(
        refused.text().contains("A group falls below its floor. Change the plan, or confirm"),
        "{}",
        refused.text()
    );
    check(&server, "GET /rollouts", NONE, 200, json!({ "value": [] }));
    assert_eq!(browser.post("/rollouts", &[&plan[..], &[("below-floor", "on")]].concat()).status, 303);
}

#[test]
fn a_plan_names_machines_that_another_operation_affects_at_the_same_time() {
    let server = hosts_and_another();
    let freeze = json!({ "target": { "host": "n-2" }, "type": "Freeze" });
    let operation = id_of(&check(&server, "POST /maintenance", freeze, 202, json!({})));
    let browser = Browser::at_once(&server);
    let page = browser.page("/rollouts/plan?hosts=n-2,n-5&type=Reboot");
    let foot = between(&page, "class=\"planfoot\"", "</form>");
    assert!(foot.contains("db-2 also has a Freeze at <time"), "{foot}");
    assert!(foot.contains(&format!("<a href=\"/operations/{operation}\">Freeze of host n-2</a>")), "{foot}");
    assert!(foot.contains(">Move n-2 to wave 2</a>") && !foot.contains("Schedule even though"), "{foot}");
    assert_eq!(page.matches("class=\"g-lane g-conflict\"").count(), 1, "{page}");
    // Without a later wave, there is nothing to offer.
    let alone = browser.page("/rollouts/plan?hosts=n-2&type=Reboot");
    assert!(alone.contains("db-2 also has a Freeze") && !alone.contains(">Move n-2"), "{alone}");
}

#[test]
fn search_finds_names_tickets_and_ids_and_suggests_corrections() {
    let server = hosts();
    let plan = json!({ "target": { "host": "n-2" }, "type": "Reboot", "description": "CHG-77" });
    let operation = check(&server, "POST /maintenance", plan, 202, json!({}));
    let event = operation["events"][0]["id"].as_str().unwrap();
    let vm_id = check(&server, "GET /machines/db-3", NONE, 200, json!({}))["vmId"].as_str().unwrap().to_owned();
    let tagged = json!({ "name": "lone", "addresses": [{ "ip": "10.9.8.7" }], "tags": { "team": "payments" } });
    check(&server, "POST /machines", tagged, 201, json!({}));
    let browser = Browser::at_once(&server);
    for (text, expected) in [
        ("10.9.8.7", ">lone</a>"),
        ("payments", ">lone</a>"),
        (operation["id"].as_str().unwrap(), "Reboot of host n-2</a>"),
        ("db-3", ">db-3</a>"),
        ("N-4", "href=\"/hosts/n-4\""),
        ("chg-77", "Reboot of host n-2</a>"),
        (event, "Reboot of db-2</a>"),
        (vm_id.as_str(), ">db-3</a>"),
    ] {
        let page = browser.page(&format!("/search?q={text}"));
        assert!(page.contains(expected), "{text}: {page}");
    }
    let page = browser.page("/search?q=bd-3");
    assert!(page.contains("Did you mean") && page.contains(">db-3</a>"), "{page}");
    assert!(browser.page("/search?q=zzzzzz").contains("Nothing matches."));
}

#[test]
fn lists_have_their_rows_and_filters() {
    let server = hosts();
    check(&server, "POST /machines/db-1/restart", NONE, 202, json!({}));
    let hook = json!({ "name": "ops", "url": "http://127.0.0.1:9/hook" });
    check(&server, "POST /webhooks", hook, 201, json!({}));
    let browser = Browser::at_once(&server);
    let machines = browser.page("/machines?q=db");
    assert_eq!(machines.matches("<tr id=\"machine-").count(), 4, "{machines}");
    assert!(browser.page("/machines?q=none").contains("<tbody id=\"machines\" class=\"list\"></tbody>"));
    assert!(browser.page("/webhooks").contains("http://127.0.0.1:9/hook"));
    let all = browser.page("/history");
    assert!(all.contains("Reboot appeared for db-1") && all.contains("machine added db-1"), "{all}");
    let events = browser.page("/history?kind=events");
    assert!(events.contains("Reboot appeared for db-1") && !events.contains("machine added"), "{events}");
    assert!(!browser.page("/history?machine=db-2").contains("Reboot appeared"));
    let calendar = browser.page("/calendar");
    assert!(calendar.contains("Restart of db-1</a>") && calendar.contains("2026-03-01, today"), "{calendar}");
    let kinds = browser.page("/groups?kind=Availability+set");
    assert!(kinds.contains(">db</a>") && !kinds.contains(">vm</a>"), "{kinds}");
    // The history of a group has the registrations of its machines.
    let set = check(&server, "GET /availability-sets/db", NONE, 200, json!({}));
    assert!(browser.page(&format!("/groups/{}", set["id"])).contains("machine added db-4"));
}

#[test]
fn handlers_that_polled_before_a_restart_count_as_polling_afterward() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::kept_in(directory.path());
    let set = check(&server, "POST /availability-sets", json!({ "name": "web" }), 201, json!({}));
    for name in ["web_1", "web_2"] {
        check(&server, "POST /machines", json!({ "name": name, "availabilitySet": "web" }), 201, json!({}));
    }
    server.listen_as("web_1");
    // A machine approves for the other one, and polls while the other is down.
    let operation = check(&server, "POST /machines/web_2/restart", NONE, 202, json!({}));
    server.approve_as("web_1", operation["events"][0]["id"].as_str().unwrap());
    server.stop();
    let server = Server::kept_in(directory.path());
    let browser = Browser::at_once(&server);
    let group = format!("/groups/{}", set["id"]);
    let machine = format!("/machines/{}", vm_id(&server, "web_1"));
    let plan = "/rollouts/plan?groups=web&type=Freeze";
    let row = |page: &str, id: &str| between(&browser.page(page), &format!("<tr id=\"{id}"), "</tr>");
    for page in ["/", "/groups"] {
        let row = row(page, "group-");
        assert!(row.contains(">1</span><span class=\"of\">/1</span></td>") && row.contains("under 1 min ago"), "{row}");
    }
    assert!(row("/machines?q=web_1", "machine-").contains(">polling</span>"));
    assert!(row("/machines?q=web_2", "machine-").contains(">never</td>"));
    let page = browser.page(&group);
    assert!(page.contains("1 of the 1 that is up, last poll under 1 min ago, last approval <time"), "{page}");
    let page = browser.page(&machine);
    assert!(page.contains("<dt>Handler</dt><dd>handler connected in its event group</dd>"), "{page}");
    assert!(page.contains("Handler connected: 1 poll since") && page.contains("Last approval: <time"), "{page}");
    let page = browser.page(plan);
    assert!(page.contains("class=\"g-lane\"") && !page.contains("handlers have stopped polling"), "{page}");
    // Silence counts from the restart.
    check(&server, "POST /clock/advance", json!({ "seconds": 120 }), 200, json!({}));
    let row = row("/", "group-");
    assert!(row.contains(">0</span><span class=\"of\">/1</span>") && row.contains("2 min ago"), "{row}");
    assert!(browser.page(&machine).contains("Handler stopped polling: 1 poll since"));
    assert!(browser.page(&machine).contains("<dt>Handler</dt><dd>handler silent in its event group</dd>"));
    assert!(browser.page(&group).contains("no handler polls"));
    let page = browser.page(plan);
    assert!(page.contains("1 group whose handlers have stopped polling") && page.contains(&group), "{page}");
}

#[test]
fn an_operation_waits_for_the_same_in_the_portal_and_in_the_api() {
    let server = hosts();
    check(&server, "POST /machines", json!({ "name": "lonely", "host": "n-1" }), 201, json!({}));
    let plan = json!({ "target": { "host": "n-1" }, "type": "Reboot" });
    let id = id_of(&check(&server, "POST /maintenance", plan, 202, json!({})));
    let waits = json!({ "waitsFor": [
        { "reason": "Approvals", "approvalsMissing": 1, "approvalsTotal": 1, "machines": ["db-1"] },
    ] });
    check(&server, &format!("GET /operations/{id}"), NONE, 200, waits);
    let page = Browser::at_once(&server).page(&format!("/operations/{id}"));
    let status = between(&page, "id=\"status\"", "</section>");
    assert!(status.contains("2 of 2 not ready: db-1 and lonely (no handler)"), "{status}");
    assert!(between(&page, "<dt>Waits for</dt>", "</dd>").contains("approval of db-1"), "{page}");
    // It goes down together with db-1, not at a time of its own.
    assert!(!status.contains("waits for the planned time"), "{status}");
    assert!(page.contains("No handler, not notified."), "{page}");
    assert!(page.contains("href=\"/hosts/n-1\""), "{page}");
}

#[test]
fn an_operation_of_a_rollout_has_the_ticket_of_the_rollout() {
    let server = hosts();
    let plan = json!({ "type": "Reboot", "hosts": ["n-1"], "description": "CHG-4711" });
    let rollout = check(&server, "POST /rollouts", plan, 202, json!({}));
    let operation = rollout["steps"][0]["operation"].as_str().unwrap_or_else(|| panic!("{rollout}")).to_owned();
    let page = Browser::at_once(&server).page(&format!("/operations/{operation}"));
    assert!(page.contains("<dt>Ticket</dt><dd>CHG-4711</dd>"), "{page}");
}

#[test]
fn the_history_of_a_rollout_names_the_group_of_an_update_domain() {
    let server = Server::start();
    for name in ["east", "west"] {
        check(&server, "POST /availability-sets", json!({ "name": name }), 201, json!({}));
        let machine = json!({ "name": format!("{name}-1"), "availabilitySet": name });
        check(&server, "POST /machines", machine, 201, json!({}));
        server.listen_as(&format!("{name}-1"));
    }
    let plan = json!({ "type": "Reboot", "groups": ["east", "west"], "parallel": 2 });
    let groups = id_of(&check(&server, "POST /rollouts", plan, 202, json!({})));
    let browser = Browser::at_once(&server);
    let page = browser.page(&format!("/rollouts/{groups}"));
    for name in ["east", "west"] {
        assert_eq!(page.matches(&format!("step started, {name}, update domain 0")).count(), 1, "{page}");
    }
    check(&server, &format!("POST /rollouts/{groups}/stop"), NONE, 200, json!({}));
    let plan = json!({ "type": "Reboot", "machines": ["east-1"] });
    let machines = id_of(&check(&server, "POST /rollouts", plan, 202, json!({})));
    assert!(browser.page(&format!("/rollouts/{machines}")).contains("step started, machine east-1"));
}
