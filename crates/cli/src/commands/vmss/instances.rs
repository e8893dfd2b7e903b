//! Selection of scale set instances, and operations on each of them.

use forewarn_api_types::nearest::find_nearest;
use forewarn_api_types::{ActionOptions, Machine};
use serde::Deserialize;
use serde_json::Value;

use crate::args::{NoWaitArgs, Output, ResourceName};
use crate::client::{self, Api, Call};
use crate::commands::show_operations;
use crate::commands::vm::{power_cell, yes_or_no};
use crate::decode::decode_all;
use crate::failure::Failure;
use crate::output::{self, Cell, TableRow};

fn fetch_all(api: &Api, set: &ResourceName) -> Result<Vec<Value>, Failure> {
    api.list(Call::api(&["scale-sets", &set.segment(), "instances"]))
}

pub fn list(api: &Api, set: &ResourceName, output: Output) -> Result<(), Failure> {
    output::print_list::<Instance>(&fetch_all(api, set)?, output)
}

/// A machine as an instance of its set.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
struct Instance(Machine);

impl TableRow for Instance {
    const HEADER: &'static [&'static str] =
        &["ID", "NAME", "POWER", "HANDLER", "UD", "ZONE", "LATEST", "PROTECTED", "NOTICE"];
    const EMPTY: &'static str = "There are no instances.";

    fn cells(&self) -> Vec<Cell> {
        let Instance(machine) = self;
        let notice = machine.terminate_notification.as_ref().map(|notice| notice.not_before_timeout.clone());
        vec![
            Cell::new(machine.instance_id.map_or(machine.name.clone(), |id| id.to_string())),
            Cell::new(&machine.name),
            power_cell(machine),
            Cell::new(yes_or_no(machine.handler_connected)),
            Cell::new(machine.update_domain.to_string()),
            Cell::new(machine.zone.clone().unwrap_or_default()),
            Cell::new(yes_or_no(machine.latest_model_applied.unwrap_or(true))),
            Cell::new(yes_or_no(machine.protected)),
            Cell::new(notice.unwrap_or_default()),
        ]
    }
}

/// The named instances; empty for all, as the API expects.
pub fn select_named(api: &Api, set: &ResourceName, ids: &[String]) -> Result<Vec<Machine>, Failure> {
    if ids.is_empty() || ids.iter().any(|id| id == "*") { Ok(Vec::new()) } else { select(api, set, ids) }
}

/// The instances named by ID, name or vmId; all if none or `*` is given.
pub fn select(api: &Api, set: &ResourceName, ids: &[String]) -> Result<Vec<Machine>, Failure> {
    let machines: Vec<Machine> = decode_all(&fetch_all(api, set)?)?;
    if ids.is_empty() || ids.iter().any(|id| id == "*") {
        return Ok(machines);
    }
    ids.iter().map(|id| pick(&machines, id, set)).collect()
}

fn pick(machines: &[Machine], id: &str, set: &ResourceName) -> Result<Machine, Failure> {
    let is_it = |machine: &&Machine| {
        machine.instance_id.is_some_and(|number| number.to_string() == id)
            || machine.name.eq_ignore_ascii_case(id)
            || machine.vm_id.to_string().eq_ignore_ascii_case(id)
    };
    machines.iter().find(is_it).cloned().ok_or_else(|| {
        let near = find_nearest(id, machines.iter().map(|machine| machine.name.as_str()));
        let hint = near.map_or("; list them with `forewarn vmss list-instances`".into(), |name| {
            format!("; did you mean '{name}'?")
        });
        Failure::Refused(output::escape(&format!("scale set '{}' has no instance '{id}'{hint}", set.name())))
    })
}

pub fn names(machines: &[Machine]) -> Vec<String> {
    machines.iter().map(|machine| machine.name.clone()).collect()
}

pub fn vm_ids(machines: &[Machine]) -> Vec<String> {
    machines.iter().map(|machine| machine.vm_id.to_string()).collect()
}

/// Starts one operation per instance. Stops at the first refusal and names the instances whose operations already started.
pub fn start_each(
    api: &Api,
    machines: &[Machine],
    action: &str,
    waiting: &NoWaitArgs,
    output: Output,
) -> Result<(), Failure> {
    let mut operations = Vec::new();
    for machine in machines {
        let call =
            Call::api(&["machines", &machine.vm_id.to_string(), action]).dry_run(waiting.dry_run).creates_events();
        match api.post(&call, &ActionOptions::default()) {
            Ok(operation) => operations.push(operation),
            Err(Failure::Refused(reason)) if waiting.dry_run => {
                return Err(Failure::Refused(output::escape(&format!("{}: {reason}", machine.name))));
            }
            Err(Failure::Refused(reason)) => return Err(describe_refusal(machines, operations.len(), &reason)),
            Err(failure) => return Err(failure),
        }
    }
    show_operations(api, &operations, waiting, output)
}

fn describe_refusal(machines: &[Machine], started: usize, reason: &str) -> Failure {
    let at = &machines[started].name;
    let before = match &machines[..started] {
        [] => String::new(),
        some => format!(" Already started, and continuing: {}", client::join_few(&names(some))),
    };
    Failure::Refused(output::escape(&format!("{at}: {reason}{before}")))
}
