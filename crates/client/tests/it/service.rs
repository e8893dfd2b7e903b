//! Tests of both clients against a scripted service, over real sockets.

use std::sync::Arc;
use std::time::Duration;

use crate::fake::{FakeClock, HANG_UP, Service, document, response};
use forewarn_client::{AsyncClient, Change, Client, Error, EventId, Options, Poll, RetryPolicy, Version};

fn client(service: &Service) -> (Client, Arc<FakeClock>) {
    let clock = Arc::new(FakeClock::default());
    let options = Options::new(service.endpoint.clone()).jitter_seed(1);
    (Client::with_clock(options, clock.clone()), clock)
}

/// Options without retry delays, because the async client always uses tokio's clock.
fn without_delays(service: &Service) -> Options {
    let retry = RetryPolicy { delay_first: Duration::ZERO, ..RetryPolicy::default() };
    Options::new(service.endpoint.clone()).retry(retry)
}

#[test]
fn all_requests_use_one_connection() {
    let not_found = response(404, "", "");
    let unchanged = response(304, "", "").replace("Content-Length: 0\r\n", "");
    let service = Service::new(&[
        &not_found,
        &document(1, ""),
        &unchanged,
        &document(2, "a Scheduled"),
        &response(200, "", ""),
        &response(200, "", r#"{"compute":{"name":"web"}}"#),
    ]);
    let (mut client, clock) = client(&service);
    assert!(matches!(client.poll(), Ok(Poll::Changed(_))));
    assert_eq!(client.version(), Some(Version::V2019_08_01));
    assert!(!client.can_hold());
    assert_eq!(client.poll().unwrap(), Poll::Unchanged);
    let Ok(Poll::Changed(document)) = client.poll() else { panic!("the document has changed") };
    client.approve(&[document.events[0].id.clone()]).unwrap();
    assert_eq!(client.instance().unwrap().name, "web");
    assert_eq!(
        service.requests(),
        [
            "*GET 2020-07-01",
            "GET 2019-08-01",
            "GET 2019-08-01 [1]",
            "GET 2019-08-01 [1]",
            r#"POST 2019-08-01 {"StartRequests":[{"EventId":"a"}]}"#,
            "GET /metadata/instance?api-version=2021-02-01",
        ]
    );
    assert!(clock.slept().is_empty(), "{:?}", clock.slept());
}

#[test]
fn a_closed_connection_is_reopened_without_delay() {
    let last = document(3, "").replace("ETag", "Connection: close\r\nETag");
    let service = Service::new(&[&document(1, ""), HANG_UP, &document(2, ""), &last, &document(4, "")]);
    let (mut client, clock) = client(&service);
    for incarnation in 1..=4 {
        assert_eq!(client.document().unwrap().incarnation, incarnation);
    }
    let requests = service.requests();
    let versions = ["*GET 2020-07-01", "GET 2020-07-01", "*GET 2020-07-01", "GET 2020-07-01", "*GET 2020-07-01"];
    assert_eq!(requests, versions);
    assert!(clock.slept().is_empty(), "{:?}", clock.slept());
}

#[test]
fn truncated_responses_and_an_overloaded_service_are_retried_after_a_delay() {
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 37\r\n\r\n{\"Docu✂";
    let busy = response(429, "Retry-After: 4", "");
    let service = Service::new(&[HANG_UP, half, &busy, &response(410, "", ""), &document(1, "")]);
    let (mut client, clock) = client(&service);
    assert_eq!(client.document().unwrap().incarnation, 1);
    assert_eq!(service.requests().len(), 5);
    let slept = clock.slept();
    assert_eq!(slept.len(), 4);
    assert!(slept[2] >= Duration::from_secs(4) && slept[2] <= Duration::from_secs(5), "{slept:?}");
}

#[test]
fn a_server_that_does_not_speak_http_is_named_in_the_error() {
    let service = Service::new(&["SSH-2.0-OpenSSH_9\r\n✂"]);
    let endpoint = service.endpoint.clone();
    let mut client = Client::with_options(Options::new(endpoint.clone()).retry(RetryPolicy::never()));
    let error = client.document().unwrap_err().to_line();
    let expected = format!("invalid response from {endpoint}: the response is not HTTP: it starts with");
    assert_eq!(error, format!("{expected} \"SSH-2.0-OpenSSH_9\""));
    assert_eq!(service.requests().len(), 1);
}

#[test]
fn an_unreachable_service_is_an_error_after_at_most_twenty_seconds() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = listener.local_addr().unwrap().into();
    drop(listener);
    let clock = Arc::new(FakeClock::default());
    let mut client = Client::with_clock(Options::new(endpoint), clock.clone());
    let error = client.poll().unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }) && error.is_temporary(), "{error:?}");
    let slept: Duration = clock.slept().iter().sum();
    assert!((14..=20).contains(&slept.as_secs()), "{slept:?}");
}

