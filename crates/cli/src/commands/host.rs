//! `forewarn host`: manages and drains hosts.

use std::collections::BTreeMap;

use forewarn_api_types::{
    DrainPreview, EmptyBody, Host, HostChange, HostPhase, HostToken, NewDrain, Nullable, Number, Operation,
    ResourceName, Text, count_of,
};

use super::vm::fail;
use super::{deletion, host_import, single_line};
use crate::args::{DrainArgs, HostName, HostUpdateArgs, ManageHostCommand, Output};
use crate::client::{self, Api, Call};
use crate::decode::decode;
use crate::failure::Failure;
use crate::output::{self, Cell, Color, TableRow};

pub fn run(api: &Api, command: &ManageHostCommand, output: Output) -> Result<(), Failure> {
    match command {
        ManageHostCommand::List => output::print_list::<Host>(&api.list(Call::api(&["hosts"]))?, output),
        ManageHostCommand::Show(host) => {
            output::print_one(&api.get(&one(host))?, output, |host: &Host| output::format_fields(&facts(host)))
        }
        ManageHostCommand::Create(host) => {
            output::print_one(&api.put(&one(host), &EmptyBody {})?, output, |host: &Host| {
                single_line(format!("Created host {}", host.name))
            })
        }
        ManageHostCommand::Update(args) => {
            output::print_one(&api.patch(&one(&args.host), &change(args)?)?, output, |host: &Host| {
                output::format_fields(&facts(host))
            })
        }
        ManageHostCommand::Delete(host) => {
            api.delete(&one(host))?;
            output::print_stderr(&output::escape(&format!("Deleted host {}", host.name())));
            Ok(())
        }
        ManageHostCommand::Import(args) => host_import::run(api, args, output),
        ManageHostCommand::Drain(args) if args.dry_run => preview_drain(api, args, output),
        ManageHostCommand::Drain(args) => drain(api, args, output),
        ManageHostCommand::Undrain(host) | ManageHostCommand::Activate(host) => {
            output::print_one(&api.post(&verb(host, "activate"), &EmptyBody {})?, output, describe_activated)
        }
        ManageHostCommand::Token(host) => {
            output::print_one(&api.post(&verb(host, "token"), &EmptyBody {})?, output, describe_token)
        }
        ManageHostCommand::Fail { host, fenced: true, .. } => {
            output::print_one(&api.post(&verb(host, "fence"), &EmptyBody {})?, output, |host: &Host| {
                single_line(format!("Host {} is Failed; its machines are stopped", host.name))
            })
        }
        ManageHostCommand::Fail { host, fenced: false, failure } => {
            fail(api, &verb(host, "hardware-failure"), failure, output)
        }
    }
}

fn one(host: &HostName) -> Call {
    Call::api(&["hosts", host.name()])
}

fn verb(host: &HostName, verb: &str) -> Call {
    Call::api(&["hosts", host.name(), verb])
}

fn change(args: &HostUpdateArgs) -> Result<HostChange, Failure> {
    let invalid = |text: String| Failure::Usage(text);
    let labels = args.label.iter().map(|label| {
        let (key, value) =
            label.split_once('=').ok_or_else(|| invalid(format!("invalid label '{label}': use KEY=VALUE")))?;
        Ok((key.to_owned(), value.to_owned()))
    });
    let labels = labels.collect::<Result<BTreeMap<_, _>, Failure>>()?;
    let memory = match args.memory.as_deref() {
        None => Nullable::Absent,
        Some("none") => Nullable::Null,
        Some(text) => Nullable::Value(Number(
            text.parse().map_err(|_| invalid(format!("invalid memory '{text}': use a number of MiB, or 'none'")))?,
        )),
    };
    Ok(HostChange {
        pool: args
            .pool
            .clone()
            .map(ResourceName::new)
            .transpose()
            .map_err(|reason| invalid(format!("invalid pool: {reason}")))?,
        labels: if labels.is_empty() { None } else { Some(labels) },
        memory_mib: memory,
    })
}

fn new_drain(args: &DrainArgs) -> Result<NewDrain, Failure> {
    let pool = args.to.clone().map(ResourceName::new).transpose();
    Ok(NewDrain {
        to: pool.map_err(|reason| Failure::Usage(format!("invalid pool: {reason}")))?,
        parallel: args.parallel,
        max_unavailable: args.max_unavailable,
        notice_seconds: args.notice,
        wait_in_place: args.wait_in_place,
        description: args.description.clone().map(Text),
    })
}

