//! `forewarn maintenance start`: schedules maintenance.

use forewarn_api_client::moment;
use forewarn_api_types::{MaintenanceTarget, NewMaintenance, Text, Time};

use super::bodies::event_id;
use super::follow;
use crate::args::{MaintenanceArgs, MaintenanceCommand, Output, TargetArgs};
use crate::client::{Api, Call};
use crate::failure::Failure;

pub fn run(api: &Api, command: &MaintenanceCommand, output: Output) -> Result<(), Failure> {
    let MaintenanceCommand::Start(args) = command;
    let call = Call::api(&["maintenance"]).dry_run(args.operation.dry_run).creates_events();
    let operation = api.post(&call, &body(api, args)?)?;
    follow(api, &operation, &args.operation, output)
}

fn body(api: &Api, args: &MaintenanceArgs) -> Result<NewMaintenance, Failure> {
    Ok(NewMaintenance {
        cause: args.cause,
        at: moment::resolve(args.at, api)?.map(Time::from),
        notice_seconds: args.notice,
        // The server refuses longer durations.
        duration_seconds: args.duration.map(|secs| i64::try_from(secs).unwrap_or(i64::MAX)),
        description: args.description.clone().map(Text),
        event_id: event_id(args.operation.event_id.as_ref())?,
        ..NewMaintenance::of(target(&args.target), args.kind)
    })
}

/// Clap requires exactly one of the options.
fn target(target: &TargetArgs) -> MaintenanceTarget {
    match (&target.host, &target.set) {
        (Some(host), _) => MaintenanceTarget::Host(host.clone()),
        (None, Some(group)) => MaintenanceTarget::Group(group.clone()),
        (None, None) => MaintenanceTarget::Machines(target.vm.clone()),
    }
}
