//! Reports of a check: table and JSON. The crate `forewarn-judge` renders JUnit XML.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::args::Output;
use crate::failure::Failure;
use crate::output::{self, ApiValue, Cell, Color, TableRow};
use forewarn_judge::{Finding, Severity, Verdict, secs};

pub fn print(verdicts: &[Verdict], output: Output) -> Result<(), Failure> {
    let rows = to_json(verdicts);
    output::print_answer(ApiValue::Many(&rows), output, |rows: &[ReportRow]| {
        let cells: Vec<Vec<Cell>> = rows.iter().map(|row| row.numbers()).collect();
        let mut lines = output::table_lines(&ReportRow::HEADER[..NUMBERS], &cells).into_iter();
        lines.next().map_or(Ok(()), |head| output::print_line(&head))?;
        for (line, row) in lines.zip(rows) {
            output::print_line(&line)?;
            output::wrap(&row.summary, INDENT).iter().try_for_each(|line| output::print_line(line))?;
        }
        Ok(())
    })?;
    if output != Output::Table {
        return Ok(());
    }
    let closing = not_observed(verdicts).into_iter().chain(all_passed(verdicts));
    closing.flat_map(|text| output::wrap(&text, "")).try_for_each(|line| output::print_line(&line))
}

/// None: a case failed, which the error says.
fn all_passed(verdicts: &[Verdict]) -> Option<String> {
    let passed = verdicts.iter().all(Verdict::passed);
    passed.then(|| match verdicts.len() {
        1 => "The case passed.".to_owned(),
        count => format!("All {count} cases passed."),
    })
}

/// Aspects that no case could observe, each once.
fn not_observed(verdicts: &[Verdict]) -> Option<String> {
    let findings = verdicts.iter().flat_map(|verdict| &verdict.findings);
    let unseen = findings.filter(|finding| finding.severity == Severity::NotObserved);
    let mut texts: Vec<&str> = Vec::new();
    for finding in unseen {
        if !texts.contains(&finding.text.as_str()) {
            texts.push(&finding.text);
        }
    }
    let how = "Use --mark prepared=REGEX and --mark restored=REGEX to match the output of the handler.";
    (!texts.is_empty()).then(|| format!("Not observed: {}. {how}", texts.join("; ")))
}

/// A verdict as a table row, and in JSON.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReportRow {
    case: String,
    verdict: String,
    first_poll_milliseconds: Option<u64>,
    interval_milliseconds: Option<u64>,
    seen_after_milliseconds: Option<u64>,
    approved_after_milliseconds: Option<u64>,
    summary: String,
    findings: Vec<FindingRow>,
}

#[derive(Serialize, Deserialize)]
struct FindingRow {
    weight: String,
    text: String,
}

impl TableRow for ReportRow {
    const HEADER: &'static [&'static str] =
        &["CASE", "VERDICT", "FIRST POLL", "INTERVAL", "SEEN", "APPROVED", "FINDINGS"];
    const EMPTY: &'static str = "No case ran.";

    fn cells(&self) -> Vec<Cell> {
        let mut cells = self.numbers();
        cells.push(Cell::new(&self.summary));
        cells
    }
}

/// Columns of the table for people; the summary is on lines of its own, so that the table fits 80 columns.
const NUMBERS: usize = 6;

/// Indentation of a summary below its row.
const INDENT: &str = "  ";

impl ReportRow {
    fn numbers(&self) -> Vec<Cell> {
        let number =
            |millis: Option<u64>| Cell::new(millis.map_or_else(|| "-".into(), |it| secs(Duration::from_millis(it))));
        let color = if self.verdict == PASSED { Color::Green } else { Color::Red };
        vec![
            Cell::new(&self.case),
            Cell::colored(&self.verdict, color),
            number(self.first_poll_milliseconds),
            number(self.interval_milliseconds),
            number(self.seen_after_milliseconds),
            number(self.approved_after_milliseconds),
        ]
    }
}

const PASSED: &str = "passed";
const FAILED: &str = "FAILED";

/// The failures of a case, or else the positive findings.
fn summary(verdict: &Verdict) -> String {
    let of = |wanted: Severity| verdict.findings.iter().filter(move |finding| finding.severity == wanted);
    let texts = |findings: Vec<&Finding>| findings.iter().map(|it| it.text.as_str()).collect::<Vec<_>>().join("; ");
    let bad: Vec<_> = of(Severity::Bad).collect();
    if !bad.is_empty() {
        return texts(bad);
    }
    texts(of(Severity::Good).chain(of(Severity::Remark)).collect())
}

fn to_json(verdicts: &[Verdict]) -> Vec<Value> {
    let millis = |span: Option<Duration>| span.map(|span| span.as_millis() as u64);
    let finding = |it: &Finding| FindingRow { weight: it.severity.as_str().to_owned(), text: it.text.clone() };
    let row = |verdict: &Verdict| ReportRow {
        case: verdict.case.to_owned(),
        verdict: if verdict.passed() { PASSED } else { FAILED }.to_owned(),
        summary: summary(verdict),
        first_poll_milliseconds: millis(verdict.numbers.first_poll),
        interval_milliseconds: millis(verdict.numbers.interval),
        seen_after_milliseconds: millis(verdict.numbers.seen_after),
        approved_after_milliseconds: millis(verdict.numbers.approved_after),
        findings: verdict.findings.iter().map(finding).collect(),
    };
    verdicts.iter().map(|verdict| output::to_value(&row(verdict))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use forewarn_judge::PollStatistics;

    #[test]
    fn failures_are_summarized() {
        let finding = |severity, text: &str| Finding { severity, text: text.into() };
        let findings = vec![finding(Severity::Good, "polls"), finding(Severity::Bad, "approved")];
        let verdict = |findings| Verdict {
            case: "reset",
            duration: Duration::ZERO,
            numbers: PollStatistics::default(),
            findings,
        };
        assert_eq!(summary(&verdict(findings)), "approved");
        assert_eq!(to_json(&[verdict(vec![])])[0]["verdict"], "passed");
        let given = vec![finding(Severity::Remark, "late")];
        let expected = r#"{"approvedAfterMilliseconds":null,"case":"reset","findings":[{"text":"late","weight":"remark"}],"firstPollMilliseconds":null,"intervalMilliseconds":null,"seenAfterMilliseconds":null,"summary":"late","verdict":"passed"}"#;
        assert_eq!(to_json(&[verdict(given)])[0].to_string(), expected);
    }

    #[test]
    fn unobserved_aspects_are_listed_once() {
        let finding = |text: &str| Finding { severity: Severity::NotObserved, text: text.into() };
        let verdict = |case| Verdict {
            case,
            duration: Duration::ZERO,
            numbers: PollStatistics::default(),
            findings: vec![finding("a"), finding("b")],
        };
        let verdicts = [verdict("idle"), verdict("reset")];
        assert_eq!(summary(&verdicts[0]), "");
        let text = not_observed(&verdicts).unwrap();
        assert!(text.starts_with("Not observed: a; b. Use --mark"), "{text}");
        assert_eq!(not_observed(&[]), None);
    }
}
