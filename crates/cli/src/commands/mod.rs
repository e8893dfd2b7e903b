//! One file for each noun of the command line.

mod archive;
mod clock;
mod events;
mod history;
mod maintenance;
mod operation;
mod token;
mod vm;

use serde_json::{Value, json};

use crate::args::{Asking, Command, Output};
use crate::client::{self, Api};
use crate::failure::Failure;
use crate::serve;

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
        Command::Clock(args) => clock::run(&Api::new(&args.connection)?, &args.command, args.connection.output),
        Command::Token(command) => token::run(command),
        Command::Export(args) => archive::export(args),
        Command::Import(args) => archive::import(args),
    }
}

/// Shows an operation that was just asked for, at once or when it is over.
fn follow(api: &Api, operation: &Value, asking: &Asking, output: Output) -> Result<(), Failure> {
    if asking.no_wait {
        return client::asked(api, operation, output);
    }
    let operation: client::Operation = client::read(operation)?;
    client::wait(api, &operation.id, output)
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
