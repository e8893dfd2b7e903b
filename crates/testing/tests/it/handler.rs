//! Tests as the author of a handler would write them, with the client library as the handler.

use std::net::TcpStream;
use std::time::Duration;

use forewarn_client::{AsyncClient, Change, Client};
use forewarn_testing::{EventKind, EventStatus, Fault, Forewarn, RecordedRequest};

/// Expires only if a test fails.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Approves the events that affect this machine.
fn handle(endpoint: &str, name: &str) {
    let mut client = Client::new(endpoint.parse().unwrap());
    let events = client.document().unwrap().events;
    let mine: Vec<_> = events.iter().filter(|event| event.affects(name)).map(|event| event.id.clone()).collect();
    if !mine.is_empty() {
        client.approve(&mine).unwrap();
    }
}

#[test]
fn a_handler_approves_only_its_own_events() {
    let forewarn = Forewarn::start();
    let [one, two] = forewarn.availability_set("web", ["web_0", "web_1"]);
    let event = one.schedule(EventKind::Reboot);
    handle(two.endpoint(), two.name());
    assert_eq!((event.status(), event.approval()), (Some(EventStatus::Scheduled), None));
    handle(one.endpoint(), one.name());
    assert_eq!(event.wait_approved(TIMEOUT).approved_by, "guest:web_0");
    assert!(event.is_started());
    forewarn.advance(Duration::from_secs(600));
    assert_eq!(event.wait_finished(TIMEOUT), "Completed");
    let methods = |requests: Vec<RecordedRequest>| requests.into_iter().map(|each| each.method).collect::<String>();
    assert_eq!(methods(two.requests()), "GET");
}

#[test]
fn a_handler_survives_every_fault_and_the_recorded_requests_name_it() {
    let brief = Duration::from_millis(1);
    for (fault, met) in [
        (Fault::status(410), "Status"),
        (Fault::status_retry_after(429, 0), "Status"),
        (Fault::delay(brief), "Delay"),
        (Fault::reset(), "Reset"),
        (Fault::truncated(), "Truncated"),
        (Fault::slow_first_call(brief), "SlowFirstCall"),
        (Fault::incarnation_restart(), "IncarnationRestart"),
        (Fault::unknown_type(), "UnknownType"),
    ] {
        let forewarn = Forewarn::start();
        let web = forewarn.machine("web_0");
        let event = web.restart();
        web.inject_fault(fault.count(1));
        handle(web.endpoint(), web.name());
        assert!(event.is_started(), "{met}");
        let requests = web.requests();
        assert!(requests.iter().any(|request| request.faults == [met]), "{met}: {requests:?}");
    }
}

#[test]
fn faults_affect_only_the_selected_requests_and_expire() {
    let forewarn = Forewarn::start();
    let [one, two] = forewarn.availability_set("web", ["web_0", "web_1"]);
    let event = one.restart();
    one.inject_fault(Fault::events_vanish());
    forewarn.inject_fault(Fault::status(503).only_approvals().count(1));
    forewarn.inject_fault(Fault::malformed().only_polls().percent(100).lasting(Duration::from_secs(60)));
    forewarn.advance(Duration::from_secs(60));
    handle(one.endpoint(), one.name());
    assert_eq!(event.status(), Some(EventStatus::Scheduled));
    forewarn.clear_faults();
    handle(two.endpoint(), one.name());
    assert!(event.is_started());
    let approvals: Vec<_> = two.requests().into_iter().filter(|request| request.method == "POST").collect();
    assert_eq!((approvals[0].approved.as_slice(), approvals[0].status), ([event.id().clone()].as_slice(), Some(200)));
}

#[test]
fn a_test_can_wait_for_a_handler_on_another_thread() {
    let forewarn = Forewarn::start();
    let web = forewarn.machine("web_0");
    let endpoint = web.endpoint().parse().unwrap();
    let event = web.restart();
    let handler = std::thread::spawn(move || {
        let mut changes = Client::new(endpoint).watch();
        match changes.next() {
            Some(Ok(Change::Appeared(event))) => changes.approve(&[event.id]).unwrap(),
            other => panic!("{other:?}"),
        }
    });
    event.wait_started(TIMEOUT);
    handler.join().unwrap();
}

#[tokio::test]
async fn a_single_threaded_async_test_can_wait_for_its_handler() {
    let forewarn = Forewarn::start();
    let web = forewarn.machine("web_0");
    let event = web.schedule(EventKind::Redeploy);
    let endpoint = web.endpoint().parse().unwrap();
    let handler = tokio::spawn(async move {
        let mut changes = AsyncClient::new(endpoint).watch();
        let Ok(Change::Appeared(event)) = changes.next().await else { panic!("no event") };
        changes.approve(&[event.id]).await.unwrap();
    });
    let waiting = event.clone();
    let approval = tokio::task::spawn_blocking(move || waiting.wait_approved(TIMEOUT)).await.unwrap();
    assert_eq!(approval.approved_by, "guest:web_0");
    handler.await.unwrap();
}

#[test]
fn servers_are_independent_and_stop_with_their_last_handle() {
    let (first, second) = (Forewarn::start(), Forewarn::start());
    assert_ne!(first.management_url(), second.management_url());
    let address = first.management_url().strip_prefix("http://").unwrap().to_owned();
    let web = first.machine("web_0");
    drop(first);
    web.document();
    assert!(TcpStream::connect(&address).is_ok());
    drop(web);
    assert!(TcpStream::connect(&address).is_err());
}

#[test]
#[should_panic(expected = "is not a Spot machine")]
fn a_refused_operation_fails_the_test_with_its_message() {
    Forewarn::start().machine("web_0").evict();
}

#[test]
fn evictions_and_deletions_can_be_scheduled() {
    let forewarn = Forewarn::start();
    for (machine, kind) in [
        (forewarn.spot_machine("batch_0"), EventKind::Preempt),
        (forewarn.machine("web_0"), EventKind::Terminate),
        (forewarn.machine_with_terminate_notice("web_1", Duration::from_secs(600)), EventKind::Terminate),
    ] {
        let event = machine.schedule(kind.clone());
        let seen = Client::new(machine.endpoint().parse().unwrap()).document().unwrap().events[0].clone();
        assert_eq!((seen.kind, &seen.id), (kind, event.id()));
        handle(machine.endpoint(), machine.name());
        forewarn.advance(Duration::from_secs(60));
        assert_eq!(event.wait_finished(TIMEOUT), "Completed");
    }
    assert!(forewarn.machine("web_2").delete().is_none());
}

#[test]
#[should_panic(expected = "has finished (Canceled) and was not approved")]
fn waiting_for_the_approval_of_a_finished_event_fails_at_once() {
    let event = Forewarn::start().machine("web_0").restart();
    event.cancel();
    event.wait_approved(TIMEOUT);
}

#[test]
#[should_panic(expected = "was not approved within")]
fn waiting_fails_the_test_after_the_timeout() {
    Forewarn::start().machine("web_0").restart().wait_approved(Duration::from_millis(1));
}
