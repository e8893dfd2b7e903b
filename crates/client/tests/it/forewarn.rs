//! Tests of the clients against an in-memory Forewarn server with a manual clock.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use crate::fake::FakeClock;
use forewarn_client::{
    AsyncClient, Change, Client, Endpoint, Error, Event, EventId, EventStatus, Options, Poll, Version,
};
use forewarn_core::{Command, Guid, MachineId, Request, Timestamp};
use forewarn_engine::Advance;
use forewarn_server::{ClockSetting, Running};
use forewarn_testing::harness;

/// Wed, 01 Jan 2020 00:00:00 GMT
const START: Timestamp = Timestamp::from_secs(1_577_836_800);

/// Machine that a new server starts with.
const FIRST: MachineId = MachineId(1);

struct World {
    running: Running,
}

impl World {
    async fn new() -> World {
        let config = harness::config(ClockSetting::Manual { start: Some(START) });
        World { running: harness::start(config).await }
    }

    fn endpoint(&self) -> Endpoint {
        harness::metadata_address(&self.running, 0).into()
    }

    async fn submit(&self, command: Command) {
        self.running.engine.submit(command, None).await.expect("the command is accepted");
    }

    async fn restart(&self, event: u128) {
        let request = Request::Restart { machines: vec![FIRST] };
        let (operation, event) = (Guid(event).derive(1), Some(Guid(event)));
        self.submit(Command::Request { operation, by: "test".into(), request, event }).await;
    }

    async fn advance(&self, secs: u64) {
        self.running.engine.advance(Advance::By(Duration::from_secs(secs))).await.expect("the clock moves");
    }
}

/// Runs a closure with a blocking client on a thread where blocking is allowed. Returns the client and the result.
async fn run_blocking<T: Send + 'static>(
    mut client: Client,
    work: impl FnOnce(&mut Client) -> T + Send + 'static,
) -> (Client, T) {
    tokio::task::spawn_blocking(move || {
        let found = work(&mut client);
        (client, found)
    })
    .await
    .unwrap()
}

