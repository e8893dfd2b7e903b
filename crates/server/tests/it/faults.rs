//! Faults at the metadata endpoint over real sockets: their effect on a handler, their end, and their record.

use std::io::ErrorKind;
use std::time::Duration;

use crate::support::*;
use forewarn_core::{Guid, MachineId, Request};
use forewarn_metadata::faults::*;
use forewarn_metadata::requests::RequestSeen;
use forewarn_server::{AddFaultError, Config, ListenAddress};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

const EMPTY: &str = "200 {\"DocumentIncarnation\":1,\"Events\":[]}";
const HOUR: Duration = Duration::from_secs(3600);

fn get() -> String {
    format!("GET {EVENTS}")
}

fn status(status: Status) -> FaultKind {
    FaultKind::Status { status, retry_after_secs: 7 }
}

async fn add(world: &World, fault: NewFault) -> Fault {
    world.running.faults.add(&fault, "test").await.expect("the fault is taken")
}

fn counted(count: u64, kind: FaultKind) -> NewFault {
    NewFault { limit: FaultLimit { count: Some(count), ..FaultLimit::default() }, ..NewFault::new(kind) }
}

fn requests(world: &World) -> Vec<RequestSeen> {
    world.running.endpoint.requests.log_of(FIRST, 0).requests
}

/// `GET 200`, `GET 429 Status`, `POST - Reset`: the last requests of the first machine.
fn recorded(world: &World) -> Vec<String> {
    let told = |seen: &RequestSeen| {
        let status = seen.status.map_or("-".to_owned(), |status| status.to_string());
        let faults = seen.faults.iter().map(|met| met.kind);
        [seen.method.as_str(), &status].into_iter().chain(faults).collect::<Vec<_>>().join(" ")
    };
    requests(world).iter().map(told).collect()
}

/// The history of faults: action, target, and the reason of the end.
async fn history(world: &World, rows: usize) -> Vec<String> {
    let query = forewarn_store::HistoryQuery { kinds: vec![forewarn_store::HistoryKind::Audit], ..Default::default() };
    let reader = world.engine().reader();
    let mut told = Vec::new();
    until(|| {
        let found = reader.history(&query).unwrap();
        told = found
            .iter()
            .map(|row| {
                let detail: serde_json::Value = serde_json::from_str(&row.detail).unwrap();
                let because = detail["because"].as_str().unwrap_or("");
                let words = [row.outcome.as_deref().unwrap(), row.target.as_deref().unwrap(), because];
                format!("{} {}", words.join(" ").trim_end(), row.actor.as_deref().unwrap())
            })
            .collect();
        told.len() >= rows
    })
    .await;
    told
}

// --- what a handler sees ---------------------------------------------------------------------------------

#[tokio::test]
async fn statuses_have_the_bodies_that_the_server_has_for_them() {
    let world = World::new().await;
    for (answer, code, retry_after, words) in [
        (Status::TooManyRequests, 429, Some("7"), "Too many requests. "),
        (Status::Gone, 410, None, "Gone. "),
        (Status::InternalServerError, 500, None, "Internal server error. "),
        (Status::ServiceUnavailable, 503, Some("7"), "Service unavailable. "),
        (Status::Other(404), 404, None, "Status 404. "),
        (Status::Other(502), 502, None, "Status 502. "),
    ] {
        add(&world, counted(1, status(answer))).await;
        let reply = world.check_refusal(&get(), code, &[words]).await;
        assert_eq!(reply.header("retry-after"), retry_after, "{code}");
    }
    world.check(&get(), EMPTY).await;
    assert_eq!(
        recorded(&world),
        [
            "GET 429 Status",
            "GET 410 Status",
            "GET 500 Status",
            "GET 503 Status",
            "GET 404 Status",
            "GET 502 Status",
            "GET 200"
        ]
    );
}

