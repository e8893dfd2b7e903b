//! The metadata endpoint over real sockets, point by point.

use std::net::Ipv4Addr;

use crate::support::*;
use forewarn_core::*;
use forewarn_server::*;
use tokio::io::AsyncWriteExt;

// --- the lifecycle of an event -------------------------------------------------------------------------------

#[tokio::test]
async fn an_empty_store_has_one_machine_and_curl_works_at_once() {
    let world = World::new().await;
    world.check(&format!("GET {EVENTS}"), "200 {\"DocumentIncarnation\":1,\"Events\":[]}").await;
    world
        .check("GET /metadata/instance/compute/name?api-version=2021-02-01&format=text", &format!("200 {}", hostname()))
        .await;
}

#[tokio::test]
async fn an_event_appears_is_approved_starts_and_ends() {
    let world = World::new().await;
    let name = hostname();
    let get = format!("GET {EVENTS}");
    world.check(&get, "200 {\"DocumentIncarnation\":1,\"Events\":[]}").await;
    world.restart(FIRST, 0xE1).await;
    world.check(&get, &scheduled(2, 0xE1, &name)).await;
    assert_eq!(world.approve("", 0xE1).await.render(), "200");
    world.check(&get, &started(3, 0xE1, &name)).await;
    world.advance(599).await;
    world.check(&get, &started(3, 0xE1, &name)).await;
    world.advance(1).await;
    world.check(&get, "200 {\"DocumentIncarnation\":4,\"Events\":[]}").await;
}

#[tokio::test]
async fn an_event_without_approval_starts_at_its_time() {
    let world = World::new().await;
    let get = format!("GET {EVENTS}");
    world.ask(&get).await;
    world.restart(FIRST, 0xE1).await;
    world.advance(899).await;
    world.check(&get, &scheduled(2, 0xE1, &hostname())).await;
    world.advance(1).await;
    world.check(&get, &started(3, 0xE1, &hostname())).await;
}

#[tokio::test]
async fn one_advance_passes_every_deadline_in_order() {
    let world = World::new().await;
    world.ask(&format!("GET {EVENTS}")).await;
    world.restart(FIRST, 0xE1).await;
    world.advance(3600).await;
    world.check(&format!("GET {EVENTS}"), "200 {\"DocumentIncarnation\":4,\"Events\":[]}").await;
    let facts = world.engine().reader().history(&Default::default()).unwrap();
    let ended = facts.iter().find(|fact| fact.kind == "ended").expect("the event ended");
    assert_eq!(ended.at, START + std::time::Duration::from_secs(900 + 600));
}

#[tokio::test]
async fn in_a_scope_that_is_off_a_restart_makes_no_event() {
    let world = World::new().await;
    world.restart(FIRST, 0xE1).await;
    world.check(&format!("GET {EVENTS}"), "200 {\"DocumentIncarnation\":1,\"Events\":[]}").await;
}

#[tokio::test]
async fn many_first_calls_at_once_turn_the_scope_on_once() {
    let world = World::new().await;
    let mut streams = Vec::new();
    for _ in 0..50 {
        let mut stream = world.connect().await;
        stream.write_all(&bytes_of(&format!("GET {EVENTS}"))).await.unwrap();
        streams.push(stream);
    }
    for mut stream in streams {
        let reply = read_reply(&mut stream).await.unwrap();
        assert_eq!(reply.render(), "200 {\"DocumentIncarnation\":1,\"Events\":[]}");
    }
    let history = world.engine().reader().history(&Default::default()).unwrap();
    assert_eq!(history.iter().filter(|row| row.kind == "scope-on").count(), 1);
}

#[tokio::test]
async fn only_requests_that_are_answered_turn_a_scope_on() {
    let world = World::new().await;
    let scope = world.engine().snapshot().region.machine(FIRST).unwrap().scope;
    for request in [
        "GET /metadata/scheduledevents?api-version=2020-07-01\n-Metadata",
        "GET /metadata/scheduledevents?api-version=1999-01-01",
        "GET /metadata/instance?api-version=2021-02-01",
        "GET /metadata/versions",
        "POST /metadata/scheduledevents?api-version=2020-07-01\n\n{\"StartRequests\":[]}",
        "POST /metadata/scheduledevents?api-version=2020-07-01\n\n{}",
    ] {
        world.ask(request).await;
        assert!(!world.engine().snapshot().region.is_on(scope), "{request}");
    }
    world.ask(&format!("GET {EVENTS}")).await;
    assert!(world.engine().snapshot().region.is_on(scope));
}

