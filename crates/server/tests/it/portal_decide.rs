//! Actions in the portal: maintenance, hosts, policies, selected machines, the test kit. Each is previewed, performed, and refused
//! with an error next to the field.

use crate::api_support::{Answer, NONE, Server, check};
use crate::portal_support::*;
use forewarn_access::Role;
use serde_json::{Value, json};

/// A Uniform scale set whose first instance has a handler.
fn with_set(capacity: u32, model: Value) -> (Server, String) {
    let server = Server::start();
    let set = json!({ "name": "web", "capacity": capacity, "orchestration": "Uniform", "model": model });
    let made = check(&server, "POST /scale-sets", set, 201, json!({}));
    server.listen_as("web_0");
    let page = format!("/groups/{}", made["id"]);
    (server, page)
}

fn notify_7m() -> Value {
    json!({ "terminateNotification": { "notBeforeTimeout": "PT7M" } })
}

#[track_caller]
fn assert_has(answer: &Answer, status: u16, parts: &[&str]) {
    let text = answer.text();
    assert_eq!(answer.status, status, "{text}");
    for part in parts {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

/// The preview of an action.
fn preview_of(page: &str, act: &str) -> String {
    between(page, &format!("id=\"do-{act}\""), "</details>")
}

// --- the planner ---

const PLAN: [(&str, &str); 8] = [
    ("what", "group"),
    ("name", "web"),
    ("kind", "Freeze"),
    ("cause", "LiveMigration"),
    ("at", "2026-03-01T14:00"),
    ("notice", "1h"),
    ("duration", "5s"),
    ("description", "Firmware"),
];

fn plan_with<'a>(changes: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let changed = |name: &str| changes.iter().find(|(changed, _)| *changed == name).copied();
    let fields = PLAN.iter().map(|field| changed(field.0).unwrap_or(*field));
    fields.chain(changes.iter().filter(|(name, _)| PLAN.iter().all(|field| field.0 != *name)).copied()).collect()
}

#[test]
fn a_plan_is_previewed_and_then_requested_with_all_fields() {
    let (server, _) = with_set(2, json!({}));
    let browser = Browser::at_once(&server);
    let preview = browser.post("/maintenance", &plan_with(&[("step", "preview")]));
    assert_has(
        &preview,
        200,
        &["<td>0</td><td>web_0</td><td>web</td>", "2026-03-01 14:00:00 UTC", "value=\"Firmware\""],
    );
    check(&server, "GET /operations", NONE, 200, json!({ "value": [] }));
    let previewed = between(&preview.text(), "name=\"previewed\" value=\"", "\"");
    let other =
        browser.post("/maintenance", &plan_with(&[("kind", "Reboot"), ("step", "start"), ("previewed", &previewed)]));
    assert_has(&other, 200, &["Schedule maintenance", "<option value=\"Reboot\" selected>"]);
    check(&server, "GET /operations", NONE, 200, json!({ "value": [] }));
    let done = browser.post("/maintenance", &plan_with(&[("step", "start"), ("previewed", &previewed)]));
    assert_eq!(done.status, 303, "{}", done.text());
    let expected =
        json!({ "kind": "Maintain", "type": "Freeze", "cause": "LiveMigration", "at": "2026-03-01T14:00:00Z" });
    let operation = check(&server, "GET /operations", NONE, 200, json!({ "value": [expected] }));
    let event = operation["value"][0]["events"][0]["id"].as_str().unwrap().to_owned();
    let expected = json!({ "description": "Firmware", "durationSeconds": 5, "notBefore": "2026-03-01T14:00:00Z" });
    check(&server, &format!("GET /events/{event}"), NONE, 200, expected);
}

#[test]
fn several_machines_are_planned_by_name() {
    let (server, _) = with_set(4, json!({}));
    let browser = Browser::at_once(&server);
    let fields = plan_with(&[("what", "machine"), ("name", "web_3, web_0"), ("step", "preview")]);
    let preview = browser.post("/maintenance", &fields);
    assert_has(&preview, 200, &["<td>0</td><td>web_0</td>", "<td>3</td><td>web_3</td>"]);
    let previewed = between(&preview.text(), "name=\"previewed\" value=\"", "\"");
    let start =
        plan_with(&[("what", "machine"), ("name", "web_3, web_0"), ("step", "start"), ("previewed", &previewed)]);
    assert_eq!(browser.post("/maintenance", &start).status, 303);
    check(
        &server,
        "GET /operations",
        NONE,
        200,
        json!({ "value": [{ "kind": "Maintain", "machines": ["web_3", "web_0"] }] }),
    );
    let page = browser.page("/maintenance");
    assert!(page.contains("Freeze of web_3 and web_0") && page.contains("UD 3"), "{page}");
}

#[test]
fn errors_in_a_plan_appear_next_to_the_field_and_input_is_kept() {
    let (server, _) = with_set(2, json!({}));
    let browser = Browser::at_once(&server);
    let long = "x".repeat(257);
    for (field, typed, says) in [
        ("name", "", "Enter a name."),
        ("name", "wbe", "is named"),
        ("at", "tomorrow", "is not a valid time"),
        ("at", "2026-03-01T11:00", "is in the past"),
        ("at", "2028-03-01T11:00", "at most 400 days in advance"),
        ("notice", "soon", "such as 90s"),
        ("notice", "1m", "at least 15m for this event type"),
        ("notice", "1h1ms", "whole seconds"),
        ("duration", "2d", "from 0 to 86400 seconds"),
        ("duration", "x", "such as 90s"),
        ("description", long.as_str(), "256 characters"),
        ("kind", "Preempt", "Select Freeze, Reboot or Redeploy"),
        ("cause", "Whim", "host maintenance or live migration"),
    ] {
        let answer = browser.post("/maintenance", &plan_with(&[(field, typed), ("step", "start")]));
        assert_has(&answer, 422, &[&format!("id=\"wrong-{field}\"")]);
        let said = between(&answer.text(), &format!("id=\"wrong-{field}\">"), "</p>");
        assert!(said.contains(says), "{field} {typed}: {said}");
        let kept = if field == "description" { "value=\"1h\"" } else { "value=\"Firmware\"" };
        assert!(answer.text().contains(kept), "{field}");
    }
    let several = browser.post("/maintenance", &plan_with(&[("notice", "x"), ("duration", "x"), ("name", "")]));
    assert_has(&several, 422, &["id=\"wrong-notice\"", "id=\"wrong-duration\"", "id=\"wrong-name\""]);
    check(&server, "GET /operations", NONE, 200, json!({ "value": [] }));
}

#[test]
fn pages_of_machines_groups_and_hosts_link_to_the_planner() {
    let (server, group) = with_set(1, json!({}));
    check(&server, "POST /machines", json!({ "name": "db", "host": "rack-4" }), 201, json!({}));
    let browser = Browser::at_once(&server);
    for (page, filled) in [
        (group, "/maintenance?what=group&name=default%2Fweb"),
        (format!("/machines/{}", vm_id(&server, "web_0")), "/maintenance?what=machine&name=web_0"),
        ("/hosts/rack-4".into(), "/maintenance?what=host&name=rack-4"),
    ] {
        let link = filled.replace('&', "&#38;");
        assert!(browser.page(&page).contains(&format!("href=\"{link}\">Plan maintenance</a>")), "{page}");
        let (what, name) = filled.split_once("what=").unwrap().1.split_once("&name=").unwrap();
        let planner = browser.page(filled);
        assert!(planner.contains(&format!("<option value=\"{what}\" selected>")), "{filled}");
        assert!(
            planner.contains(&format!("value=\"{name}\" list=\"targets\"").replace("%2F", "/")),
            "{filled}: {planner}"
        );
    }
}

#[test]
fn progress_is_shown_by_update_domain_until_it_is_canceled() {
    let (server, _) = with_set(3, json!({}));
    let browser = Browser::at_once(&server);
    let asked = json!({ "target": { "group": "web" }, "type": "Freeze" });
    let operation = check(&server, "POST /maintenance", asked, 202, json!({}));
    let page = browser.page("/maintenance");
    assert!(
        page.contains("UD 0") && page.contains(">Scheduled</a>") && page.matches(">queued<").count() == 2,
        "{page}"
    );
    assert!(page.contains("in progress, 0 of 3 finished"), "{page}");
    check(&server, "POST /clock/advance", json!({ "seconds": 1600 }), 200, json!({}));
    let page = browser.page("/maintenance");
    assert!(
        page.contains(">Completed</a>") && page.contains("paused until") && page.contains("after a pause"),
        "{page}"
    );
    let preview = between(&page, "id=\"cancel-", "</details>");
    assert!(preview.contains("Update domains from 1 on are skipped."), "{preview}");
    let id = operation["id"].as_str().unwrap();
    let cancel = [("act", "cancel-operation"), ("target", id), ("back", "/maintenance")];
    assert_eq!(browser.post("/portal/act", &cancel).header("location"), Some("/maintenance"));
    let page = browser.page("/maintenance");
    assert!(page.contains("canceled by owner") && !page.contains(">queued<"), "{page}");
    assert_eq!(page.matches("<span>skipped</span>").count(), 2, "{page}");
}

// --- hosts ---

#[test]
fn a_host_is_registered_shown_failed_and_removed() {
    let server = Server::start();
    let browser = Browser::at_once(&server);
    for (wrong, says) in [("", "Enter a name."), ("rack 4", "is not a valid name"), ("<b>", "is not a valid name")] {
        let answer = browser.post("/hosts", &[("name", wrong)]);
        assert_has(&answer, 422, &["id=\"wrong-name\"", says, "aria-invalid=\"true\" autofocus>"]);
    }
    let made = browser.post("/hosts", &[("name", "rack-4")]);
    assert_eq!((made.status, made.header("location")), (303, Some("/hosts/rack-4")), "{}", made.text());
    assert!(browser.page("/hosts/rack-4").contains("No machines on this host."));
    check(&server, "POST /availability-sets", json!({ "name": "db" }), 201, json!({}));
    for (name, set) in [("db-1", Some("db")), ("db-2", Some("db")), ("web", None)] {
        check(
            &server,
            "POST /machines",
            json!({ "name": name, "availabilitySet": set, "host": "rack-4" }),
            201,
            json!({}),
        );
    }
    server.listen_as("db-1");
    let page = browser.page("/hosts/rack-4");
    for part in ["<b>db</b>", "Availability set", ">db-2</a>", "<b>web</b>", "2, 1 with a handler"] {
        assert!(page.contains(part), "no {part} in {page}");
    }
    assert!(preview_of(&page, "fail-host").contains("appears in the documents of db-1 and db-2"), "{page}");
    assert!(!page.contains("do-remove-host"));
    let fail = [("act", "lose-host"), ("target", "rack-4"), ("back", "/hosts/rack-4")];
    assert_eq!(browser.post("/portal/act", &fail).status, 303);
    assert_eq!(server.document("db-2")["Events"][0]["EventType"], "Redeploy");
    let page = browser.page("/hosts/rack-4");
    assert!(page.contains("Hardware failure on host rack-4"), "{page}");
    let toast = between(&page, "id=\"toast\"", "</div>");
    assert!(toast.contains("Simulated a failure of rack-4. <a href=\"/operations/"), "{toast}");
    check(&server, "PUT /hosts/empty", NONE, 201, json!({}));
    let remove = [("act", "remove-host"), ("target", "empty"), ("back", "/hosts")];
    assert_eq!(browser.post("/portal/act", &remove).status, 303);
    check(&server, "GET /hosts/empty", NONE, 404, json!({}));
    assert_eq!(browser.get("/hosts/empty").status, 404);
}

#[test]
fn a_host_failure_is_simulated_for_one_machine() {
    let server = Server::with_machines(&["web"]);
    server.listen_as("web");
    let browser = Browser::at_once(&server);
    let target = vm_id(&server, "web");
    let page = browser.page(&format!("/machines/{target}"));
    assert!(preview_of(&page, "fail").contains("Reboot starts immediately, without notice"), "{page}");
    let fail = [("act", "lose"), ("target", target.as_str()), ("back", "/")];
    assert_eq!(browser.post("/portal/act", &fail).status, 303);
    let event = &server.document("web")["Events"][0];
    assert_eq!((event["EventType"].as_str(), event["EventStatus"].as_str()), (Some("Redeploy"), Some("Started")));
    // Every page says that it was simulated, and none that it was requested.
    let operations = check(&server, "GET /operations", NONE, 200, json!({}));
    let id = operations["value"][0]["id"].as_str().unwrap().to_owned();
    let event = format!("/events/{}", event["EventId"].as_str().unwrap());
    for (path, text) in [
        (format!("/operations/{id}"), "Simulated by <b>you</b>"),
        ("/operations".to_owned(), "owner <small>simulated</small>"),
        (event, "<dt>Simulated by</dt>"),
        ("/history".to_owned(), "failure of web simulated by owner"),
    ] {
        let page = browser.page(&path);
        assert!(
            page.contains(text) && !page.contains("Requested by <b>") && !page.contains("<dt>Requested by"),
            "{page}"
        );
    }
}

// --- groups ---

#[test]
fn every_kind_of_group_has_a_policy_a_history_and_a_deletion() {
    let server = Server::start();
    let browser = Browser::at_once(&server);
    let body = |name: &str| json!({ "name": name, "capacity": 1, "orchestration": "Uniform" });
    for (kind, path, body) in [
        ("scale-set", "scale-sets", body("vmss")),
        ("availability-set", "availability-sets", json!({ "name": "avset" })),
        ("cloud-service", "cloud-services", json!({ "name": "service" })),
    ] {
        let name = body["name"].as_str().unwrap().to_owned();
        let made = check(&server, &format!("POST /{path}"), body, 201, json!({}));
        let page = format!("/groups/{}", made["id"]);
        let target = format!("default~{name}");
        let form = [("kind", kind), ("target", target.as_str()), ("back", page.as_str())];
        let policy = [&form[..], &[("act", "policy"), ("reboot", "on")]].concat();
        assert_eq!(browser.post("/portal/act", &policy).status, 303, "{kind}");
        let expected =
            json!({ "approveUserReboot": true, "approveUserRedeploy": false, "approveAllInstancesDown": false });
        check(&server, &format!("GET /{path}/{name}"), NONE, 200, json!({ "policy": expected }));
        let text = browser.page(&page);
        assert!(text.contains("name=\"reboot\" value=\"on\" checked"), "{kind}: {text}");
        assert!(
            text.contains(&format!("change {} {name}, requested by owner", kind.replace('-', " "))),
            "{kind}: {text}"
        );
        assert!(preview_of(&text, "delete-group").contains("deleted"), "{kind}: {text}");
        let delete = [&form[..], &[("act", "delete-group")]].concat();
        assert_eq!(browser.post("/portal/act", &delete).header("location"), Some("/"), "{kind}");
        check(&server, &format!("GET /{path}/{name}"), NONE, 404, json!({}));
    }
}

#[test]
fn a_standalone_machine_has_a_policy() {
    let server = Server::with_machines(&["web"]);
    server.listen_as("web");
    let browser = Browser::at_once(&server);
    let target = vm_id(&server, "web");
    let here = format!("/machines/{target}");
    let policy = [("act", "machine-policy"), ("target", target.as_str()), ("redeploy", "on"), ("back", &here)];
    assert_eq!(browser.post("/portal/act", &policy).status, 303);
    let page = browser.page(&here);
    assert!(preview_of(&page, "redeploy").contains("The policy approves it: Redeploy starts immediately."), "{page}");
}

#[test]
fn actions_on_selected_machines_are_confirmed_first() {
    let (server, group) = with_set(4, notify_7m());
    let browser = Browser::at_once(&server);
    let ids: Vec<String> = (0..4).map(|number| vm_id(&server, &format!("web_{number}"))).collect();
    let page = browser.page(&group);
    assert!(
        page.contains(&format!("form=\"selection\" name=\"machine\" value=\"{}\" aria-label=\"Select web_2\"", ids[2]))
    );
    let submit = |act: &'static str, which: &[usize], confirmed: &[(&'static str, &'static str)]| {
        let mut fields = vec![("act", act), ("back", group.as_str())];
        fields.extend(which.iter().map(|number| ("machine", ids[*number].as_str())));
        fields.extend(confirmed);
        browser.post("/portal/selection", &fields)
    };
    let confirmed = [("confirmed", "on")];
    assert_has(&submit("restart", &[], &[]), 422, &["Select at least one machine."]);
    assert_has(
        &submit("restart", &[0, 1], &[]),
        200,
        &["Restart web_0 and web_1?", "Reboot not before", "name=\"confirmed\""],
    );
    assert_eq!(server.document("web_0")["Events"], json!([]));
    assert_eq!(submit("restart", &[0, 1], &confirmed).status, 303);
    assert_eq!(server.document("web_0")["Events"].as_array().unwrap().len(), 2);
    assert_eq!(submit("protect", &[3], &confirmed).status, 303);
    check(&server, "GET /machines/web_3", NONE, 200, json!({ "protected": true }));
    assert!(browser.page(&group).contains("protected from scale-in"));
    assert_eq!(submit("unprotect", &[3], &confirmed).status, 303);
    check(&server, "GET /machines/web_3", NONE, 200, json!({ "protected": false }));
    assert_has(&submit("delete", &[2, 3], &[]), 200, &["Terminate not before", "neither approved nor due: web_3"]);
    assert_eq!(submit("delete", &[2, 3], &confirmed).status, 303);
    check(&server, "GET /scale-sets/web", NONE, 200, json!({ "capacity": 2 }));
    let plan = submit("plan", &[0, 1], &[]);
    assert_eq!(plan.header("location"), Some("/maintenance?what=machine&name=web_0%2Cweb_1"), "{}", plan.text());
    let location = plan.header("location").unwrap().to_owned();
    assert!(browser.page(&location).contains("value=\"web_0,web_1\""));
    check(&server, "POST /machines/web_1/stop", NONE, 200, json!({}));
    assert_has(&submit("redeploy", &[0, 1], &[]), 200, &["Machine &#39;web_1&#39; is not running."]);
    assert_has(
        &submit("redeploy", &[0, 1], &confirmed),
        409,
        &["role=\"alert\">web: Machine &#39;web_1&#39; is not running."],
    );
}

