//! Reports as JUnit XML, which CI systems read.

use std::fmt::Write as _;
use std::time::Duration;

use crate::verdict::{Severity, Verdict};

/// The report of a check.
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
            verdict.findings.iter().map(|it| format!("{}: {}", it.severity.as_str(), it.text)).collect();
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
    use crate::verdict::{Finding, PollStatistics};

    #[test]
    fn failures_are_reported_per_case() {
        let finding = |severity, text: &str| Finding { severity, text: text.into() };
        let findings =
            vec![finding(Severity::Good, "polls"), finding(Severity::Bad, "approved \"<another>'s\" & \u{1}")];
        let verdicts = [
            Verdict {
                case: "idle",
                duration: Duration::from_millis(33_010),
                numbers: PollStatistics::default(),
                findings: vec![],
            },
            Verdict {
                case: "reset",
                duration: Duration::from_millis(12_345),
                numbers: PollStatistics::default(),
                findings,
            },
        ];
        let xml = render_junit(&verdicts);
        assert!(xml.contains("tests=\"2\" failures=\"1\" time=\"33.010\""), "{xml}");
        assert!(xml.contains("name=\"reset\" time=\"12.345\""), "{xml}");
        assert!(xml.contains("<failure message=\"approved &quot;&lt;another&gt;'s&quot; &amp; ?\"/>"), "{xml}");
        assert_eq!(xml.matches("<testcase").count(), xml.matches("</testcase>").count());
    }
}
