//! The closing report: failures with the end of their log, a table of all parts, what was skipped, and the totals.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use super::Strictness;
use super::lanes::{Outcome, PartResult, clock};

/// The start of the line of a test that skipped itself, as `forewarn-test-support` prints it.
const SKIPPED_TEST: &str = "skipped test ";

/// Lines of a failed part's log that are shown.
const LOG_LINES: usize = 80;

/// Prints the report. The last line is always the totals.
pub fn print(results: &[PartResult], elapsed: Duration, strictness: Strictness) -> ExitCode {
    for result in results {
        if let Outcome::Failed(reason) = &result.outcome {
            println!("\n── {} failed: {reason}\n{}", result.name, end_of(&result.log));
            println!("── the whole log: {}", result.log.display());
        }
    }
    println!("\n{}", table(results, elapsed));
    let skipped = skipped(results);
    if !skipped.is_empty() {
        println!("skipped:");
        skipped.iter().for_each(|line| println!("  {line}"));
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
    let mut lines = vec![format!("{:width$}  result   time", "part")];
    for result in results {
        let word = match &result.outcome {
            Outcome::Passed => "passed",
            Outcome::Failed(_) => "FAILED",
            Outcome::Skipped(_) => "skipped",
        };
        lines.push(format!("{:width$}  {word:7}  {:>5}", result.name, clock(result.duration)));
    }
    lines.push(format!("{:width$}           {:>5}", "all, in two lanes", clock(elapsed)));
    lines.join("\n")
}

fn end_of(log: &Path) -> String {
    let text = read(log);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

fn read(log: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(name: &str, outcome: Outcome, log: &Path) -> PartResult {
        PartResult { name: name.into(), outcome, duration: Duration::from_secs(75), log: log.to_owned() }
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
        assert!(table.contains("tests              passed    1:15") || table.contains("passed    1:15"), "{table}");
    }
}
