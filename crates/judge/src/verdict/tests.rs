//! Tests of the verdicts for given observations.

use super::*;
use crate::cases;
use crate::observation::{ObservedRequest, RequestKind};

fn at(tenths: u64) -> Elapsed {
    Duration::from_millis(tenths * 100)
}

fn poll(tenths: u64, status: u16) -> ObservedRequest {
    let faulty = status >= 400;
    ObservedRequest { at: at(tenths), what: RequestKind::Poll, status: Some(status), incarnation: None, faulty }
}

fn approve(tenths: u64, id: &str) -> ObservedRequest {
    let what = RequestKind::Approve(vec![id.into()]);
    ObservedRequest { at: at(tenths), what, status: Some(200), incarnation: None, faulty: false }
}

/// A handler that polls every second and approves its own event `E`.
fn good() -> Observation {
    let mut requests: Vec<ObservedRequest> = (0..12).map(|n| poll(n * 10, 200)).collect();
    requests.push(approve(21, "E"));
    requests.sort_by_key(|request| request.at);
    Observation { requests, events: vec![event(true)], until: at(115), ..Observation::default() }
}

fn event(mine: bool) -> ObservedEvent {
    ObservedEvent {
        id: "e".into(),
        kind: "Reboot".into(),
        mine,
        appeared: at(15),
        shown_in: None,
        approved_elsewhere: false,
        started: Some(at(21)),
        ended: Some(at(81)),
        canceled: false,
    }
}

fn marks(prepared: u64, restored: u64) -> (Marks, Vec<(Elapsed, Mark)>) {
    let marks = Marks::parse(&["prepared=p".into(), "restored=r".into()]).unwrap();
    (marks, vec![(at(prepared), Mark::Prepared), (at(restored), Mark::Restored)])
}

fn case(name: &str) -> Case {
    cases::select(&[name.into()], Profile::Own).unwrap()[0]
}

/// Compares the failures of a verdict.
#[track_caller]
fn check(name: &str, observed: &Observation, profile: Profile, marks: &Marks, expected: &[&str]) {
    let verdict = judge(&case(name), observed, profile, marks);
    let bad = verdict.findings.iter().filter(|finding| finding.severity == Severity::Bad);
    assert_eq!(bad.map(|finding| finding.text.as_str()).collect::<Vec<_>>(), expected, "{verdict:#?}");
    assert_eq!(verdict.passed(), expected.is_empty());
}

#[test]
fn a_good_handler_passes_and_what_cannot_be_seen_is_said() {
    let observed = good();
    check("user-reboot", &observed, Profile::Own, &Marks::default(), &[]);
    let verdict = judge(&case("user-reboot"), &observed, Profile::Own, &Marks::default());
    let unseen = verdict.findings.iter().filter(|finding| finding.severity == Severity::NotObserved);
    let unseen: Vec<_> = unseen.map(|finding| finding.text.as_str()).collect();
    assert_eq!(unseen, ["preparation before approval", "restoring after the end"]);
    let numbers = verdict.numbers;
    assert_eq!((numbers.first_poll, numbers.interval), (Some(at(0)), Some(at(10))));
    assert_eq!((numbers.seen_after, numbers.approved_after), (Some(at(5)), Some(at(6))));
    let (marks, written) = marks(16, 92);
    check("user-reboot", &Observation { marks: written, ..observed }, Profile::Own, &marks, &[]);
}

#[test]
fn profiles_say_what_should_be_approved() {
    let none = Marks::default();
    check("user-reboot", &good(), Profile::Never, &none, &["approved its own Reboot"]);
    check("user-reboot", &good(), Profile::All, &none, &[]);
    let others = Observation { events: vec![event(false)], ..good() };
    check("someone-else", &others, Profile::Own, &none, &["approved another machine's Reboot"]);
    check("someone-else", &others, Profile::All, &none, &[]);
    let left = Observation { events: vec![event(true), ObservedEvent { id: "f".into(), ..event(false) }], ..good() };
    check("terminate", &left, Profile::All, &none, &["did not approve another machine's Reboot"]);
    let mut elsewhere = left;
    elsewhere.events[1].approved_elsewhere = true;
    check("terminate", &elsewhere, Profile::All, &none, &["did not approve another machine's Reboot"]);
    elsewhere.events[1].kind = "Terminate".into();
    check("terminate", &elsewhere, Profile::All, &none, &[]);
    let mut silent = good();
    silent.requests.retain(|request| request.what == RequestKind::Poll);
    check("user-reboot", &silent, Profile::Own, &none, &["did not approve its own Reboot"]);
    check("user-reboot", &silent, Profile::Never, &none, &[]);
    let at_once = ObservedEvent { started: Some(at(15)), ..event(true) };
    check("hardware-failure", &Observation { events: vec![at_once.clone()], ..silent }, Profile::Own, &none, &[]);
    let late = Observation { events: vec![at_once], ..good() };
    check("hardware-failure", &late, Profile::Own, &none, &[]);
    let findings = judge(&case("hardware-failure"), &late, Profile::Own, &none).findings;
    assert!(findings.iter().any(|finding| finding.text.contains("after it had started")), "{findings:?}");
}

