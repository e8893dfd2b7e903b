//! The management listener: hostile clients without a token cannot keep others out, and health reports problems.

use std::io::Write;
use std::net::TcpStream;

use forewarn_server::{Config, DriverChoice, LibvirtChoice, StoreChoice};
use serde_json::json;

use crate::api_support::*;
use crate::portal_support::PATIENCE;

/// More than the listener has connections.
const HOSTILE: usize = 1_030;

#[test]
fn clients_that_never_read_and_have_no_token_do_not_block_management() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::guarded(directory.path());
    let unread = "GET /portal/assets/portal.css HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(16);
    let mut hostile = Vec::new();
    for number in 0..HOSTILE {
        let mut stream = TcpStream::connect(server.management).unwrap();
        stream.write_all(unread.as_bytes()).unwrap();
        hostile.push(stream);
        if number % 100 == 0 {
            assert_eq!(Client::to(server.management).send(server.management, "GET /healthz", b"").status, 200);
        }
    }
    for _ in 0..20 {
        assert_eq!(Client::to(server.management).send(server.management, "GET /healthz", b"").status, 200);
        check(&server, "GET /machines", NONE, 200, json!({}));
    }
    let metrics = server.client().send(server.management, "GET /metrics", b"").text();
    let evicted = metrics.lines().find(|line| line.starts_with("forewarn_management_connections_evicted_total"));
    assert!(evicted.is_some_and(|line| !line.ends_with(" 0")), "{metrics}");
}

#[test]
fn failed_sign_ins_are_counted_whatever_the_way_of_signing_in() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::guarded(directory.path());
    let send = |client: Client, line: &str, body: &[u8]| client.send(server.management, line, body).status;
    let client = || Client::to(server.management);
    assert_eq!(send(client(), "GET /api/v1/machines", b""), 401, "no token is not an attempt to sign in");
    assert_eq!(send(client().header("Authorization", "Bearer wrong"), "GET /api/v1/machines", b""), 401);
    assert_eq!(send(client(), "GET /portal/sign-in?code=wrong", b""), 401);
    let form = client().header("Content-Type", "application/x-www-form-urlencoded");
    let fields = b"grant_type=client_credentials&client_id=owner&client_secret=wrong";
    assert_eq!(send(form, "POST /common/oauth2/token", fields), 401);
    let metrics = server.client().send(server.management, "GET /metrics", b"").text();
    assert!(metrics.contains("\nforewarn_sign_in_failures_total 3\n"), "{metrics}");
}

#[test]
fn the_answer_to_the_eleventh_failed_sign_in_is_delayed() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::guarded(directory.path());
    let delays = || {
        let metrics = server.client().send(server.management, "GET /metrics", b"").text();
        let line = metrics.lines().find_map(|line| line.strip_prefix("forewarn_sign_in_delays_total "));
        line.unwrap().to_owned()
    };
    for _ in 0..10 {
        let client = Client::to(server.management).header("Authorization", "Bearer wrong");
        assert_eq!(client.send(server.management, "GET /api/v1/machines", b"").status, 401);
    }
    assert_eq!(delays(), "0");
    let mut slow = TcpStream::connect(server.management).unwrap();
    slow.write_all(b"GET /api/v1/machines HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer wrong\r\n\r\n").unwrap();
    let begun = std::time::Instant::now();
    while delays() == "0" && begun.elapsed() < PATIENCE {
        std::thread::yield_now();
    }
    assert_eq!(delays(), "1", "a caller with a token at the same address is answered meanwhile");
}

#[test]
fn damaged_pages_of_the_database_are_reported_in_health() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::kept_in(directory.path());
    check(&server, "POST /machines", json!({ "name": "web" }), 201, json!({}));
    server.stop();
    let path = directory.path().join("forewarn.db");
    let mut bytes = std::fs::read(&path).unwrap();
    // The header claims more free pages than there are.
    bytes[36..40].copy_from_slice(&99_u32.to_be_bytes());
    std::fs::write(&path, bytes).unwrap();
    let server = Server::kept_in(directory.path());
    let health = || Client::to(server.management).send(server.management, "GET /healthz", b"");
    let begun = std::time::Instant::now();
    while health().json()["status"] == "ok" && begun.elapsed() < PATIENCE {
        std::thread::yield_now();
    }
    let found = health();
    assert_eq!((found.status, &found.json()["status"]), (200, &json!("degraded")));
    let problem = found.json()["problems"][0].as_str().unwrap().to_owned();
    assert!(problem.contains("forewarn.db is damaged") && problem.contains("backup"), "{problem}");
    check(&server, "GET /machines/web", NONE, 200, json!({ "name": "web" }));
}

#[test]
fn a_libvirtd_that_is_gone_is_reported_in_health_and_metrics_and_orders_wait() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("no-socket");
    let driver = DriverChoice::Libvirt(LibvirtChoice { host: "host1".into(), socket, ..LibvirtChoice::default() });
    let store = StoreChoice::Directory(directory.path().join("data"));
    let server = Server::new(Config { store, driver, ..open() });
    let get = |path: &str| Client::to(server.management).send(server.management, &format!("GET {path}"), b"");
    let begun = std::time::Instant::now();
    while get("/healthz").json()["status"] == "ok" && begun.elapsed() < PATIENCE {
        std::thread::yield_now();
    }
    let expected =
        json!({ "status": "degraded", "problems": ["libvirtd of host 'host1' does not answer; its orders wait"] });
    assert_eq!(get("/healthz").json(), expected);
    let metrics = get("/metrics").text();
    assert!(metrics.contains("forewarn_libvirt_connected{host=\"host1\"} 0"), "{metrics}");
    check(&server, "POST /machines", json!({ "name": "web", "host": "host1" }), 201, json!({}));
    check(&server, "POST /machines/web/restart", NONE, 202, json!({}));
    check(&server, "GET /events", NONE, 200, json!({ "value": [{ "type": "Reboot", "status": "Started" }] }));
}