// --- versions --------------------------------------------------------------------------------------------

#[tokio::test]
async fn each_version_shows_its_own_keys() {
    let world = World::new().await;
    world.ask(&format!("GET {EVENTS}")).await;
    world.restart(FIRST, 0xE1).await;
    let name = hostname();
    for (version, shown, keys) in [
        ("2017-03-01", format!("_{name}"), 6),
        ("2017-08-01", name.clone(), 6),
        ("2017-11-01", name.clone(), 6),
        ("2019-01-01", name.clone(), 6),
        ("2019-04-01", name.clone(), 7),
        ("2019-08-01", name.clone(), 8),
        ("2020-07-01", name.clone(), 9),
    ] {
        let reply = world.ask(&format!("GET /metadata/scheduledevents?api-version={version}")).await;
        let document: serde_json::Value = serde_json::from_str(&reply.body).unwrap();
        let event = document["Events"][0].as_object().unwrap();
        assert_eq!(event.len(), keys, "{version}");
        assert_eq!(event["Resources"][0], shown, "{version}");
    }
}

#[tokio::test]
async fn names_are_plain_in_the_oldest_version_if_configured() {
    let world = World::with(Config { plain_names: true, ..config() }).await;
    world.ask(&format!("GET {EVENTS}")).await;
    world.restart(FIRST, 0xE1).await;
    let reply = world.ask("GET /metadata/scheduledevents?api-version=2017-03-01").await;
    assert!(reply.body.contains(&format!("[\"{}\"]", hostname())), "{}", reply.body);
}

#[tokio::test]
async fn recommendations_are_shown_only_in_the_preview_version() {
    let world = World::with(Config { preview_version: true, ..config() }).await;
    let spot = world.register_with("spot", |machine| machine.priority = forewarn_core::Priority::Spot).await;
    let preview = "/vm/spot/metadata/scheduledevents?api-version=2024-07-09";
    world.check(&format!("GET {preview}"), "200 {\"DocumentIncarnation\":1,\"Events\":[]}").await;
    world.request(Request::RecommendRebalance { machine: spot }, 0xA0).await;
    let shown = world.ask(&format!("GET {preview}")).await;
    assert!(shown.body.contains("\"EventType\":\"SpotRebalanceRecommendation\""), "{}", shown.body);
    world.check(&format!("GET /vm/spot{EVENTS}"), "200 {\"DocumentIncarnation\":2,\"Events\":[]}").await;
    let id = shown.body.split("\"EventId\":\"").nth(1).unwrap().split('"').next().unwrap();
    let approval = format!("{{\"StartRequests\":[{{\"EventId\":\"{id}\"}}]}}");
    world.check(&format!("POST {preview}\n\n{approval}"), "200").await;
    world.check(&format!("GET {preview}"), "200 {\"DocumentIncarnation\":3,\"Events\":[]}").await;
}

#[tokio::test]
async fn a_deletion_is_not_shown_in_old_versions_but_can_be_approved_there() {
    let world = World::new().await;
    let doomed = world
        .register_with("doomed", |machine| {
            let timeout = std::time::Duration::from_secs(300);
            machine.terminate = Some(std::sync::Arc::new(TerminateProfile { timeout, text: "PT5M".into() }));
        })
        .await;
    world.ask(&format!("GET /vm/doomed{EVENTS}")).await;
    world.request(Request::Delete { machines: vec![doomed], group: None }, 0xDE).await;
    let old = "/vm/doomed/metadata/scheduledevents?api-version=2017-11-01";
    world.check(&format!("GET {old}"), "200 {\"DocumentIncarnation\":2,\"Events\":[]}").await;
    let new = world.ask(&format!("GET /vm/doomed{EVENTS}")).await;
    assert!(new.body.contains("\"EventType\":\"Terminate\""), "{}", new.body);
    let body = format!("{{\"StartRequests\":[{{\"EventId\":\"{}\"}}]}}", Guid(0xDE));
    world.check(&format!("POST {old}\n\n{body}"), "200").await;
    world.check_refusal(&format!("GET {old}"), 404, &["doomed"]).await;
}

// --- the checks and their order --------------------------------------------------------------------------