#[test]
fn check_preparation_comes_first_and_restoring_last() {
    let with = |prepared, restored| {
        let (marks, written) = marks(prepared, restored);
        (Observation { marks: written, ..good() }, marks)
    };
    let (observed, words) = with(50, 92);
    check("user-reboot", &observed, Profile::Own, &words, &["approved before preparing"]);
    let (observed, words) = with(5, 92);
    check("user-reboot", &observed, Profile::Own, &words, &["approved without preparing"]);
    let (observed, words) = with(16, 50);
    check("user-reboot", &observed, Profile::Own, &words, &["did not restore after the end"]);
    let canceled = vec![ObservedEvent { canceled: true, started: None, ..event(true) }];
    let (observed, words) = with(16, 50);
    let observed = Observation { events: canceled, ..observed };
    check("canceled-maintenance", &observed, Profile::Own, &words, &["did not restore after the cancellation"]);
}

#[test]
fn who_stops_asking_is_found_out() {
    let none = Marks::default();
    let mut observed = good();
    observed.requests.retain(|request| request.at < at(80));
    check("user-reboot", &observed, Profile::Own, &none, &["stopped polling and missed the end"]);
    let wrong = Observation { requests: vec![poll(0, 200), poll(10, 500)], until: at(100), ..Observation::default() };
    let wrong = Observation { events: vec![ObservedEvent { ended: None, started: None, ..event(false) }], ..wrong };
    check("server-error", &wrong, Profile::Own, &none, &["stopped polling after faulty responses"]);
    let recovered = Observation { requests: vec![poll(0, 200), poll(10, 500), poll(20, 304)], ..wrong };
    check("server-error", &recovered, Profile::Own, &none, &[]);
    let slow = Observation { requests: vec![poll(0, 200)], until: at(331), ..Observation::default() };
    let gap = "did not poll for 33.1 s, longer than the notice of a Preempt (30.0 s)";
    check("idle", &slow, Profile::Own, &none, &[gap]);
    check("idle", &Observation { until: at(299), ..slow.clone() }, Profile::Own, &none, &[]);
    check("idle", &Observation::default(), Profile::Own, &none, &["sent no requests"]);
    check(
        "user-reboot",
        &slow.clone(),
        Profile::Own,
        &none,
        &["saw no event because it never received a document", gap],
    );
    let error = Observation { error: Some("the disk is full".into()), ..slow };
    check("user-reboot", &error, Profile::Own, &none, &["the disk is full"]);
}

#[test]
fn ending_is_right_only_when_the_machine_has_ended() {
    let none = Marks::default();
    let exit = |tenths: u64| Observation { exit: Some((at(tenths), "exit code 1".into())), ..good() };
    check("user-reboot", &exit(115), Profile::Own, &none, &["exited (exit code 1) after 11.5 s"]);
    check("terminate", &exit(115), Profile::Own, &none, &[]);
    check("terminate", &exit(50), Profile::Own, &none, &["exited (exit code 1) after 5.0 s"]);
}

#[test]
fn an_event_is_seen_in_the_first_document_that_contains_it() {
    let mut observed = good();
    observed.events[0].shown_in = Some(2);
    let sent = |observed: &mut Observation, from: u64| {
        observed.requests.iter_mut().for_each(|it| it.incarnation = Some(if it.at >= at(from) { 2 } else { 1 }));
        judge(&case("user-reboot"), observed, Profile::Own, &Marks::default()).numbers.seen_after
    };
    assert_eq!(sent(&mut observed, 20), Some(at(5)));
    observed.requests.retain(|request| request.what == RequestKind::Poll);
    assert_eq!(sent(&mut observed, 30), Some(at(15)), "the poll at 2.0 s was answered from the old document");
    assert_eq!(sent(&mut observed, 10), Some(at(0)), "the poll at 1.0 s was held until the event appeared");
    let mut approved = good();
    approved.requests.retain(|request| request.at != at(20));
    assert_eq!(sent(&mut approved, 30), Some(at(6)), "no later than it was approved");
}
