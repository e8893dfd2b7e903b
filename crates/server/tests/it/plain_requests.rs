//! Plain requests are answered without hyper. A client cannot tell the difference.

use crate::support::*;
use forewarn_metadata::head::{NO_HEADERS, PlainRequest};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

fn is_plain(request: &str) -> bool {
    PlainRequest::parse(&bytes_of(request), &mut NO_HEADERS.clone()).is_some()
}

/// A request with the same response that only hyper answers.
fn for_hyper(request: &str) -> String {
    match request.split_once("\n\n") {
        Some((head, body)) => format!("{head}\nExpect: nothing\n\n{body}"),
        None => format!("{request}\nExpect: nothing"),
    }
}

/// All bytes of a response, without those that differ from one response to the next.
fn normalize(reply: &Reply) -> String {
    let mut text = format!("{}{}", reply.head, reply.body);
    for name in ["date", "x-ms-request-id"] {
        let value = reply.header(name).unwrap_or_else(|| panic!("there is no {name}: {}", reply.head));
        text = text.replace(&format!("{name}: {value}\r\n"), &format!("{name}: …\r\n"));
    }
    text
}

async fn ask_on(stream: &mut TcpStream, request: &str) -> Reply {
    stream.write_all(&bytes_of(request)).await.unwrap();
    read_reply(stream).await.expect("there is an answer")
}

#[tokio::test]
async fn responses_have_the_same_bytes_with_and_without_hyper() {
    let world = World::new().await;
    let web = world.register("web").await;
    let events = format!("GET /vm/web{EVENTS}");
    world.ask(&events).await;
    world.restart(web, 1).await;
    let approve = |ids: &str| format!("POST /vm/web{EVENTS}\n\n{{\"StartRequests\":[{ids}]}}");
    let requests = [
        events.clone(),
        format!("{events}\nConnection: keep-alive"),
        format!("{events}\nIf-None-Match: 2"),
        format!("{events}&wait=0\nIf-None-Match: 7, W/\"2\""),
        format!("GET {EVENTS}"),
        format!("GET /vm/nothing{EVENTS}"),
        format!("{events}\n-Metadata"),
        format!("{events}\nX-Forwarded-For: 10.0.0.1"),
        format!("{events}\nOrigin: http://example.com"),
        format!("{events}\nHost: example.com"),
        format!("{events}&api-version=2020-07-01"),
        "GET /metadata/scheduledevents?api-version=1999-01-01".to_owned(),
        "GET /metadata/scheduledevents".to_owned(),
        "GET /".to_owned(),
        "GET /metadata/nothing?a=b".to_owned(),
        "GET /metadata/versions".to_owned(),
        "GET /vm/web/metadata/instance?api-version=2021-02-01".to_owned(),
        "GET /vm/web/metadata/instance/compute/name?api-version=2021-02-01&format=text".to_owned(),
        "GET /metadata/identity/oauth2/token?api-version=2018-02-01&resource=https://management.azure.com/".to_owned(),
        approve(""),
        approve(&format!("{{\"EventId\":\"{}\"}}", forewarn_core::Guid(1))),
        approve("{\"EventId\":\"602D9444-D2CD-49C7-8624-8643E7171297\"}"),
        approve("{\"EventId\":\"not an ID\"}"),
        approve("{\"EventId\":\"602D9444-D2CD-49C7-8624-8643E7171297\"},{\"EventId\":\"not an ID\"}"),
        format!("POST /vm/web{EVENTS}\n\n{{"),
        format!("POST /vm/web{EVENTS}\n\n"),
        format!("POST /vm/nothing{EVENTS}\n\n{{}}"),
        format!("POST {EVENTS}\n-Metadata\n\n{{\"StartRequests\":[]}}"),
        "POST /vm/web/metadata/instance?api-version=2021-02-01\n\n{}".to_owned(),
        "POST /metadata/scheduledevents\n\n\n\nGET / HTTP/1.1\n\n".to_owned(),
        events.clone(),
    ];
    let (mut plain, mut other) = (world.connect().await, world.connect().await);
    for request in &requests {
        assert!(is_plain(request) && !is_plain(&for_hyper(request)), "{request}");
        let expected = normalize(&ask_on(&mut other, &for_hyper(request)).await);
        assert_eq!(normalize(&ask_on(&mut plain, request).await), expected, "{request}");
    }
    assert_eq!(normalize(&world.ask(&requests[0]).await), normalize(&world.ask(&for_hyper(&requests[0])).await));
}