fn drain(api: &Api, args: &DrainArgs, output: Output) -> Result<(), Failure> {
    let value = api.post(&verb(&args.host, "drain").creates_events(), &new_drain(args)?)?;
    let operation: Operation = decode(&value)?;
    if args.no_wait {
        return output::print_one(&value, output, |operation: &Operation| {
            single_line(format!("Draining host {}; operation {}", args.host.name(), operation.id))
        });
    }
    client::wait(api, operation.id, output)
}

fn preview_drain(api: &Api, args: &DrainArgs, output: Output) -> Result<(), Failure> {
    let value = api.post(&Call::api(&["hosts", args.host.name(), "drain", "preview"]), &new_drain(args)?)?;
    if matches!(output, Output::Json | Output::Yaml) {
        return output::print_value(&value, output);
    }
    let preview: DrainPreview = decode(&value)?;
    let rows = preview.machines.iter().map(|one| {
        let kind = one.event_type.map_or("cannot move", |kind| kind.as_str());
        let to = match (&one.to, &one.waits_for) {
            (Some(host), _) => host.clone(),
            (None, Some(wait)) => format!("waits for {wait}"),
            (None, None) => "stays in place".to_owned(),
        };
        let handler = if one.has_handler { "yes" } else { "no" };
        vec![Cell::new(&one.machine), Cell::new(kind), Cell::new(to), Cell::new(handler)]
    });
    output::print_table(
        &["MACHINE", "EVENT", "TO", "HANDLER"],
        &rows.collect::<Vec<_>>(),
        "The host has no machines.",
    )?;
    deletion::describe_owners(&preview.rollouts).try_for_each(|line| output::print_line(&line))
}

/// The token on a line of its own, so that it can be copied.
fn describe_token(token: &HostToken) -> Vec<String> {
    let use_it = format!("On host {}, before {}: forewarn host join URL --token TOKEN", token.host, token.expires);
    vec![output::escape(&token.token), output::escape(&use_it)]
}

fn describe_activated(host: &Host) -> Vec<String> {
    let left = match host.machine_count {
        0 => String::new(),
        count => format!(
            " with {}: {}",
            count_of(usize::try_from(count).unwrap_or(usize::MAX), "machine"),
            client::join_few(&host.machines)
        ),
    };
    single_line(format!("Host {} is {}{left}", host.name, host.state))
}

fn facts(host: &Host) -> Vec<(&'static str, String)> {
    let mut lines = vec![("name", host.name.clone()), ("state", describe_state(host)), ("pool", host.pool.clone())];
    lines.extend(host.fenced.as_ref().map(|fenced| ("fenced", format!("by {} at {}", fenced.by, fenced.at))));
    let labels: Vec<String> = host.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if !labels.is_empty() {
        lines.push(("labels", labels.join(", ")));
    }
    lines.extend(host.memory_mib.map(|total| ("memory", format!("{} of {total} MiB used", host.memory_used_mib))));
    lines.extend(host.waits_for.as_ref().map(|wait| ("waits for", wait.to_string())));
    lines.extend(host.drain.map(|id| ("drain", id.to_string())));
    lines.extend(host.rollout.map(|id| ("rollout", id.to_string())));
    lines.push(("machines", host.machines.join(", ")));
    lines
}

fn describe_state(host: &Host) -> String {
    match host.reachable {
        Some(false) => format!("{}, unreachable", host.state),
        Some(true) | None => host.state.to_string(),
    }
}

impl TableRow for Host {
    const HEADER: &'static [&'static str] = &["NAME", "STATE", "POOL", "COUNT", "MACHINES"];
    const EMPTY: &'static str = "There are no hosts.";

    fn cells(&self) -> Vec<Cell> {
        let state = match (self.state, self.reachable) {
            (HostPhase::Failed, _) | (_, Some(false)) => Cell::colored(describe_state(self), Color::Red),
            (HostPhase::Draining | HostPhase::Drained, _) => Cell::colored(describe_state(self), Color::Yellow),
            (HostPhase::Active | HostPhase::Unknown(_), _) => Cell::new(describe_state(self)),
        };
        let machines = client::join_few(&self.machines);
        vec![
            Cell::new(&self.name),
            state,
            Cell::new(&self.pool),
            Cell::new(self.machine_count.to_string()),
            Cell::new(machines),
        ]
    }
}

impl TableRow for HostToken {
    const HEADER: &'static [&'static str] = &["HOST", "TOKEN", "EXPIRES"];
    const EMPTY: &'static str = "There are no tokens.";

    fn cells(&self) -> Vec<Cell> {
        vec![Cell::new(&self.host), Cell::new(&self.token), Cell::new(self.expires.to_string())]
    }
}