#[test]
fn pages_offer_what_the_role_allows() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::guarded(dir.path());
    let set = json!({ "name": "web", "capacity": 1, "orchestration": "Uniform" });
    let made = check(&server, "POST /scale-sets", set, 201, json!({}));
    let group = format!("/groups/{}", made["id"]);
    let id = vm_id(&server, "web_0");
    for (role, offered, kept) in [
        (Role::Reader, &[][..], &["form=\"selection\"", ">Restart…<", ">Change policy<", ">Register<"][..]),
        (
            Role::Operator,
            &["form=\"selection\"", ">Restart…<", ">Plan maintenance…<"],
            &[">Delete…<", ">Change policy<", ">Register<"],
        ),
        (Role::Owner, &[">Restart…<", ">Delete…<", ">Change policy<", ">Register<"], &[]),
    ] {
        let token = token_for(dir.path(), role);
        let browser = Browser::with_token(&server, &token);
        let text = browser.page(&group) + &browser.page("/hosts") + &browser.page(&format!("/machines/{id}"));
        assert!(offered.iter().all(|offer| text.contains(offer)), "{role:?}: {text}");
        assert!(!kept.iter().any(|offer| text.contains(offer)), "{role:?}: {text}");
        let delete = [("act", "delete"), ("back", group.as_str()), ("machine", id.as_str()), ("confirmed", "on")];
        let expected = if role == Role::Owner { 303 } else { 403 };
        assert_eq!(browser.post("/portal/selection", &delete).status, expected, "{role:?}");
    }
}

