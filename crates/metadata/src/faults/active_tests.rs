//! Tables of requests and the faults that they meet. A request is `machine method path`.

use super::*;
use crate::faults::{FaultLimit, RequestFilter};

struct World {
    active: ActiveFaults,
    now: Timestamp,
    real: Duration,
    incarnation: u64,
}

impl World {
    fn with(faults: &[NewFault]) -> World {
        let mut world = World {
            active: ActiveFaults::default(),
            now: Timestamp::from_secs(100),
            real: Duration::ZERO,
            incarnation: 7,
        };
        for new in faults {
            let id = world.active.reserve_id();
            world.active.add(new.begin(id, new.machine.map(|machine| (machine, "m".into())), world.now)).unwrap();
        }
        world
    }

    fn ask(&mut self, request: &str) -> Option<FaultEffects> {
        let mut words = request.split(' ');
        let machine = MachineId(words.next().unwrap().parse().unwrap());
        let method = match words.next().unwrap() {
            "GET" => Method::Get,
            _ => Method::Post,
        };
        let document = Document { scope: ScopeId(machine.0 + 100), incarnation: self.incarnation };
        let document = (words.next().unwrap() == "events").then_some(document);
        self.active.apply_to(&FaultContext { machine, method, document, now: self.now, real: self.real })
    }

    fn render_met(&mut self, request: &str) -> String {
        let met = self.ask(request).map(|hit| hit.met).unwrap_or_default();
        met.iter().map(|met| format!("{}:{}", met.fault.0, met.kind)).collect::<Vec<_>>().join(" ")
    }
}

#[track_caller]
fn check(faults: &[NewFault], requests: &[(&str, &str)]) -> World {
    let mut world = World::with(faults);
    for (index, (request, expected)) in requests.iter().enumerate() {
        assert_eq!(world.render_met(request), *expected, "request {index}: {request}");
    }
    world
}

fn fault(kind: FaultKind) -> NewFault {
    NewFault::new(kind)
}

fn status(status: Status) -> FaultKind {
    FaultKind::Status { status, retry_after_secs: 1 }
}

fn of_machine(machine: u64, kind: FaultKind) -> NewFault {
    NewFault { machine: Some(MachineId(machine)), ..fault(kind) }
}

fn counted(count: u64, kind: FaultKind) -> NewFault {
    NewFault { limit: FaultLimit { count: Some(count), ..FaultLimit::default() }, ..fault(kind) }
}

fn share(percent: u8, kind: FaultKind) -> NewFault {
    NewFault { limit: FaultLimit { percent: Some(percent), ..FaultLimit::default() }, ..fault(kind) }
}

fn only(method: Option<Method>, path: Path, kind: FaultKind) -> NewFault {
    NewFault { only: RequestFilter { method, path }, ..fault(kind) }
}

const POLL: &str = "1 GET events";
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn without_faults_nothing_is_met() {
    check(&[], &[(POLL, ""), ("1 POST events", "")]);
}

#[test]
fn a_fault_of_one_machine_does_not_affect_others() {
    check(
        &[of_machine(1, FaultKind::Reset)],
        &[("2 GET events", ""), (POLL, "1:Reset"), ("1 GET instance", "1:Reset")],
    );
    check(&[fault(FaultKind::Reset)], &[("2 GET events", "1:Reset"), (POLL, "1:Reset")]);
}

#[test]
fn a_counted_fault_ends_after_its_count() {
    let mut world = check(
        &[counted(2, status(Status::Gone))],
        &[(POLL, "1:Status"), ("1 POST events", "1:Status"), (POLL, ""), (POLL, "")],
    );
    let over = world.active.take_ended();
    assert_eq!(over.len(), 1);
    assert_eq!((over[0].0.affected, over[0].1), (2, FaultEnd::Counted));
    assert!(world.active.is_empty() && !world.active.has_ended());
}