#[tokio::test]
async fn the_checks_run_in_their_order() {
    let world = World::new().await;
    let missing = "/vm/missing";
    // Each request has everything wrong that comes after what is refused.
    let all = "x-forwarded-for: 1\n-Metadata";
    world.check_refusal(&format!("PUT {missing}/metadata/x?a=1&a=2\n{all}"), 404, &["nothing at"]).await;
    let put = format!("PUT {missing}/metadata/scheduledevents?a=1&a=2\n{all}");
    assert_eq!(world.check_refusal(&put, 405, &["PUT"]).await.header("allow"), Some("GET, POST"));
    let get = format!("GET {missing}/metadata/scheduledevents?a=1&a=2");
    world.check_refusal(&format!("{get}\n{all}"), 400, &["X-Forwarded-For"]).await;
    world.check_refusal(&format!("{get}\n-Metadata"), 400, &["Required metadata header not specified"]).await;
    world.check_refusal(&get, 400, &["'a'", "more than once"]).await;
    world.check_refusal(&format!("GET {missing}/metadata/scheduledevents"), 400, &["newest-versions"]).await;
    world.check_refusal(&format!("GET {missing}{EVENTS}"), 404, &["'missing'"]).await;
}

#[tokio::test]
async fn the_metadata_header_is_needed_in_any_case_of_letters() {
    let world = World::new().await;
    for header in ["metadata: true", "METADATA: True", "Metadata:TRUE", "Metadata:  true "] {
        let reply = world.ask(&format!("GET {EVENTS}\n{header}\n-Metadata")).await;
        assert_eq!(reply.status, 200, "{header}");
    }
    for header in ["Metadata: false", "Metadata:", "Metadata: 1", "X-Metadata: true"] {
        let request = format!("GET {EVENTS}\n{header}\n-Metadata");
        world.check_refusal(&request, 400, &["Metadata: true"]).await;
    }
}

#[tokio::test]
async fn versions_that_are_missing_wrong_or_unknown() {
    let world = World::new().await;
    let events = "/metadata/scheduledevents";
    let newest = "\"newest-versions\": [\"2020-07-01\", \"2019-08-01\", \"2019-04-01\"]";
    world.check_refusal(&format!("GET {events}"), 400, &[newest]).await;
    world.check_refusal(&format!("GET {events}?api-version=latest"), 400, &[newest]).await;
    world.check_refusal(&format!("GET {events}?api-version=2024-07-09"), 404, &["2024-07-09"]).await;
    world.check_refusal("GET /metadata/instance?api-version=2020-07-01", 400, &["2025-04-07"]).await;
    world.check_refusal("GET /metadata/instance", 400, &["2025-04-07"]).await;
    world.check_refusal("GET /metadata", 400, &["2025-04-07"]).await;
}

#[tokio::test]
async fn unknown_paths_and_methods() {
    let world = World::new().await;
    for path in ["/", "/metadata/x", "/metadata/scheduledevents/x", "/api/v1/machines", "/healthz", "/metrics"] {
        world.check_refusal(&format!("GET {path}"), 404, &["/metadata/scheduledevents"]).await;
    }
    for method in ["PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "BREW"] {
        let mut stream = world.connect().await;
        stream.write_all(&bytes_of(&format!("{method} {EVENTS}"))).await.unwrap();
        if method != "HEAD" {
            let reply = read_reply(&mut stream).await.unwrap();
            assert_eq!((reply.status, reply.header("allow")), (405, Some("GET, POST")), "{method}");
        }
    }
    for path in ["/metadata/instance?api-version=2021-02-01", "/metadata/versions", "/metadata"] {
        let reply = world.check_refusal(&format!("POST {path}"), 405, &["POST"]).await;
        assert_eq!(reply.header("allow"), Some("GET"));
    }
}

#[tokio::test]
async fn paths_are_read_without_regard_to_case_and_with_a_slash_at_the_end() {
    let world = World::new().await;
    for path in ["/metadata/scheduledEvents", "/METADATA/SCHEDULEDEVENTS/", "/metadata/scheduledevents/"] {
        let reply = world.ask(&format!("GET {path}?api-version=2020-07-01")).await;
        assert_eq!(reply.status, 200, "{path}");
    }
}

