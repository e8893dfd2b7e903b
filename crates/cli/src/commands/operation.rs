//! `forewarn operation`: shows, waits for and cancels operations. The ID of an event stands for the operation that owns
//! it.

use forewarn_api_types::{EmptyBody, Event, EventOutcome, Id, Operation};
use serde_json::Value;

use super::bodies::read;
use crate::args::{OperationCommand, Output};
use crate::client::{self, Api, Call, describe, format_time, operation_noun};
use crate::decode::decode;
use crate::failure::Failure;
use crate::output::{self, Cell, TableRow};

pub fn run(api: &Api, command: &OperationCommand, output: Output) -> Result<(), Failure> {
    match command {
        OperationCommand::List => output::print_list::<Operation>(&api.list(Call::api(&["operations"]))?, output),
        OperationCommand::Show { id } => show(&find(api, id)?, output),
        OperationCommand::Wait { id } => client::wait(api, found_id(api, id)?, output),
        OperationCommand::Cancel { id } => {
            let call = Call::api(&["operations", &found_id(api, id)?.to_string(), "cancel"]);
            show(&api.post(&call, &EmptyBody {})?, output)
        }
    }
}

fn found_id(api: &Api, id: &str) -> Result<Id, Failure> {
    Ok(decode::<Operation>(&find(api, id)?)?.id)
}

fn find(api: &Api, id: &str) -> Result<Value, Failure> {
    match api.get(&Call::api(&["operations", id])) {
        Err(Failure::Refused(sentence)) => {
            let owner = owner(api, id);
            owner.map_or(Err(Failure::Refused(sentence)), |owner| {
                api.get(&Call::api(&["operations", &owner.to_string()]))
            })
        }
        other => other,
    }
}

fn owner(api: &Api, event_id: &str) -> Option<Id> {
    let event = api.get(&Call::api(&["events", event_id])).and_then(|value| decode::<Event>(&value));
    let known = event.ok().and_then(|event| event.operations.into_iter().next());
    known.or_else(|| client::event_history::find_operation(api, read(event_id).ok()?).ok().flatten())
}

fn show(value: &Value, output: Output) -> Result<(), Failure> {
    output::print_one(value, output, |operation| output::format_fields(&facts(operation)))
}

impl TableRow for Operation {
    const HEADER: &'static [&'static str] = &["ID", "WHAT", "STATE", "REQUESTED", "BY"];
    const EMPTY: &'static str = "There are no operations.";

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::new(self.id.to_string()),
            Cell::new(describe(operation_noun(self.kind), &self.machines)),
            Cell::new(self.state.as_str()),
            Cell::new(self.requested_at.map_or(String::new(), format_time)),
            Cell::new(&self.requested_by),
        ]
    }
}

fn facts(operation: &Operation) -> Vec<(&'static str, String)> {
    let target = operation.host.as_ref().map(|host| format!("host {host}")).or_else(|| operation.group.clone());
    let because = operation
        .canceled_by
        .as_deref()
        .or(operation.reason.as_deref())
        .or(operation.outcome.map(EventOutcome::as_str));
    let mut lines = vec![
        ("operation", operation.id.to_string()),
        ("what", describe(operation_noun(operation.kind), &operation.machines)),
        ("requested by", operation.requested_by.clone()),
        ("state", because.map_or(operation.state.to_string(), |text| format!("{} ({text})", operation.state))),
    ];
    lines.extend(target.map(|text| ("target", text)));
    lines.extend(operation.event_type.map(|kind| ("type", kind.to_string())));
    lines.extend(operation.requested_at.map(|at| ("requested", format_time(at))));
    lines.extend(operation.ended.map(|at| ("finished", format_time(at))));
    lines.extend(operation.events.iter().map(|part| ("event", part.id.to_string())));
    lines
}
