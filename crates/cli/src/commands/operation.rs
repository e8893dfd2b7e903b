//! `forewarn operation`: shows, waits for and cancels operations. The ID of an event stands for the operation that owns
//! it.

use serde_json::{Value, json};

use crate::args::{OperationCommand, Output};
use crate::client::{self, Api, Call, Event, Operation, describe, format_time, operation_noun};
use crate::decode::decode;
use crate::failure::Failure;
use crate::output::{self, Cell, TableRow};

pub fn run(api: &Api, command: &OperationCommand, output: Output) -> Result<(), Failure> {
    match command {
        OperationCommand::List => output::print_list::<Operation>(&api.list(Call::api(&["operations"]))?, output),
        OperationCommand::Show { id } => show(&find(api, id)?, output),
        OperationCommand::Wait { id } => client::wait(api, &found_id(api, id)?, output),
        OperationCommand::Cancel { id } => {
            let call = Call::api(&["operations", &found_id(api, id)?, "cancel"]);
            show(&api.post(&call, &json!({}))?, output)
        }
    }
}

fn found_id(api: &Api, id: &str) -> Result<String, Failure> {
    Ok(decode::<Operation>(&find(api, id)?)?.id)
}

fn find(api: &Api, id: &str) -> Result<Value, Failure> {
    match api.get(&Call::api(&["operations", id])) {
        Err(Failure::Refused(sentence)) => {
            let owner = owner(api, id);
            owner.map_or(Err(Failure::Refused(sentence)), |owner| api.get(&Call::api(&["operations", &owner])))
        }
        other => other,
    }
}

fn owner(api: &Api, event_id: &str) -> Option<String> {
    let event = api.get(&Call::api(&["events", event_id])).and_then(|value| decode::<Event>(&value));
    let known = event.ok().and_then(|event| event.operations.into_iter().next());
    known.or_else(|| client::event_history::find_operation(api, event_id).ok().flatten())
}

fn show(value: &Value, output: Output) -> Result<(), Failure> {
    output::print_one(value, output, |operation| output::format_fields(&facts(operation)))
}

impl TableRow for Operation {
    const HEADER: &'static [&'static str] = &["ID", "WHAT", "STATE", "ASKED", "BY"];
    const EMPTY: &'static str = "There are no operations.";

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::new(&self.id),
            Cell::new(describe(operation_noun(&self.kind), &self.machines)),
            Cell::new(&self.state),
            Cell::new(self.asked.map_or(String::new(), format_time)),
            Cell::new(&self.by),
        ]
    }
}

fn facts(operation: &Operation) -> Vec<(&'static str, String)> {
    let target = operation.host.as_ref().map(|host| format!("host {host}")).or_else(|| operation.group.clone());
    let because = operation.reason.as_ref().or(operation.outcome.as_ref());
    let mut lines = vec![
        ("operation", operation.id.clone()),
        ("what", describe(operation_noun(&operation.kind), &operation.machines)),
        ("requested by", operation.by.clone()),
        ("state", because.map_or(operation.state.clone(), |text| format!("{} ({text})", operation.state))),
    ];
    lines.extend(target.map(|text| ("target", text)));
    lines.extend(operation.event_type.clone().map(|text| ("type", text)));
    lines.extend(operation.asked.map(|at| ("requested", format_time(at))));
    lines.extend(operation.ended.map(|at| ("finished", format_time(at))));
    lines.extend(operation.events.iter().map(|part| ("event", part.id.clone())));
    lines
}
