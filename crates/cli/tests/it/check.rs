//! `forewarn check` detects the bugs of handlers; `handlers/handler.py` has several to choose from.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{clean_command, text};
use crate::terminal::Terminal;
use forewarn_test_support::{Need, can_run};

/// The handler is a Python script.
const PYTHON: &[Need] = &[Need::Program("python3")];

/// Time limit for processes to start and to end.
const PATIENCE: Duration = Duration::from_secs(60);

const MARKS: &str = "--mark prepared=^prepared --mark restored=^restored";

fn handler() -> String {
    format!("python3 {}", Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/handlers/handler.py").display())
}

/// Runs a check with options; `faults` are arguments of the handler.
fn run(options: &str, faults: &str) -> Output {
    let line = format!("check {options} -- {} {faults}", handler());
    clean_command().args(line.split_whitespace()).output().unwrap()
}

/// Runs a check and expects an exit code and parts of the output.
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
fn a_good_handler_passes_and_the_report_says_what_it_did() {
    if !can_run(PYTHON) {
        return;
    }
    let out = check(
        &format!("{MARKS} --only user-reboot --only someone-else --only server-error --only canceled-maintenance"),
        "",
        0,
        &[
            "left another machine's Reboot alone",
            "kept polling after faulty responses",
            "noticed the end and restored",
            "All 4 cases passed.",
        ],
    );
    let cases: Vec<_> = out
        .lines()
        .skip(1)
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(
        cases,
        ["user-reboot", "canceled-maintenance", "someone-else", "server-error", "All"],
        "in the order of the report, and the summary"
    );
    assert!(
        out.contains("prepared before approving") && out.contains("noticed the cancellation and restored"),
        "{out}"
    );
}

/// As Microsoft's own samples do.
#[test]
fn a_handler_can_compare_its_host_name_with_the_resources() {
    if !can_run(PYTHON) {
        return;
    }
    check(
        "--only user-reboot --only someone-else",
        "trusts-its-host-name",
        0,
        &["approved its own Reboot", "left another"],
    );
}

#[test]
fn the_first_handler_of_the_documentation_passes() {
    if !can_run(PYTHON) {
        return;
    }
    let page = include_str!("../../../../docs/check.md");
    let (_, rest) = page.split_once("```python\n").unwrap();
    let (script, _) = rest.split_once("```").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("handler.py");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    let options = "check --only user-reboot --only someone-else --only server-error --only malformed --";
    let output = clean_command().args(options.split_whitespace()).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn without_marks_the_report_lists_what_could_not_be_observed() {
    if !can_run(PYTHON) {
        return;
    }
    check(
        "--only user-reboot",
        "",
        0,
        &["Not observed: preparation before approval; restoring after the end. Use --mark", "The case passed."],
    );
}

#[test]
fn a_deletion_that_waits_for_another_is_a_case() {
    if !can_run(PYTHON) {
        return;
    }
    check("--only terminate-gate", "", 0, &["approved its own Terminate", "left another machine's Terminate alone"]);
    check("--only terminate-gate --profile never", "", 2, &["approve their own events"]);
}

#[test]
fn a_handler_that_exits_on_an_error_fails() {
    if !can_run(PYTHON) {
        return;
    }
    check(
        "--only server-error",
        "dies-of-errors",
        4,
        &["exited (exit code 1; last output: HTTP 500)", "1 of 1 cases failed"],
    );
}

#[test]
fn a_handler_that_never_polls_again_after_a_500_fails() {
    if !can_run(PYTHON) {
        return;
    }
    check("--only server-error", "gives-up", 4, &["stopped polling after faulty responses"]);
}

#[test]
fn a_handler_that_approves_others_events_fails_unless_it_should() {
    if !can_run(PYTHON) {
        return;
    }
    check("--only someone-else", "approves-others", 4, &["approved another machine's Reboot"]);
    check("--profile all --only someone-else", "approves-others", 0, &["approved another machine's Reboot after"]);
}

#[test]
fn events_of_other_groups_are_not_judged() {
    if !can_run(PYTHON) {
        return;
    }
    check("--profile all --only host-maintenance --only canceled-maintenance", "approves-others", 0, &["passed"]);
}

#[test]
fn a_handler_that_misses_the_end_fails() {
    if !can_run(PYTHON) {
        return;
    }
    check(&format!("{MARKS} --only user-reboot"), "misses-the-end", 4, &["did not restore after the end"]);
}

#[test]
fn a_handler_that_polls_too_slowly_for_a_preempt_fails() {
    if !can_run(PYTHON) {
        return;
    }
    check("--only idle", "slow", 4, &["longer than the notice of a Preempt"]);
}

#[test]
fn a_handler_that_crashes_on_an_unknown_type_fails() {
    if !can_run(PYTHON) {
        return;
    }
    check("--only unknown-type", "knows-all-types", 4, &["exited (exit code 1; last output: KeyError: "]);
}

#[test]
fn a_handler_that_treats_304_as_an_error_fails() {
    if !can_run(PYTHON) {
        return;
    }
    check("--only user-reboot", "304-is-an-error", 4, &["exited (exit code 1; last output: HTTP 304)"]);
}

#[test]
fn a_handler_that_approves_before_it_prepares_fails() {
    if !can_run(PYTHON) {
        return;
    }
    check(&format!("{MARKS} --only user-reboot"), "approves-first", 4, &["approved before preparing"]);
}

#[test]
fn a_handler_that_never_approves_passes_only_where_that_is_meant() {
    if !can_run(PYTHON) {
        return;
    }
    check("--profile never --only hardware-failure", "never-approves", 0, &["left its own Reboot alone"]);
    check("--only canceled-maintenance", "never-approves", 4, &["did not approve its own Freeze"]);
}

#[test]
fn a_handler_with_wrong_requests_is_shown_the_right_one() {
    if !can_run(PYTHON) {
        return;
    }
    check(
        "--only user-reboot",
        "no-header",
        4,
        &["requests for the document were refused with 400; handlers must poll http://169"],
    );
    check("--only canceled-maintenance", "wrong-body", 4, &["did not approve its own Freeze: ", " POSTs were refused"]);
}

#[test]
fn reports_are_written_as_json_and_junit_xml() {
    if !can_run(PYTHON) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let junit = dir.path().join("report.xml");
    let out = check(&format!("-o json --only someone-else --junit {}", junit.display()), "approves-others", 4, &[]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&report[0]["case"], &report[0]["verdict"]), (&"someone-else".into(), &"FAILED".into()), "{report:#}");
    assert!(report[0]["seenAfterMilliseconds"].is_u64(), "{report:#}");
    let xml = std::fs::read_to_string(junit).unwrap();
    assert!(
        xml.contains("<failure message=\"approved another machine&apos;s Reboot\"/>")
            || xml.contains("another machine's"),
        "{xml}"
    );
    let time = xml.split("time=\"").nth(2).and_then(|rest| rest.split('"').next()).unwrap();
    assert!(time.parse::<f64>().unwrap() > 1.0, "the case took {time} s");
}

#[test]
fn a_check_that_cannot_work_fails_early() {
    for (line, code, part) in [
        ("check --only rest -- true", 2, "unknown case 'rest'. Did you mean 'reset'?"),
        (
            "check --junit /no/such/directory/report.xml -- true",
            2,
            "cannot write --junit /no/such/directory/report.xml: ",
        ),
        ("check --mark ready=x -- true", 2, "use prepared=REGEX or restored=REGEX"),
        ("check --only idle -- sleep 60", 4, "no request within 10 seconds; "),
        ("check --only idle -- sh -c false", 4, "the handler exited (exit code 1) before it sent a request; "),
        (
            "check --only idle -- /etc/passwd",
            4,
            "forewarn: cannot run '/etc/passwd': Permission denied; make it executable",
        ),
        (
            "check --only idle -- no-such-program",
            4,
            "forewarn: cannot run 'no-such-program': No such file or directory\n",
        ),
    ] {
        let output = clean_command().args(line.split_whitespace()).output().unwrap();
        let err = text(&output.stderr);
        assert!(output.status.code() == Some(code) && err.contains(part), "{line}: {}\n{err}", output.status);
    }
}

/// Marks the processes of a check in their environment.
const MARK: &str = "CHECK_UNDER_TEST";

fn is_running(mark: &str) -> bool {
    let wanted = format!("{MARK}={mark}");
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    processes
        .filter_map(|process| fs::read(process.path().join("environ")).ok())
        .any(|environment| environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()))
}

