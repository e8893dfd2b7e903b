//! The portal over sockets: signing in and out, CSRF tokens, the content of pages, escaping of names, and the stream.

use std::sync::mpsc::RecvTimeoutError;

use crate::api_support;
use crate::api_support::{Answer, Client, NONE, Server, check};
use crate::portal_support::*;
use forewarn_access::{Role, SignIn, Subject};
use forewarn_server::Config;
use serde_json::json;

const PAGES: [&str; 15] = [
    "/",
    "/operations",
    "/rollouts/plan",
    "/groups",
    "/machines",
    "/hosts",
    "/webhooks",
    "/history",
    "/calendar",
    "/search?q=secret",
    "/scale-sets",
    "/scale-sets/add",
    "/maintenance",
    "/test-kit",
    "/portal/live?page=/",
];

#[test]
fn nothing_is_shown_without_signing_in() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::guarded(dir.path());
    check(&server, "POST /machines", json!({ "name": "secret-machine" }), 201, json!({}));
    let stranger = Client::to(server.management);
    for cookie in
        [None, Some("forewarn=1"), Some(&*format!("forewarn-{}={}", server.management.port(), "0".repeat(64)))]
    {
        let client = cookie.map_or(stranger.clone(), |cookie| stranger.clone().header("Cookie", cookie));
        for page in PAGES {
            let answer = client.send(server.management, &format!("GET {page}"), b"");
            assert_eq!(answer.status, 401, "{page}");
            assert!(!answer.text().contains("secret-machine"), "{page}");
        }
        for path in [
            "/portal/act",
            "/portal/selection",
            "/portal/machine-host",
            "/portal/hosts",
            "/portal/operations",
            "/rollouts",
            "/groups/1",
            "/portal/sign-in",
            "/portal/sign-out",
            "/maintenance",
            "/scale-sets/add",
            "/hosts",
            "/test-kit",
        ] {
            assert_eq!(client.send(server.management, &format!("POST {path}"), b"").status, 401, "{path}");
        }
    }
}

#[test]
fn every_response_has_the_content_security_policy() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::guarded(dir.path());
    let browser = Browser::by_link(&server);
    let stranger = Client::to(server.management);
    let mut answers: Vec<Answer> = PAGES[..14].iter().map(|page| browser.get(page)).collect();
    for path in [
        "/",
        "/portal/sign-in",
        "/portal/assets/portal.css",
        "/portal/assets/none",
        "/healthz",
        "/api/v1/machines",
        "/nothing",
    ] {
        answers.push(stranger.send(server.management, &format!("GET {path}"), b""));
    }
    answers.push(Client::with_host("evil.example").send(server.management, "GET /", b""));
    for answer in answers {
        let policy = answer.header("content-security-policy").unwrap_or_else(|| panic!("{}", answer.text()));
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert!(!policy.contains("unsafe") && !policy.contains('*') && !policy.contains("http"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("same-origin"));
    }
}

#[test]
fn pages_contain_nothing_that_the_policy_forbids() {
    let server = Server::with_machines(&["web"]);
    let browser = Browser::at_once(&server);
    let machine = format!("/machines/{}", vm_id(&server, "web"));
    for page in PAGES[..14].iter().copied().chain([machine.as_str()]) {
        let text = browser.page(page);
        for forbidden in ["<style", " style=", "onclick", "javascript:", "src=\"http", "href=\"http"] {
            assert!(!text.contains(forbidden), "{page} has {forbidden}");
        }
        let scripts = text.matches("<script").count();
        assert_eq!(scripts, text.matches("<script src=\"/portal/assets/").count(), "{page}");
    }
}

#[test]
fn a_link_is_valid_for_one_sign_in() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::guarded(dir.path());
    let path = link(&server);
    let client = Client::to(server.management);
    let first = client.send(server.management, &format!("GET {path}"), b"");
    assert!(first.status == 200 && first.header("set-cookie").is_some());
    for again in [path.as_str(), "/portal/sign-in?code=", "/portal/sign-in?code=0000"] {
        let answer = client.send(server.management, &format!("GET {again}"), b"");
        assert_eq!((answer.status, answer.header("set-cookie")), (401, None), "{again}");
        assert!(answer.text().contains("forewarn portal"), "{again}");
    }
}