#[tokio::test]
async fn a_request_that_gets_a_status_has_no_effect() {
    let world = World::new().await;
    let scope = world.engine().snapshot().region.machine(FIRST).unwrap().scope;
    add(&world, counted(1, status(Status::InternalServerError))).await;
    world.check_refusal(&get(), 500, &[]).await;
    assert!(!world.engine().snapshot().region.is_on(scope), "a refused GET turns nothing on");
    world.check(&get(), EMPTY).await;
    world.restart(FIRST, 0xE1).await;
    add(&world, counted(1, status(Status::ServiceUnavailable))).await;
    assert_eq!(world.approve("", 0xE1).await.status, 503);
    world.check(&get(), &scheduled(2, 0xE1, &hostname())).await;
    assert_eq!(world.approve("", 0xE1).await.status, 200);
    world.check(&get(), &started(3, 0xE1, &hostname())).await;
    let seen = requests(&world);
    let approved: Vec<_> = seen.iter().filter(|seen| seen.method == "POST").map(|seen| seen.approved.clone()).collect();
    assert_eq!(approved, [vec![], vec![Guid(0xE1)]]);
}

#[tokio::test]
async fn a_reset_is_a_reset_and_approves_nothing() {
    let world = World::new().await;
    world.ask(&get()).await;
    world.restart(FIRST, 0xE1).await;
    add(&world, counted(2, FaultKind::Reset)).await;
    let approval = format!("POST {EVENTS}\n\n{{\"StartRequests\":[{{\"EventId\":\"{}\"}}]}}", Guid(0xE1));
    for request in [get(), approval] {
        let mut stream = world.connect().await;
        stream.write_all(&bytes_of(&request)).await.unwrap();
        let error = stream.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{request}");
    }
    world.check(&get(), &scheduled(2, 0xE1, &hostname())).await;
    assert_eq!(recorded(&world), ["GET 200", "GET - Reset", "POST - Reset", "GET 200"]);
}

#[tokio::test]
async fn a_truncated_response_still_approves() {
    let world = World::new().await;
    world.ask(&get()).await;
    world.restart(FIRST, 0xE1).await;
    add(&world, counted(3, FaultKind::Truncated)).await;
    let whole = &scheduled(2, 0xE1, &hostname())[4..];
    // Also when the machine has it already, which would be a 304.
    for condition in ["", "\nIf-None-Match: 2"] {
        let (head, body) = all_of(&world, &format!("{}{condition}", get())).await;
        assert!(
            head.starts_with("HTTP/1.1 200") && head.contains(&format!("content-length: {}", whole.len())),
            "{head}"
        );
        assert_eq!(body, whole[..whole.len() / 2]);
    }
    let approval = format!("POST {EVENTS}\n\n{{\"StartRequests\":[{{\"EventId\":\"{}\"}}]}}", Guid(0xE1));
    let (head, body) = all_of(&world, &approval).await;
    assert!(head.contains("content-length: 2"), "{head}");
    assert_eq!(body, "");
    world.check(&get(), &started(3, 0xE1, &hostname())).await;
    assert_eq!(requests(&world)[3].approved, [Guid(0xE1)]);
}

#[tokio::test]
async fn a_malformed_answer_is_whole_and_no_json() {
    let world = World::new().await;
    world.ask(&get()).await;
    add(&world, counted(3, FaultKind::Malformed)).await;
    let mut stream = world.connect().await;
    for (request, expected) in [
        (get(), "200 {\"DocumentIncarnat"),
        (format!("{}\nIf-None-Match: 1", get()), "200 {\"DocumentIncarnat"),
        (format!("POST {EVENTS}\n\n{{\"StartRequests\":[]}}"), "200 {"),
        (get(), EMPTY),
    ] {
        stream.write_all(&bytes_of(&request)).await.unwrap();
        let reply = read_reply(&mut stream).await.expect("the connection lives");
        assert_eq!(reply.render(), expected, "{request}");
    }
}

