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