#[test]
fn signing_out_ends_the_session_and_its_streams() {
    let server = Server::with_machines(&["web"]);
    let browser = Browser::at_once(&server);
    let messages = browser.live("/");
    await_html(&messages, "web");
    let out = browser.post("/portal/sign-out", &[]);
    assert_eq!(out.status, 303);
    assert!(out.header("set-cookie").unwrap().contains("Max-Age=0"));
    assert_eq!(browser.get("/").status, 401);
    check(&server, "POST /machines", json!({ "name": "later" }), 201, json!({}));
    while let Ok(message) = messages.recv_timeout(PATIENCE) {
        assert!(!message.to_string().contains("later"), "{message}");
    }
}

#[test]
fn signing_out_ends_the_streams_of_all_tabs_of_that_session_only() {
    let server = Server::with_machines(&["web"]);
    let (browser, other) = (Browser::at_once(&server), Browser::at_once(&server));
    let tabs = ["/", "/hosts"].map(|page| browser.live(page));
    let theirs = other.live("/");
    for messages in tabs.iter().chain([&theirs]) {
        messages.recv_timeout(PATIENCE).unwrap();
    }
    assert_eq!(browser.post("/portal/sign-out", &[]).status, 303);
    for messages in tabs {
        let last = messages.recv_timeout(PATIENCE);
        assert_eq!(last, Err(RecvTimeoutError::Disconnected), "a heartbeat came first");
    }
    check(&server, "POST /machines", json!({ "name": "later" }), 201, json!({}));
    await_html(&theirs, "later");
}

#[test]
fn unknown_paths_show_browsers_a_page_and_other_clients_an_api_error() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::guarded(dir.path());
    let browser = Browser::by_link(&server);
    let html = |client: &Client, path: &str| {
        let client = client.clone().header("Accept", "text/html,application/xhtml+xml,*/*;q=0.8");
        client.send(server.management, &format!("GET {path}"), b"")
    };
    for path in ["/nosuch", "/portal/nosuch", "/machines/xyz", "/operations/x", "/rollouts/x"] {
        let lost = html(&browser.client, path);
        assert_eq!(lost.status, 404, "{path}");
        assert!(
            lost.text().contains("This page does not exist.") && lost.text().contains("data-state=\"gone\""),
            "{path}"
        );
    }
    let stranger = html(&Client::to(server.management), "/nosuch");
    assert_eq!(stranger.status, 401);
    assert!(stranger.text().contains("<pre><code>forewarn portal</code></pre>"), "{}", stranger.text());
    for path in ["/portal", "/portal/selection", "/portal/act", "/portal/sign-out"] {
        let sent = html(&browser.client, path);
        assert_eq!((sent.status, sent.header("location")), (303, Some("/")), "{path}");
    }
    // The session cookie is not accepted as a token, and API paths never return pages.
    assert!(browser.get("/nosuch").text().contains("This request requires a token"));
    for path in ["/api/v1/nosuch", "/subscriptions", "/metrics"] {
        assert!(html(&browser.client, path).header("content-type").unwrap().contains("json"), "{path}");
    }
    let evil = browser.client.clone().header("Accept", "text/html").header("Origin", "http://evil.example");
    assert_eq!(evil.send(server.management, "GET /nosuch", b"").status, 403);
    assert_eq!(browser.get("/portal/live?page=none").status, 404);
    assert_eq!(browser.get("/portal/session").status, 204);
    assert_eq!(server.client().send(server.management, "GET /portal/session", b"").status, 401);
}

#[test]
fn without_javascript_a_page_does_not_claim_to_connect() {
    let server = Server::with_machines(&["web"]);
    let page = Browser::at_once(&server).page("/");
    let said = between(&page, "id=\"connection\"", "</span>");
    assert!(said.ends_with("><noscript>not live: reload to update</noscript>"), "{said}");
}

