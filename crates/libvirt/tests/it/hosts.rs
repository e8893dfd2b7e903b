//! The client against QEMU on two real hosts. `cargo xtask accept libvirt` provides them.

use std::time::Duration;

use forewarn_libvirt::{
    Affect, Connection, CreateFlags, DefineFlags, DestroyFlags, Domain, Error, ErrorCode, Event, EventKind, Events,
    JobKind, Lifecycle, MigrateFlags, Migration, PausedReason, Reconnector, ShutdownFlags, State, Target,
    UndefineFlags, XmlFlags,
};
use forewarn_test_support::{BootLog, Guest, Hosts};

const URI: &str = "https://forewarn.dev/libvirt";

const ELEMENT: &str = "<event id=\"602d9444-d2cd-49c7-8624-8643e7171297\" step=\"begun\"/>";

/// Time limit of a step other than a boot.
const STEP_MAX: Duration = Duration::from_secs(60);

async fn connect(hosts: &Hosts, number: usize) -> (Connection, Events) {
    let (connection, events) = Target::qemu(hosts.socket(number)).connect().await.unwrap();
    assert_eq!(connection.hostname().await.unwrap(), format!("host{number}"));
    connection.register(EventKind::Lifecycle, None).await.unwrap();
    (connection, events)
}

/// Waits for a change of the lifecycle, past others.
async fn wait_for(events: &mut Events, wanted: Lifecycle) {
    let wait = async {
        while let Some(event) = events.next().await {
            if matches!(event, Event::Lifecycle { change, .. } if change == wanted) {
                return;
            }
        }
        panic!("the connection ended before {wanted:?}");
    };
    tokio::time::timeout(STEP_MAX, wait).await.unwrap_or_else(|_| panic!("timed out waiting for {wanted:?}"));
}

#[tokio::test]
async fn a_real_guest_is_driven_and_migrated() {
    let Some(hosts) = Hosts::from_environment() else { return };
    let (guest, log) = (hosts.guest("client", 1), BootLog::new());
    let (one, mut events) = connect(&hosts, 1).await;
    let domain = one.define(&guest.xml(), DefineFlags::VALIDATE).await.unwrap();
    wait_for(&mut events, Lifecycle::Defined).await;
    let domain = one.start(&domain, CreateFlags::NONE).await.unwrap();
    wait_for(&mut events, Lifecycle::Started).await;
    let first = guest.wait_for_boot(1).await;
    log.print("first boot", "none", &first);

    one.set_metadata(&domain, Some(ELEMENT), "forewarn", URI, Affect::LIVE | Affect::CONFIG).await.unwrap();
    let second = reset_while_paused(&one, &domain, &guest, &mut events).await;
    log.print("reset", &first, &second);
    assert_ne!(first, second);

    abort_a_migration(&hosts, &one, &domain, &guest).await;
    migrate(&hosts, &one, &domain, &guest, &mut events).await;
    log.print("live migration", &second, &guest.wait_for_boot(2).await);

    let two = survive_a_killed_libvirtd(&hosts, &guest).await;
    power_off_and_remove(&two, &guest).await;
}

/// Returns the new boot ID.
async fn reset_while_paused(connection: &Connection, domain: &Domain, guest: &Guest, events: &mut Events) -> String {
    connection.suspend(domain).await.unwrap();
    wait_for(events, Lifecycle::Suspended).await;
    assert!(connection.state(domain).await.unwrap().is_paused_by(PausedReason::USER));
    connection.suspend(domain).await.expect("suspending twice is no error");
    connection.reset(domain).await.unwrap();
    assert_eq!(connection.state(domain).await.unwrap().state, State::Paused, "a reset does not resume");
    for affect in [Affect::LIVE, Affect::CONFIG] {
        assert_eq!(connection.metadata(domain, URI, affect).await.unwrap().as_deref(), Some(ELEMENT));
    }
    connection.resume(domain).await.unwrap();
    wait_for(events, Lifecycle::Resumed).await;
    guest.wait_for_boot(2).await
}

fn migration(hosts: &Hosts) -> Migration {
    Migration {
        target_uri: hosts.peer_uri(2),
        flags: MigrateFlags::LIVE | MigrateFlags::PERSIST_DEST | MigrateFlags::UNDEFINE_SOURCE,
        data_uri: Some(hosts.data_uri(2)),
        ..Migration::default()
    }
}