#[test]
fn outdated_instances_are_listed_and_upgraded_one_by_one() {
    let (server, group) = with_set(2, json!({}));
    let browser = Browser::at_once(&server);
    let notify = [("form", "notify"), ("back", group.as_str()), ("notification", "on"), ("delay", "9")];
    assert_eq!(browser.post(&group, &notify).status, 303);
    let page = browser.page(&group);
    assert!(
        page.contains("web_0 and web_1 do not have the latest model yet") && page.contains("Upgrade 2 instances"),
        "{page}"
    );
    let first = vm_id(&server, "web_0");
    let upgrade = [("act", "upgrade"), ("back", group.as_str()), ("machine", first.as_str())];
    assert_has(
        &browser.post("/portal/selection", &upgrade),
        200,
        &["Its termination notification changes from off to 9 minutes."],
    );
    assert_eq!(browser.post("/portal/selection", &[&upgrade[..], &[("confirmed", "on")]].concat()).status, 303);
    check(&server, "GET /machines/web_0", NONE, 200, json!({ "latestModelApplied": true }));
    check(&server, "GET /machines/web_1", NONE, 200, json!({ "latestModelApplied": false }));
    assert!(browser.page(&group).contains("web_1 does not have the latest model yet"));
}

#[test]
fn scaling_in_is_confirmed_first() {
    let (server, group) = with_set(3, notify_7m());
    let browser = Browser::at_once(&server);
    let form = |capacity: &'static str| [("form", "scale"), ("capacity", capacity), ("back", group.as_str())];
    let asked = browser.post(&group, &form("1"));
    assert_has(
        &asked,
        200,
        &["Scale web to 1?", "are deleted", "Terminate not before", &format!("action=\"{group}\"")],
    );
    check(&server, "GET /scale-sets/web", NONE, 200, json!({ "capacity": 3 }));
    assert_eq!(browser.post(&group, &[&form("1")[..], &[("confirmed", "on")]].concat()).status, 303);
    check(&server, "GET /scale-sets/web", NONE, 200, json!({ "capacity": 1 }));
    assert_eq!(browser.post(&group, &form("5")).status, 303, "scaling out needs no confirmation");
}

