//! The commands, one file per command group.

mod archive;
mod az;
mod backup;
mod bodies;
mod clock;
mod cluster;
mod completions;
mod context;
mod deletion;
mod events;
mod fault;
mod group;
mod health;
mod help;
mod history;
mod host;
mod host_agent;
mod host_import;
mod identity;
mod login;
mod maintenance;
mod operation;
mod portal;
mod requests;
mod rollout;
mod scenario;
mod token;
mod vm;
mod vmss;
mod wait;
mod webhook;

pub use az::print_eval_guard;
use forewarn_api_types::{Event, Id, Operation};
use serde::Deserialize;
use serde_json::Value;

use crate::args::{Client, Command, GroupFilter, HostCommand, NoWaitArgs, OperationArgs, Output};
use crate::client::{self, Api, Call};
use crate::connect::connect;
use crate::decode::{decode, decode_all};
use crate::failure::Failure;
use crate::output::ApiValue;
use crate::{check, output, run, serve};

pub fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve(args) => serve::run(args),
        Command::Run(args) => run::run(*args),
        Command::RunCompanion(args) => run::companion(*args),
        Command::Portal(args) => portal::run(&args),
        Command::Watch(args) => events::watch(&connect(&args.connection)?, args.lines, args.connection.output),
        Command::Events(args) => with_api(&args, events::run),
        Command::Maintenance(args) => with_api(&args, maintenance::run),
        Command::Rollout(args) => with_api(&args, rollout::run),
        Command::Vm(args) => with_api(&args, vm::run),
        Command::Vmss(args) => with_api(&args, vmss::run),
        Command::AvailabilitySet(args) => {
            with_api(&args, |api, command, output| group::run(api, group::GroupKind::AvailabilitySet, command, output))
        }
        Command::CloudService(args) => {
            with_api(&args, |api, command, output| group::run(api, group::GroupKind::CloudService, command, output))
        }
        Command::Host(args) => match &args.command {
            HostCommand::Join(join) => host_agent::join(&args.connection, join),
            HostCommand::Run(run) => host_agent::run(&args.connection, run),
            HostCommand::Doctor(doctor) => host_agent::doctor(&args.connection, doctor),
            HostCommand::Manage(command) => host::run(&connect(&args.connection)?, command, args.connection.output),
        },
        Command::Operation(args) => with_api(&args, operation::run),
        Command::Fault(args) => with_api(&args, fault::run),
        Command::Webhook(args) => with_api(&args, webhook::run),
        Command::History(args) => history::run(&connect(&args.connection)?, &args),
        Command::Check(args) => check::run(&args),
        Command::Scenario(args) => with_api(&args, scenario::run),
        Command::Login(args) => login::run(&args),
        Command::Context(command) => context::run(&command),
        Command::Health(args) => health::run(&args),
        Command::Cluster(args) => cluster::run(&args),
        Command::Clock(args) => with_api(&args, clock::run),
        Command::Token(command) => token::run(command),
        Command::Az(args) => az::run(&args),
        Command::Ca(args) => az::show_authority(&connect(&args.connection)?, &args.command),
        Command::Backup(args) => backup::backup(args),
        Command::Restore(args) => backup::restore(args),
        Command::Export(args) => archive::export(args),
        Command::Import(args) => archive::import(args),
        Command::Completions(command) => completions::run(command),
        Command::Complete { words } => completions::complete(&words),
        Command::Help { words } => help::run(&words),
        Command::Version => output::print_line(&format!("forewarn {}", env!("CARGO_PKG_VERSION"))),
    }
}

fn with_api<C: clap::Subcommand>(
    args: &Client<C>,
    run: impl FnOnce(&Api, &C, Output) -> Result<(), Failure>,
) -> Result<(), Failure> {
    run(&connect(&args.connection)?, &args.command, args.connection.output)
}

/// Prints an operation that was just started: immediately, or when it has finished.
fn follow(api: &Api, operation: &Value, args: &OperationArgs, output: Output) -> Result<(), Failure> {
    if args.dry_run {
        return deletion::print_dry_run(operation, output);
    }
    let read: Operation = decode(operation)?;
    print_joined_event(api, &read, args.event_id.as_deref())?;
    if args.no_wait {
        return client::print_started(api, ApiValue::One(operation), output);
    }
    client::wait(api, read.id, output)
}

/// The same for several operations.
fn show_operations(api: &Api, operations: &[Value], waiting: &NoWaitArgs, output: Output) -> Result<(), Failure> {
    if waiting.dry_run {
        return operations.iter().try_for_each(|operation| deletion::print_dry_run(operation, output));
    }
    if waiting.no_wait {
        return client::print_started(api, ApiValue::Many(operations), output);
    }
    let read: Vec<Operation> = decode_all(operations)?;
    let ids: Vec<Id> = read.into_iter().map(|operation| operation.id).collect();
    client::wait_all(api, &ids, output)
}

/// Mentions that a request joined an existing event, so that its event ID is not used.
fn print_joined_event(api: &Api, operation: &Operation, chosen: Option<&str>) -> Result<(), Failure> {
    let Some(part) = operation.events.first() else { return Ok(()) };
    let id = part.id.to_string();
    if let Some(chosen) = chosen.filter(|chosen| !id.eq_ignore_ascii_case(chosen)) {
        output::print_stderr(&output::escape(&format!("Joined existing event {id}; event ID {chosen} is not used")));
        return Ok(());
    }
    let Ok(event) = api.get(&Call::api(&["events", &id])) else { return Ok(()) };
    let event: Event = decode(&event)?;
    if event.operations.first().is_some_and(|first| *first != operation.id) {
        output::print_stderr(&format!("Joined existing event {id}, which was already {}", event.status.as_str()));
    }
    Ok(())
}

/// One escaped line.
fn single_line(text: String) -> Vec<String> {
    vec![output::escape(&text)]
}

/// The values of the selected resource group.
fn filter_by_group(values: Vec<Value>, filter: &GroupFilter) -> Vec<Value> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct InResourceGroup {
        resource_group: String,
    }
    let Some(group) = &filter.resource_group else { return values };
    let is_there =
        |value: &Value| decode::<InResourceGroup>(value).is_ok_and(|it| it.resource_group.eq_ignore_ascii_case(group));
    values.into_iter().filter(is_there).collect()
}