#[tokio::test]
async fn every_response_has_the_headers_that_clients_expect() {
    let world = World::new().await;
    let reply = world.ask(&format!("GET {EVENTS}")).await;
    assert_eq!(reply.header("content-type"), Some("application/json; charset=utf-8"));
    assert_eq!(reply.header("etag"), Some("1"));
    assert!(reply.header("server").unwrap().contains("IMDS"));
    assert!(reply.header("date").is_some());
    let other = world.ask("GET /nothing").await;
    let (one, two) = (reply.header("x-ms-request-id").unwrap(), other.header("x-ms-request-id").unwrap());
    assert_eq!((one.len(), two.len()), (36, 36));
    assert_ne!(one, two);
    assert_eq!(other.header("content-type"), Some("application/json; charset=utf-8"));
    assert!(other.header("server").unwrap().contains("IMDS"));
}

// --- ETag and wait ---------------------------------------------------------------------------------------

#[tokio::test]
async fn an_unchanged_document_is_not_sent_again() {
    let world = World::new().await;
    let get = format!("GET {EVENTS}");
    world.ask(&get).await;
    for tag in ["1", "\"1\"", "W/\"1\"", "*", "0, 7, \"1\"", "9\nIf-None-Match: 1"] {
        let reply = world.ask(&format!("{get}\nIf-None-Match: {tag}")).await;
        assert_eq!((reply.status, reply.body.as_str(), reply.header("etag")), (304, "", Some("1")), "{tag}");
    }
    for tag in ["0", "2", "", "11", "x"] {
        let reply = world.ask(&format!("{get}\nIf-None-Match: {tag}")).await;
        assert_eq!((reply.status, reply.header("etag")), (200, Some("1")), "{tag}");
    }
    world.restart(FIRST, 0xE1).await;
    let reply = world.ask(&format!("{get}\nIf-None-Match: 1")).await;
    assert_eq!((reply.status, reply.header("etag")), (200, Some("2")));
    world.check(&format!("POST {EVENTS}\nIf-None-Match: *\n\n{{\"StartRequests\":[]}}"), "200").await;
}

#[tokio::test]
async fn a_get_with_wait_is_held_until_its_own_document_changes() {
    let world = World::new().await;
    let other = world.register("other").await;
    world.ask(&format!("GET {EVENTS}")).await;
    world.ask(&format!("GET /vm/other{EVENTS}")).await;
    let mut held = world.connect().await;
    held.write_all(&bytes_of(&format!("GET {EVENTS}&wait=300\nIf-None-Match: 1"))).await.unwrap();
    until(|| world.running.endpoint.metrics.held.get() == 1).await;
    assert!(world.running.endpoint.requests.log_of(FIRST, 0).summary.held_until.is_some());
    world.restart(other, 0xE2).await;
    assert_eq!(world.running.endpoint.metrics.held.get(), 1);
    world.restart(FIRST, 0xE1).await;
    assert_eq!(read_reply(&mut held).await.unwrap().render(), scheduled(2, 0xE1, &hostname()));
    // The connection stays open.
    held.write_all(&bytes_of(&format!("GET {EVENTS}&wait=300\nIf-None-Match: 1"))).await.unwrap();
    assert_eq!(read_reply(&mut held).await.unwrap().status, 200);
}

/// The response to a held request keeps or closes its connection, as the version and the headers of the request say.
#[tokio::test]
async fn a_held_get_is_answered_in_its_version_and_keeps_its_connection_as_asked() {
    let cases = [
        ("HTTP/1.1", "", "HTTP/1.1", None, true),
        ("HTTP/1.1", "Connection: close\r\n", "HTTP/1.1", Some("close"), false),
        ("HTTP/1.0", "", "HTTP/1.0", None, false),
        ("HTTP/1.0", "Connection: keep-alive\r\n", "HTTP/1.0", Some("keep-alive"), true),
        ("HTTP/1.1", "Content-Length: 0\r\n", "HTTP/1.1", None, true),
    ];
    for (n, (version, header, answered, connection, stays_open)) in (1..).zip(cases) {
        let world = World::new().await;
        world.ask(&format!("GET {EVENTS}")).await;
        let mut held = world.connect().await;
        // Twice on one connection, if it stays open: the second request finds a connection that held one before.
        for turn in 1..=(if stays_open { 2 } else { 1 }) {
            let head = format!(
                "GET {EVENTS}&wait=300 {version}\r\nHost: 127.0.0.1\r\nMetadata: true\r\nIf-None-Match: {turn}\r\n{header}\r\n"
            );
            held.write_all(head.as_bytes()).await.unwrap();
            until(|| world.running.endpoint.metrics.held.get() == 1).await;
            let machines = vec![FIRST];
            let request = if turn == 1 { Request::Restart { machines } } else { Request::Redeploy { machines } };
            world.request(request, 0xE00 + n * 10 + turn).await;
            let reply = read_reply(&mut held).await.unwrap();
            assert_eq!(reply.status, 200, "{version} {header}");
            assert!(reply.head.starts_with(answered), "{version} {header}: {}", reply.head);
            assert_eq!(reply.header("connection"), connection, "{version} {header}");
        }
        if stays_open {
            held.write_all(&bytes_of(&format!("GET {EVENTS}"))).await.unwrap();
            assert_eq!(read_reply(&mut held).await.unwrap().status, 200);
            assert_eq!(world.running.endpoint.metrics.held.get(), 0);
        } else {
            assert!(read_reply(&mut held).await.is_none(), "{version} {header}: the connection is closed");
        }
    }
}