#[test]
fn errors_in_the_forms_of_a_scale_set_appear_next_to_the_field() {
    let (server, group) = with_set(1, json!({ "priority": "Spot" }));
    let browser = Browser::at_once(&server);
    let send = |fields: &[(&str, &str)]| browser.post(&group, &[&[("back", group.as_str())], fields].concat());
    for (fields, field, kept) in [
        (&[("form", "scale"), ("capacity", "many")][..], "capacity", "value=\"many\""),
        (&[("form", "scale"), ("capacity", "10001")], "capacity", "value=\"10001\""),
        (&[("form", "notify"), ("notification", "on"), ("delay", "16")], "delay", "value=\"16\""),
        (&[("form", "notify"), ("notification", "on"), ("delay", "6")], "notification", "value=\"6\""),
    ] {
        assert_has(&send(fields), 422, &[&format!("id=\"wrong-{field}\""), kept, "<h1>web</h1>"]);
    }
    check(&server, "GET /scale-sets/web", NONE, 200, json!({ "capacity": 1 }));
}

#[test]
fn errors_in_a_new_scale_set_are_marked_at_their_step() {
    let (server, _) = with_set(1, notify_7m());
    let browser = Browser::at_once(&server);
    let review = |name: &'static str, group: &'static str, delay: &'static str| {
        let fields = [("name", name), ("resource_group", group), ("capacity", "1"), ("orchestration", "Uniform")];
        let more = [("priority", "Regular"), ("notification", "on"), ("delay", delay), ("step", "review")];
        browser.post("/scale-sets/add", &[&fields[..], &more].concat())
    };
    let both = review("", "default", "99");
    assert_has(&both, 422, &["id=\"wrong-name\">Enter a name.", "id=\"wrong-delay\""]);
    let tabs = between(&both.text(), "role=\"tablist\"", "</div>");
    assert_eq!(tabs.matches("has errors").count(), 2, "{tabs}");
    assert_eq!(both.text().matches(" autofocus").count(), 1);
    let taken = review("WEB", "default", "7");
    assert_has(&taken, 422, &["id=\"wrong-name\">The name", "is already taken in its resource group"]);
    let tabs = between(&taken.text(), "role=\"tablist\"", "</div>");
    assert!(
        tabs.matches("has errors").count() == 1 && tabs.contains(">Basics <span class=\"wrong\">has errors"),
        "{tabs}"
    );
    assert_has(&review("web", "other", "7"), 200, &["On, 7 minutes"]);
}

