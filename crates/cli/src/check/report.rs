//! Reports of a check: table, JSON, JUnit XML.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

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
    match (output, not_observed(verdicts)) {
        (Output::Table, Some(text)) => output::wrap(&text, "").iter().try_for_each(|line| output::print_line(line)),
        _ => Ok(()),
    }
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

/// A verdict as a table row.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReportRow {
    case: String,
    verdict: String,
    first_poll_milliseconds: Option<u64>,
    interval_milliseconds: Option<u64>,
    seen_after_milliseconds: Option<u64>,
    approved_after_milliseconds: Option<u64>,
    summary: String,
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
    let values = verdicts.iter().map(|verdict| {
        json!({
            "case": verdict.case,
            "verdict": if verdict.passed() { PASSED } else { FAILED },
            "summary": summary(verdict),
            "firstPollMilliseconds": millis(verdict.numbers.first_poll),
            "intervalMilliseconds": millis(verdict.numbers.interval),
            "seenAfterMilliseconds": millis(verdict.numbers.seen_after),
            "approvedAfterMilliseconds": millis(verdict.numbers.approved_after),
            "findings": verdict.findings.iter().map(|it| json!({ "weight": severity_word(it.severity), "text": it.text })).collect::<Vec<_>>(),
        })
    });
    values.collect()
}

fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Good => "good",
        Severity::Remark => "remark",
        Severity::NotObserved => "not observed",
        Severity::Bad => "bad",
    }
}

pub fn render_junit(verdicts: &[Verdict]) -> String {
    let failed = verdicts.iter().filter(|verdict| !verdict.passed()).count();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // The cases run at the same time, so the suite takes as long as the longest of them.
    let longest = verdicts.iter().map(|verdict| verdict.duration).max().unwrap_or_default();
    let _ = writeln!(
        xml,
        "<testsuite name=\"forewarn check\" tests=\"{}\" failures=\"{failed}\" time=\"{}\">",
        verdicts.len(),
        junit_time(longest)
    );
    for verdict in verdicts {
        let (name, time) = (escape_xml(verdict.case), junit_time(verdict.duration));
        let _ = writeln!(xml, "  <testcase classname=\"forewarn.check\" name=\"{name}\" time=\"{time}\">");
        for finding in &verdict.findings {
            if finding.severity == Severity::Bad {
                let _ = writeln!(xml, "    <failure message=\"{}\"/>", escape_xml(&finding.text));
            }
        }
        let lines: Vec<String> =
            verdict.findings.iter().map(|it| format!("{}: {}", severity_word(it.severity), it.text)).collect();
        let _ = writeln!(xml, "    <system-out>{}</system-out>\n  </testcase>", escape_xml(&lines.join("\n")));
    }
    xml.push_str("</testsuite>\n");
    xml
}

/// The report of a check that ended before it could judge: CI systems would read an empty file as a broken report.
pub fn render_junit_error(message: &str) -> String {
    let message = escape_xml(message);
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuite name=\"forewarn check\" tests=\"1\" failures=\"0\" errors=\"1\">\n  \
         <testcase classname=\"forewarn.check\" name=\"check\">\n    \
         <error message=\"{message}\"/>\n  \
         </testcase>\n</testsuite>\n"
    )
}

/// Seconds with milliseconds.
fn junit_time(span: Duration) -> String {
    format!("{:.3}", span.as_secs_f64())
}

fn escape_xml(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            c if c.is_control() && c != '\n' => safe.push('?'),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use forewarn_judge::Numbers;

    #[test]
    fn failures_are_reported_per_case() {
        let finding = |severity, text: &str| Finding { severity, text: text.into() };
        let findings =
            vec![finding(Severity::Good, "polls"), finding(Severity::Bad, "approved \"<another>'s\" & \u{1}")];
        let verdicts = [
            Verdict {
                case: "idle",
                duration: Duration::from_millis(33_010),
                numbers: Numbers::default(),
                findings: vec![],
            },
            Verdict { case: "reset", duration: Duration::from_millis(12_345), numbers: Numbers::default(), findings },
        ];
        let xml = render_junit(&verdicts);
        assert!(xml.contains("tests=\"2\" failures=\"1\" time=\"33.010\""), "{xml}");
        assert!(xml.contains("name=\"reset\" time=\"12.345\""), "{xml}");
        assert!(xml.contains("<failure message=\"approved &quot;&lt;another&gt;'s&quot; &amp; ?\"/>"), "{xml}");
        assert_eq!(xml.matches("<testcase").count(), xml.matches("</testcase>").count());
        assert_eq!(summary(&verdicts[1]), "approved \"<another>'s\" & \u{1}");
        assert_eq!(to_json(&verdicts)[0]["verdict"], "passed");
    }

    #[test]
    fn unobserved_aspects_are_listed_once() {
        let finding = |text: &str| Finding { severity: Severity::NotObserved, text: text.into() };
        let verdict = |case| Verdict {
            case,
            duration: Duration::ZERO,
            numbers: Numbers::default(),
            findings: vec![finding("a"), finding("b")],
        };
        let verdicts = [verdict("idle"), verdict("reset")];
        assert_eq!(summary(&verdicts[0]), "");
        let text = not_observed(&verdicts).unwrap();
        assert!(text.starts_with("Not observed: a; b. Use --mark"), "{text}");
        assert_eq!(not_observed(&[]), None);
    }
}