/// A held request whose client disconnects is recorded as one without a response, and a new one can be held.
#[tokio::test]
async fn a_held_get_ends_when_its_client_disconnects() {
    let world = World::new().await;
    world.ask(&format!("GET {EVENTS}")).await;
    for _ in 0..2 {
        let mut held = world.connect().await;
        held.write_all(&bytes_of(&format!("GET {EVENTS}&wait=300\nIf-None-Match: 1"))).await.unwrap();
        until(|| world.running.endpoint.metrics.held.get() == 1).await;
        drop(held);
        until(|| world.running.endpoint.metrics.held.get() == 0).await;
    }
    let log = world.running.endpoint.requests.log_of(FIRST, 0);
    let statuses: Vec<_> = log.requests.iter().map(|request| request.status).collect();
    assert_eq!(statuses, [Some(200), None, None]);
}

#[tokio::test]
async fn a_held_get_ends_with_304_when_its_time_is_over_or_the_server_stops() {
    let world = World::new().await;
    world.ask(&format!("GET {EVENTS}")).await;
    world.check(&format!("GET {EVENTS}&wait=0\nIf-None-Match: 1"), "304").await;
    world.check(&format!("GET {EVENTS}&wait=1\nIf-None-Match: 1"), "304").await;
    let mut held = world.connect().await;
    held.write_all(&bytes_of(&format!("GET {EVENTS}&wait=300\nIf-None-Match: *"))).await.unwrap();
    until(|| world.running.endpoint.metrics.held.get() == 1).await;
    let begun = std::time::Instant::now();
    world.running.stop().await;
    assert!(begun.elapsed() < std::time::Duration::from_secs(5));
    assert_eq!(read_reply(&mut held).await.unwrap().render(), "304");
}

#[tokio::test]
async fn a_wait_is_a_number_up_to_300() {
    let world = World::new().await;
    for wait in ["301", "-1", "x", "", "1.5", "99999999999999999999", "%2B1"] {
        world.check_refusal(&format!("GET {EVENTS}&wait={wait}"), 400, &["300"]).await;
    }
    world.check(&format!("GET {EVENTS}&wait=300"), "200 {\"DocumentIncarnation\":1,\"Events\":[]}").await;
}

#[tokio::test]
async fn a_machine_that_is_deleted_leaves_no_request_hanging() {
    let world = World::new().await;
    let doomed = world.register("doomed").await;
    world.ask(&format!("GET /vm/doomed{EVENTS}")).await;
    let mut held = world.connect().await;
    held.write_all(&bytes_of(&format!("GET /vm/doomed{EVENTS}&wait=300\nIf-None-Match: *"))).await.unwrap();
    until(|| world.running.endpoint.metrics.held.get() == 1).await;
    world.request(Request::Delete { machines: vec![doomed], group: None }, 0xDE).await;
    assert_eq!(read_reply(&mut held).await.unwrap().status, 404);
}

// --- connections -----------------------------------------------------------------------------------------

#[tokio::test]
async fn requests_in_one_go_are_answered_in_order() {
    let world = World::new().await;
    let mut stream = world.connect().await;
    let mut raw = bytes_of(&format!("GET {EVENTS}"));
    raw.extend(bytes_of("GET /metadata/versions"));
    raw.extend(bytes_of("GET /nothing"));
    stream.write_all(&raw).await.unwrap();
    assert_eq!(read_reply(&mut stream).await.unwrap().render(), "200 {\"DocumentIncarnation\":1,\"Events\":[]}");
    assert!(read_reply(&mut stream).await.unwrap().body.starts_with("{\"apiVersions\":[\"2017-03-01\""));
    assert_eq!(read_reply(&mut stream).await.unwrap().status, 404);
}