#[test]
fn time_spans_of_a_scale_set_are_in_words() {
    let (server, group) = with_set(1, json!({ "terminateNotification": { "notBeforeTimeout": "PT10M" } }));
    let browser = Browser::at_once(&server);
    for page in ["/scale-sets".to_owned(), group, format!("/machines/{}", vm_id(&server, "web_0"))] {
        let text = browser.page(&page);
        assert!(text.contains("10 minutes") && !text.contains("PT10M"), "{page}: {text}");
    }
}

// --- machines ---

#[test]
fn machines_with_the_same_name_have_separate_histories() {
    let server = Server::with_machines(&["web_0"]);
    server.listen_as("web_0");
    let browser = Browser::at_once(&server);
    let history =
        |vm_id: &str| between(&browser.page(&format!("/machines/{vm_id}")), "id=\"panel-history\"", "</section>");
    let first = vm_id(&server, "web_0");
    check(&server, "POST /machines/web_0/restart", NONE, 202, json!({}));
    assert!(history(&first).contains("appeared for web_0"));
    check(&server, "POST /clock/advance", json!({ "seconds": 7200 }), 200, json!({}));
    let made = json!({ "name": "web_0", "resourceGroup": "rg" });
    let second = check(&server, "POST /machines", made, 201, json!({}))["vmId"].as_str().unwrap().to_owned();
    let (of_first, of_second) = (history(&first), history(&second));
    for (what, is_of_second) in
        [("machine added web_0", true), ("register machine web_0", true), ("appeared for web_0", false)]
    {
        assert_eq!(of_first.matches(what).count(), 1, "{what}: {of_first}");
        assert_eq!(of_second.matches(what).count(), usize::from(is_of_second), "{what}: {of_second}");
    }
    assert!(
        !between(&browser.page(&format!("/machines/{second}")), "id=\"panel-timeline\"", "</section>")
            .contains("lane-")
    );
    check(&server, &format!("DELETE /machines/{first}"), NONE, 202, json!({}));
    check(&server, &format!("POST /machines/{second}/restart"), NONE, 202, json!({}));
    assert_eq!(
        history(&second).matches("restart web_0, requested by").count(),
        1,
        "its own request, not that of the deleted machine"
    );
    assert_eq!(history(&second).matches("machine added web_0").count(), 1);
}

