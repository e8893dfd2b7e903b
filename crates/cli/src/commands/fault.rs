//! `forewarn fault`: adds, lists and clears faults of the metadata endpoint.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::bodies::object;
use super::single_line;
use crate::args::{ClearArgs, FaultArgs, FaultCommand, FaultKindArgs, FaultMethod, FaultStatus, Output};
use crate::client::{Api, Call, format_time};
use crate::failure::Failure;
use crate::output::{self, Answer, Cell, TableRow};
use crate::parse::span_text;

/// The part of the API's answer that is shown.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fault {
    id: u64,
    machine: Option<String>,
    fault: FaultSpec,
    count: Option<u64>,
    percent: Option<u8>,
    method: Option<String>,
    documents_only: bool,
    until: Option<Timestamp>,
    met: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FaultSpec {
    kind: String,
    status: Option<u16>,
    delay_seconds: Option<f64>,
}

pub fn run(api: &Api, command: &FaultCommand, output: Output) -> Result<(), Failure> {
    match command {
        FaultCommand::Add(args) => {
            check_retry_after(args)?;
            print_added(&api.post(&Call::api(&["faults"]), &new_fault(args))?, output)
        }
        FaultCommand::List { vm } => {
            let call = Call::api(&["faults"]).with("machine", vm.as_ref());
            output::print_list::<Fault>(&api.list(call)?, output)
        }
        FaultCommand::Show { id } => {
            let fault = api.get(&Call::api(&["faults", &id.to_string()]))?;
            output::print_answer(Answer::One(&fault), output, |faults: &[Fault]| {
                let rows: Vec<_> = faults.iter().map(Fault::cells).collect();
                output::print_table(Fault::HEADER, &rows, Fault::EMPTY)
            })
        }
        FaultCommand::Clear(args) => clear(api, args, output),
    }
}

fn check_retry_after(args: &FaultArgs) -> Result<(), Failure> {
    match (args.kind.status, args.retry_after) {
        (Some(status @ (FaultStatus::Gone | FaultStatus::InternalServerError)), Some(_)) => {
            Err(Failure::Usage(format!(
                "--retry-after cannot be used with --status {}: only 429 and 503 have a Retry-After header",
                code(status)
            )))
        }
        _ => Ok(()),
    }
}

fn new_fault(args: &FaultArgs) -> Value {
    object(&[
        ("machine", json!(args.vm)),
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
        (args.unknown_type, "UnknownType"),
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

fn print_added(value: &Value, output: Output) -> Result<(), Failure> {
    output::print_one(value, output, |fault: &Fault| {
        let whose = fault.machine_or("all machines");
        single_line(format!(
            "Added fault {}: {} for {whose}, {}",
            fault.id,
            fault.describe(),
            fault.describe_remaining()
        ))
    })
}

fn clear(api: &Api, args: &ClearArgs, output: Output) -> Result<(), Failure> {
    let cleared = match args.id {
        Some(id) => vec![api.delete(&Call::api(&["faults", &id.to_string()]))?],
        None => {
            let call = Call::api(&["faults"]).with("machine", args.vm.as_ref());
            api.delete(&call)?["value"].as_array().cloned().unwrap_or_default()
        }
    };
    output::print_answer(Answer::Many(&cleared), output, |faults: &[Fault]| {
        if faults.is_empty() {
            return output::print_line("There are no faults to clear.");
        }
        faults.iter().try_for_each(|fault| {
            let text = format!("Cleared fault {}: {}, applied {}", fault.id, fault.describe(), format_times(fault.met));
            output::print_line(&output::escape(&text))
        })
    })
}

impl TableRow for Fault {
    const HEADER: &'static [&'static str] = &["ID", "MACHINE", "FAULT", "LIFE", "MET"];
    const EMPTY: &'static str = "There are no faults.";

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::new(self.id.to_string()),
            Cell::new(self.machine_or("(all)")),
            Cell::new(self.describe()),
            Cell::new(self.describe_remaining()),
            Cell::new(format_times(self.met)),
        ]
    }
}

impl Fault {
    fn machine_or<'a>(&'a self, default: &'a str) -> &'a str {
        self.machine.as_deref().unwrap_or(default)
    }

    /// `Status 429`, `Delay 2s, GET, 50 %`.
    fn describe(&self) -> String {
        let FaultSpec { kind, status, delay_seconds } = &self.fault;
        let delay = delay_seconds.and_then(|secs| std::time::Duration::try_from_secs_f64(secs).ok()).map(span_text);
        let value = status.map(|status| status.to_string()).or(delay).map(|value| format!(" {value}"));
        let mut words = vec![format!("{kind}{}", value.unwrap_or_default())];
        words.extend(self.method.clone());
        words.extend(self.documents_only.then(|| "documents only".to_owned()));
        words.extend(self.percent.map(|percent| format!("{percent} %")));
        words.join(", ")
    }

    /// The remaining requests and time.
    fn describe_remaining(&self) -> String {
        let mut words = Vec::new();
        words.extend(self.count.map(|count| match count.saturating_sub(self.met) {
            1 => "1 request left".to_owned(),
            left => format!("{left} requests left"),
        }));
        words.extend(self.until.map(|until| format!("until {}", format_time(until))));
        if words.is_empty() { "until cleared".to_owned() } else { words.join(", ") }
    }
}

fn format_times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}
