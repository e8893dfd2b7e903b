//! A handler's test as its author would write it, with the client library as the handler.

use std::net::TcpStream;
use std::time::Duration;

use forewarn_client::{AsyncClient, Change, Client};
use forewarn_testing::{Fault, Forewarn, Kind, RequestMade, Status};

/// Only reached when a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// Approves what concerns its own machine.
fn handle(endpoint: &str, name: &str) {
    let mut client = Client::new(endpoint.parse().unwrap());
    let events = client.document().unwrap().events;
    let mine: Vec<_> = events.iter().filter(|event| event.concerns(name)).map(|event| event.id.clone()).collect();
    if !mine.is_empty() {
        client.approve(&mine).unwrap();
    }
}

#[test]
fn a_handler_approves_what_is_its_own() {
    let forewarn = Forewarn::start();
    let [one, two] = forewarn.availability_set("web", ["web_0", "web_1"]);
    let event = one.schedule(Kind::Reboot);
    handle(two.endpoint(), two.name());
    assert_eq!((event.status(), event.approval()), (Status::Scheduled, None));
    handle(one.endpoint(), one.name());
    assert_eq!(event.wait_approved(PATIENCE).by, "guest:web_0");
    assert!(event.is_started());
    forewarn.advance(Duration::from_secs(600));
    assert_eq!(event.wait_gone(PATIENCE), "Completed");
    let methods = |requests: Vec<RequestMade>| requests.into_iter().map(|each| each.method).collect::<String>();
    assert_eq!(methods(two.requests()), "GET");
}

#[test]
fn a_handler_gets_through_every_fault_and_the_record_says_which_it_met() {
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
        web.fault(fault.count(1));
        handle(web.endpoint(), web.name());
        assert!(event.is_started(), "{met}");
        let requests = web.requests();
        assert!(requests.iter().any(|request| request.faults == [met]), "{met}: {requests:?}");
    }
}

#[test]
fn faults_are_for_those_that_they_are_said_to_be_for_and_end() {
    let forewarn = Forewarn::start();
    let [one, two] = forewarn.availability_set("web", ["web_0", "web_1"]);
    let event = one.restart();
    one.fault(Fault::events_vanish());
    forewarn.fault(Fault::status(503).only_approvals().count(1));
    forewarn.fault(Fault::malformed().only_polls().percent(100).lasting(Duration::from_secs(60)));
    forewarn.advance(Duration::from_secs(60));
    handle(one.endpoint(), one.name());
    assert_eq!(event.status(), Status::Scheduled);
    forewarn.clear_faults();
    handle(two.endpoint(), one.name());
    assert!(event.is_started());
    let approvals: Vec<_> = two.requests().into_iter().filter(|request| request.method == "POST").collect();
    assert_eq!(
        (approvals[0].approved.as_slice(), approvals[0].status),
        ([event.id().to_owned()].as_slice(), Some(200))
    );
}

#[test]
fn a_handler_in_a_thread_of_its_own_is_waited_for() {
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
    event.wait_started(PATIENCE);
    handler.join().unwrap();
}

#[tokio::test]
async fn a_handler_on_the_same_single_thread_is_waited_for() {
    let forewarn = Forewarn::start();
    let web = forewarn.machine("web_0");
    let event = web.schedule(Kind::Redeploy);
    let endpoint = web.endpoint().parse().unwrap();
    let handler = tokio::spawn(async move {
        let mut changes = AsyncClient::new(endpoint).watch();
        let Ok(Change::Appeared(event)) = changes.next().await else { panic!("no event") };
        changes.approve(&[event.id]).await.unwrap();
    });
    let waiting = event.clone();
    let approval = tokio::task::spawn_blocking(move || waiting.wait_approved(PATIENCE)).await.unwrap();
    assert_eq!(approval.by, "guest:web_0");
    handler.await.unwrap();
}

#[test]
fn servers_do_not_meet_and_end_with_their_last_handle() {
    let (first, second) = (Forewarn::start(), Forewarn::start());
    assert_ne!(first.management(), second.management());
    let address = first.management().strip_prefix("http://").unwrap().to_owned();
    let web = first.machine("web_0");
    drop(first);
    web.document();
    assert!(TcpStream::connect(&address).is_ok());
    drop(web);
    assert!(TcpStream::connect(&address).is_err());
}

#[test]
#[should_panic(expected = "is not a Spot machine")]
fn what_cannot_be_done_fails_the_test_with_a_sentence() {
    Forewarn::start().machine("web_0").evict();
}

#[test]
fn evictions_and_deletions_are_scheduled_like_everything_else() {
    let forewarn = Forewarn::start();
    for (machine, kind) in [
        (forewarn.spot_machine("batch_0"), Kind::Preempt),
        (forewarn.machine("web_0"), Kind::Terminate),
        (forewarn.machine_with_terminate_notice("web_1", Duration::from_secs(600)), Kind::Terminate),
    ] {
        let event = machine.schedule(kind.clone());
        let seen = Client::new(machine.endpoint().parse().unwrap()).document().unwrap().events[0].clone();
        assert_eq!((seen.kind, seen.id.as_str()), (kind, event.id()));
        handle(machine.endpoint(), machine.name());
        forewarn.advance(Duration::from_secs(60));
        assert_eq!(event.wait_gone(PATIENCE), "Completed");
    }
    assert!(forewarn.machine("web_2").delete().is_none());
}

#[test]
#[should_panic(expected = "is over (Canceled) and was not approved")]
fn an_event_that_is_over_is_not_waited_for() {
    let event = Forewarn::start().machine("web_0").restart();
    event.cancel();
    event.wait_approved(PATIENCE);
}

#[test]
#[should_panic(expected = "was not approved within")]
fn what_does_not_happen_fails_the_test() {
    Forewarn::start().machine("web_0").restart().wait_approved(Duration::from_millis(1));
}
