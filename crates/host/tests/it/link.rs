//! Guests of an agent: their documents and approvals, with and without contact.

use forewarn_core::{Command, Contact, Guid, Status};
use serde_json::Value;

use crate::fleet::{Fleet, eventually, status_of};

fn has_event(event: Guid) -> impl Fn(&Value) -> bool {
    let id = event.to_string();
    move |document| {
        let events = document["Events"].as_array().unwrap();
        events.iter().any(|event| event["EventId"].as_str().is_some_and(|found| found.eq_ignore_ascii_case(&id)))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guests_see_the_same_bytes_as_at_the_server() {
    let fleet = Fleet::start().await;
    let host = fleet.host("node1").await;
    host.connected().await;
    let machine = fleet.machine("web1", "node1").await;
    eventually("the machine is in the copy", || host.agent().status.peek().region.machine(machine).is_some()).await;
    assert!(!fleet.region().is_on(fleet.region().machine(machine).unwrap().scope));
    let first = host.get("web1").await;
    assert_eq!((first.status, first.age), (200, None), "{first:?}");
    assert_eq!(first.json()["DocumentIncarnation"], 1, "the first GET turns the event group on");

    let event = fleet.restart(machine).await;
    host.shows("web1", "the event reaches the host", has_event(event)).await;
    for version in ["2017-03-01", "2017-08-01", "2019-08-01", "2020-07-01"] {
        let here = crate::fleet::get(host.address(), "web1", version).await.body;
        assert_eq!(here, fleet.document("web1", version).await, "{version}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_is_answered_when_the_next_get_shows_it() {
    let fleet = Fleet::start().await;
    let host = fleet.host("node1").await;
    let machine = fleet.machine("web1", "node1").await;
    host.shows("web1", "the machine arrives", |_| true).await;
    let event = fleet.restart(machine).await;
    let before = host.shows("web1", "the event arrives", has_event(event)).await;
    let approved = host.approve("web1", event).await;
    assert_eq!((approved.status, approved.body.as_str()), (200, ""));
    let after = host.get("web1").await;
    assert_eq!(after.status, 200);
    assert_ne!(after.json()["DocumentIncarnation"], before.json()["DocumentIncarnation"]);
    assert_ne!(status_of(&fleet.region(), event), Status::Scheduled);

    let again = host.approve("web1", Guid(7)).await;
    assert_eq!(again.status, 400, "{again:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_contact_documents_have_an_age_and_approvals_are_refused() {
    let fleet = Fleet::start().await;
    let mut host = fleet.host("node1").await;
    let machine = fleet.machine("web1", "node1").await;
    host.shows("web1", "the machine arrives", |_| true).await;
    let event = fleet.restart(machine).await;
    let shown = host.shows("web1", "the event arrives", has_event(event)).await;

    host.proxy.cut();
    host.disconnected().await;
    let aged = host.get("web1").await;
    assert_eq!((aged.status, aged.age.is_some(), &aged.body), (200, true, &shown.body));
    let refused = host.approve("web1", event).await;
    assert_eq!((refused.status, refused.retry_after.as_deref()), (503, Some("2")), "{refused:?}");
    assert_eq!(status_of(&fleet.region(), event), Status::Scheduled);

    host.stop().await;
    host.run().await;
    let restarted = host.get("web1").await;
    assert_eq!((restarted.status, restarted.age.is_some(), &restarted.body), (200, true, &shown.body));

    host.proxy.heal();
    host.connected().await;
    assert_eq!(host.get("web1").await.age, None);
    assert_eq!(host.approve("web1", event).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notice_does_not_run_out_while_the_host_is_cut_off() {
    let fleet = Fleet::start().await;
    let host = fleet.host("node1").await;
    let machine = fleet.machine("web1", "node1").await;
    host.shows("web1", "the machine arrives", |_| true).await;
    host.proxy.cut();
    let contact = || fleet.region().host("node1").unwrap().contact;
    eventually("the host is lost", || matches!(contact(), Contact::Lost { .. })).await;

    let event = fleet.restart(machine).await;
    fleet.advance(24 * 60).await;
    assert_eq!(status_of(&fleet.region(), event), Status::Scheduled);
    assert_eq!(host.get("web1").await.json()["Events"], serde_json::json!([]), "the host cannot know the event");

    host.proxy.heal();
    host.shows("web1", "the event arrives", has_event(event)).await;
    eventually("the host confirms the event", || !fleet.region().event(event).unwrap().unseen).await;
    fleet.advance(14).await;
    assert_eq!(status_of(&fleet.region(), event), Status::Scheduled, "the notice begins when the guest can see it");
    fleet.advance(2).await;
    assert_ne!(status_of(&fleet.region(), event), Status::Scheduled);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_of_a_minute_or_a_day_starts_nothing_and_shows_no_older_document() {
    for minutes in [1, 24 * 60] {
        let fleet = Fleet::start().await;
        let host = fleet.host("node1").await;
        let machine = fleet.machine("web1", "node1").await;
        host.shows("web1", "the machine arrives", |_| true).await;
        let event = fleet.restart(machine).await;
        let before = host.shows("web1", "the event arrives", has_event(event)).await;
        eventually("the host confirms the event", || !fleet.region().event(event).unwrap().unseen).await;

        host.proxy.cut();
        let contact = || fleet.region().host("node1").unwrap().contact;
        eventually("the host is lost", || matches!(contact(), Contact::Lost { .. })).await;
        fleet.advance(minutes).await;
        assert_eq!(status_of(&fleet.region(), event), Status::Scheduled, "{minutes} minutes");
        assert_eq!(host.get("web1").await.body, before.body, "{minutes} minutes");

        host.proxy.heal();
        host.connected().await;
        if minutes == 1 {
            assert_eq!(host.get("web1").await.body, before.body, "the event still has notice");
            assert_eq!(host.approve("web1", event).await.status, 200);
        }
        // After a day, the guest has had its notice.
        eventually("the event starts", || matches!(status_of(&fleet.region(), event), Status::Started { .. })).await;
        let is_started = |document: &Value| document["Events"][0]["EventStatus"] == "Started";
        let after = host.shows("web1", "the start arrives", is_started).await.json();
        let before = before.json();
        assert!(after["DocumentIncarnation"].as_u64() > before["DocumentIncarnation"].as_u64(), "{before} {after}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_agent_causes_no_commits() {
    let fleet = Fleet::start().await;
    let host = fleet.host("node1").await;
    fleet.machine("web1", "node1").await;
    host.shows("web1", "the machine arrives", |_| true).await;
    let contacts = host.agent().status.contacts();
    eventually("the host is confirmed", || host.agent().status.contacts() > contacts + 2).await;
    let revision = fleet.region().meta().revision;
    let contacts = host.agent().status.contacts();
    eventually("more heartbeats", || host.agent().status.contacts() > contacts + 5).await;
    assert_eq!(fleet.region().meta().revision, revision);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_host_serves_its_own_machines() {
    let fleet = Fleet::start().await;
    let (one, two) = (fleet.host("node1").await, fleet.host("node2").await);
    let machine = fleet.machine("web1", "node1").await;
    fleet.machine("web2", "node2").await;
    one.shows("web1", "the machine arrives", |_| true).await;
    two.shows("web2", "the machine arrives", |_| true).await;
    let foreign = two.get("web1").await;
    assert_eq!((foreign.status, foreign.retry_after.as_deref()), (503, Some("2")), "{foreign:?}");

    let before = one.get("web1").await.json();
    let change = forewarn_core::MachineChange { host: Some(Some("node2".into())), ..Default::default() };
    fleet.submit(Command::ChangeMachine { machine, change: Box::new(change) }).await;
    let moved = two.shows("web1", "the machine moves", |_| true).await.json();
    assert!(moved["DocumentIncarnation"].as_u64() >= before["DocumentIncarnation"].as_u64());
    eventually("the old host forgets it", || one.agent().status.peek().region.machine(machine).is_none()).await;
    assert_eq!(one.get("web1").await.status, 503);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guests_of_a_fenced_host_get_503_until_it_is_activated() {
    let fleet = Fleet::start().await;
    let host = fleet.host("node1").await;
    fleet.machine("web1", "node1").await;
    host.shows("web1", "the machine arrives", |_| true).await;
    fleet.submit(Command::FenceHost { name: "node1".into() }).await;
    eventually("the host learns that it is fenced", || !host.agent().status.is_serving()).await;
    assert_eq!(host.get("web1").await.status, 503);
    fleet.submit(Command::ActivateHost { name: "node1".into(), by: "test".into() }).await;
    host.shows("web1", "the host is active", |_| true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_shows_the_connection_of_an_agent() {
    let fleet = Fleet::start().await;
    let host = fleet.host("node1").await;
    host.connected().await;
    let revision = fleet.region().meta().revision;
    let is_current = |host: &Value| host["agent"]["revision"].as_u64().is_some_and(|found| found >= revision);
    let agent = fleet.shows_host("node1", "a heartbeat confirms the copy", is_current).await["agent"].clone();
    assert!(agent["connectedSince"].is_string() && agent["unreachableSince"].is_null(), "{agent}");
    assert_eq!(agent["version"], env!("CARGO_PKG_VERSION"), "{agent}");
    assert!(agent["address"].as_str().is_some_and(|address| address.starts_with("127.0.0.1:")), "{agent}");
}
