//! `forewarn maintenance start`: schedules maintenance.

use serde_json::{Value, json};

use super::bodies::object;
use super::follow;
use crate::args::{MaintenanceArgs, MaintenanceCommand, Output, TargetArgs};
use crate::client::{Api, Call};
use crate::failure::Failure;

pub fn run(api: &Api, command: &MaintenanceCommand, output: Output) -> Result<(), Failure> {
    let MaintenanceCommand::Start(args) = command;
    let operation = api.post(&Call::api(&["maintenance"]), &body(args))?;
    follow(api, &operation, &args.operation, output)
}

fn body(args: &MaintenanceArgs) -> Value {
    object(&[
        ("target", target(&args.target)),
        ("type", json!(format!("{:?}", args.kind))),
        ("cause", json!(args.cause.map(|cause| format!("{cause:?}")))),
        ("at", json!(args.at.map(|time| time.to_string()))),
        ("noticeSeconds", json!(args.notice)),
        ("durationSeconds", json!(args.duration)),
        ("description", json!(args.description)),
        ("eventId", json!(args.operation.event_id)),
    ])
}

fn target(target: &TargetArgs) -> Value {
    let machines = if target.vm.is_empty() { Value::Null } else { json!(target.vm) };
    object(&[("machines", machines), ("host", json!(target.host)), ("group", json!(target.group))])
}
