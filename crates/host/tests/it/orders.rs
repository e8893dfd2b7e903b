//! Orders reach the agents of the hosts, are carried out once, and their reports reach the server.

use std::sync::Arc;
use std::time::Duration;

use forewarn_access::random_guid;
use forewarn_core::{Command, Contact, DrainPlan, EventId, HostState, MachineId, Outcome, Power, Request, Status};
use forewarn_drivers::{MachineDriver as _, SimulatedMachines};
use forewarn_server::DriverChoice;
use serde_json::json;

use crate::fleet::{Fleet, TestHost, blocking, eventually, post, status_of};

/// Orders that take as long as a test needs to cut the link meanwhile.
const SLOW: Duration = Duration::from_millis(1500);

/// An order that does not end by itself.
const ENDLESS: Duration = Duration::from_secs(24 * 3600);

async fn start(takes: Duration) -> (Fleet, TestHost, Arc<SimulatedMachines>, MachineId) {
    let fleet = Fleet::start_with(DriverChoice::Agents).await;
    let driver = Arc::new(SimulatedMachines::new(takes));
    let host = fleet.driven_host("node1", Some(driver.clone())).await;
    let machine = fleet.machine("web1", "node1").await;
    host.shows("web1", "the machine arrives", |_| true).await;
    (fleet, host, driver, machine)
}

fn is_completed(fleet: &Fleet, event: EventId) -> bool {
    matches!(status_of(&fleet.region(), event), Status::Ended { outcome: Outcome::Completed, .. })
}

fn is_started(fleet: &Fleet, event: EventId) -> bool {
    matches!(status_of(&fleet.region(), event), Status::Started { .. })
}