#[test]
fn a_percentage_is_spread_evenly_and_deterministically() {
    for percent in [1, 10, 33, 50, 99, 100] {
        let mut world = World::with(&[share(percent, FaultKind::Reset)]);
        let met = (0..200).filter(|_| world.ask(POLL).is_some()).count();
        assert_eq!(met, usize::from(percent) * 2, "{percent} %");
    }
    check(&[share(50, FaultKind::Reset)], &[(POLL, ""), (POLL, "1:Reset"), (POLL, ""), (POLL, "1:Reset")]);
}

#[test]
fn a_count_with_a_percentage_counts_affected_requests() {
    let mut new = share(50, FaultKind::Reset);
    new.limit.count = Some(2);
    let world = check(&[new], &[(POLL, ""), (POLL, "1:Reset"), (POLL, ""), (POLL, "1:Reset"), (POLL, ""), (POLL, "")]);
    assert!(world.active.is_empty());
}

#[test]
fn a_fault_with_a_duration_ends_by_the_programs_clock() {
    let mut new = fault(FaultKind::Reset);
    new.limit.span = Some(10 * SECOND);
    let mut world = World::with(&[new]);
    assert_eq!(world.active.next_end(), Some(Timestamp::from_secs(110)));
    world.real += 3600 * SECOND;
    world.now = world.now + 9 * SECOND;
    assert_eq!(world.render_met(POLL), "1:Reset");
    world.now = world.now + SECOND;
    assert_eq!(world.render_met(POLL), "");
    assert_eq!(world.active.take_ended()[0].1, FaultEnd::Elapsed);
}

#[test]
fn faults_can_be_limited_to_a_method_or_to_documents() {
    check(
        &[only(Some(Method::Post), Path::Any, FaultKind::Reset)],
        &[(POLL, ""), ("1 GET instance", ""), ("1 POST events", "1:Reset")],
    );
    check(
        &[only(Some(Method::Get), Path::Events, FaultKind::Reset)],
        &[(POLL, "1:Reset"), ("1 GET instance", ""), ("1 POST events", "")],
    );
    check(
        &[only(None, Path::Events, FaultKind::Reset)],
        &[(POLL, "1:Reset"), ("1 GET instance", ""), ("1 POST events", "1:Reset")],
    );
}

#[test]
fn document_faults_affect_polls_only() {
    for kind in [FaultKind::EventsVanish, FaultKind::IncarnationRestart, FaultKind::SlowFirstCall(SECOND)] {
        let met = format!("1:{}", kind.as_str());
        check(&[fault(kind)], &[("1 GET instance", ""), ("1 POST events", ""), (POLL, &met)]);
    }
}

#[test]
fn a_request_meets_the_oldest_fault_of_each_layer() {
    check(
        &[
            counted(1, FaultKind::Truncated),
            fault(FaultKind::EventsVanish),
            fault(FaultKind::Delay(SECOND)),
            fault(FaultKind::Malformed),
            fault(FaultKind::Delay(2 * SECOND)),
        ],
        &[(POLL, "3:Delay 1:Truncated 2:EventsVanish"), (POLL, "3:Delay 4:Malformed 2:EventsVanish")],
    );
}

#[test]
fn a_fault_without_effect_is_not_used_up() {
    check(
        &[counted(1, FaultKind::EventsVanish), counted(2, status(Status::TooManyRequests))],
        &[(POLL, "2:Status"), (POLL, "2:Status"), (POLL, "1:EventsVanish"), (POLL, "")],
    );
}

#[test]
fn a_request_outside_a_percentage_meets_the_next_fault() {
    check(
        &[share(50, FaultKind::Reset), fault(FaultKind::Malformed)],
        &[(POLL, "2:Malformed"), (POLL, "1:Reset"), (POLL, "2:Malformed")],
    );
}