#[track_caller]
fn until(what: &str, is_true: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        thread::yield_now();
    }
}

/// Starts a check of a handler that ignores SIGTERM and starts a process of its own, and sends a signal to the check.
fn signal_check(signal: Signal) -> (ExitStatus, String) {
    let dir = tempfile::tempdir().unwrap();
    let (started, junit) = (dir.path().join("started"), dir.path().join("report.xml"));
    let handler = dir.path().join("handler");
    let script = format!("#!/bin/sh\ntrap '' TERM\nsleep 1000 &\ntouch '{}'\nwait\nwait\n", started.display());
    fs::write(&handler, script).unwrap();
    fs::set_permissions(&handler, Permissions::from_mode(0o755)).unwrap();
    let mark = dir.path().display().to_string();
    let mut command = clean_command();
    command.args(["check", "--only", "idle", "--junit"]).arg(&junit).arg("--").arg(&handler);
    let mut check = command.env(MARK, &mark).stderr(Stdio::null()).spawn().unwrap();
    until("the handler does not start", || started.exists());
    kill_process(Pid::from_child(&check), signal).unwrap();
    let status = check.wait().unwrap();
    until("a handler or its companion is left", || !is_running(&mark));
    (status, fs::read_to_string(junit).unwrap())
}

#[test]
fn an_interrupted_check_leaves_no_handler() {
    if !can_run(&[Need::NetworkNamespaces]) {
        return;
    }
    for signal in [Signal::INT, Signal::TERM] {
        let (status, junit) = signal_check(signal);
        assert_eq!(status.code(), Some(130));
        assert!(junit.contains("<error message=\"the check was interrupted\"/>"), "{junit}");
    }
}