#[test]
fn sessions_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::guarded(dir.path());
    let browser = Browser::by_link(&server);
    let cookie = browser.client.clone();
    let port = server.management.port();
    server.stop();
    drop(server);
    let again = Server::guarded_at(dir.path(), port);
    assert_eq!(cookie.send(again.management, "GET /", b"").status, 200);
}

#[test]
fn forms_without_the_csrf_token_of_the_session_are_refused() {
    let server = Server::with_machines(&["web"]);
    let (browser, other) = (Browser::at_once(&server), Browser::at_once(&server));
    let target = vm_id(&server, "web");
    let fields = [("act", "stop"), ("target", target.as_str()), ("back", "/")];
    for csrf in ["", "0", other.csrf.as_str()] {
        let answer = browser.post_plain("/portal/act", &[&[("csrf", csrf)], &fields[..]].concat());
        assert_eq!(answer.status, 403, "{csrf}");
    }
    assert_eq!(browser.post_plain("/portal/act", &fields).status, 403);
    let foreign = browser.client.clone().header("Origin", "https://evil.example");
    let body = format!("csrf={}&act=stop&target={target}", browser.csrf);
    assert_eq!(foreign.send(server.management, "POST /portal/act", body.as_bytes()).status, 403);
    check(&server, "GET /machines/web", NONE, 200, json!({ "power": "Running" }));
    assert_eq!(browser.post("/portal/act", &fields).status, 303);
    check(&server, "GET /machines/web", NONE, 200, json!({ "power": "Stopped" }));
}

#[test]
fn a_reader_sees_everything_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::guarded(dir.path());
    check(&server, "POST /machines", json!({ "name": "web" }), 201, json!({}));
    let sign_in = SignIn::in_directory(dir.path()).unwrap();
    let subject = Subject { name: "ann".into(), client_id: "c".into(), object_id: "o".into(), role: Role::Reader };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    let token = sign_in.issue(&subject, forewarn_access::AUDIENCE, now, 600).token;
    let made = Client::to(server.management).header("Authorization", &format!("Bearer {token}"));
    let made = made.send(server.management, "POST /api/v1/portal-links", b"");
    let path = made.json()["path"].as_str().unwrap().to_owned();
    let browser =
        Browser::of(&server, &Client::to(server.management).send(server.management, &format!("GET {path}"), b""));
    let target = vm_id(&server, "web");
    assert!(browser.page(&format!("/machines/{target}")).contains("Requires the owner role."));
    for act in ["restart", "stop", "delete-machine"] {
        let answer = browser.post("/portal/act", &[("act", act), ("target", &target), ("back", "/")]);
        assert_eq!(answer.status, 403, "{act}");
        assert!(answer.text().contains("ann"), "{act}");
    }
    check(&server, "GET /machines/web", NONE, 200, json!({ "power": "Running" }));
}