#[test]
fn only_first_calls_and_those_that_arrive_meanwhile_are_slow() {
    let mut world = World::with(&[fault(FaultKind::SlowFirstCall(10 * SECOND))]);
    assert_eq!(world.ask(POLL).unwrap().delay, 10 * SECOND);
    world.real += 4 * SECOND;
    assert_eq!(world.ask(POLL).unwrap().delay, 6 * SECOND);
    assert_eq!(world.ask("2 GET events").unwrap().delay, 10 * SECOND);
    world.real += 6 * SECOND;
    assert_eq!(world.ask(POLL), None);
    assert_eq!(world.ask("2 GET events").unwrap().delay, 4 * SECOND);
}

#[test]
fn a_tag_from_before_an_incarnation_restart_never_yields_304() {
    let mut world = World::with(&[fault(FaultKind::IncarnationRestart)]);
    let mut is_unconditional = |request| world.ask(request).unwrap().alter.unconditional;
    assert_eq!([is_unconditional(POLL), is_unconditional(POLL), is_unconditional("2 GET events")], [true, false, true]);
}

#[test]
fn a_restarted_incarnation_grows_from_1() {
    let mut world = World::with(&[fault(FaultKind::IncarnationRestart)]);
    let mut shown = |incarnation| {
        world.incarnation = incarnation;
        world.ask(POLL).unwrap().alter.incarnation(incarnation)
    };
    assert_eq!([shown(7), shown(7), shown(9)], [1, 1, 3]);
    // A scope that was never on has the incarnation 0, and shows 1 when it is.
    let mut world = World::with(&[fault(FaultKind::IncarnationRestart)]);
    world.incarnation = 0;
    assert_eq!(world.ask(POLL).unwrap().alter.incarnation(1), 1);
    assert_eq!(DocumentFault::default().incarnation(7), 7);
}

#[test]
fn body_faults_force_a_document_instead_of_304() {
    for kind in [FaultKind::Truncated, FaultKind::Malformed, FaultKind::EventsVanish] {
        assert!(World::with(&[fault(kind)]).ask(POLL).unwrap().alter.unconditional, "{kind:?}");
    }
    assert!(!World::with(&[fault(FaultKind::Delay(SECOND))]).ask(POLL).unwrap().alter.unconditional);
}

#[test]
fn a_fault_ends_with_its_machine() {
    let mut world = World::with(&[of_machine(1, FaultKind::Reset), fault(FaultKind::Reset)]);
    world.active.end_orphans(&Region::new(forewarn_core::Settings::default()));
    let over = world.active.take_ended();
    assert_eq!((over.len(), over[0].0.id, over[0].1), (1, FaultId(1), FaultEnd::MachineGone));
    assert_eq!(world.active.all().count(), 1);
}

#[test]
fn the_number_of_faults_is_limited() {
    let mut world = World::with(&[fault(FaultKind::Reset); FAULTS_MAX]);
    assert!(world.active.is_full());
    let id = world.active.reserve_id();
    let one_more = fault(FaultKind::Reset).begin(id, None, world.now);
    assert!(matches!(world.active.add(one_more.clone()), Err(FaultError::TooMany)));
    assert!(world.active.remove(FaultId(1)).is_some());
    world.active.add(one_more).unwrap();
}

#[test]
fn invalid_faults_are_refused() {
    let wrong = |new: NewFault| new.check().unwrap_err().to_string();
    assert!(wrong(fault(FaultKind::Delay(301 * SECOND))).contains("300"));
    let long = FaultKind::Status { status: Status::TooManyRequests, retry_after_secs: 3601 };
    assert!(wrong(fault(long)).contains("3600"));
    assert!(wrong(share(0, FaultKind::Reset)).contains("1 to 100"));
    assert!(wrong(share(101, FaultKind::Reset)).contains("1 to 100"));
    assert!(wrong(counted(0, FaultKind::Reset)).contains("from 1 to"));
    assert!(wrong(only(Some(Method::Post), Path::Any, FaultKind::EventsVanish)).contains("EventsVanish"));
    fault(FaultKind::Delay(300 * SECOND)).check().unwrap();
}
