//! `forewarn fault`: adds, lists and clears faults of the metadata endpoint.

use forewarn_api_types::{Fault, FaultKind, NewFault, Page};
use serde_json::Value;

use super::single_line;
use crate::args::{ClearArgs, FaultArgs, FaultCommand, FaultKindArgs, Output};
use crate::client::{Api, Call, format_time};
use crate::decode::decode;
use crate::failure::Failure;
use crate::output::{self, ApiValue, Cell, TableRow};

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
            output::print_answer(ApiValue::One(&fault), output, |faults: &[Fault]| {
                let rows: Vec<_> = faults.iter().map(Fault::cells).collect();
                output::print_table(Fault::HEADER, &rows, Fault::EMPTY)
            })
        }
        FaultCommand::Clear(args) => clear(api, args, output),
    }
}

fn check_retry_after(args: &FaultArgs) -> Result<(), Failure> {
    match (args.kind.status, args.retry_after) {
        (Some(status), Some(_)) if !matches!(status, 429 | 503) => Err(Failure::Usage(format!(
            "--retry-after cannot be used with --status {status}: only 429 and 503 have a Retry-After header"
        ))),
        _ => Ok(()),
    }
}

fn new_fault(args: &FaultArgs) -> NewFault {
    NewFault {
        machine: args.vm.clone(),
        count: args.count,
        // The server refuses longer durations.
        for_seconds: args.seconds.map(|secs| u32::try_from(secs).unwrap_or(u32::MAX)),
        percent: args.percent,
        method: args.method,
        documents_only: args.documents_only,
        ..NewFault::of(kind(&args.kind, args.retry_after))
    }
}

/// Clap requires exactly one of the options.
fn kind(args: &FaultKindArgs, retry_after: Option<u64>) -> FaultKind {
    if let Some(status) = args.status {
        let retry_after_seconds = retry_after.map(|secs| u32::try_from(secs).unwrap_or(u32::MAX));
        return FaultKind::Status { status, retry_after_seconds };
    }
    let delayed = args.delay.map(FaultKind::Delay).or(args.slow_first_call.map(FaultKind::SlowFirstCall));
    let plain = [
        (args.truncated, FaultKind::Truncated),
        (args.malformed, FaultKind::Malformed),
        (args.incarnation_restart, FaultKind::IncarnationRestart),
        (args.events_vanish, FaultKind::EventsVanish),
        (args.unknown_type, FaultKind::UnknownType),
    ];
    let plain = plain.into_iter().find_map(|(chosen, kind)| chosen.then_some(kind));
    delayed.or(plain).unwrap_or(FaultKind::Reset)
}

fn print_added(value: &Value, output: Output) -> Result<(), Failure> {
    output::print_one(value, output, |fault: &Fault| {
        let whose = machine_or(fault, "all machines");
        single_line(format!(
            "Added fault {}: {} for {whose}, {}",
            fault.id,
            fault.describe(),
            describe_remaining(fault)
        ))
    })
}

fn clear(api: &Api, args: &ClearArgs, output: Output) -> Result<(), Failure> {
    let cleared = match args.id {
        Some(id) => vec![api.delete(&Call::api(&["faults", &id.to_string()]))?],
        None => {
            let call = Call::api(&["faults"]).with("machine", args.vm.as_ref());
            decode::<Page<Value>>(&api.delete(&call)?)?.value
        }
    };
    output::print_answer(ApiValue::Many(&cleared), output, |faults: &[Fault]| {
        if faults.is_empty() {
            return output::print_line("There are no faults to clear.");
        }
        faults.iter().try_for_each(|fault| {
            let text =
                format!("Cleared fault {}: {}, applied {}", fault.id, fault.describe(), format_times(fault.affected));
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
            Cell::new(machine_or(self, "(all)")),
            Cell::new(self.describe()),
            Cell::new(describe_remaining(self)),
            Cell::new(format_times(self.affected)),
        ]
    }
}

fn machine_or<'a>(fault: &'a Fault, default: &'a str) -> &'a str {
    fault.machine.as_deref().unwrap_or(default)
}

fn describe_remaining(fault: &Fault) -> String {
    fault.describe_remaining(fault.until.map(format_time))
}

fn format_times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}
