//! libvirtd with its test driver, `test:///default`: one domain that exists only in memory.

use std::time::Duration;

use forewarn_libvirt::{
    AddressSource, Affect, CreateFlags, DefineFlags, DestroyFlags, ErrorCode, Event, EventKind, Events, Lifecycle,
    ShutdownFlags, State, Target, UndefineFlags, Uuid, XmlFlags,
};
use forewarn_test_support::TestLibvirtd;

const STARTED_WITHIN: Duration = Duration::from_secs(60);

const UUID: &str = "6695eb01-f6a4-8304-79aa-97f2502e193f";

const METADATA_URI: &str = "https://forewarn.dev/libvirt";

fn target(daemon: &TestLibvirtd) -> Target {
    Target::new(daemon.socket(), "test:///default")
}

async fn next(events: &mut Events) -> Event {
    tokio::time::timeout(STARTED_WITHIN, events.next())
        .await
        .expect("an event in time")
        .expect("the connection is open")
}

async fn next_change(events: &mut Events) -> Lifecycle {
    match next(events).await {
        Event::Lifecycle { change, .. } => change,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn host_and_domains_can_be_read() {
    let Some(daemon) = TestLibvirtd::start() else { return };
    let (connection, _events) = target(&daemon).connect().await.unwrap();
    assert_eq!(connection.uri().await.unwrap(), "test:///default");
    assert!(!connection.hostname().await.unwrap().is_empty());
    assert!(connection.libvirt_version().await.unwrap().major >= 7);
    assert_eq!(connection.hypervisor_version().await.unwrap().to_string(), "0.0.2");
    assert!(connection.capabilities().await.unwrap().starts_with("<capabilities>"));
    let node = connection.node_info().await.unwrap();
    assert_eq!((node.model.as_str(), node.memory_kib, node.mhz), ("i686", 3 * 1024 * 1024, 1400));
    assert!(connection.free_memory().await.unwrap() > 0);

    let domains = connection.domains().await.unwrap();
    assert_eq!(domains.len(), 1);
    let uuid: Uuid = UUID.parse().unwrap();
    assert_eq!(connection.domain_by_uuid(uuid).await.unwrap(), domains[0]);
    let domain = connection.domain_by_name("test").await.unwrap();
    assert_eq!((domain.uuid, domain.id), (uuid, Some(1)));
    let info = connection.domain_info(&domain).await.unwrap();
    assert_eq!((info.state, info.memory_kib, info.vcpus), (State::Running, 2 * 1024 * 1024, 2));
    assert!(connection.xml(&domain, XmlFlags::INACTIVE).await.unwrap().contains("<name>test</name>"));
    let network = connection.network_by_name("default").await.unwrap();
    assert_eq!(connection.pool_by_name("default-pool").await.unwrap().name, "default-pool");
    let missing = connection.volume_by_path("/no/such/disk").await.unwrap_err();
    assert!(missing.is(ErrorCode::NO_VOLUME), "{missing:?}");
    // The test driver invents leases and addresses, or supports neither.
    if let Err(error) = connection.dhcp_leases(&network, None).await {
        assert!(error.is(ErrorCode::NO_SUPPORT), "{error:?}");
    }
    if let Err(error) = connection.interface_addresses(&domain, AddressSource::Lease).await {
        assert!(error.is(ErrorCode::NO_SUPPORT), "{error:?}");
    }
    connection.close().await.unwrap();
}

#[tokio::test]
async fn errors_are_those_of_libvirt() {
    let Some(daemon) = TestLibvirtd::start() else { return };
    let (connection, _events) = target(&daemon).connect().await.unwrap();
    let missing = connection.domain_by_name("nope").await.unwrap_err();
    assert!(missing.is(ErrorCode::NO_DOMAIN), "{missing:?}");
    assert_eq!(missing.to_string(), "Domain not found");
    let invalid = connection.define("<domain", DefineFlags::NONE).await.unwrap_err();
    assert!(invalid.code().is_some(), "{invalid:?}");
    let domain = connection.domain_by_name("test").await.unwrap();
    let running = connection.start(&domain, CreateFlags::NONE).await.unwrap_err();
    assert!(running.to_string().contains("already running"), "{running:?}");
    let refused = Target::new(daemon.socket(), "no-such-driver:///").connect().await.err().expect("no such driver");
    assert!(refused.code().is_some(), "{refused:?}");
}

#[tokio::test]
async fn power_changes_are_seen_as_events() {
    let Some(daemon) = TestLibvirtd::start() else { return };
    let (connection, mut events) = target(&daemon).connect().await.unwrap();
    let callback = connection.register(EventKind::Lifecycle, None).await.unwrap();
    let domain = connection.domain_by_name("test").await.unwrap();

    connection.suspend(&domain).await.unwrap();
    assert_eq!(connection.state(&domain).await.unwrap().state, State::Paused);
    assert_eq!(next_change(&mut events).await, Lifecycle::Suspended);
    connection.resume(&domain).await.unwrap();
    assert_eq!(next_change(&mut events).await, Lifecycle::Resumed);
    connection.destroy(&domain, DestroyFlags::NONE).await.unwrap();
    assert_eq!(next_change(&mut events).await, Lifecycle::Stopped);
    let started = connection.start(&domain, CreateFlags::NONE).await.unwrap();
    assert!(started.id.is_some());
    assert_eq!(next_change(&mut events).await, Lifecycle::Started);
    connection.shutdown(&started, ShutdownFlags::NONE).await.unwrap();
    // The guest of the test driver obeys at once.
    assert_eq!(next_change(&mut events).await, Lifecycle::Stopped);

    connection.deregister(callback).await.unwrap();
    connection.undefine(&domain, UndefineFlags::NONE).await.unwrap();
    assert_eq!(connection.domains().await.unwrap(), []);
    connection.close().await.unwrap();
    assert_eq!(events.next().await, None, "no events follow a deregistration");
}

#[tokio::test]
async fn metadata_is_an_element_with_its_own_namespace() {
    let Some(daemon) = TestLibvirtd::start() else { return };
    let (connection, mut events) = target(&daemon).connect().await.unwrap();
    let domain = connection.domain_by_name("test").await.unwrap();
    connection.register(EventKind::MetadataChange, Some(&domain)).await.unwrap();
    let both = Affect::LIVE | Affect::CONFIG;
    assert_eq!(connection.metadata(&domain, METADATA_URI, Affect::LIVE).await.unwrap(), None);
    let element = "<event id=\"1\"/>";
    connection.set_metadata(&domain, Some(element), "forewarn", METADATA_URI, both).await.unwrap();
    match next(&mut events).await {
        Event::MetadataChange { uri, domain, .. } => {
            assert_eq!((uri.as_deref(), domain.name.as_str()), (Some(METADATA_URI), "test"));
        }
        other => panic!("{other:?}"),
    }
    for affect in [Affect::LIVE, Affect::CONFIG] {
        assert_eq!(connection.metadata(&domain, METADATA_URI, affect).await.unwrap().as_deref(), Some(element));
    }
    connection.set_metadata(&domain, None, "forewarn", METADATA_URI, both).await.unwrap();
    assert_eq!(connection.metadata(&domain, METADATA_URI, Affect::CONFIG).await.unwrap(), None);
}

#[tokio::test]
async fn many_calls_at_once_get_their_own_answers() {
    let Some(daemon) = TestLibvirtd::start() else { return };
    let (connection, _events) = target(&daemon).connect().await.unwrap();
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..100 {
        let connection = connection.clone();
        calls.spawn(async move {
            if number % 2 == 0 {
                assert_eq!(connection.domain_by_name("test").await.unwrap().name, "test");
            } else {
                assert!(connection.domain_by_name("nope").await.unwrap_err().is(ErrorCode::NO_DOMAIN));
            }
        });
    }
    while let Some(result) = calls.join_next().await {
        result.unwrap();
    }
}

#[tokio::test]
async fn a_killed_daemon_ends_calls_and_events() {
    let Some(mut daemon) = TestLibvirtd::start() else { return };
    let (connection, mut events) = target(&daemon).connect().await.unwrap();
    connection.register(EventKind::Lifecycle, None).await.unwrap();
    daemon.kill();
    let ended = tokio::time::timeout(STARTED_WITHIN, events.next()).await.expect("the end in time");
    assert_eq!(ended, None);
    assert!(!connection.closed().await.is_empty());
    assert!(connection.hostname().await.is_err());
}