#[test]
fn a_page_that_does_not_exist_does_not_connect() {
    let server = Server::with_machines(&["web"]);
    let browser = Browser::at_once(&server);
    for nowhere in ["/machines/xyz", "/events/nope", "/groups/999"] {
        assert_has(&browser.get(nowhere), 404, &["data-state=\"gone\">not found</span>"]);
    }
    let page = browser.page(&format!("/machines/{}", vm_id(&server, "web")));
    assert!(page.contains("data-state=\"connecting\">"));
    assert!(
        page.contains("curl -H Metadata:true 'http://169.254.169.254/metadata/scheduledevents?api-version="),
        "{page}"
    );
}

// --- events ---

#[test]
fn an_event_shows_since_when_it_is_in_the_document_and_its_approval() {
    let server = Server::with_machines(&["web", "silent"]);
    server.listen_as("web");
    let browser = Browser::at_once(&server);
    let plan = |machine: &str| {
        let asked = json!({ "target": { "machine": machine }, "type": "Freeze", "durationSeconds": 9 });
        let operation = check(&server, "POST /maintenance", asked, 202, json!({}));
        operation["events"][0]["id"].as_str().unwrap().to_owned()
    };
    let fact = |event: &str, label: &str| {
        between(&browser.page(&format!("/events/{event}")), &format!("<dt>{label}</dt><dd>"), "</dd>")
    };
    let (shown, hidden) = (plan("web"), plan("silent"));
    assert!(fact(&shown, "In the document").starts_with("shown since <time datetime=\"2026-03-01T12:00:00Z\""));
    assert!(fact(&hidden, "In the document").starts_with("not shown"));
    assert_eq!(
        (fact(&shown, "DurationInSeconds").as_str(), fact(&shown, "Approved by").as_str()),
        ("9", "not approved yet")
    );
    check(&server, &format!("POST /events/{shown}/cancel"), json!({}), 200, json!({}));
    assert_eq!(fact(&shown, "Approved by"), "not approved");
    assert!(fact(&shown, "In the document").starts_with("was shown from"));
    let page = browser.page(&format!("/events/{shown}"));
    assert!(page.contains("ended: canceled by") && !page.contains("ancelled"), "{page}");
}