async fn abort_a_migration(hosts: &Hosts, connection: &Connection, domain: &Domain, guest: &Guest) {
    let (long, _events) = Target::qemu(hosts.socket(1)).connect().await.unwrap();
    let slow = Migration { bandwidth_mib: Some(1), ..migration(hosts) };
    let abort = async {
        loop {
            let info = connection.job_info(domain).await.unwrap();
            if info.kind == JobKind::Unbounded && info.processed_bytes > 0 {
                return connection.abort_job(domain).await.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let (result, ()) = tokio::time::timeout(STEP_MAX, async { tokio::join!(long.migrate(domain, &slow), abort) })
        .await
        .expect("the migration ends in time");
    let error = result.unwrap_err();
    assert!(error.is(ErrorCode::OPERATION_ABORTED), "{error:?}");
    assert_eq!(connection.state(domain).await.unwrap().state, State::Running);
    guest.wait_for_beat().await;
}

async fn migrate(hosts: &Hosts, one: &Connection, domain: &Domain, guest: &Guest, events: &mut Events) {
    let (two, mut arrivals) = connect(hosts, 2).await;
    one.migrate(domain, &migration(hosts)).await.unwrap();
    wait_for(&mut arrivals, Lifecycle::Started).await;
    wait_for(events, Lifecycle::Stopped).await;
    let gone = one.domain_by_uuid(domain.uuid).await.unwrap_err();
    assert!(gone.is(ErrorCode::NO_DOMAIN), "{gone:?}");
    let moved = two.domain_by_uuid(domain.uuid).await.unwrap();
    assert_eq!(two.state(&moved).await.unwrap().state, State::Running);
    for affect in [Affect::LIVE, Affect::CONFIG] {
        assert_eq!(two.metadata(&moved, URI, affect).await.unwrap().as_deref(), Some(ELEMENT));
    }
    assert!(two.xml(&moved, XmlFlags::INACTIVE).await.unwrap().contains(&guest.uuid));
    let stats = two.job_stats(&moved, true).await.unwrap();
    assert_eq!(stats.kind, JobKind::Completed);
    assert!(stats.parameters.iter().any(|parameter| parameter.name == "downtime"), "{stats:?}");
    guest.wait_for_beat().await;
}

async fn survive_a_killed_libvirtd(hosts: &Hosts, guest: &Guest) -> Connection {
    let (two, _) = Target::qemu(hosts.socket(2)).connect().await.unwrap();
    hosts.kill_libvirtd(2);
    assert!(!two.closed().await.is_empty());
    assert!(matches!(two.hostname().await, Err(Error::Disconnected(_))));
    let mut reconnector = Reconnector::new(Target::qemu(hosts.socket(2)));
    let (two, _events) =
        tokio::time::timeout(STEP_MAX, reconnector.connect(|_, _| {})).await.expect("libvirtd is back");
    let domain = two.domain_by_name(&guest.name).await.unwrap();
    assert_eq!(two.state(&domain).await.unwrap().state, State::Running);
    assert_eq!(two.metadata(&domain, URI, Affect::LIVE).await.unwrap().as_deref(), Some(ELEMENT));
    guest.wait_for_beat().await;
    two
}

async fn power_off_and_remove(connection: &Connection, guest: &Guest) {
    let domain = connection.domain_by_name(&guest.name).await.unwrap();
    let off = async {
        connection.shutdown(&domain, ShutdownFlags::ACPI).await.unwrap();
        while connection.state(&domain).await.unwrap().state != State::ShutOff {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(STEP_MAX, off).await.expect("the guest powers off");
    connection.start(&domain, CreateFlags::PAUSED).await.unwrap();
    assert_eq!(connection.state(&domain).await.unwrap().state, State::Paused);
    connection.destroy(&domain, DestroyFlags::NONE).await.unwrap();
    connection.undefine(&domain, UndefineFlags::NVRAM | UndefineFlags::MANAGED_SAVE).await.unwrap();
    assert!(connection.domain_by_name(&guest.name).await.unwrap_err().is(ErrorCode::NO_DOMAIN));
}
