//! `forewarn vm requests`: shows the requests of a machine to the metadata endpoint.

use std::thread::sleep;
use std::time::Duration;

use forewarn_api_types::{FaultKind, PollingSummary, RequestEntry, Requests};
use forewarn_config::parse::format_span;
use serde_json::Value;

use crate::args::{Output, RequestsArgs};
use crate::client::{Api, Call, format_time};
use crate::decode::decode;
use crate::failure::Failure;
use crate::output::{self, ApiValue, Cell, Color, TableRow, escape};

/// Polling interval of `--follow`.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

pub fn run(api: &Api, args: &RequestsArgs, output: Output) -> Result<(), Failure> {
    let machine = args.vm.segment();
    let answer = fetch(api, &machine, None)?;
    if args.follow {
        return follow(api, &machine, answer, output);
    }
    if matches!(output, Output::Json | Output::Yaml) {
        return output::print_value(&answer, output);
    }
    output::print_list::<RequestEntry>(&decode::<RawRequests>(&answer)?.value, output)?;
    match describe_summary(&decode::<Requests>(&answer)?.summary) {
        Some(summary) if output == Output::Table => output::print_line(&summary),
        Some(_) | None => Ok(()),
    }
}

fn fetch(api: &Api, machine: &str, after: Option<u64>) -> Result<Value, Failure> {
    api.get(&Call::api(&["machines", machine, "requests"]).with("after", after))
}

/// Prints one line per request. Numbers start again when the server is restarted.
fn follow(api: &Api, machine: &str, mut answer: Value, output: Output) -> Result<(), Failure> {
    let mut last = 0;
    loop {
        for (value, request) in decode::<RawRequests>(&answer)?.value.iter().zip(decode::<Requests>(&answer)?.value) {
            last = request.number;
            match output {
                Output::Json => output::print_line(&value.to_string())?,
                Output::Table => output::print_line(&render_line(&request))?,
                Output::Yaml | Output::Tsv => {
                    output::print_answer(ApiValue::One(value), output, |_: &[RequestEntry]| Ok(()))?
                }
            }
        }
        sleep(POLL_INTERVAL);
        answer = fetch(api, machine, Some(last))?;
    }
}

/// The requests as the server sent them, for programs.
#[derive(serde::Deserialize)]
struct RawRequests {
    value: Vec<Value>,
}

impl TableRow for RequestEntry {
    const HEADER: &'static [&'static str] = &["NO", "TIME", "METHOD", "PATH", "VERSION", "STATUS", "NOTES"];
    const EMPTY: &'static str = "The machine has sent no requests since the server started.";

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::new(self.number.to_string()),
            Cell::new(format_time(self.at)),
            Cell::new(&self.method),
            Cell::new(&self.path),
            Cell::new(self.version.as_deref().unwrap_or("-")),
            Cell::colored(status(self), if is_good(self) { Color::Plain } else { Color::Red }),
            Cell::new(notes(self)),
        ]
    }
}

fn render_line(request: &RequestEntry) -> String {
    let version = request.version.as_deref().unwrap_or("-");
    let words = [&format_time(request.at), &request.method, &request.path, version, &status(request), &notes(request)];
    escape(words.join("  ").trim_end())
}

fn status(request: &RequestEntry) -> String {
    match request.status {
        Some(status) => status.to_string(),
        None if request.faults.iter().any(|met| met.kind == FaultKind::Reset.as_str()) => "reset".to_owned(),
        None => "left".to_owned(),
    }
}

fn is_good(request: &RequestEntry) -> bool {
    request.status.is_some_and(|status| status < 400)
}

/// `approved 602D9444-…`, `fault 1 (Status)`.
fn notes(request: &RequestEntry) -> String {
    let approved = (!request.approved.is_empty()).then(|| {
        let ids: Vec<String> = request.approved.iter().map(|id| id.to_string()).collect();
        format!("approved {}", ids.join(", "))
    });
    let faults = request.faults.iter().map(|met| format!("fault {} ({})", met.id, met.kind));
    approved.into_iter().chain(faults).collect::<Vec<_>>().join(", ")
}

fn describe_summary(summary: &PollingSummary) -> Option<String> {
    let first = summary.first_poll?;
    let polls = if summary.polls == 1 { "1 poll".to_owned() } else { format!("{} polls", summary.polls) };
    let span = |secs: f64| format_span(Duration::from_millis((secs * 1000.0).round() as u64));
    let rhythm = summary.interval_median_seconds.zip(summary.gap_longest_seconds);
    let rhythm =
        rhythm.map(|(median, gap)| format!("; one every {} (median), longest gap {}", span(median), span(gap)));
    Some(format!("{polls} since {}{}.", format_time(first), rhythm.unwrap_or_default()))
}