#[tokio::test]
async fn held_requests_are_answered_with_the_same_bytes() {
    let world = World::new().await;
    let web = world.register("web").await;
    world.ask(&format!("GET /vm/web{EVENTS}")).await;
    let request = format!("GET /vm/web{EVENTS}&wait=300\nIf-None-Match: 1");
    let (mut plain, mut other) = (world.connect().await, world.connect().await);
    // Empty lines in a body do not count as further requests; if they did, the next request would not be held.
    let approval = format!("POST /vm/web{EVENTS}\n\n{{\"StartRequests\":[\n\n\n]}}");
    assert_eq!(ask_on(&mut plain, &approval).await.status, 200);
    assert_eq!(ask_on(&mut other, &for_hyper(&approval)).await.status, 200);
    plain.write_all(&bytes_of(&request)).await.unwrap();
    other.write_all(&bytes_of(&for_hyper(&request))).await.unwrap();
    until(|| world.running.endpoint.metrics.held.get() == 2).await;
    world.restart(web, 1).await;
    let expected = normalize(&read_reply(&mut other).await.unwrap());
    assert_eq!(normalize(&read_reply(&mut plain).await.unwrap()), expected);
    assert_eq!(ask_on(&mut plain, &format!("GET /vm/web{EVENTS}")).await.status, 200, "the connection goes on");
}

#[tokio::test]
async fn plain_and_other_requests_can_follow_each_other_on_a_connection() {
    let world = World::new().await;
    let plain = format!("GET {EVENTS}");
    let mut stream = world.connect().await;
    for _ in 0..3 {
        assert_eq!(ask_on(&mut stream, &plain).await.status, 200);
        assert_eq!(ask_on(&mut stream, &for_hyper(&plain)).await.status, 200);
        assert_eq!(ask_on(&mut stream, &format!("POST {EVENTS}\n\n{{\"StartRequests\":[]}}")).await.status, 200);
        assert_eq!(ask_on(&mut stream, &plain).await.status, 200);
        stream.write_all(&bytes_of(&plain).repeat(3)).await.unwrap();
        for _ in 0..3 {
            assert_eq!(read_reply(&mut stream).await.unwrap().status, 200, "one of several that arrive together");
        }
        for request in [plain.clone(), format!("POST {EVENTS}\n\n{{\"StartRequests\":[\n\n]}}")] {
            for part in bytes_of(&request).chunks(20) {
                stream.write_all(part).await.unwrap();
                tokio::task::yield_now().await;
            }
            assert_eq!(read_reply(&mut stream).await.unwrap().status, 200, "one that arrives in parts");
        }
    }
    let body_follows = format!("GET {EVENTS}\nContent-Length: 5");
    stream.write_all(&bytes_of(&body_follows)).await.unwrap();
    assert_eq!(read_reply(&mut stream).await.unwrap().status, 200);
    stream.write_all(b"GET /").await.unwrap();
    stream.write_all(&bytes_of(&plain)).await.unwrap();
    let next = read_reply(&mut stream).await;
    assert!(next.is_none_or(|reply| reply.status == 200), "a body is never taken for a request");
}

#[tokio::test]
async fn plain_requests_are_recorded_and_limited_like_others() {
    let world = World::with(forewarn_server::Config { rate_limit: Some(3), ..config() }).await;
    let mut stream = world.connect().await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(ask_on(&mut stream, &format!("GET {EVENTS}")).await.status);
    }
    assert_eq!(statuses, [200, 200, 200, 429]);
    let first = forewarn_metadata::FIRST_MACHINE;
    let log = world.running.endpoint.requests.log_of(first, 0);
    let recorded: Vec<_> = log.requests.iter().map(|seen| (seen.status, seen.incarnation)).collect();
    assert_eq!(recorded, [(Some(200), Some(1)), (Some(200), Some(1)), (Some(200), Some(1)), (Some(429), None)]);
}