#[tokio::test]
async fn a_connection_is_closed_on_request() {
    let world = World::new().await;
    let mut stream = world.connect().await;
    stream.write_all(&bytes_of(&format!("GET {EVENTS}\nConnection: close"))).await.unwrap();
    let reply = read_reply(&mut stream).await.unwrap();
    assert_eq!(reply.header("connection"), Some("close"));
    assert!(read_reply(&mut stream).await.is_none());
}

// --- instance metadata -----------------------------------------------------------------------------------

#[tokio::test]
async fn instance_metadata_is_served_whole_and_in_parts() {
    let world = World::new().await;
    let address = Address { network: "default".into(), ip: Ipv4Addr::new(10, 9, 8, 7).into() };
    world.register_with("web", |machine| machine.addresses = AddressRequest::Given(vec![address])).await;
    let at = |path: &str, more: &str| format!("GET /vm/web/metadata/instance{path}?api-version=2021-02-01{more}");
    let whole = world.ask(&at("/", "")).await;
    let document: serde_json::Value = serde_json::from_str(&whole.body).unwrap();
    assert_eq!(document["compute"]["name"], "web");
    assert_eq!(document["network"]["interface"][0]["ipv4"]["ipAddress"][0]["privateIpAddress"], "10.9.8.7");
    world.check(&at("/compute/resourceGroupName", "&format=text"), "200 default").await;
    let text = world.ask(&at("", "&format=text")).await;
    assert_eq!(
        (text.render().as_str(), text.header("content-type")),
        ("200 compute/\nnetwork/", Some("text/plain; charset=utf-8"))
    );
    world.check_refusal(&at("/compute/name", ""), 400, &["format=text"]).await;
    world.check_refusal(&at("/compute/nothing", "&format=text"), 404, &["nothing"]).await;
    world.check_refusal(&at("", "&format=xml"), 400, &["xml"]).await;
    world.check("GET /metadata?api-version=2021-02-01&format=text", "200 instance/\nscheduledevents/").await;
}

// --- the record ------------------------------------------------------------------------------------------

#[tokio::test]
async fn requests_of_machines_are_recorded() {
    let world = World::new().await;
    assert_eq!(world.running.endpoint.requests.counts_of(FIRST), None);
    world.ask(&format!("GET {EVENTS}")).await;
    world.advance(5).await;
    world.ask(&format!("POST {EVENTS}\n\n{{\"StartRequests\":[]}}")).await;
    let record = world.running.endpoint.requests.counts_of(FIRST).unwrap();
    assert_eq!((record.gets, record.posts, record.last_get), (1, 1, Some(START)));
    assert_eq!(record.last_post, Some(Timestamp(START.0 + 5000)));
    let metrics = world.running.render_metrics();
    assert!(metrics.contains("forewarn_metadata_requests_total{status=\"2xx\"} 2"), "{metrics}");
}

#[tokio::test]
async fn the_first_call_can_be_delayed() {
    let delay = std::time::Duration::from_secs(120);
    let world = World::with(Config { first_call_delay: delay, ..config() }).await;
    let scope = world.engine().snapshot().region.machine(FIRST).unwrap().scope;
    let mut first = world.connect().await;
    first.write_all(&bytes_of(&format!("GET {EVENTS}"))).await.unwrap();
    until(|| world.engine().snapshot().region.is_on(scope)).await;
    let mut second = world.connect().await;
    second.write_all(&bytes_of(&format!("GET {EVENTS}"))).await.unwrap();
    // Other requests of the same machine are not held.
    assert_eq!(world.ask("GET /metadata/versions").await.status, 200);
    until(|| world.running.endpoint.requests.counts_of(FIRST).is_some_and(|record| record.gets == 3)).await;
    assert!(first.try_read(&mut [0; 1]).is_err() && second.try_read(&mut [0; 1]).is_err());
    world.running.stop().await;
    assert_eq!(read_reply(&mut first).await.unwrap().status, 200);
    assert_eq!(read_reply(&mut second).await.unwrap().status, 200);
    let refused = start(Config { first_call_delay: delay * 2, ..config() }).await;
    assert!(refused.err().unwrap().to_string().contains("120"));
}
