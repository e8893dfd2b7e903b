//! The clients against Forewarn itself: in memory, on a clock that stands still.

mod fake;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use fake::FakeClock;
use forewarn_client::{AsyncClient, Change, Client, Endpoint, Error, Event, EventId, Options, Poll, Status, Version};
use forewarn_core::{Command, Guid, MachineId, Request, Timestamp};
use forewarn_engine::Advance;
use forewarn_server::{Auth, BoundAddress, ClockKind, Config, ListenAddress, MetadataListener, Running, start};

/// Wed, 01 Jan 2020 00:00:00 GMT
const START: Timestamp = Timestamp::from_secs(1_577_836_800);

/// The machine that an empty store starts with.
const FIRST: MachineId = MachineId(1);

struct World {
    running: Running,
}

impl World {
    async fn new() -> World {
        let listener = MetadataListener {
            address: ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into()),
            machine: None,
            network: "default".into(),
            prefix: None,
        };
        let config = Config {
            metadata: vec![listener],
            management: (Ipv4Addr::LOCALHOST, 0).into(),
            auth: Auth::Off,
            clock: ClockKind::Manual { start: Some(START) },
            ..Config::default()
        };
        World { running: start(config).await.expect("the server starts") }
    }

    fn endpoint(&self) -> Endpoint {
        match &self.running.metadata[0] {
            BoundAddress::Tcp(address) => (*address).into(),
            BoundAddress::Unix(path) => panic!("{} is not an address", path.display()),
        }
    }

    async fn submit(&self, command: Command) {
        self.running.engine.submit(command, None).await.expect("the command is carried out");
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

/// A blocking client where blocking is allowed; it comes back with what it found.
async fn on_a_thread<T: Send + 'static>(
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

/// The one event of a document that changed.
fn only(poll: Result<Poll, Error>) -> Option<Event> {
    match poll {
        Ok(Poll::Changed(document)) => {
            assert!(document.events.len() <= 1, "{document:?}");
            document.events.into_iter().next()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_lives_in_every_version() {
    for version in Version::ALL {
        let world = World::new().await;
        let client = Client::with(Options::new(world.endpoint()).version(version));
        let (client, name) = on_a_thread(client, |client| client.instance().unwrap().name).await;
        let (client, found) = on_a_thread(client, |client| only(client.poll())).await;
        assert_eq!(found, None, "{version}");

        world.restart(0xE1).await;
        let (client, found) = on_a_thread(client, |client| only(client.poll())).await;
        let event = found.expect("it is scheduled");
        assert_eq!((event.status, event.version), (Status::Scheduled, version));
        assert_eq!(event.not_before_text(), "Wed, 01 Jan 2020 00:15:00 GMT");
        assert!(event.concerns(&name), "{version}: {event:?}");
        assert_eq!(event.description.is_some(), version >= Version::V2019_04_01, "{version}");
        assert_eq!(event.source.is_some(), version >= Version::V2019_08_01, "{version}");
        assert_eq!(event.duration_secs.is_some(), version >= Version::V2020_07_01, "{version}");

        let id = event.id.clone();
        let (client, unchanged) = on_a_thread(client, move |client| {
            let unchanged = client.poll().unwrap();
            client.approve(&[id]).unwrap();
            unchanged
        })
        .await;
        assert_eq!(unchanged, Poll::Unchanged, "{version}");
        let (client, found) = on_a_thread(client, |client| only(client.poll())).await;
        assert_eq!(found.map(|event| event.status), Some(Status::Started), "{version}");
        world.advance(600).await;
        let (client, found) = on_a_thread(client, |client| only(client.poll())).await;
        assert_eq!(found, None, "{version}");
        assert_eq!(client.version(), Some(version));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_request_sees_the_change_and_a_clone_approves_meanwhile() {
    let world = World::new().await;
    let client = Client::new(world.endpoint());
    let (client, _) = on_a_thread(client, |client| client.poll().unwrap()).await;
    assert!(client.can_hold());
    assert_eq!(client.version(), Some(Version::V2020_07_01));

    let approver = client.clone();
    let holder = tokio::spawn(on_a_thread(client, |client| only(client.hold(Duration::from_secs(60)))));
    world.restart(0xE1).await;
    let (client, found) = holder.await.unwrap();
    let event = found.expect("it is scheduled");

    let holder = tokio::spawn(on_a_thread(client, |client| only(client.hold(Duration::from_secs(60)))));
    on_a_thread(approver, move |client| client.approve(&[event.id]).unwrap()).await;
    let (_, found) = holder.await.unwrap();
    assert_eq!(found.map(|event| event.status), Some(Status::Started));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_forewarn_refuses_comes_back_as_its_sentence() {
    let world = World::new().await;
    let unknown: Endpoint = format!("{}/vm/nobody", world.endpoint()).parse().unwrap();
    let (_, error) = on_a_thread(Client::new(unknown), |client| client.poll().unwrap_err().to_line()).await;
    assert!(error.starts_with("the service refuses, 404: Not found. There is no machine 'nobody'."), "{error}");

    let id = EventId::parse("51941B56-8080-45AC-81AE-8BDA818F5958").unwrap();
    let approve = move |client: &mut Client| client.approve(&[id]).unwrap_err().to_line();
    let (_, error) = on_a_thread(Client::new(world.endpoint()), approve).await;
    assert!(
        error.starts_with("the service refuses, 400: Bad request. This machine's document does not contain"),
        "{error}"
    );
}

#[tokio::test]
async fn an_async_watch_sees_a_whole_life() {
    let world = World::new().await;
    let mut client = AsyncClient::new(world.endpoint());
    let name = client.instance().await.unwrap().name;
    assert_eq!(client.document().await.unwrap().events, []);
    // Nobody waits here: each request is made after its change.
    let mut watch = client.watch().every(Duration::ZERO).hold(None);

    world.restart(0xE1).await;
    let Ok(Change::Appeared(event)) = watch.next().await else { panic!("it appears") };
    assert!(event.concerns(&name));
    watch.approve(std::slice::from_ref(&event.id)).await.unwrap();
    assert!(matches!(watch.next().await, Ok(Change::Started(started)) if started.id == event.id));
    world.advance(600).await;
    assert!(matches!(watch.next().await, Ok(Change::Ended(ended)) if ended.id == event.id));
    assert_eq!(watch.tracker().events().count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_tells_an_event_that_was_cancelled_from_one_that_ended_unseen() {
    let world = World::new().await;
    // This clock shows 1970, so that no event of 2020 can have started by itself.
    let client = Client::with_clock(Options::new(world.endpoint()), Arc::new(FakeClock::default()));
    let (client, _) = on_a_thread(client, |client| client.document().unwrap()).await;
    let mut watch = client.watch().hold(None);
    for approved in [false, true] {
        let event = if approved { 0xE2 } else { 0xE1 };
        world.restart(event).await;
        let (mut back, id) = tokio::task::spawn_blocking(move || {
            let Some(Ok(Change::Appeared(event))) = watch.next() else { panic!("it appears") };
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
            Some(Ok(Change::Cancelled(event))) => assert!(!approved, "{event:?}"),
            Some(Ok(Change::Ended(event))) => assert!(approved && event.status == Status::Scheduled, "{event:?}"),
            other => panic!("{other:?}"),
        }
    }
}
