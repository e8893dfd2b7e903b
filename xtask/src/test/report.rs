//! The closing report: failures with their messages and the end of their log, a table of all parts, what failed and what was
//! skipped in one line each, and the totals.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use super::lanes::{Outcome, PartResult, clock};
use crate::needs::Strictness;

/// The start of the line of a test that skipped itself, as `forewarn-test-support` prints it.
const SKIPPED_TEST: &str = "skipped test ";

/// Lines at the end of a failed part's log that are shown.
const LOG_LINES: usize = 80;

/// How the first line of a failed assertion can be told from others.
const PANIC: &str = "panicked at ";

/// Lines of each failed assertion that are shown, wherever they are in the log.
const PANIC_LINES: usize = 6;

/// Failed assertions that are shown.
const PANICS_MAX: usize = 10;

/// Prints the report. The last line is always the totals.
pub fn print(results: &[PartResult], elapsed: Duration, strictness: Strictness) -> ExitCode {
    for result in results {
        if let Outcome::Failed(reason) = &result.outcome {
            let log = read(&result.log);
            println!("\n── {} failed: {reason}\n{}\n{}", result.name, panics_in(&log), end_of(&log));
            println!("── the whole log: {}", result.log.display());
        }
    }
    println!("\n{}", table(results, elapsed));
    let skipped = skipped(results);
    for (title, lines) in [("failed:", &failed(results)), ("skipped:", &skipped)] {
        if !lines.is_empty() {
            println!("{title}");
            lines.iter().for_each(|line| println!("  {line}"));
        }
    }
    let count = |is: fn(&Outcome) -> bool| results.iter().filter(|result| is(&result.outcome)).count();
    let failed = count(|outcome| matches!(outcome, Outcome::Failed(_)));
    let passed = count(|outcome| *outcome == Outcome::Passed);
    if strictness == Strictness::Strict && !skipped.is_empty() {
        println!("nothing may be skipped with CI=true or --strict");
    }
    println!("{passed} passed, {failed} failed, {} skipped", skipped.len());
    let is_good = failed == 0 && (skipped.is_empty() || strictness == Strictness::Lenient);
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Failed parts with their reason, and with the tests that failed or did not end. Logs of failed parts can be long, so these lines
/// may be all that a reader sees.
fn failed(results: &[PartResult]) -> Vec<String> {
    let describe = |result: &PartResult| match &result.outcome {
        Outcome::Failed(reason) => Some(format!("{}: {reason}{}", result.name, tests_to_blame(&read(&result.log)))),
        Outcome::Passed | Outcome::Skipped(_) => None,
    };
    results.iter().filter_map(describe).collect()
}

/// The tests that failed, and those that were slow and have no result.
fn tests_to_blame(log: &str) -> String {
    let names = |end: &'static str| {
        log.lines().filter_map(move |line| line.trim().strip_prefix("test ")?.strip_suffix(end)).map(str::trim_end)
    };
    let has_result = |name: &str| ["... ok", "... FAILED"].iter().any(|end| names(end).any(|other| other == name));
    let failed = names("... FAILED").map(|name| format!("; {name} failed"));
    let slow = names("has been running for over 60 seconds").filter(|name| !has_result(name));
    failed.chain(slow.map(|name| format!("; {name} did not end"))).collect()
}

/// Skipped parts with their reason, and single tests that skipped themselves.
fn skipped(results: &[PartResult]) -> Vec<String> {
    let mut skipped = Vec::new();
    for result in results {
        if let Outcome::Skipped(reason) = &result.outcome {
            skipped.push(format!("{}: {reason}", result.name));
            continue;
        }
        let log = read(&result.log);
        skipped.extend(log.lines().filter_map(|line| line.split_once(SKIPPED_TEST)).map(|(_, test)| test.to_owned()));
    }
    skipped
}

fn table(results: &[PartResult], elapsed: Duration) -> String {
    let width = results.iter().map(|result| result.name.len()).max().unwrap_or(0);
    let mut lines = vec![format!("{:width$}  result   time  CPU time", "part")];
    for result in results {
        let word = match &result.outcome {
            Outcome::Passed => "passed",
            Outcome::Failed(_) => "FAILED",
            Outcome::Skipped(_) => "skipped",
        };
        let (time, cpu) = (clock(result.duration), clock(result.cpu));
        lines.push(format!("{:width$}  {word:7}  {time:>5}  {cpu:>8}", result.name));
    }
    let cpu = clock(results.iter().map(|result| result.cpu).sum());
    lines.push(format!("{:width$}           {:>5}  {cpu:>8}", "all, in two lanes", clock(elapsed)));
    lines.join("\n")
}

/// The failed assertions. Programs that a test started may have written more lines after them than the end of the log shows.
fn panics_in(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let starts = (0..lines.len()).filter(|&start| lines[start].contains(PANIC)).take(PANICS_MAX);
    let panics = starts.map(|start| lines[start..lines.len().min(start + PANIC_LINES)].join("\n"));
    panics.collect::<Vec<_>>().join("\n…\n")
}

fn end_of(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

fn read(log: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(name: &str, outcome: Outcome, log: &Path) -> PartResult {
        PartResult {
            name: name.into(),
            outcome,
            duration: Duration::from_secs(75),
            cpu: Duration::from_secs(130),
            log: log.to_owned(),
        }
    }

    #[test]
    fn a_failed_assertion_is_shown_whatever_follows_it() {
        let noise = "a line of another program\n".repeat(LOG_LINES);
        let log = format!("test a ... ok\nthread 'b' panicked at tests/b.rs:7:5:\nleft is not right\n{noise}");
        assert!(!end_of(&log).contains("left is not right"));
        assert!(panics_in(&log).starts_with("thread 'b' panicked at tests/b.rs:7:5:\nleft is not right\n"));
        assert_eq!(panics_in(&log).lines().count(), PANIC_LINES);
        assert_eq!(panics_in("test a ... ok\n"), "");
    }

    #[test]
    fn tests_that_failed_or_did_not_end_are_named() {
        let log = "test a::b ... ok\ntest a::c has been running for over 60 seconds\ntest a::d ... FAILED\n\
                   test a::e has been running for over 60 seconds\ntest a::e ... ok\n";
        assert_eq!(tests_to_blame(log), "; a::d failed; a::c did not end");
    }

    #[test]
    fn skipped_parts_and_skipped_tests_are_named_with_their_reason() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        std::fs::write(&log, "test a ... ok\nskipped test run::b: curl is not installed\n").unwrap();
        let results = [
            result("tests", Outcome::Passed, &log),
            result("accept fleet", Outcome::Skipped("needs root".into()), Path::new("/no/such/log")),
        ];
        assert_eq!(skipped(&results), ["run::b: curl is not installed", "accept fleet: needs root"]);
        let table = table(&results, Duration::from_secs(90));
        assert!(table.contains("tests         passed    1:15      2:10"), "{table}");
        assert!(table.ends_with("1:30      4:20"), "{table}");
    }
}