#[test]
fn a_check_that_is_killed_leaves_no_handler() {
    if !can_run(&[Need::NetworkNamespaces]) {
        return;
    }
    let (status, _) = signal_check(Signal::KILL);
    assert_eq!(status.code(), None);
}

#[test]
fn a_check_that_cannot_judge_writes_its_reason_as_junit_xml() {
    let dir = tempfile::tempdir().unwrap();
    let junit = dir.path().join("report.xml");
    let line = format!("check --only idle --junit {} -- no-such-program", junit.display());
    let output = clean_command().args(line.split_whitespace()).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    let xml = fs::read_to_string(junit).unwrap();
    assert!(xml.contains("tests=\"1\" failures=\"0\" errors=\"1\""), "{xml}");
    assert!(xml.contains("<error message=\"cannot run 'no-such-program': No such file or directory"), "{xml}");
}

#[test]
fn a_check_shows_its_progress_and_fits_80_columns() {
    if !can_run(PYTHON) {
        return;
    }
    let mut command = clean_command();
    let line = format!("check --only user-reboot --only someone-else -- {}", handler());
    command.env("NO_COLOR", "1").args(line.split_whitespace());
    let mut terminal = Terminal::with_columns(command, 80);
    terminal.until("0 of 2 cases finished");
    terminal.until("running: user-reboot, someone-else");
    terminal.until("\r\x1b[KCASE");
    let (code, report) = terminal.rest();
    assert_eq!(code, Some(0), "{report}");
    assert!(report.contains("left another machine's Reboot alone") && report.contains("Use --mark"), "{report}");
    let long: Vec<&str> = report.lines().filter(|line| line.trim_end().chars().count() > 80).collect();
    assert!(long.is_empty(), "{long:?}");
}