#[test]
fn a_watch_yields_changes_and_errors_and_continues() {
    let invalid = response(200, "", "<html>");
    let service = Service::new(&[
        &document(1, "a Scheduled"),
        &invalid,
        &document(2, "A Started"),
        &response(200, "", ""),
        &document(3, "b Scheduled"),
        &document(1, ""),
    ]);
    let (client, clock) = client(&service);
    let mut watch = client.watch();
    let mut next = || match watch.next().unwrap() {
        Ok(Change::Appeared(event)) => format!("+{}", event.id),
        Ok(Change::Started(event)) => {
            watch.approve(&[EventId::parse("A").unwrap()]).unwrap();
            format!("!{}", event.id)
        }
        Ok(Change::Finished(event)) => format!("-{}", event.id),
        Ok(Change::Canceled(event)) => format!("x{}", event.id),
        Err(error) => error.to_string(),
    };
    let seen: Vec<_> = (0..6).map(|_| next()).collect();
    assert_eq!(seen, ["+a", "invalid response", "!A", "-A", "+b", "xb"]);
    assert_eq!(service.requests().len(), 6);
    assert_eq!(clock.slept(), [Duration::from_secs(1); 4]);
}

#[test]
fn a_watch_starts_with_the_current_events_even_if_the_client_has_seen_them() {
    let service = Service::new(&[&document(1, "a Scheduled"), &document(1, "a Scheduled")]);
    let (mut client, _) = client(&service);
    client.document().unwrap();
    assert!(matches!(client.watch().next(), Some(Ok(Change::Appeared(_)))));
    assert_eq!(service.requests(), ["*GET 2020-07-01", "GET 2020-07-01"]);
}

#[tokio::test]
async fn a_silent_service_times_out() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let short = Duration::from_millis(1);
    let options = Options::new(listener.local_addr().unwrap().into()).retry(RetryPolicy::never());
    let options = options.timeout(short).first_timeout(short);
    assert!(matches!(AsyncClient::with_options(options.clone()).poll().await, Err(Error::TimedOut { .. })));
    assert!(matches!(Client::with_options(options).poll(), Err(Error::TimedOut { .. })));
}

#[test]
fn a_watch_can_resume_from_events_seen_earlier() {
    let service = Service::new(&[&document(1, "a Started"), &document(2, "")]);
    let (mut before, _) = client(&service);
    let seen = before.document().unwrap().events;
    let mut after = before.watch().resume(forewarn_client::Tracker::resume(seen));
    assert!(matches!(after.next(), Some(Ok(Change::Finished(event))) if event.id.as_str() == "a"));
    assert_eq!(service.requests().len(), 2);
}

#[tokio::test]
async fn the_async_client_behaves_like_the_blocking_one() {
    let service = Service::new(&[
        HANG_UP,
        &response(503, "", ""),
        &response(404, "", ""),
        &document(1, "a Scheduled"),
        HANG_UP,
        &response(200, "", ""),
        &response(200, "", r#"{"compute":{"name":"web"}}"#),
        &document(2, "a Started"),
        &document(3, ""),
    ]);
    let mut client = AsyncClient::with_options(without_delays(&service));
    let document = client.document().await.unwrap();
    assert_eq!((document.version, client.version()), (Version::V2019_08_01, Some(Version::V2019_08_01)));
    client.approve(&[document.events[0].id.clone()]).await.unwrap();
    assert_eq!(client.instance().await.unwrap().name, "web");
    let tracker = forewarn_client::Tracker::resume(document.events);
    let mut watch = client.watch().interval(Duration::ZERO).resume(tracker);
    assert!(matches!(watch.next().await, Ok(Change::Started(_))));
    assert!(matches!(watch.next().await, Ok(Change::Finished(_))));
    assert_eq!(
        service.requests(),
        [
            "*GET 2020-07-01",
            "*GET 2020-07-01",
            "GET 2020-07-01",
            "GET 2019-08-01",
            r#"POST 2019-08-01 {"StartRequests":[{"EventId":"a"}]}"#,
            r#"*POST 2019-08-01 {"StartRequests":[{"EventId":"a"}]}"#,
            "GET /metadata/instance?api-version=2021-02-01",
            "GET 2019-08-01",
            "GET 2019-08-01 [2]",
        ]
    );
}
