//! `forewarn operation`: shows, waits for, approves and cancels operations. The ID of an event stands for the operation that owns
//! it.

use forewarn_api_types::{EmptyBody, Event, EventOutcome, Id, Operation, OperationKind, OperationProgress};
use serde_json::Value;

use crate::args::{OperationCommand, OperationFilterArgs, Output};
use crate::client::{self, Api, Call, describe, format_time, join_few, operation_noun, short_id, status_word};
use crate::decode::decode;
use crate::failure::Failure;
use crate::output::{self, Cell, TableRow};

pub fn run(api: &Api, command: &OperationCommand, output: Output) -> Result<(), Failure> {
    match command {
        OperationCommand::List(filter) => output::print_list::<Operation>(&api.list(listing(filter))?, output),
        OperationCommand::Show { id } => show(&find(api, id)?, output),
        OperationCommand::Wait { id } => client::wait(api, find_id(api, id)?, output),
        OperationCommand::Approve { id } => post_action(api, id, "approve", output),
        OperationCommand::Cancel { id } => post_action(api, id, "cancel", output),
    }
}

fn listing(filter: &OperationFilterArgs) -> Call {
    Call::api(&["operations"])
        .with("state", filter.state)
        .with("kind", filter.kind)
        .with("machine", filter.vm.as_ref())
        .with("host", filter.host.as_ref())
        .with("group", filter.set.as_ref())
        .with("rollout", filter.rollout.as_ref())
}

fn post_action(api: &Api, id: &str, verb: &str, output: Output) -> Result<(), Failure> {
    let call = Call::api(&["operations", &find_id(api, id)?.to_string(), verb]);
    show(&api.post(&call, &EmptyBody {})?, output)
}

fn find_id(api: &Api, id: &str) -> Result<Id, Failure> {
    Ok(decode::<Operation>(&find(api, id)?)?.id)
}

fn find(api: &Api, typed: &str) -> Result<Value, Failure> {
    let id = &short_id::operation(api, typed)?;
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
    let event: Event = decode(&api.get(&Call::api(&["events", event_id])).ok()?).ok()?;
    event.operations.into_iter().next()
}

fn show(value: &Value, output: Output) -> Result<(), Failure> {
    output::print_one(value, output, |operation| {
        let mut lines = output::format_fields(&facts(operation));
        let more = [event_lines(operation), describe_not_ready(operation), describe_capacity(operation)];
        lines.extend(more.iter().flatten().map(|line| output::escape(line)));
        lines
    })
}

impl TableRow for Operation {
    const HEADER: &'static [&'static str] =
        &["ID", "OPERATION", "STATE", "DESCRIPTION", "WAITS FOR", "REQUESTED", "REQUESTED BY"];
    const EMPTY: &'static str = "There are no operations.";

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::new(self.id.to_string()),
            Cell::new(describe(operation_noun(self.kind), &self.machines)),
            Cell::new(self.state.as_str()),
            Cell::new(self.description.as_deref().unwrap_or_default()),
            Cell::new(self.waits_for.first().map_or(String::new(), ToString::to_string)),
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
        ("title", describe(operation_noun(operation.kind), &operation.machines)),
        (requester_label(operation), operation.requested_by.clone()),
        ("state", because.map_or(operation.state.to_string(), |text| format!("{} ({text})", operation.state))),
    ];
    lines.extend(target.map(|text| ("target", text)));
    lines.extend(operation.event_type.map(|kind| ("type", kind.to_string())));
    lines.extend(operation.cause.map(|cause| ("cause", cause.to_string())));
    lines.extend(operation.ticket.clone().map(|text| ("ticket", text)));
    lines.extend(operation.description.clone().map(|text| ("description", text)));
    lines.extend(operation.rollout.map(|id| ("rollout", id.to_string())));
    lines.extend(operation.requested_at.map(|at| ("requested", format_time(at))));
    lines.extend(operation.ended.map(|at| ("finished", format_time(at))));
    lines.extend(describe_progress(&operation.progress).map(|text| ("progress", text)));
    lines.extend(operation.waits_for.iter().map(|wait| ("waits for", wait.to_string())));
    lines.extend(operation.conflicts.iter().map(|conflict| {
        let id = conflict.operation.or(conflict.rollout).map_or_else(String::new, |id| format!(" ({id})"));
        ("conflict", format!("{}{id}", conflict.title))
    }));
    if operation.groups.is_empty() {
        lines.extend(operation.events.iter().map(|part| ("event", part.id.to_string())));
    }
    lines
}

/// A simulated failure is no request.
fn requester_label(operation: &Operation) -> &'static str {
    if operation.kind == OperationKind::Fail { "simulated by" } else { "requested by" }
}

/// `12 of 20 events finished, 1 failed, 2 in progress, 8 of 20 machines ready`
fn describe_progress(progress: &OperationProgress) -> Option<String> {
    let OperationProgress { events, scheduled, started, completed, failed, canceled, .. } = *progress;
    let OperationProgress { machines, machines_ready, .. } = *progress;
    let counts = [(failed, "failed"), (canceled, "canceled"), (started, "in progress")];
    let finished = format!("{completed} of {events} events finished");
    let counts = counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
    let ready = format!("{machines_ready} of {machines} machines ready");
    let ready = (scheduled > 0 && machines > 0).then_some(ready);
    let left = progress.machines_left.map(|count| format!("{count} machines left on the host"));
    let known = events > 0 || left.is_some();
    known.then(|| std::iter::once(finished).chain(counts).chain(ready).chain(left).collect::<Vec<_>>().join(", "))
}

/// The events by event group.
fn event_lines(operation: &Operation) -> Vec<String> {
    let mut lines = Vec::new();
    for group in &operation.groups {
        let handler = if group.handler_connected { "handler connected" } else { "no handler" };
        lines.extend([String::new(), format!("{} ({handler})", group.name)]);
        lines.extend(group.events.iter().map(describe_event));
    }
    lines
}

/// The machines that are not ready, with the state of their handlers.
fn describe_not_ready(operation: &Operation) -> Vec<String> {
    if operation.not_ready.is_empty() {
        return Vec::new();
    }
    let (listed, all) = (operation.not_ready.len(), operation.not_ready_count as usize);
    let count = if listed < all { format!(" ({listed} of {all})") } else { String::new() };
    let mut lines = vec![String::new(), format!("not ready{count}")];
    lines.extend(operation.not_ready.iter().map(|one| {
        let poll = one.last_poll.map_or_else(String::new, |at| format!(" Last poll: {}.", format_time(at)));
        format!("  {} in {}: {}{poll}", one.machine, one.group, one.reason.describe())
    }));
    lines
}

/// The groups that lose machines.
fn describe_capacity(operation: &Operation) -> Vec<String> {
    if operation.capacity.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![String::new(), "capacity".to_owned()];
    lines.extend(operation.capacity.iter().map(|group| {
        let name = format!("{}/{}", group.resource_group, group.group);
        let below = if group.up_then < group.floor { ", below its floor" } else { "" };
        format!("  {name}: {} up now, {} up during the impact, floor {}{below}", group.up, group.up_then, group.floor)
    }));
    lines
}

fn describe_event(event: &Event) -> String {
    let hosts = if event.hosts.is_empty() { String::new() } else { format!("  on {}", event.hosts.join(", ")) };
    let approval = event.approval.as_ref().map_or(String::new(), |it| format!("  approved by {}", it.approved_by));
    let machines = join_few(&event.resources);
    format!("  {}  {}  {}  {machines}{hosts}{approval}", event.id, event.kind, status_word(event))
}
