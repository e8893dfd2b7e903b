//! One file for each noun of the command line.

mod archive;
mod clock;
mod events;
mod history;
mod maintenance;
mod operation;
mod scenario;
mod token;
mod vm;

use serde_json::{Value, json};

use crate::args::{Asking, Command, Output};
use crate::client::{self, Api};
use crate::failure::Failure;
use crate::{output, serve};

pub fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve(args) => serve::run(args),
        Command::Events(args) => events::run(&Api::new(&args.connection)?, &args.command, args.connection.output),
        Command::Maintenance(args) => {
            maintenance::run(&Api::new(&args.connection)?, &args.command, args.connection.output)
        }
        Command::Vm(args) => vm::run(&Api::new(&args.connection)?, &args.command, args.connection.output),
        Command::Operation(args) => operation::run(&Api::new(&args.connection)?, &args.command, args.connection.output),
        Command::History(args) => history::run(&Api::new(&args.connection)?, &args),
        Command::Scenario(args) => scenario::run(&Api::new(&args.connection)?, &args.command, args.connection.output),
        Command::Clock(args) => clock::run(&Api::new(&args.connection)?, &args.command, args.connection.output),
        Command::Token(command) => token::run(command),
        Command::Export(args) => archive::export(args),
        Command::Import(args) => archive::import(args),
    }
}

/// Shows an operation that was just asked for, at once or when it is over.
fn follow(api: &Api, operation: &Value, asking: &Asking, output: Output) -> Result<(), Failure> {
    let read: client::Operation = client::read(operation)?;
    mention_joined(&read, asking.event_id.as_deref());
    if asking.no_wait {
        return client::asked(api, operation, output);
    }
    client::wait(api, &read.id, output)
}

/// A request that joins an event that is already there has no use for an id of its own.
fn mention_joined(operation: &client::Operation, chosen: Option<&str>) {
    let (Some(chosen), Some(joined)) = (chosen, operation.events.first()) else { return };
    if !operation.events.iter().any(|part| part.id.eq_ignore_ascii_case(chosen)) {
        output::aside(&output::tame(&format!("The request joins event {}; the id {chosen} was not used.", joined.id)));
    }
}

/// The body of a request: what was not given is left out.
fn object(fields: &[(&str, Value)]) -> Value {
    let given = fields.iter().filter(|(_, value)| !value.is_null());
    Value::Object(given.map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

/// `group/name` on the command line is `group~name` in a path of the API.
fn machine_segment(name: &str) -> String {
    name.replacen('/', "~", 1)
}

fn list_json(values: Vec<Value>) -> Value {
    json!(values)
}