#[test]
fn a_host_operation_lists_missing_approvals_and_is_canceled_as_a_whole() {
    let server = Server::start();
    for name in ["a", "b"] {
        check(&server, "POST /machines", json!({ "name": name, "host": "rack" }), 201, json!({}));
        server.listen_as(name);
    }
    let asked = json!({ "target": { "host": "rack" }, "type": "Freeze" });
    let operation = check(&server, "POST /maintenance", asked, 202, json!({}));
    let event = format!("/events/{}", operation["events"][0]["id"].as_str().unwrap());
    let browser = Browser::at_once(&server);
    let page = browser.page(&event);
    assert!(
        preview_of(&page, "approve").contains("starts when all its events are approved. Still missing: b"),
        "{page}"
    );
    let cancel = preview_of(&page, "cancel-operation");
    assert!(cancel.contains("Freeze of a and Freeze of b are canceled"), "{cancel}");
    let id = operation["id"].as_str().unwrap();
    assert!(cancel.contains(&format!("name=\"target\" value=\"{id}\"")), "{cancel}");
    assert_eq!(
        browser.post("/portal/act", &[("act", "cancel-operation"), ("target", id), ("back", &event)]).status,
        303
    );
    assert_eq!(server.document("b")["Events"], json!([]));
}

// --- the test kit ---

#[test]
fn a_custom_scenario_is_refused_with_line_and_column_or_run() {
    let server = Server::start();
    let browser = Browser::at_once(&server);
    let wrong = "title = \"Mine\"\r\n\r\n[[step]]\r\nrestrat = \"web_0\"\r\n";
    let answer = browser.post("/test-kit", &[("form", "scenario"), ("text", wrong)]);
    assert_has(
        &answer,
        422,
        &["id=\"wrong-text\">Line 4, column 1: unknown key &#39;restrat&#39;", "restrat = &#34;web_0&#34;"],
    );
    let unfit = "title = \"Mine\"\n[[step]]\nrestart = \"nosuch\"\n";
    assert_has(&browser.post("/test-kit", &[("form", "scenario"), ("text", unfit)]), 422, &["line 2 of the file"]);
    assert!(browser.page("/test-kit?scenario=user-reboot").contains("title = &#34;Restart by a user&#34;"));
    let subject = |name: &'static str| {
        let text = "title = \"Mine\"\nsubject = \"web_0\"\n[[machine]]\nname = \"web_0\"\n[[step]]\npoll = \"web_0\"\n";
        browser.post("/test-kit", &[("form", "scenario"), ("text", text), ("subject", name)])
    };
    assert_has(&subject("nosuch"), 422, &["id=\"wrong-subject\">No machine is named"]);
    assert_has(&subject("no such"), 422, &["id=\"wrong-subject\">&#39;no such&#39; is not a valid name."]);
    let right =
        "title = \"Mine\"\n[[machine]]\nname = \"web_0\"\n[[step]]\npoll = \"web_0\"\n[[step]]\nrestart = \"web_0\"\n";
    let ran = browser.post("/test-kit", &[("form", "scenario"), ("text", right)]);
    assert_eq!((ran.status, ran.header("location")), (303, Some("/test-kit#runs")), "{}", ran.text());
    let again = browser.page("/test-kit");
    assert!(again.contains("restart = &#34;web_0&#34;\n</textarea>"), "the scenario is kept: {again}");
    assert!(browser.page("/test-kit?scenario=user-reboot").contains("title = &#34;Restart by a user&#34;"));
    let other = Browser::at_once(&server);
    assert!(!other.page("/test-kit").contains("restart = &#34;web_0&#34;"), "another session sees the scenario");
    check(&server, "GET /scenario-runs/1?wait=60", NONE, 200, json!({ "title": "Mine", "name": "own" }));
    assert!(browser.page("/test-kit").contains("web_0 requests its document"));
}

