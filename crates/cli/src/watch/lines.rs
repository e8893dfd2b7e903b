//! Prints open events, then changes, line by line until interrupted.

use std::time::Duration;

use forewarn_api_types::{Event, HistoryRow};
use serde_json::Value;

use crate::args::Output;
use crate::client::{Api, Call, Change, Changes, format_history_line};
use crate::decode::decode;
use crate::failure::Failure;
use crate::output::{self, StatusLine};

/// Longest wait for one change.
const CHANGE_WAIT_MAX: Duration = Duration::from_secs(15);

/// In JSON and YAML, each item is a document of its own: first events, which have a `status`, then history rows, which
/// have a `kind`.
pub fn run(api: &Api, output: Output) -> Result<(), Failure> {
    let mut changes = Changes::open(api)?;
    print_events(&api.list(Call::api(&["events"]))?, output)?;
    let mut status = StatusLine::new();
    loop {
        match changes.next(CHANGE_WAIT_MAX)? {
            Change::Unreachable => status.show_reconnecting(),
            Change::Row(row) => {
                status.clear();
                print_change(&row, output)?;
            }
            Change::Timeout | Change::Reconnected => status.clear(),
        }
    }
}

fn print_events(events: &[Value], output: Output) -> Result<(), Failure> {
    match output {
        Output::Table | Output::Tsv => output::print_list::<Event>(events, output),
        Output::Json | Output::Yaml => events.iter().try_for_each(|event| print_document(event, output)),
    }
}

fn print_change(row: &Value, output: Output) -> Result<(), Failure> {
    match output {
        Output::Json | Output::Yaml => print_document(row, output),
        Output::Tsv => output::print_one(row, output, |_: &HistoryRow| Vec::new()),
        Output::Table => {
            let row: HistoryRow = decode(row)?;
            if row.event.is_some() { output::print_line(&format_history_line(&row)) } else { Ok(()) }
        }
    }
}

/// One line of JSON, or one document of a YAML stream.
fn print_document(value: &Value, output: Output) -> Result<(), Failure> {
    if output == Output::Yaml {
        output::print_line("---")?;
        return output::print_value(value, output);
    }
    output::print_line(&value.to_string())
}