#[tokio::test]
async fn a_restarted_incarnation_grows_and_is_restored_afterwards() {
    let world = World::new().await;
    world.ask(&get()).await;
    world.restart(FIRST, 0xE1).await;
    world.check(&get(), &scheduled(2, 0xE1, &hostname())).await;
    let fault = add(&world, NewFault::new(FaultKind::IncarnationRestart)).await;
    let reply = world.ask(&get()).await;
    assert_eq!((reply.render(), reply.header("etag")), (scheduled(1, 0xE1, &hostname()), Some("1")));
    world.check(&format!("{}\nIf-None-Match: 1", get()), "304").await;
    world.check(&format!("{}\nIf-None-Match: 2", get()), &scheduled(1, 0xE1, &hostname())).await;
    world.approve("", 0xE1).await;
    world.check(&get(), &started(2, 0xE1, &hostname())).await;
    world.running.faults.clear(fault.id, "test").await.unwrap();
    world.check(&get(), &started(3, 0xE1, &hostname())).await;
}

#[tokio::test]
async fn events_vanish_from_the_document_and_are_there_all_the_same() {
    let world = World::new().await;
    world.ask(&get()).await;
    world.restart(FIRST, 0xE1).await;
    add(&world, counted(2, FaultKind::EventsVanish)).await;
    for condition in ["", "\nIf-None-Match: 2"] {
        let reply = world.ask(&format!("{}{condition}", get())).await;
        assert_eq!(reply.render(), "200 {\"DocumentIncarnation\":2,\"Events\":[]}");
        assert_eq!(reply.header("etag"), None);
    }
    world.check(&get(), &scheduled(2, 0xE1, &hostname())).await;
}

#[tokio::test]
async fn an_unknown_type_is_shown_in_place_of_the_real_one() {
    let world = World::new().await;
    world.ask(&get()).await;
    world.restart(FIRST, 0xE1).await;
    add(&world, counted(1, FaultKind::UnknownType)).await;
    let strange = scheduled(2, 0xE1, &hostname()).replace("\"EventType\":\"Reboot\"", "\"EventType\":\"Hibernate\"");
    assert!(strange.contains("Hibernate"), "{strange}");
    world.check(&get(), &strange).await;
    world.check(&get(), &scheduled(2, 0xE1, &hostname())).await;
}

