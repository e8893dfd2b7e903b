//! `forewarn availability-set` and `forewarn cloud-service`: manages groups of machines.

use forewarn_api_types::{Group, NewGroup, PolicyChange};
use serde_json::Value;

use super::bodies::{name, policy, require_change};
use super::vm::yes_or_no;
use super::{deletion, filter_by_group, single_line};
use crate::args::{CreateGroupArgs, GroupCommand, Output};
use crate::client::{Api, Call};
use crate::failure::Failure;
use crate::output::{self, Cell, TableRow};

#[derive(Clone, Copy)]
pub enum GroupKind {
    AvailabilitySet,
    CloudService,
}

impl GroupKind {
    fn path(self) -> &'static str {
        match self {
            GroupKind::AvailabilitySet => "availability-sets",
            GroupKind::CloudService => "cloud-services",
        }
    }

    fn update_command(self) -> &'static str {
        match self {
            GroupKind::AvailabilitySet => "availability-set update",
            GroupKind::CloudService => "cloud-service update",
        }
    }

    fn noun(self) -> &'static str {
        match self {
            GroupKind::AvailabilitySet => "availability set",
            GroupKind::CloudService => "cloud service",
        }
    }
}

pub fn run(api: &Api, kind: GroupKind, command: &GroupCommand, output: Output) -> Result<(), Failure> {
    match command {
        GroupCommand::List(filter) => {
            let values = filter_by_group(api.list(Call::api(&[kind.path()]))?, filter);
            if values.is_empty() && output == Output::Table {
                return output::print_line(&format!("There are no {}s.", kind.noun()));
            }
            output::print_list::<Group>(&values, output)
        }
        GroupCommand::Show(group) => {
            output::print_one(&api.get(&Call::api(&[kind.path(), &group.segment()]))?, output, |group: &Group| {
                output::format_fields(&facts(group))
            })
        }
        GroupCommand::Create(args) => {
            print_change(&api.post(&Call::api(&[kind.path()]), &body(args))?, kind, "Created", output)
        }
        GroupCommand::Update { group, policy: given } => {
            let body = require_change(PolicyChange { policy: policy(given) }, kind.update_command())?;
            print_change(&api.patch(&Call::api(&[kind.path(), &group.segment()]), &body)?, kind, "Updated", output)
        }
        GroupCommand::Delete { group, with_machines, deletion } => {
            let call = Call::api(&[kind.path(), &group.segment()]).with("withMachines", with_machines.then_some(true));
            deletion::run(api, call, deletion, output)
        }
    }
}

fn print_change(value: &Value, kind: GroupKind, done: &str, output: Output) -> Result<(), Failure> {
    let words = |group: &Group| single_line(format!("{done} {} {}", kind.noun(), group.name));
    output::print_one(value, output, words)
}

fn body(args: &CreateGroupArgs) -> NewGroup {
    let (resource_group, group) = args.group.parts();
    NewGroup {
        name: name(group),
        subscription: None,
        resource_group: resource_group.map(name),
        policy: policy(&args.policy),
        update_domains: args.update_domains,
        fault_domains: args.fault_domains,
    }
}

/// Fields that sets and services have in common.
pub fn facts(group: &Group) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("name", group.name.clone()),
        ("resource group", group.resource_group.clone()),
        ("machines", group.machines.to_string()),
        ("handler", if has_handler(group) { "connected" } else { "not connected" }.into()),
        ("domains", format!("{} update, {} fault", group.update_domains, group.fault_domains)),
        ("auto-approved", describe_policy(group)),
    ];
    if group.deleting {
        facts.push(("state", "being deleted".into()));
    }
    facts
}

pub fn has_handler(group: &Group) -> bool {
    group.event_groups.iter().any(|scope| scope.handler_connected)
}

fn describe_policy(group: &Group) -> String {
    let words = [
        (group.policy.approve_user_reboot, "user restarts"),
        (group.policy.approve_user_redeploy, "user redeployments"),
        (group.policy.approve_all_instances_down, "all events while every machine is down"),
    ];
    let approved: Vec<&str> = words.into_iter().filter(|(on, _)| *on).map(|(_, word)| word).collect();
    if approved.is_empty() { "none".into() } else { approved.join(", ") }
}

impl TableRow for Group {
    const HEADER: &'static [&'static str] =
        &["NAME", "RESOURCE GROUP", "MACHINES", "HANDLER", "UPDATE DOMAINS", "FAULT DOMAINS"];
    const EMPTY: &'static str = "There are no groups.";

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::new(&self.name),
            Cell::new(&self.resource_group),
            Cell::new(self.machines.to_string()),
            Cell::new(yes_or_no(has_handler(self))),
            Cell::new(self.update_domains.to_string()),
            Cell::new(self.fault_domains.to_string()),
        ]
    }
}
