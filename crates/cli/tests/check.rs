//! `forewarn check` tells handlers apart: the one in `handlers/handler.py` has faults to choose from.

mod support;

use std::path::Path;
use std::process::Output;

use support::{clean_command, text};

const MARKS: &str = "--mark prepared=^prepared --mark restored=^restored";

fn handler() -> String {
    format!("python3 {}", Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/handlers/handler.py").display())
}

/// `options` before, `faults` behind the handler.
fn run(options: &str, faults: &str) -> Output {
    let line = format!("check {options} -- {} {faults}", handler());
    clean_command().args(line.split_whitespace()).output().unwrap()
}

/// Checks with these cases only; what is said of them must have `expected` in it.
#[track_caller]
fn check(options: &str, faults: &str, code: i32, expected: &[&str]) -> String {
    let output = run(options, faults);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let fits =
        output.status.code() == Some(code) && expected.iter().all(|part| out.contains(part) || err.contains(part));
    assert!(fits, "check {options} {faults}: {}\n{out}\n{err}\nexpected: {expected:?}", output.status);
    out
}

#[test]
fn a_good_handler_passes_and_what_it_did_is_told() {
    let out = check(
        &format!("{MARKS} --only user-reboot --only someone-else --only server-error --only cancelled-maintenance"),
        "",
        0,
        &["left another machine's Reboot alone", "kept going after wrong answers", "noticed the end and restored"],
    );
    let cases: Vec<_> = out.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(
        cases,
        ["user-reboot", "cancelled-maintenance", "someone-else", "server-error"],
        "in the order of the report"
    );
    assert!(
        out.contains("prepared before it approved") && out.contains("noticed the cancellation and restored"),
        "{out}"
    );
}

#[test]
fn without_marks_it_says_what_could_not_be_seen() {
    check("--only user-reboot", "", 0, &["Not observed: preparation before approval; restoring after the end. Say"]);
}

#[test]
fn a_deletion_that_waits_for_another_is_a_case_too() {
    check("--only terminate-gate", "", 0, &["approved its own Terminate", "left another machine's Terminate alone"]);
    check("--only terminate-gate --profile never", "", 2, &["approve their own events"]);
}

#[test]
fn one_that_ends_at_an_error_fails() {
    check("--only server-error", "dies-of-errors", 4, &["ended by itself (exit code 1)", "1 of 1 cases failed."]);
}

#[test]
fn one_that_never_polls_again_after_a_500_fails() {
    check("--only server-error", "gives-up", 4, &["stopped asking after wrong answers"]);
}

#[test]
fn one_that_approves_others_events_fails_unless_it_should() {
    check("--only someone-else", "approves-others", 4, &["approved another machine's Reboot"]);
    check("--profile all --only someone-else", "approves-others", 0, &["approved another machine's Reboot after"]);
}

#[test]
fn one_that_misses_the_end_fails() {
    check(&format!("{MARKS} --only user-reboot"), "misses-the-end", 4, &["did not restore after the end"]);
}

#[test]
fn one_that_polls_too_slowly_for_a_preempt_fails() {
    check("--only idle", "slow", 4, &["longer than the notice of a Preempt"]);
}

#[test]
fn one_that_cannot_bear_an_unknown_type_fails() {
    check("--only unknown-type", "knows-all-types", 4, &["ended by itself (exit code 1)"]);
}

#[test]
fn one_that_takes_304_for_an_error_fails() {
    check("--only user-reboot", "304-is-an-error", 4, &["ended by itself (exit code 1)"]);
}

#[test]
fn one_that_approves_before_it_prepares_fails() {
    check(&format!("{MARKS} --only user-reboot"), "approves-first", 4, &["approved before it had prepared"]);
}

#[test]
fn one_that_never_approves_passes_only_where_that_is_meant() {
    check("--profile never --only hardware-failure", "never-approves", 0, &["left its own Reboot alone"]);
    check("--only cancelled-maintenance", "never-approves", 4, &["did not approve its own Freeze"]);
}

#[test]
fn one_that_asks_wrongly_is_told_how_to_ask() {
    check(
        "--only user-reboot",
        "no-header",
        4,
        &["requests for the document were refused with 400. A handler asks http://169"],
    );
    check(
        "--only cancelled-maintenance",
        "wrong-body",
        4,
        &["did not approve its own Freeze: ", " POSTs were refused"],
    );
}

#[test]
fn reports_are_for_programs_too() {
    let dir = tempfile::tempdir().unwrap();
    let junit = dir.path().join("report.xml");
    let out = check(&format!("-o json --only someone-else --junit {}", junit.display()), "approves-others", 4, &[]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&report[0]["case"], &report[0]["verdict"]), (&"someone-else".into(), &"FAILED".into()), "{report:#}");
    let xml = std::fs::read_to_string(junit).unwrap();
    assert!(
        xml.contains("<failure message=\"approved another machine&apos;s Reboot\"/>")
            || xml.contains("another machine's"),
        "{xml}"
    );
}

#[test]
fn what_cannot_be_checked_is_said_at_once() {
    for (line, code, part) in [
        ("check --only rest -- true", 2, "There is no case 'rest'. Did you mean 'reset'?"),
        ("check --mark ready=x -- true", 2, "must be prepared=REGEX or restored=REGEX"),
        ("check --only idle -- sleep 60", 4, "No request came within 10 seconds."),
        ("check --only idle -- sh -c false", 4, "The handler ended (exit code 1) before it asked for anything."),
        ("check --only idle -- no-such-program", 4, "The handler ended (exit code 127) before it asked for anything."),
    ] {
        let output = clean_command().args(line.split_whitespace()).output().unwrap();
        let err = text(&output.stderr);
        assert!(output.status.code() == Some(code) && err.contains(part), "{line}: {}\n{err}", output.status);
    }
}
