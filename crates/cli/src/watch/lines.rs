//! What is there, then what happens, line by line, until somebody interrupts.

use std::time::Duration;

use serde_json::Value;

use crate::args::Output;
use crate::client::{self, Api, Call, Changes, Event, HistoryRow, Next};
use crate::commands::history_sentence;
use crate::failure::Failure;
use crate::output::{self, StatusLine};

/// How long a look at the stream takes at most.
const LOOK: Duration = Duration::from_secs(15);

/// For programs each thing is a document of its own: first events, which have a `status`, then rows of
/// history, which have a `kind`.
pub fn run(api: &Api, output: Output) -> Result<(), Failure> {
    let mut changes = Changes::open(api)?;
    there(&api.list(Call::to(&["events"]))?, output)?;
    let mut status = StatusLine::new();
    loop {
        match changes.next(LOOK)? {
            Next::Gone => status.show_gone(),
            Next::Row(row) => {
                status.clear();
                happened(&row, output)?;
            }
            Next::Nothing | Next::Again => status.clear(),
        }
    }
}

fn there(events: &[Value], output: Output) -> Result<(), Failure> {
    match output {
        Output::Table | Output::Tsv => output::list::<Event>(events, output),
        Output::Json | Output::Yaml => events.iter().try_for_each(|event| document(event, output)),
    }
}

fn happened(row: &Value, output: Output) -> Result<(), Failure> {
    match output {
        Output::Json | Output::Yaml => document(row, output),
        Output::Tsv => output::one(row, output, |_: &HistoryRow| Vec::new()),
        Output::Table => {
            let row: HistoryRow = client::read(row)?;
            if row.event.is_some() { output::line(&history_sentence(&row)) } else { Ok(()) }
        }
    }
}

/// JSON in one line; a document of a stream of YAML.
fn document(value: &Value, output: Output) -> Result<(), Failure> {
    if output == Output::Yaml {
        output::line("---")?;
        return output::value(value, output);
    }
    output::line(&value.to_string())
}