/// Requests a restart and approves it, so that it starts.
async fn approved_restart(fleet: &Fleet, host: &TestHost, machine: MachineId) -> EventId {
    let event = fleet.restart(machine).await;
    eventually("the event is in the copy", || host.agent().status.peek().region.event(event).is_some()).await;
    assert_eq!(host.approve("web1", event).await.status, 200);
    event
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_is_carried_out_once_and_ends_its_event() {
    let (fleet, host, driver, machine) = start(Duration::ZERO).await;
    let event = approved_restart(&fleet, &host, machine).await;
    eventually("the event ends", || is_completed(&fleet, event)).await;
    let effects: Vec<_> = driver.effects().iter().map(|order| order.event).collect();
    assert_eq!(effects, [event]);
    host.shows("web1", "the event is gone", |document| document["Events"] == serde_json::json!([])).await;

    let again = approved_restart(&fleet, &host, machine).await;
    eventually("the next event ends", || is_completed(&fleet, again)).await;
    assert_eq!(driver.effects().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_contact_an_order_in_progress_finishes_and_is_reported_later() {
    let (fleet, host, driver, machine) = start(SLOW).await;
    let event = approved_restart(&fleet, &host, machine).await;
    eventually("the event starts", || is_started(&fleet, event)).await;
    eventually("the order begins", || host.agent().status.peek().region.event(event).is_some()).await;
    eventually("the order is in the journal", || !driver.unfinished().unwrap().is_empty()).await;
    host.proxy.cut();
    host.disconnected().await;
    eventually("the order takes effect", || driver.effects().len() == 1).await;
    assert!(is_started(&fleet, event), "the server cannot know yet");
    host.proxy.heal();
    eventually("the event ends", || is_completed(&fleet, event)).await;
    assert_eq!(driver.effects().len(), 1);
    eventually("the journal is empty", || driver.unfinished().unwrap().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_restarts_reports_what_it_finished() {
    let (fleet, mut host, driver, machine) = start(Duration::ZERO).await;
    host.proxy.cut();
    host.disconnected().await;
    host.proxy.heal();
    host.connected().await;
    let event = approved_restart(&fleet, &host, machine).await;
    eventually("the order takes effect", || driver.effects().len() == 1).await;
    host.stop().await;
    host.run().await;
    eventually("the event ends", || is_completed(&fleet, event)).await;
    assert_eq!(driver.effects().len(), 1, "the order is not repeated");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_is_fenced_and_activated_while_it_is_cut_off_abandons_its_orders() {
    for is_restarted in [false, true] {
        let (fleet, mut host, driver, machine) = start(ENDLESS).await;
        let event = approved_restart(&fleet, &host, machine).await;
        eventually("the order is in the journal", || !driver.unfinished().unwrap().is_empty()).await;
        host.proxy.cut();
        host.disconnected().await;
        fleet.submit(Command::FenceHost { name: "node1".into() }).await;
        fleet.submit(Command::ActivateHost { name: "node1".into(), by: "test".into() }).await;
        assert!(matches!(status_of(&fleet.region(), event), Status::Ended { outcome: Outcome::Failed(_), .. }));
        if is_restarted {
            host.stop().await;
            host.run().await;
        }
        assert_eq!(driver.unfinished().unwrap().len(), 1, "without contact, what has begun goes on");
        host.proxy.heal();
        eventually("the journal is empty", || driver.unfinished().unwrap().is_empty()).await;
        assert_eq!(driver.effects(), [], "the order is not carried out");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_is_stopped_by_its_agent_once_the_host_is_reachable_and_started_again() {
    let (fleet, host, driver, machine) = start(Duration::ZERO).await;
    eventually("node1 is confirmed", || fleet.region().host("node1").unwrap().contact != Contact::None).await;
    host.proxy.cut();
    host.disconnected().await;
    eventually("node1 is unreachable", || fleet.region().host("node1").unwrap().is_unreachable()).await;
    let url = format!("{}/api/v1/machines/web1", fleet.url());
    let (status, shown) = power(&url, "stop").await;
    assert_eq!((status, &shown["power"]), (200, &json!("Running")));
    let waits = json!({ "to": "Stopped", "waitingFor": "host 'node1', which is unreachable" });
    assert_eq!(shown["powerChange"], waits);
    assert!(driver.effects().is_empty());

    host.proxy.heal();
    let power_of = || fleet.region().machine(machine).unwrap().power;
    eventually("the machine is stopped", || power_of() == Power::Stopped).await;
    assert_eq!(driver.effects().len(), 1);
    let (status, shown) = power(&url, "start").await;
    assert_eq!((status, &shown["power"]), (200, &json!("Running")));
    eventually("the machine is started", || fleet.region().machine(machine).unwrap().power_change().is_none()).await;
    assert_eq!((power_of(), driver.effects().len()), (Power::Running, 2));
    let (_, shown) = power(&url, "deallocate").await;
    assert_eq!(shown["powerChange"]["to"], "Deallocated");
    eventually("the machine is deallocated", || power_of() == Power::Deallocated).await;
    assert_eq!(driver.effects().len(), 3);
}

/// Starts or stops a machine through the API.
async fn power(url: &str, action: &str) -> (u16, serde_json::Value) {
    let url = format!("{url}/{action}");
    blocking(move || post(&url, &json!({}))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_machine_moves_with_its_document_and_its_held_request_is_answered() {
    let (fleet, one, driver, machine) = start(Duration::ZERO).await;
    let other = Arc::new(SimulatedMachines::new(Duration::ZERO));
    let two = fleet.driven_host("node2", Some(other.clone())).await;
    two.connected().await;
    eventually("node2 is confirmed", || fleet.region().host("node2").unwrap().contact != Contact::None).await;

    drain(&fleet, 1).await;
    let shown =
        one.shows("web1", "the move is announced", |document| document["Events"][0]["EventType"] == "Freeze").await;
    let event = fleet.region().events_of(machine).next().unwrap().id;
    let incarnation = shown.json()["DocumentIncarnation"].as_u64().unwrap();

    let (held, approved) = tokio::join!(one.wait_for_change("web1", incarnation), one.approve("web1", event));
    assert_eq!(approved.status, 200);
    assert!([200, 304, 503].contains(&held.status), "a held request does not stay behind: {held:?}");
    eventually("the machine is on node2", || fleet.region().machine(machine).unwrap().host.as_deref() == Some("node2"))
        .await;
    eventually("the event ends", || is_completed(&fleet, event)).await;
    assert_eq!((driver.effects().len(), other.effects().len()), (1, 1), "one move, one arrival");
    let moved =
        two.shows("web1", "node2 serves the machine", |document| document["Events"] == serde_json::json!([])).await;
    assert!(moved.json()["DocumentIncarnation"].as_u64().unwrap() > incarnation, "the document went backward");
    eventually("node1 is drained", || fleet.region().host("node1").unwrap().state == HostState::Drained).await;
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    /// The order to move the machine is in progress.
    Moving,
    /// The machine has left its host, which has not reported it yet.
    Left,
    /// The machine has left its host, and its new host has no order for it yet.
    Arriving,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_moves_once_although_agents_restart_in_the_middle() {
    for moment in [Moment::Moving, Moment::Left, Moment::Arriving] {
        let (fleet, mut one, driver, machine) = start(SLOW).await;
        let other = Arc::new(SimulatedMachines::new(Duration::ZERO));
        let mut two = fleet.driven_host("node2", Some(other.clone())).await;
        two.connected().await;
        eventually("node2 is confirmed", || fleet.region().host("node2").unwrap().contact != Contact::None).await;
        drain(&fleet, 1).await;
        let is_announced = |document: &serde_json::Value| document["Events"][0]["EventType"] == "Freeze";
        let shown = one.shows("web1", "the move is announced", is_announced).await;
        let incarnation = shown.json()["DocumentIncarnation"].as_u64().unwrap();
        let event = fleet.region().events_of(machine).next().unwrap().id;
        assert_eq!(one.approve("web1", event).await.status, 200);
        eventually("the order is in the journal", || !driver.unfinished().unwrap().is_empty()).await;
        match moment {
            Moment::Moving => {}
            Moment::Left => {
                one.proxy.cut();
                eventually("the machine has left", || driver.effects().len() == 1).await;
            }
            Moment::Arriving => {
                two.proxy.cut();
                two.disconnected().await;
                let arriving = || fleet.region().machine(machine).unwrap().arriving().is_some();
                eventually("the machine is on its way", arriving).await;
                assert!(is_started(&fleet, event), "its new host has not reported it");
                two.stop().await;
                two.proxy.heal();
                two.run().await;
            }
        }
        one.stop().await;
        one.proxy.heal();
        one.run().await;
        let host = || fleet.region().machine(machine).unwrap().host.clone();
        eventually("the machine is on node2", || host().as_deref() == Some("node2")).await;
        eventually("the event ends", || is_completed(&fleet, event)).await;
        assert_eq!((driver.effects().len(), other.effects().len()), (1, 1), "{moment:?}: one move, one arrival");
        let moved = two.shows("web1", "node2 serves the machine", |document| document["Events"] == json!([])).await;
        assert!(moved.json()["DocumentIncarnation"].as_u64().unwrap() > incarnation, "{moment:?}: it went backward");
        eventually("node1 is drained", || fleet.region().host("node1").unwrap().state == HostState::Drained).await;
        eventually("the journals are empty", || {
            driver.unfinished().unwrap().is_empty() && other.unfinished().unwrap().is_empty()
        })
        .await;
    }
}

/// Drains node1.
async fn drain(fleet: &Fleet, parallel: u32) {
    let plan = DrainPlan {
        host: "node1".into(),
        to: None,
        parallel,
        unavailable_max: None,
        notice: None,
        in_place: false,
        description: None,
    };
    let request = Request::Drain(plan);
    fleet.submit(Command::Request { operation: random_guid(), by: "test".into(), request, event: None }).await;
}

/// Phases of each machine of a drained host: its move is approved, it leaves its host, and it arrives at another.
const PHASES: u64 = 3;

/// Commits that do not depend on the number of machines: the request, which announces all moves, the confirmation of the
/// announcement by each host, and the end of the drain.
const OTHER_COMMITS: u64 = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_takes_at_most_one_commit_per_machine_and_phase() {
    const MACHINES: u32 = 12;
    let fleet = Fleet::start_with(DriverChoice::Agents).await;
    let driver = || Some(Arc::new(SimulatedMachines::new(Duration::ZERO)));
    let one = fleet.driven_host("node1", driver()).await;
    let two = fleet.driven_host("node2", driver()).await;
    two.connected().await;
    eventually("node2 is confirmed", || fleet.region().host("node2").unwrap().contact != Contact::None).await;
    let mut machines = Vec::new();
    for number in 0..MACHINES {
        let name = format!("web{number}");
        let machine = fleet.machine(&name, "node1").await;
        one.shows(&name, "the machine arrives", |_| true).await;
        machines.push((name, machine));
    }
    let before = fleet.server.engine.snapshot().revision;
    drain(&fleet, MACHINES).await;
    for (name, machine) in &machines {
        one.shows(name, "the move is announced", |document| document["Events"][0]["EventType"] == "Freeze").await;
        let event = fleet.region().events_of(*machine).next().unwrap().id;
        assert_eq!(one.approve(name, event).await.status, 200);
    }
    eventually("node1 is drained", || fleet.region().host("node1").unwrap().state == HostState::Drained).await;
    let commits = fleet.server.engine.snapshot().revision - before;
    let most = PHASES * u64::from(MACHINES) + OTHER_COMMITS;
    assert!(commits <= most, "{commits} commits for {MACHINES} machines, at most {most}");
    eprintln!("{commits} commits for a drain of {MACHINES} machines");
}