#[test]
fn the_overview_contains_machines_and_events() {
    let server = Server::with_machines(&["web", "db"]);
    server.listen_as("web");
    check(&server, "POST /machines/web/restart", NONE, 202, json!({}));
    let page = Browser::at_once(&server).page("/");
    for part in [
        "No machines are down.",
        "Restart of web</a>",
        ">web</a>",
        ">db</a>",
        "b-amber\">Reboot",
        "no handler",
        "not before 2026-03-01 12:15:00 UTC",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let found = Browser::at_once(&server).page("/search?q=dB");
    assert!(found.contains(">db</a>") && !found.contains(">web</a>"), "{found}");
}

#[test]
fn actions_are_previewed() {
    let server = Server::start();
    let set = json!({ "name": "web", "capacity": 2, "orchestration": "Uniform", "model": { "terminateNotification": { "notBeforeTimeout": "PT7M" } } });
    check(&server, "POST /scale-sets", set, 201, json!({}));
    let browser = Browser::at_once(&server);
    let page = format!("/machines/{}", vm_id(&server, "web_0"));
    assert!(browser.page(&page).contains("No handler is connected in its event group, so it happens immediately"));
    server.listen_as("web_1");
    let text = browser.page(&page);
    assert!(
        text.contains("). web_0 and web_1 share the document; the event starts earlier if one of them approves."),
        "{text}"
    );
    let restart = between(&text, "id=\"do-restart\"", "</details>");
    assert!(restart.contains("Reboot not before <time datetime=\"2026-03-01T12:15:00Z\""), "{restart}");
    let delete = between(&text, "id=\"do-delete-machine\"", "</details>");
    assert!(delete.contains("Terminate not before <time datetime=\"2026-03-01T12:07:00Z\""), "{delete}");
}

#[test]
fn an_event_is_requested_approved_and_followed_to_its_end() {
    let server = Server::with_machines(&["web"]);
    server.listen_as("web");
    let browser = Browser::at_once(&server);
    let target = vm_id(&server, "web");
    let asked = browser.post("/portal/act", &[("act", "restart"), ("target", &target), ("back", "/")]);
    assert_eq!(asked.status, 303, "{}", asked.text());
    let event = asked.header("location").unwrap().to_owned();
    let id = event.strip_prefix("/events/").unwrap().to_owned();
    let page = browser.page(&event);
    assert!(
        page.contains("<b>Scheduled</b>, starts <span class=\"count\"") && page.contains("not approved yet"),
        "{page}"
    );
    assert_eq!(browser.post("/portal/act", &[("act", "approve"), ("target", &id), ("back", &event)]).status, 303);
    let page = browser.page(&event);
    assert!(page.contains("<b>In progress</b>") && page.contains("owner (management)"), "{page}");
    check(&server, "POST /clock/advance", json!({ "seconds": 3600 }), 200, json!({}));
    let page = browser.page(&event);
    assert!(page.contains("Completed") && page.contains("ended: completed"), "{page}");
    let machine = browser.page(&format!("/machines/{target}"));
    assert!(
        machine.contains("&#34;Events&#34;: []") && machine.contains("Handler stopped polling: 1 poll since"),
        "{machine}"
    );
}

#[test]
fn refusals_are_shown_with_the_message_of_the_rules() {
    let server = Server::with_machines(&["web"]);
    let browser = Browser::at_once(&server);
    let target = vm_id(&server, "web");
    let refused =
        browser.post("/portal/act", &[("act", "evict"), ("target", &target), ("back", &format!("/machines/{target}"))]);
    assert_eq!(refused.status, 409);
    let text = refused.text();
    assert!(between(&text, "role=\"alert\">", "</p>").contains("Spot") && text.contains("<h1>web</h1>"), "{text}");
    assert_eq!(browser.post("/portal/act", &[("act", "explode"), ("back", "/")]).status, 422);
    assert_eq!(browser.get("/machines/51941b56-8080-45ac-81ae-8bda818f5958").status, 404);
    assert_eq!(browser.get("/events/51941b56-8080-45ac-81ae-8bda818f5958").status, 404);
    assert_eq!(browser.get("/groups/77").status, 404);
}

#[test]
fn names_and_descriptions_are_escaped() {
    let server = Server::with_machines(&["web"]);
    server.listen_as("web");
    let hostile = "<script>alert(1)</script>\"'&";
    let maintenance = json!({ "target": { "machine": "web" }, "type": "Freeze", "description": hostile });
    let operation = check(&server, "POST /maintenance", maintenance, 202, json!({}));
    let id = operation["events"][0]["id"].as_str().unwrap().to_owned();
    // Paths and versions of metadata requests are shown too.
    server.metadata("GET /vm/web/metadata/%3Cscript%3E?api-version=%3Cimg%20src=x%3E", "");
    let browser = Browser::at_once(&server);
    let machine = format!("/machines/{}", vm_id(&server, "web"));
    let search = "/search?q=%3Cscript%3Ealert(1)%3C/script%3E%22";
    for page in [format!("/events/{id}"), machine, search.to_owned(), "/maintenance".into()] {
        let text = browser.page(&page);
        assert!(!text.contains("<script>") && !text.contains("<img src=x"), "{page}: {text}");
    }
    assert!(browser.page(&format!("/events/{id}")).contains("&#60;script&#62;alert(1)"));
    let named = Server::new(Config { first_machine: Some("<script>x\"'&amp;".into()), ..api_support::open() });
    named.listen_as("%3Cscript%3Ex%22%27&amp%3B");
    let visitor = Browser::at_once(&named);
    let text = visitor.page("/");
    assert!(text.contains("&#60;script&#62;x&#34;&#39;&#38;amp;") && !text.contains("<script>x"), "{text}");
    let messages = visitor.live("/");
    let first = messages.recv_timeout(PATIENCE).unwrap();
    let html: Vec<&str> = first["put"].as_array().unwrap().iter().map(|one| one["html"].as_str().unwrap()).collect();
    assert!(html.iter().any(|html| html.contains("&#60;script")) && !html.iter().any(|html| html.contains("<script")));
    let typed = browser.post("/scale-sets/add", &[("step", "review"), ("name", hostile), ("capacity", "2")]);
    assert!(typed.status == 422 && !typed.text().contains("<script>alert"), "{}", typed.text());
}

#[test]
fn the_stream_sends_only_changes() {
    let server = Server::with_machines(&["web", "db"]);
    server.listen_as("web");
    let browser = Browser::at_once(&server);
    let messages = browser.live("/");
    let first = messages.recv_timeout(PATIENCE).unwrap();
    assert!(first["all"].as_array().unwrap().len() >= 3, "{first}");
    check(&server, "POST /machines/web/restart", NONE, 202, json!({}));
    let change = await_html(&messages, "Reboot");
    let ids: Vec<&str> = change["put"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert!(ids.iter().any(|id| id.starts_with("op-")) && ids.contains(&"status-content"), "{ids:?}");
    assert!(!change["put"].to_string().contains(">db</a>"), "{change}");
    check(&server, "POST /clock/advance", json!({ "seconds": 900 }), 200, json!({}));
    await_html(&messages, "1 machine down now");
    check(&server, "POST /clock/advance", json!({ "seconds": 3600 }), 200, json!({}));
    await_html(&messages, "No machines are down.");
}

#[test]
fn a_scale_set_is_created_step_by_step() {
    let server = Server::start();
    let browser = Browser::at_once(&server);
    assert!(browser.page("/scale-sets").contains("href=\"/scale-sets/add\">Add</a>"));
    let fields = |delay: &'static str, step: &'static str| {
        [
            ("name", "web"),
            ("resource_group", "default"),
            ("capacity", "2"),
            ("orchestration", "Uniform"),
            ("priority", "Regular"),
            ("upgrade_mode", "Manual"),
            ("notification", "on"),
            ("delay", delay),
            ("step", step),
        ]
    };
    for wrong in ["4", "16", "x", ""] {
        let answer = browser.post("/scale-sets/add", &fields(wrong, "review"));
        assert_eq!(answer.status, 422, "{wrong}");
        assert!(answer.text().contains("id=\"wrong-delay\"") && answer.text().contains("value=\"web\""), "{wrong}");
    }
    let review = browser.post("/scale-sets/add", &fields("7", "review"));
    assert!(review.status == 200 && review.text().contains("On, 7 minutes"), "{}", review.text());
    check(&server, "GET /scale-sets/web", NONE, 404, json!({}));
    let created = browser.post("/scale-sets/add", &fields("7", "create"));
    assert_eq!(created.status, 303, "{}", created.text());
    let expected = json!({ "capacity": 2, "model": { "terminateNotification": { "notBeforeTimeout": "PT7M" } } });
    check(&server, "GET /scale-sets/web", NONE, 200, expected);
    let page = created.header("location").unwrap().to_owned();
    let target = [("target", "default~web"), ("back", page.as_str())];
    let notify = [("form", "notify"), ("back", page.as_str()), ("notification", "on"), ("delay", "9")];
    assert_eq!(browser.post(&page, &notify).status, 303);
    assert!(browser.page(&page).contains("Upgrade 2 instances"));
    assert_eq!(browser.post("/portal/act", &[&target[..], &[("act", "upgrade")]].concat()).status, 303);
    assert!(browser.page(&page).contains("Every instance has the latest model."));
    check(
        &server,
        "GET /machines/web_0",
        NONE,
        200,
        json!({ "terminateNotification": { "notBeforeTimeout": "PT9M" } }),
    );
    let again = browser.post("/scale-sets/add", &fields("7", "create"));
    assert!(again.status == 422 && again.text().contains("id=\"wrong-name\">The name"), "{}", again.text());
}

#[test]
fn maintenance_is_previewed_scheduled_and_canceled() {
    let server = Server::start();
    check(
        &server,
        "POST /scale-sets",
        json!({ "name": "web", "capacity": 2, "orchestration": "Uniform" }),
        201,
        json!({}),
    );
    server.listen_as("web_0");
    let browser = Browser::at_once(&server);
    let fields = [("what", "group"), ("name", "web"), ("kind", "Reboot"), ("cause", "HostMaintenance")];
    let preview = browser.post("/maintenance", &[&fields[..], &[("step", "preview")]].concat()).text();
    let (first, second) = (preview.find("<td>0</td><td>web_0</td>"), preview.find("<td>1</td><td>web_1</td>"));
    assert!(first.is_some() && first < second, "{preview}");
    let wrong = browser
        .post("/maintenance", &[("what", "host"), ("name", "none"), ("kind", "Reboot"), ("cause", "HostMaintenance")]);
    assert!(wrong.status == 422 && wrong.text().contains("There is no host &#39;none&#39;"), "{}", wrong.text());
    assert_eq!(
        browser.post("/maintenance", &[&fields[..], &[("step", "start")]].concat()).status,
        200,
        "not previewed yet"
    );
    let previewed = between(&preview, "name=\"previewed\" value=\"", "\"");
    let start = [&fields[..], &[("step", "start"), ("previewed", &previewed)]].concat();
    assert_eq!(browser.post("/maintenance", &start).status, 303);
    let page = browser.page("/maintenance");
    let id = between(&page, "id=\"operation-", "\"");
    assert!(page.contains("Reboot of web"), "{page}");
    assert_eq!(
        browser.post("/portal/act", &[("act", "cancel-operation"), ("target", &id), ("back", "/maintenance")]).status,
        303
    );
    assert!(browser.page("/maintenance").contains("canceled by owner"));
}

#[test]
fn the_test_kit_controls_scenarios_faults_and_the_clock() {
    let server = Server::with_machines(&["web"]);
    let browser = Browser::at_once(&server);
    let back = ("back", "/test-kit");
    assert_eq!(browser.post("/test-kit", &[("form", "advance"), ("by", "15m")]).status, 303);
    check(&server, "GET /clock", NONE, 200, json!({ "now": "2026-03-01T12:15:00Z" }));
    let wrong = browser.post("/test-kit", &[("form", "advance"), ("by", "soon")]);
    assert!(wrong.status == 422 && wrong.text().contains("such as 90s"), "{}", wrong.text());
    assert_eq!(
        browser.post("/test-kit", &[("form", "fault"), ("kind", "Status"), ("status", "503"), ("count", "3")]).status,
        303
    );
    assert!(browser.page("/test-kit").contains("0 of 0 requests affected"));
    assert_eq!(browser.post("/portal/act", &[("act", "clear-fault"), ("target", "1"), back]).status, 303);
    assert_eq!(browser.post("/portal/act", &[("act", "run"), ("target", "eviction"), back]).status, 303);
    assert!(browser.page("/test-kit").contains("id=\"run-1\""));
}
