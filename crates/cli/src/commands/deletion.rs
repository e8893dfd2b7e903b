//! Deletions and dry runs: shows the events that would be created, and asks before it deletes on a terminal.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use forewarn_api_types::{Event, RolloutOwner};
use serde_json::Value;

use super::follow;
use crate::args::{DeletionArgs, Output};
use crate::client::{self, Api, Call};
use crate::decode::decode_all;
use crate::failure::Failure;
use crate::output;

/// Deletes a resource, with its events.
pub fn run(api: &Api, call: Call, args: &DeletionArgs, output: Output) -> Result<(), Failure> {
    let call = call.with("eventId", args.operation.event_id.as_ref()).creates_events();
    confirm_and_send(api, |dry| api.delete(&call.clone().dry_run(dry)), args, output)
}

/// Sends a deletion. On a terminal, sends it as a dry run first, shows the result and asks.
pub fn confirm_and_send(
    api: &Api,
    send: impl Fn(bool) -> Result<Value, Failure>,
    args: &DeletionArgs,
    output: Output,
) -> Result<(), Failure> {
    let asks = !args.yes && !args.operation.dry_run && io::stdin().is_terminal() && io::stderr().is_terminal();
    if asks {
        describe(&send(true)?)?.iter().for_each(|line| output::print_stderr(line));
        if !is_confirmed() {
            return Err(Failure::Refused("nothing was deleted".into()));
        }
    }
    follow(api, &send(args.operation.dry_run)?, &args.operation, output)
}

fn is_confirmed() -> bool {
    let mut stderr = io::stderr();
    let _ = write!(stderr, "Delete? [y/N] ").and_then(|()| stderr.flush());
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.is_ok() && ["y", "yes"].contains(&answer.trim().to_lowercase().as_str())
}

/// Prints the result of a dry run.
pub fn print_dry_run(result: &Value, output: Output) -> Result<(), Failure> {
    match output {
        Output::Table | Output::Tsv => describe(result)?.iter().try_for_each(|line| output::print_line(line)),
        Output::Json | Output::Yaml => output::print_value(result, output),
    }
}

/// One line per event that would be created, and per rollout that owns a host or group of its machines.
fn describe(result: &Value) -> Result<Vec<String>, Failure> {
    let list = |name: &str| result[name].as_array().map_or(&[][..], Vec::as_slice);
    let events: Vec<Event> = decode_all(list("events"))?;
    let owners: Vec<RolloutOwner> = decode_all(list("rollouts"))?;
    if events.is_empty() {
        return Ok(vec!["No events would be created.".into()]);
    }
    let line = |event: &Event| {
        let what = client::describe(event.kind.as_str(), &event.resources);
        output::escape(&format!("{what}: would be {}", client::describe_status(event)))
    };
    Ok(events.iter().map(line).chain(describe_owners(&owners)).collect())
}

/// One line per rollout that owns a host or group of machines which an operation affects.
pub fn describe_owners(owners: &[RolloutOwner]) -> impl Iterator<Item = String> {
    owners.iter().map(|owner| output::escape(&owner.to_string()))
}