#[test]
fn faults_use_the_fields_of_their_kind() {
    let server = Server::with_machines(&["web"]);
    let browser = Browser::at_once(&server);
    let add =
        |fields: &[(&'static str, &'static str)]| browser.post("/test-kit", &[&[("form", "fault")], fields].concat());
    for (fields, field) in [
        (&[("kind", "Status"), ("status", "503"), ("retry_after", "soon")][..], "retry_after"),
        (&[("kind", "Delay"), ("delay", "x")], "delay"),
        (&[("kind", "Delay"), ("delay", "301s")], "delay"),
        (&[("kind", "Reset"), ("count", "x")], "count"),
        (&[("kind", "Reset"), ("count", "0")], "count"),
        (&[("kind", "Reset"), ("percent", "101")], "percent"),
        (&[("kind", "Reset"), ("lasts", "x")], "lasts"),
        (&[("kind", "Reset"), ("machine", "nosuch")], "machine"),
        (&[("kind", "EventsVanish"), ("method", "POST")], "method"),
        (&[("kind", "Explode")], "kind"),
    ] {
        let answer = add(fields);
        assert_has(&answer, 422, &[&format!("id=\"wrong-{field}\"")]);
        let element = between(&answer.text(), &format!("id=\"field-{field}\""), ">");
        assert!(
            element.contains("autofocus") && answer.text().matches(" autofocus").count() == 1,
            "{field}: {element}"
        );
    }
    check(&server, "GET /faults", NONE, 200, json!({ "value": [] }));
    for (id, status) in [("1", "410"), ("2", "500")] {
        let added = add(&[("kind", "Status"), ("status", status), ("retry_after", "1s"), ("count", "10")]);
        assert_eq!((added.status, added.header("location")), (303, Some("/test-kit#faults")), "{}", added.text());
        let cleared = browser.post("/portal/act", &[("act", "clear-fault"), ("target", id), ("back", "/test-kit")]);
        assert_eq!(cleared.header("location"), Some("/test-kit#faults"));
    }
    let status =
        [("kind", "Status"), ("status", "429"), ("retry_after", "9s"), ("delay", "ignored"), ("machine", "web")];
    assert_eq!(add(&[&status[..], &[("count", "2"), ("method", "GET"), ("documents", "on")]].concat()).status, 303);
    let slow = [("kind", "SlowFirstCall"), ("delay", "250ms"), ("status", "x"), ("lasts", "5m"), ("percent", "50")];
    assert_eq!(add(&slow).status, 303);
    let first = json!({ "fault": { "kind": "Status", "status": 429, "retryAfterSeconds": 9 }, "machine": "web", "count": 2, "method": "GET", "documentsOnly": true });
    let second =
        json!({ "fault": { "kind": "SlowFirstCall", "delaySeconds": 0.25 }, "forSeconds": 300, "percent": 50 });
    check(&server, "GET /faults", NONE, 200, json!({ "value": [first, second] }));
    let page = browser.page("/test-kit");
    assert!(page.contains("Status 429, Retry-After 9s, GET only, documents only for web"), "{page}");
    assert!(page.contains("SlowFirstCall 250ms, 50% of requests for all machines</b> <span>until"), "{page}");
}

#[test]
fn the_clock_advances_to_the_next_deadline() {
    let server = Server::with_machines(&["web"]);
    server.listen_as("web");
    check(&server, "POST /machines/web/restart", NONE, 202, json!({}));
    let browser = Browser::at_once(&server);
    assert!(browser.page("/test-kit").contains("Next deadline <time datetime=\"2026-03-01T12:15:00Z\""));
    assert_eq!(browser.post("/portal/act", &[("act", "advance-next"), ("back", "/test-kit")]).status, 303);
    check(&server, "GET /clock", NONE, 200, json!({ "now": "2026-03-01T12:15:00Z" }));
    assert_eq!(server.document("web")["Events"][0]["EventStatus"], "Started");
    assert!(browser.page("/test-kit").contains(": the end of a Reboot of web."));
    assert_eq!(browser.post("/portal/act", &[("act", "advance-next"), ("back", "/test-kit")]).status, 303);
    assert_eq!(server.document("web")["Events"], json!([]), "the impact has ended, within an hour");
    let now = check(&server, "GET /clock", NONE, 200, json!({}))["now"].as_str().unwrap().to_owned();
    assert!(now.as_str() < "2026-03-01T13:00:00Z", "{now}");
}
