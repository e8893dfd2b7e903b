//! `forewarn fault`: let requests go wrong, see which faults there are, end them.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{list_json, machine_segment, object};
use crate::args::{ClearArgs, FaultArgs, FaultCommand, FaultKindArgs, FaultMethod, FaultStatus, Output};
use crate::client::{self, Api, Call, day_time};
use crate::failure::Failure;
use crate::output::{self, Cell};
use crate::words::span_text;

/// As much of the API's answer as people are shown.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fault {
    id: u64,
    machine: Option<String>,
    fault: Kind,
    count: Option<u64>,
    percent: Option<u8>,
    method: Option<String>,
    documents_only: bool,
    until: Option<Timestamp>,
    met: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kind {
    kind: String,
    status: Option<u16>,
    delay_seconds: Option<f64>,
}

pub fn run(api: &Api, command: &FaultCommand, output: Output) -> Result<(), Failure> {
    match command {
        FaultCommand::Add(args) => added(&api.post(&Call::to(&["faults"]), &new_fault(args))?, output),
        FaultCommand::List { vm } => {
            let call = Call::to(&["faults"]).with("machine", vm.as_deref().map(machine_segment));
            show(api.list(call)?, "There are no faults.", output)
        }
        FaultCommand::Show { id } => {
            let fault = api.get(&Call::to(&["faults", &id.to_string()]))?;
            match output {
                Output::Json => output::json(&fault),
                Output::Table => show(vec![fault], "", output),
            }
        }
        FaultCommand::Clear(args) => clear(api, args, output),
    }
}

fn new_fault(args: &FaultArgs) -> Value {
    object(&[
        ("machine", json!(args.vm.as_deref().map(machine_segment))),
        ("fault", kind(&args.kind, args.retry_after)),
        ("count", json!(args.count)),
        ("forSeconds", json!(args.seconds)),
        ("percent", json!(args.percent)),
        (
            "method",
            json!(args.method.map(|method| match method {
                FaultMethod::Get => "GET",
                FaultMethod::Post => "POST",
            })),
        ),
        ("documentsOnly", json!(args.documents_only.then_some(true))),
    ])
}

fn kind(args: &FaultKindArgs, retry_after: Option<u64>) -> Value {
    let plain = [
        (args.reset, "Reset"),
        (args.truncated, "Truncated"),
        (args.malformed, "Malformed"),
        (args.incarnation_restart, "IncarnationRestart"),
        (args.events_vanish, "EventsVanish"),
    ];
    let delays = [(args.delay, "Delay"), (args.slow_first_call, "SlowFirstCall")];
    let delay = delays.into_iter().find_map(|(delay, word)| Some((delay?, word)));
    if let Some(status) = args.status {
        return object(&[
            ("kind", json!("Status")),
            ("status", json!(code(status))),
            ("retryAfterSeconds", json!(retry_after)),
        ]);
    }
    if let Some((delay, word)) = delay {
        return json!({ "kind": word, "delaySeconds": delay.as_secs_f64() });
    }
    let word = plain.into_iter().find_map(|(chosen, word)| chosen.then_some(word));
    json!({ "kind": word })
}

fn code(status: FaultStatus) -> u16 {
    match status {
        FaultStatus::TooManyRequests => 429,
        FaultStatus::Gone => 410,
        FaultStatus::InternalServerError => 500,
        FaultStatus::ServiceUnavailable => 503,
    }
}

fn added(value: &Value, output: Output) -> Result<(), Failure> {
    if output == Output::Json {
        return output::json(value);
    }
    let fault: Fault = client::read(value)?;
    output::line(&output::tame(&format!(
        "Fault {}: {} for {}, {}.",
        fault.id,
        fault.what(),
        fault.whose("all machines"),
        fault.life()
    )))
}

fn clear(api: &Api, args: &ClearArgs, output: Output) -> Result<(), Failure> {
    let cleared = match args.id {
        Some(id) => vec![api.delete(&Call::to(&["faults", &id.to_string()]))?],
        None => {
            let call = Call::to(&["faults"]).with("machine", args.vm.as_deref().map(machine_segment));
            api.delete(&call)?["value"].as_array().cloned().unwrap_or_default()
        }
    };
    if output == Output::Json {
        return output::json(&list_json(cleared));
    }
    if cleared.is_empty() {
        return output::line("There were no faults.");
    }
    let faults: Vec<Fault> = client::read_all(&cleared)?;
    faults.iter().try_for_each(|fault| {
        let text = format!("Fault {} is cleared: {}, met {}.", fault.id, fault.what(), times(fault.met));
        output::line(&output::tame(&text))
    })
}

fn show(values: Vec<Value>, nothing: &str, output: Output) -> Result<(), Failure> {
    if output == Output::Json {
        return output::json(&list_json(values));
    }
    let faults: Vec<Fault> = client::read_all(&values)?;
    let rows: Vec<Vec<Cell>> = faults.iter().map(row).collect();
    output::table(&["ID", "MACHINE", "FAULT", "LIFE", "MET"], &rows, nothing)
}

fn row(fault: &Fault) -> Vec<Cell> {
    vec![
        Cell::new(fault.id.to_string()),
        Cell::new(fault.whose("(all)")),
        Cell::new(fault.what()),
        Cell::new(fault.life()),
        Cell::new(times(fault.met)),
    ]
}

impl Fault {
    fn whose<'a>(&'a self, everybody: &'a str) -> &'a str {
        self.machine.as_deref().unwrap_or(everybody)
    }

    /// `Status 429`, `Delay 2s, GET, 50 %`.
    fn what(&self) -> String {
        let Kind { kind, status, delay_seconds } = &self.fault;
        let delay = delay_seconds.and_then(|secs| std::time::Duration::try_from_secs_f64(secs).ok()).map(span_text);
        let value = status.map(|status| status.to_string()).or(delay).map(|value| format!(" {value}"));
        let mut words = vec![format!("{kind}{}", value.unwrap_or_default())];
        words.extend(self.method.clone());
        words.extend(self.documents_only.then(|| "documents only".to_owned()));
        words.extend(self.percent.map(|percent| format!("{percent} %")));
        words.join(", ")
    }

    /// What remains of it.
    fn life(&self) -> String {
        let mut words = Vec::new();
        words.extend(self.count.map(|count| match count.saturating_sub(self.met) {
            1 => "1 request left".to_owned(),
            left => format!("{left} requests left"),
        }));
        words.extend(self.until.map(|until| format!("until {}", day_time(until))));
        if words.is_empty() { "until cleared".to_owned() } else { words.join(", ") }
    }
}

fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}
