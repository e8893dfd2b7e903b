//! Portal sessions end with their credential: the token file, a client, or the key that signs tokens.

use std::path::Path;

use crate::api_support::{Client, Server, check};
use crate::portal_support::*;
use forewarn_access::{AUDIENCE, CLIENTS_FILE, Role, SIGNING_KEY_FILE, SignIn, Subject, rotate_token};
use serde_json::json;

fn status(server: &Server, cookie: &Client) -> u16 {
    cookie.send(server.management, "GET /", b"").status
}

/// Checks the status of a reader's session after a change in the data directory and a restart of the server.
#[track_caller]
fn after_a_restart(change: impl Fn(&Path), expected: u16) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::guarded(dir.path());
    let port = server.management.port();
    let cookie = Browser::with_token(&server, &token_for(dir.path(), Role::Reader)).client;
    assert_eq!(status(&server, &cookie), 200);
    server.stop();
    drop(server);
    change(dir.path());
    let again = Server::guarded_at(dir.path(), port);
    assert_eq!(status(&again, &cookie), expected);
}

fn edit_clients(dir: &Path, from: &str, to: &str) {
    let file = dir.join(CLIENTS_FILE);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains(from), "{text}");
    std::fs::write(&file, text.replace(from, to)).unwrap();
}

#[test]
fn a_head_request_does_not_use_up_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::guarded(dir.path());
    let link = link(&server);
    let head = Client::to(server.management).send(server.management, &format!("HEAD {link}"), b"");
    assert_eq!((head.status, head.header("set-cookie")), (200, None));
    let get = Client::to(server.management).send(server.management, &format!("GET {link}"), b"");
    assert!(get.status == 200 && get.header("set-cookie").is_some());
}

#[test]
fn a_rotated_token_ends_its_sessions_and_their_streams_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::guarded(dir.path());
    check(&server, "POST /machines", json!({ "name": "web" }), 201, json!({}));
    let (owner, unused) = (Browser::by_link(&server), link(&server));
    let client = Browser::with_token(&server, &token_for(dir.path(), Role::Reader)).client;
    let messages = owner.live("/");
    await_html(&messages, "web");
    rotate_token(dir.path()).unwrap();
    assert_eq!(owner.get("/").status, 401);
    let late = Client::to(server.management).send(server.management, &format!("GET {unused}"), b"");
    assert_eq!((late.status, late.header("set-cookie")), (401, None), "a link of the old token still works");
    while let Ok(message) = messages.recv_timeout(PATIENCE) {
        assert!(message["put"].is_null(), "{message}");
    }
    assert_eq!(status(&server, &client), 200, "the session of a client does not depend on that token");
}

#[test]
fn a_client_that_was_removed_or_has_another_role_is_signed_out_by_the_next_restart() {
    after_a_restart(|_| {}, 200);
    after_a_restart(|dir| edit_clients(dir, "\"clientId\": \"reader\"", "\"clientId\": \"former\""), 401);
    after_a_restart(|dir| edit_clients(dir, "\"role\": \"reader\"", "\"role\": \"operator\""), 401);
    after_a_restart(|dir| std::fs::remove_file(dir.join(SIGNING_KEY_FILE)).unwrap(), 401);
}

#[test]
fn a_signed_token_signs_in_as_its_subject() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::guarded(dir.path());
    let subject =
        Subject { name: "reader".into(), client_id: "reader".into(), object_id: "reader".into(), role: Role::Operator };
    let token = SignIn::in_directory(dir.path()).unwrap().issue(&subject, AUDIENCE, now(), 600).token;
    let cookie = Browser::with_token(&server, &token).client;
    let page = cookie.send(server.management, "GET /", b"").text();
    assert!(page.contains("title=\"reader, operator\""), "{page}");
}

/// Sends the sign-in form.
fn post_form(server: &Server, body: &str) -> crate::api_support::Answer {
    let client = Client::to(server.management).header("Content-Type", "application/x-www-form-urlencoded");
    client.send(server.management, "POST /portal/sign-in", body.as_bytes())
}

#[test]
fn a_token_signs_in_and_returns_to_the_requested_page() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::guarded(dir.path());
    let asked = Client::to(server.management).send(server.management, "GET /hosts?sort=name", b"");
    assert_eq!(asked.status, 401);
    assert!(asked.text().contains(r#"name="back" value="/hosts?sort=name""#), "{}", asked.text());
    assert!(!asked.text().contains("/portal/sign-in/oidc"), "there is no identity provider");
    let token = crate::api_support::token_in(dir.path());
    let signed_in = post_form(&server, &format!("token={token}&back=%2Fhosts%3Fsort%3Dname"));
    assert_eq!(signed_in.status, 200, "{}", signed_in.text());
    assert!(signed_in.text().contains("0;url=/hosts?sort=name"), "{}", signed_in.text());
    let cookie = signed_in.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    assert_eq!(status(&server, &Client::to(server.management).header("Cookie", &cookie)), 200);
    let elsewhere = post_form(&server, &format!("token={token}&back=%2F%2Fevil.example"));
    assert!(elsewhere.text().contains("0;url=/\""), "{}", elsewhere.text());
}

#[test]
fn a_wrong_token_does_not_sign_in() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::guarded(dir.path());
    for body in ["token=wrong&back=%2Fhosts", "back=%2Fhosts", ""] {
        let refused = post_form(&server, body);
        assert_eq!((refused.status, refused.header("set-cookie")), (401, None), "{body}");
        assert!(refused.text().contains(r#"role="alert""#), "{}", refused.text());
    }
    let huge = format!("token={}", "x".repeat(20_000));
    assert_eq!(post_form(&server, &huge).status, 413);
}

#[test]
fn a_server_without_an_identity_provider_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::guarded(dir.path());
    for path in ["/portal/sign-in/oidc", "/portal/sign-in/oidc/callback?code=x&state=y"] {
        let answer = Client::to(server.management).send(server.management, &format!("GET {path}"), b"");
        assert_eq!(answer.status, 404);
        assert!(answer.text().contains("no identity provider"), "{}", answer.text());
    }
}
