//! Approvals, and the limits of the metadata endpoint, over real sockets.

use crate::support::*;
use forewarn_core::*;
use forewarn_server::*;

// --- POST ------------------------------------------------------------------------------------------------

#[tokio::test]
async fn approvals_are_accepted_in_every_form_that_clients_send() {
    let world = World::new().await;
    world.ask(&format!("GET {EVENTS}")).await;
    let id = Guid(0xE1).to_string();
    world.restart(FIRST, 0xE1).await;
    for (version, header, body) in [
        ("2020-07-01", "Content-Type: application/json", format!("{{\"StartRequests\":[{{\"EventId\":\"{id}\"}}]}}")),
        (
            "2019-08-01",
            "Content-Type: application/x-www-form-urlencoded",
            format!("{{\"DocumentIncarnation\":\"5\",\"StartRequests\":[{{\"EventId\":\"{}\"}}]}}", id.to_uppercase()),
        ),
        (
            "2017-03-01",
            "-Metadata",
            format!("{{\"StartRequests\":[{{\"EventId\":\"{id}\"}}],\"DocumentIncarnation\":5}}"),
        ),
        ("2017-08-01", "Connection: keep-alive", "{\"StartRequests\":[]}".to_owned()),
    ] {
        let request = format!("POST /metadata/scheduledevents?api-version={version}\n{header}\n\n{body}");
        world.check(&request, "200").await;
    }
    world.check(&format!("GET {EVENTS}"), &started(3, 0xE1, &hostname())).await;
    // Over, but for less than an hour.
    world.advance(600).await;
    assert_eq!(world.approve("", 0xE1).await.render(), "200");
    world.advance(3601).await;
    let reply = world.approve("", 0xE1).await;
    assert_eq!(reply.status, 400);
    assert!(reply.body.contains(&id.to_uppercase()), "{}", reply.body);
}

#[tokio::test]
async fn approvals_that_are_refused_change_nothing() {
    let world = World::new().await;
    world.ask(&format!("GET {EVENTS}")).await;
    world.restart(FIRST, 0xE1).await;
    let id = Guid(0xE1).to_string();
    let unknown = "11111111-2222-3333-4444-5555555555aa";
    for (body, word) in [
        (
            format!("{{\"StartRequests\":[{{\"EventId\":\"{id}\"}},{{\"EventId\":\"{unknown}\"}}]}}"),
            "11111111-2222-3333-4444-5555555555AA",
        ),
        (format!("{{\"StartRequests\":[{{\"EventId\":\"{id}\"}},{{\"EventId\":\"no guid\"}}]}}"), "no guid"),
        ("{}".to_owned(), "StartRequests"),
        ("{\"StartRequests\":{}}".to_owned(), "list"),
        (String::new(), "empty"),
        ("StartRequests".to_owned(), "JSON"),
    ] {
        world.check_refusal(&format!("POST {EVENTS}\n\n{body}"), 400, &[word]).await;
    }
    world.check(&format!("GET {EVENTS}"), &scheduled(2, 0xE1, &hostname())).await;
}

#[tokio::test]
async fn the_oldest_version_insists_on_the_header_where_a_browser_speaks() {
    let world = World::new().await;
    let post = "POST /metadata/scheduledevents?api-version=2017-03-01";
    let body = "{\"StartRequests\":[]}";
    world.check(&format!("{post}\n-Metadata\n\n{body}"), "200").await;
    for (header, status, words) in
        [("Origin: http://evil.example", 403, "Origin"), ("Sec-Fetch-Site: cross-site", 400, "Metadata: true")]
    {
        world.check_refusal(&format!("{post}\n{header}\n-Metadata\n\n{body}"), status, &[words]).await;
    }
    let get = "GET /metadata/scheduledevents?api-version=2017-03-01\n-Metadata";
    world.check_refusal(get, 400, &["Metadata: true"]).await;
    let newer = format!("POST {EVENTS}\n-Metadata\n\n{body}");
    world.check_refusal(&newer, 400, &["Metadata: true"]).await;
}

#[tokio::test]
async fn one_machine_of_an_event_group_approves_for_another() {
    let world = World::new().await;
    let set = world
        .submit(Command::CreateGroup(Box::new(NewGroup {
            name: "set".into(),
            home: home(),
            kind: NewGroupKind::AvailabilitySet,
            policy: EventsPolicy::default(),
            update_domains: None,
            fault_domains: None,
            salt: Guid(5),
        })))
        .await;
    let Answer::Group { group, .. } = set.answer else { panic!("not a group") };
    let mut ids = Vec::new();
    for name in ["a", "b"] {
        ids.push(world.register_with(name, |machine| machine.place = NewMembership::AvailabilitySet(group)).await);
    }
    let stranger = world.register("stranger").await;
    world.ask(&format!("GET /vm/b{EVENTS}")).await;
    world.restart(ids[0], 0xE1).await;
    world.check(&format!("GET /vm/b{EVENTS}"), &scheduled(2, 0xE1, "a")).await;
    assert_ne!(stranger, ids[1]);
    assert_eq!(world.approve("/vm/stranger", 0xE1).await.status, 400);
    assert_eq!(world.approve("/vm/b", 0xE1).await.status, 200);
    world.check(&format!("GET /vm/a{EVENTS}"), &started(3, 0xE1, "a")).await;
}

// --- limits ----------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_body_has_a_limit_with_and_without_a_length() {
    let world = World::new().await;
    let long = " ".repeat(64 * 1024 - 20);
    world.check(&format!("POST {EVENTS}\n\n{{\"StartRequests\":[]}}{long}"), "200").await;
    let too_long = format!("POST {EVENTS}\n\n{{\"StartRequests\":[]}}{long} ");
    world.check_refusal(&too_long, 413, &["65536"]).await;
    let chunks = format!("10000\r\n{}\r\n1\r\n \r\n0\r\n\r\n", " ".repeat(0x10000));
    let chunked = format!("POST {EVENTS}\nTransfer-Encoding: chunked\n\n{chunks}");
    world.check_refusal(&chunked, 413, &["65536"]).await;
}

#[tokio::test]
async fn a_head_has_a_limit() {
    let world = World::new().await;
    world.check_refusal(&format!("GET {EVENTS}\nX: {}", "x".repeat(17 * 1024)), 431, &["16 KiB"]).await;
    world.check_refusal(&format!("GET /{}", "x".repeat(100 * 1024)), 431, &["16 KiB"]).await;
    let many: String = (0..101).map(|n| format!("\nX-{n}: 1")).collect();
    world.check_refusal(&format!("GET {EVENTS}{many}"), 431, &["100 headers"]).await;
    let parameters: String = (0..17).map(|n| format!("&p{n}=1")).collect();
    world.check_refusal(&format!("GET {EVENTS}{parameters}"), 400, &["16"]).await;
}

#[tokio::test]
async fn a_machine_over_its_rate_limit_gets_a_retry_after() {
    let world = World::with(Config { rate_limit: Some(2), ..config() }).await;
    world.register("other").await;
    let get = format!("GET {EVENTS}");
    assert_eq!(world.ask(&get).await.status, 200);
    let mut statuses = Vec::new();
    for _ in 0..5 {
        statuses.push(world.ask(&get).await);
    }
    let refused = statuses.iter().find(|reply| reply.status == 429).expect("one is too many");
    assert_eq!(refused.header("retry-after"), Some("1"));
    // The limit is each machine's own.
    assert_eq!(world.ask(&format!("GET /vm/other{EVENTS}")).await.status, 200);
}