/// Event of a changed document that has at most one.
fn single_event(poll: Result<Poll, Error>) -> Option<Event> {
    match poll {
        Ok(Poll::Changed(document)) => {
            assert!(document.events.len() <= 1, "{document:?}");
            document.events.into_iter().next()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_version_shows_the_lifecycle_of_an_event() {
    for version in Version::ALL {
        let world = World::new().await;
        let client = Client::with_options(Options::new(world.endpoint()).version(version));
        let (client, name) = run_blocking(client, |client| client.instance().unwrap().name).await;
        let (client, found) = run_blocking(client, |client| single_event(client.poll())).await;
        assert_eq!(found, None, "{version}");

        world.restart(0xE1).await;
        let (client, found) = run_blocking(client, |client| single_event(client.poll())).await;
        let event = found.expect("the event is scheduled");
        assert_eq!((event.status, event.version), (EventStatus::Scheduled, version));
        assert_eq!(event.not_before_text(), "Wed, 01 Jan 2020 00:15:00 GMT");
        assert!(event.affects(&name), "{version}: {event:?}");
        assert_eq!(event.description.is_some(), version >= Version::V2019_04_01, "{version}");
        assert_eq!(event.source.is_some(), version >= Version::V2019_08_01, "{version}");
        assert_eq!(event.duration_secs.is_some(), version >= Version::V2020_07_01, "{version}");

        let id = event.id.clone();
        let (client, unchanged) = run_blocking(client, move |client| {
            let unchanged = client.poll().unwrap();
            client.approve(&[id]).unwrap();
            unchanged
        })
        .await;
        assert_eq!(unchanged, Poll::Unchanged, "{version}");
        let (client, found) = run_blocking(client, |client| single_event(client.poll())).await;
        assert_eq!(found.map(|event| event.status), Some(EventStatus::Started), "{version}");
        world.advance(600).await;
        let (client, found) = run_blocking(client, |client| single_event(client.poll())).await;
        assert_eq!(found, None, "{version}");
        assert_eq!(client.version(), Some(version));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_poll_returns_on_a_change_and_a_clone_can_approve_meanwhile() {
    let world = World::new().await;
    let client = Client::new(world.endpoint());
    let (client, _) = run_blocking(client, |client| client.poll().unwrap()).await;
    assert!(client.can_hold());
    assert_eq!(client.version(), Some(Version::V2020_07_01));

    let approver = client.clone();
    let holder = tokio::spawn(run_blocking(client, |client| single_event(client.hold(Duration::from_secs(60)))));
    world.restart(0xE1).await;
    let (client, found) = holder.await.unwrap();
    let event = found.expect("the event is scheduled");

    let holder = tokio::spawn(run_blocking(client, |client| single_event(client.hold(Duration::from_secs(60)))));
    run_blocking(approver, move |client| client.approve(&[event.id]).unwrap()).await;
    let (_, found) = holder.await.unwrap();
    assert_eq!(found.map(|event| event.status), Some(EventStatus::Started));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_contain_the_message_of_the_server() {
    let world = World::new().await;
    let unknown: Endpoint = format!("{}/vm/no-such-machine", world.endpoint()).parse().unwrap();
    let message = error_message(&world.endpoint(), "GET", "/vm/no-such-machine", "");
    let (_, error) = run_blocking(Client::new(unknown), |client| client.poll().unwrap_err().to_line()).await;
    assert!(message.contains("no-such-machine"), "{message}");
    assert_eq!(error, format!("request refused (status 404): {message}"));

    let id = EventId::parse("51941B56-8080-45AC-81AE-8BDA818F5958").unwrap();
    let body = format!(r#"{{"StartRequests":[{{"EventId":"{id}"}}]}}"#);
    let message = error_message(&world.endpoint(), "POST", "", &body);
    let approve = move |client: &mut Client| client.approve(&[id]).unwrap_err().to_line();
    let (_, error) = run_blocking(Client::new(world.endpoint()), approve).await;
    assert!(!message.is_empty(), "the server gives a reason");
    assert_eq!(error, format!("request refused (status 400): {message}"));
}

/// Sends a request without the library and returns the `error` of the response.
fn error_message(endpoint: &Endpoint, method: &str, prefix: &str, body: &str) -> String {
    let mut stream = TcpStream::connect((endpoint.host(), endpoint.port())).unwrap();
    let path = format!("{prefix}/metadata/scheduledevents?api-version=2020-07-01");
    let length = body.len();
    let headers = format!("Host: 127.0.0.1\r\nMetadata: true\r\nConnection: close\r\nContent-Length: {length}\r\n");
    write!(stream, "{method} {path} HTTP/1.1\r\n{headers}\r\n{body}").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (_, body) = response.split_once("\r\n\r\n").unwrap();
    let value: serde_json::Value = serde_json::from_str(body).unwrap();
    value["error"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_async_watch_sees_an_event_appear_start_and_finish() {
    let world = World::new().await;
    let mut client = AsyncClient::new(world.endpoint());
    let name = client.instance().await.unwrap().name;
    assert_eq!(client.document().await.unwrap().events, []);
    // Each poll follows its change, so there is nothing to wait for.
    let mut watch = client.watch().interval(Duration::ZERO).hold(None);

    world.restart(0xE1).await;
    let Ok(Change::Appeared(event)) = watch.next().await else { panic!("the event appears") };
    assert!(event.affects(&name));
    watch.approve(std::slice::from_ref(&event.id)).await.unwrap();
    assert!(matches!(watch.next().await, Ok(Change::Started(started)) if started.id == event.id));
    world.advance(600).await;
    assert!(matches!(watch.next().await, Ok(Change::Finished(ended)) if ended.id == event.id));
    assert_eq!(watch.tracker().events().count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_distinguishes_a_canceled_event_from_one_that_finished_between_polls() {
    let world = World::new().await;
    // This clock is in 1970, so no event of 2020 counts as past its NotBefore.
    let client = Client::with_clock(Options::new(world.endpoint()), Arc::new(FakeClock::default()));
    let (client, _) = run_blocking(client, |client| client.document().unwrap()).await;
    let mut watch = client.watch().hold(None);
    for approved in [false, true] {
        let event = if approved { 0xE2 } else { 0xE1 };
        world.restart(event).await;
        let (mut back, id) = tokio::task::spawn_blocking(move || {
            let Some(Ok(Change::Appeared(event))) = watch.next() else { panic!("the event appears") };
            (watch, event.id)
        })
        .await
        .unwrap();
        if approved {
            back = tokio::task::spawn_blocking(move || back.approve(&[id]).map(|()| back)).await.unwrap().unwrap();
            world.advance(600).await;
        } else {
            world.submit(Command::CancelEvent { event: Guid(event), by: "test".into() }).await;
        }
        let change = tokio::task::spawn_blocking(move || (back.next(), back)).await.unwrap();
        watch = change.1;
        match change.0 {
            Some(Ok(Change::Canceled(event))) => assert!(!approved, "{event:?}"),
            Some(Ok(Change::Finished(event))) => {
                assert!(approved && event.status == EventStatus::Scheduled, "{event:?}")
            }
            other => panic!("{other:?}"),
        }
    }
}
