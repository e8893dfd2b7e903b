//! Both clients against a service that answers by a script, over real sockets.

mod fake;

use std::sync::Arc;
use std::time::Duration;

use fake::{FakeClock, HANG_UP, Service, answer, document};
use forewarn_client::{AsyncClient, Change, Client, Error, EventId, Options, Poll, Retry, Version};

fn client(service: &Service) -> (Client, Arc<FakeClock>) {
    let clock = Arc::new(FakeClock::default());
    let options = Options::new(service.endpoint.clone()).jitter_seed(1);
    (Client::with_clock(options, clock.clone()), clock)
}

/// Pauses of no length: the async client has no clock but tokio's.
fn impatient(service: &Service) -> Options {
    let retry = Retry { delay_first: Duration::ZERO, ..Retry::default() };
    Options::new(service.endpoint.clone()).retry(retry)
}

#[test]
fn one_connection_is_used_for_everything() {
    let not_found = answer(404, "", "");
    let unchanged = answer(304, "", "").replace("Content-Length: 0\r\n", "");
    let service = Service::new(&[
        &not_found,
        &document(1, ""),
        &unchanged,
        &document(2, "a Scheduled"),
        &answer(200, "", ""),
        &answer(200, "", r#"{"compute":{"name":"web"}}"#),
    ]);
    let (mut client, clock) = client(&service);
    assert!(matches!(client.poll(), Ok(Poll::Changed(_))));
    assert_eq!(client.version(), Some(Version::V2019_08_01));
    assert!(!client.can_hold());
    assert_eq!(client.poll().unwrap(), Poll::Unchanged);
    let Ok(Poll::Changed(document)) = client.poll() else { panic!("it changed") };
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
    assert_eq!(clock.slept(), []);
}

#[test]
fn a_connection_that_was_closed_is_opened_again_at_once() {
    let last = document(3, "").replace("ETag", "Connection: close\r\nETag");
    let service = Service::new(&[&document(1, ""), HANG_UP, &document(2, ""), &last, &document(4, "")]);
    let (mut client, clock) = client(&service);
    for incarnation in 1..=4 {
        assert_eq!(client.document().unwrap().incarnation, incarnation);
    }
    let requests = service.requests();
    let versions = ["*GET 2020-07-01", "GET 2020-07-01", "*GET 2020-07-01", "GET 2020-07-01", "*GET 2020-07-01"];
    assert_eq!(requests, versions);
    assert_eq!(clock.slept(), []);
}

#[test]
fn half_an_answer_and_a_busy_service_are_tried_again_after_a_pause() {
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 37\r\n\r\n{\"Docu✂";
    let busy = answer(429, "Retry-After: 4", "");
    let service = Service::new(&[HANG_UP, half, &busy, &answer(410, "", ""), &document(1, "")]);
    let (mut client, clock) = client(&service);
    assert_eq!(client.document().unwrap().incarnation, 1);
    assert_eq!(service.requests().len(), 5);
    let slept = clock.slept();
    assert_eq!(slept.len(), 4);
    assert!(slept[2] >= Duration::from_secs(4) && slept[2] <= Duration::from_secs(5), "{slept:?}");
}

#[test]
fn what_is_no_metadata_service_is_named() {
    let service = Service::new(&["SSH-2.0-OpenSSH_9\r\n✂"]);
    let endpoint = service.endpoint.clone();
    let mut client = Client::with(Options::new(endpoint.clone()).retry(Retry::never()));
    let error = client.document().unwrap_err().to_line();
    let expected = "does not answer as a metadata service does: the answer is not HTTP: it begins with";
    assert_eq!(error, format!("{endpoint} {expected} \"SSH-2.0-OpenSSH_9\""));
    assert_eq!(service.requests().len(), 1);
}

#[test]
fn a_service_that_is_not_there_is_an_error_within_bounds() {
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
fn a_watch_gives_changes_and_errors_and_goes_on() {
    let nonsense = answer(200, "", "<html>");
    let service = Service::new(&[
        &document(1, "a Scheduled"),
        &nonsense,
        &document(2, "A Started"),
        &answer(200, "", ""),
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
        Ok(Change::Ended(event)) => format!("-{}", event.id),
        Ok(Change::Cancelled(event)) => format!("x{}", event.id),
        Err(error) => error.to_string(),
    };
    let seen: Vec<_> = (0..6).map(|_| next()).collect();
    assert_eq!(seen, ["+a", "the service answers nonsense", "!A", "-A", "+b", "xb"]);
    assert_eq!(service.requests().len(), 6);
    assert_eq!(clock.slept(), [Duration::from_secs(1); 4]);
}

#[test]
fn a_watch_begins_with_what_is_there_even_if_its_client_had_seen_it() {
    let service = Service::new(&[&document(1, "a Scheduled"), &document(1, "a Scheduled")]);
    let (mut client, _) = client(&service);
    client.document().unwrap();
    assert!(matches!(client.watch().next(), Some(Ok(Change::Appeared(_)))));
    assert_eq!(service.requests(), ["*GET 2020-07-01", "GET 2020-07-01"]);
}

#[tokio::test]
async fn a_service_that_says_nothing_is_slow() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let short = Duration::from_millis(1);
    let options = Options::new(listener.local_addr().unwrap().into()).retry(Retry::never());
    let options = options.timeout(short).first_timeout(short);
    assert!(matches!(AsyncClient::with(options.clone()).poll().await, Err(Error::Slow { .. })));
    assert!(matches!(Client::with(options).poll(), Err(Error::Slow { .. })));
}

#[test]
fn a_program_that_was_away_goes_on_where_it_was() {
    let service = Service::new(&[&document(1, "a Started"), &document(2, "")]);
    let (mut before, _) = client(&service);
    let seen = before.document().unwrap().events;
    let mut after = before.watch().resume(forewarn_client::Tracker::resume(seen));
    assert!(matches!(after.next(), Some(Ok(Change::Ended(event))) if event.id.as_str() == "a"));
    assert_eq!(service.requests().len(), 2);
}

#[tokio::test]
async fn the_async_client_does_the_same() {
    let service = Service::new(&[
        HANG_UP,
        &answer(503, "", ""),
        &answer(404, "", ""),
        &document(1, "a Scheduled"),
        HANG_UP,
        &answer(200, "", ""),
        &answer(200, "", r#"{"compute":{"name":"web"}}"#),
        &document(2, "a Started"),
        &document(3, ""),
    ]);
    let mut client = AsyncClient::with(impatient(&service));
    let document = client.document().await.unwrap();
    assert_eq!((document.version, client.version()), (Version::V2019_08_01, Some(Version::V2019_08_01)));
    client.approve(&[document.events[0].id.clone()]).await.unwrap();
    assert_eq!(client.instance().await.unwrap().name, "web");
    let tracker = forewarn_client::Tracker::resume(document.events);
    let mut watch = client.watch().every(Duration::ZERO).resume(tracker);
    assert!(matches!(watch.next().await, Ok(Change::Started(_))));
    assert!(matches!(watch.next().await, Ok(Change::Ended(_))));
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