#[tokio::test]
async fn a_delay_holds_the_answer_back_and_the_end_of_the_server_lets_it_go() {
    for kind in [FaultKind::Delay(DELAY_MAX), FaultKind::SlowFirstCall(DELAY_MAX)] {
        let world = World::new().await;
        world.ask(&get()).await;
        add(&world, NewFault { only: RequestFilter { method: None, path: Path::Events }, ..NewFault::new(kind) }).await;
        let mut held = world.connect().await;
        held.write_all(&bytes_of(&get())).await.unwrap();
        until(|| world.running.endpoint.requests.counts_of(FIRST).is_some_and(|record| record.gets == 2)).await;
        assert_eq!(world.ask("GET /metadata/versions").await.status, 200, "not a document");
        assert_eq!(held.try_read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::WouldBlock);
        world.running.stop().await;
        assert_eq!(read_reply(&mut held).await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn who_does_not_wait_for_a_late_answer_is_on_record() {
    let world = World::new().await;
    world.ask(&get()).await;
    add(&world, NewFault::new(FaultKind::Delay(DELAY_MAX))).await;
    let mut held = world.connect().await;
    held.write_all(&bytes_of(&get())).await.unwrap();
    until(|| world.running.endpoint.requests.counts_of(FIRST).is_some_and(|record| record.gets == 2)).await;
    drop(held);
    until(|| requests(&world).len() == 2).await;
    assert_eq!(recorded(&world), ["GET 200", "GET - Delay"]);
}

#[tokio::test]
async fn a_connection_stays_open_after_an_approval_that_gets_a_status() {
    let world = World::new().await;
    add(&world, counted(1, status(Status::InternalServerError))).await;
    let mut stream = world.connect().await;
    stream.write_all(&bytes_of(&format!("POST {EVENTS}\n\n{{\"StartRequests\":[]}}"))).await.unwrap();
    assert_eq!(read_reply(&mut stream).await.unwrap().status, 500);
    stream.write_all(&bytes_of(&get())).await.unwrap();
    assert_eq!(read_reply(&mut stream).await.expect("the connection lives").render(), EMPTY);
}

#[tokio::test]
async fn a_unix_socket_is_closed_where_a_connection_would_be_reset() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("imds");
    let mut listener = listener();
    listener.address = ListenAddress::Unix(path.clone());
    let world = World::with(Config { metadata: vec![listener], ..config() }).await;
    add(&world, counted(1, FaultKind::Reset)).await;
    let mut stream = UnixStream::connect(&path).await.unwrap();
    stream.write_all(&bytes_of(&get())).await.unwrap();
    assert!(read_reply(&mut stream).await.is_none());
    assert_eq!(exchange_unix(&path, &get()).await.render(), EMPTY);
}

#[tokio::test]
async fn a_short_delay_passes_and_the_answer_is_the_right_one() {
    let world = World::new().await;
    add(&world, counted(1, FaultKind::Delay(Duration::from_millis(50)))).await;
    let begun = std::time::Instant::now();
    world.check(&get(), EMPTY).await;
    assert!(begun.elapsed() >= Duration::from_millis(50));
    assert_eq!(recorded(&world), ["GET 200 Delay"]);
}

// --- affected machines, and the end of faults --------------------------------------------------------------------

#[tokio::test]
async fn a_fault_of_one_machine_affects_no_other_and_ends_with_it() {
    let world = World::new().await;
    let machine = world.register("web").await;
    add(&world, NewFault { machine: Some(machine), ..NewFault::new(status(Status::Gone)) }).await;
    world.check(&get(), EMPTY).await;
    world.check_refusal(&format!("GET /vm/web{EVENTS}"), 410, &[]).await;
    world.request(Request::Delete { machines: vec![machine], group: None }, 0xD1).await;
    until(|| world.running.faults.list().is_empty()).await;
    assert_eq!(history(&world, 2).await, ["fault.add web test", "fault.over web machine-gone forewarn"]);
}

#[tokio::test]
async fn a_fault_ends_by_count_by_time_or_when_it_is_cleared() {
    let world = World::new().await;
    add(&world, counted(1, FaultKind::Malformed)).await;
    world.ask(&get()).await;
    assert_eq!(world.running.faults.list(), []);
    assert_eq!(history(&world, 2).await[1], "fault.over all machines counted forewarn");

    let timed = FaultLimit { span: Some(HOUR), ..FaultLimit::default() };
    add(&world, NewFault { limit: timed, ..NewFault::new(status(Status::Gone)) }).await;
    world.advance(3599).await;
    world.check_refusal(&get(), 410, &[]).await;
    world.advance(1).await;
    world.check(&get(), EMPTY).await;
    assert_eq!(history(&world, 4).await[3], "fault.over all machines elapsed forewarn");

    let fault = add(&world, NewFault::new(status(Status::Gone))).await;
    let other = add(&world, NewFault { machine: Some(FIRST), ..NewFault::new(FaultKind::Reset) }).await;
    world.check_refusal(&get(), 410, &[]).await;
    let found = world.running.faults.find(fault.id).unwrap();
    assert_eq!((found.matched, found.affected), (1, 1));
    let cleared = world.running.faults.clear_all(Some(FIRST), "test").await.unwrap();
    assert_eq!(cleared.iter().map(|fault| fault.id).collect::<Vec<_>>(), [other.id]);
    let cleared = world.running.faults.clear(fault.id, "test").await.unwrap().unwrap();
    assert_eq!(cleared.affected, 1);
    assert_eq!(world.running.faults.clear(fault.id, "test").await.unwrap(), None);
    world.check(&get(), EMPTY).await;
    let name = hostname();
    let expected = [format!("fault.clear {name} test"), "fault.clear all machines test".to_owned()];
    assert_eq!(history(&world, 8).await[6..], expected);
}

#[tokio::test]
async fn time_ends_a_fault_in_history_without_a_request() {
    let world = World::new().await;
    let timed = FaultLimit { span: Some(HOUR), ..FaultLimit::default() };
    add(&world, NewFault { limit: timed, ..NewFault::new(FaultKind::Reset) }).await;
    world.advance(3600).await;
    assert_eq!(history(&world, 2).await[1], "fault.over all machines elapsed forewarn");
}

#[tokio::test]
async fn a_share_of_requests_is_every_so_manieth() {
    let world = World::new().await;
    let share = FaultLimit { percent: Some(25), ..FaultLimit::default() };
    add(&world, NewFault { limit: share, ..NewFault::new(status(Status::Gone)) }).await;
    let mut statuses = Vec::new();
    for _ in 0..8 {
        statuses.push(world.ask(&get()).await.status);
    }
    assert_eq!(statuses, [200, 200, 200, 410, 200, 200, 200, 410]);
}

#[tokio::test]
async fn a_fault_that_is_invalid_or_cannot_be_stored_is_refused() {
    let world = World::new().await;
    let faults = &world.running.faults;
    let unknown = NewFault { machine: Some(MachineId(99)), ..NewFault::new(FaultKind::Reset) };
    assert!(matches!(faults.add(&unknown, "test").await, Err(AddFaultError::Fault(FaultError::UnknownMachine))));
    let long = NewFault::new(FaultKind::Delay(DELAY_MAX * 2));
    assert!(matches!(faults.add(&long, "test").await, Err(AddFaultError::Fault(FaultError::DelayRange))));
    assert_eq!(faults.list(), []);
    world.check(&get(), EMPTY).await;
}

// --- the record ------------------------------------------------------------------------------------------

#[tokio::test]
async fn the_record_shows_requests_and_responses() {
    let world = World::new().await;
    world.ask(&format!("{}\n-Metadata", get())).await;
    world.advance(3).await;
    world.ask(&get()).await;
    world.ask(&format!("{}\nIf-None-Match: 1", get())).await;
    world.advance(10).await;
    world.ask("GET /metadata/scheduledevents?api-version=2024-01-01").await;
    world.ask("GET /metadata/instance/compute/name?api-version=2021-02-01&format=text").await;
    world.ask("GET /metadata/versions").await;
    world.ask("PUT /metadata/scheduledevents?api-version=2020-07-01").await;
    world.ask("GET /metadata/nothing").await;
    let told = |seen: &RequestSeen| {
        let secs = seen.at.since(START).as_secs();
        let version = seen.version.as_deref().unwrap_or("-");
        format!("{} +{secs} {} {} {version} {}", seen.number, seen.method, seen.path, seen.status.unwrap())
    };
    let log = world.running.endpoint.requests.log_of(FIRST, 0);
    assert_eq!(
        log.requests.iter().map(told).collect::<Vec<_>>(),
        [
            "1 +0 GET /metadata/scheduledevents 2020-07-01 400",
            "2 +3 GET /metadata/scheduledevents 2020-07-01 200",
            "3 +3 GET /metadata/scheduledevents 2020-07-01 304",
            "4 +13 GET /metadata/scheduledevents 2024-01-01 404",
            "5 +13 GET /metadata/instance/compute/name 2021-02-01 200",
            "6 +13 GET /metadata/versions - 200",
            "7 +13 PUT /metadata/scheduledevents 2020-07-01 405",
            "8 +13 GET /metadata/nothing - 404",
        ]
    );
    let summary = log.summary;
    assert_eq!((summary.polls, summary.first_poll), (4, Some(START)));
    assert_eq!(summary.interval_median, Some(Duration::from_secs(3)));
    assert_eq!(summary.gap_longest, Some(Duration::from_secs(10)));
    let newest = world.running.endpoint.requests.log_of(FIRST, 7);
    assert_eq!((newest.requests.len(), newest.requests[0].number), (1, 8));
}

/// The whole answer, up to the end of the connection.
async fn all_of(world: &World, request: &str) -> (String, String) {
    let mut stream = world.connect().await;
    stream.write_all(&bytes_of(request)).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("the connection is closed in an orderly way");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}
