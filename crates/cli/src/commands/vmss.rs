//! `forewarn vmss`: manages scale sets.

mod instances;

use forewarn_api_types::{
    DeleteInstances, InstanceSelection, ModelChange, NewScaleSet, Nullable, ScaleSet, ScaleSetChange, ScaleSetChanged,
    Upgrade, UpgradePolicy,
};
use forewarn_config::parse::Limit;
use serde_json::Value;

use super::bodies::{
    changed_details, changed_tags, event_id, name, policy, require_change, terminate_change, terminate_notification,
};
use super::group::{facts, has_handler};
use super::{deletion, filter_by_group, follow, single_line, vm};
use crate::args::NoWaitArgs;
use crate::args::{
    CreateSetArgs, DeletionArgs, InstanceOperationArgs, InstancePowerArgs, Output, ResourceName, UpdateSetArgs,
    VmssCommand,
};
use crate::client::{self, Api, Call};
use crate::decode::decode;
use crate::failure::Failure;
use crate::output::{self, Cell, TableRow};

pub fn run(api: &Api, command: &VmssCommand, output: Output) -> Result<(), Failure> {
    match command {
        VmssCommand::List(filter) => {
            output::print_list::<ScaleSet>(&filter_by_group(api.list(Call::api(&["scale-sets"]))?, filter), output)
        }
        VmssCommand::Show(set) => output::print_one(&api.get(&one(set))?, output, set_facts),
        VmssCommand::Create(args) => {
            let value = api.post(&Call::api(&["scale-sets"]), &new_set(args)?)?;
            output::print_one(&value, output, |set: &ScaleSet| single_line(describe_created(set)))
        }
        VmssCommand::Update(args) => update(api, args, output),
        VmssCommand::Scale { set, new_capacity, waiting } => scale(api, set, *new_capacity, waiting, output),
        VmssCommand::Delete { set, deletion } => deletion::run(api, one(set), deletion, output),
        VmssCommand::ListInstances(set) => instances::list(api, set, output),
        VmssCommand::UpdateInstances { set, instances } => upgrade(api, set, &instances.ids, output),
        VmssCommand::DeleteInstances { set, instances, deletion } => delete(api, set, &instances.ids, deletion, output),
        VmssCommand::Restart(some) => start_operation(api, some, "restart", output),
        VmssCommand::Redeploy(some) => start_operation(api, some, "redeploy", output),
        VmssCommand::PerformMaintenance(some) => start_operation(api, some, "perform-maintenance", output),
        VmssCommand::SimulateEviction { set, instances, waiting } => {
            let chosen = instances::select(api, set, &instances.ids)?;
            instances::start_each(api, &chosen, "evict", waiting, output)
        }
        VmssCommand::Start(some) => change_power(api, some, "start", output),
        VmssCommand::Stop(some) => change_power(api, some, "stop", output),
        VmssCommand::Deallocate(some) => change_power(api, some, "deallocate", output),
    }
}

fn one(set: &ResourceName) -> Call {
    Call::api(&["scale-sets", &set.segment()])
}

fn update(api: &Api, args: &UpdateSetArgs, output: Output) -> Result<(), Failure> {
    let changed: ChangedScaleSet = decode(&api.patch(&one(&args.set), &change(args)?)?)?;
    let words = |set: &ScaleSet| single_line(format!("Updated scale set {}{}", set.group.name, update_hint(set)));
    output::print_one(&changed.scale_set, output, words)
}

/// The parts of [`ScaleSetChanged`] as the server sent them, for programs.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChangedScaleSet {
    scale_set: Value,
    operation: Option<Value>,
}

/// Reminds users of sets with manual upgrades to update the instances.
fn update_hint(set: &ScaleSet) -> &'static str {
    match set.upgrade_mode {
        UpgradePolicy::Manual => "; run `forewarn vmss update-instances` to update its instances",
        UpgradePolicy::Automatic | UpgradePolicy::Rolling => "",
    }
}

fn scale(api: &Api, set: &ResourceName, capacity: u32, waiting: &NoWaitArgs, output: Output) -> Result<(), Failure> {
    let body = ScaleSetChange { capacity: Some(capacity), ..ScaleSetChange::default() };
    let value = api.patch(&one(set).dry_run(waiting.dry_run).creates_events(), &body)?;
    if waiting.dry_run {
        return deletion::print_dry_run(&value, output);
    }
    if output == Output::Table {
        output::print_line(&output::escape(&describe_scaling(&decode(&value)?)))?;
    }
    let changed: ChangedScaleSet = decode(&value)?;
    match &changed.operation {
        Some(operation) => follow(api, operation, &waiting.for_one(), output),
        None if output == Output::Table => Ok(()),
        None => output::print_one(&changed.scale_set, output, set_facts),
    }
}

fn describe_scaling(changed: &ScaleSetChanged) -> String {
    let part = |words: &str, names: &[String]| match names {
        [] => String::new(),
        names => format!("; {words} {}", client::join_few(names)),
    };
    format!(
        "Scaled {} to {}{}{}",
        changed.scale_set.group.name,
        changed.scale_set.capacity,
        part("created", &changed.added),
        part("deleting", &changed.removing)
    )
}

fn upgrade(api: &Api, set: &ResourceName, ids: &[String], output: Output) -> Result<(), Failure> {
    let chosen = instances::select_named(api, set, ids)?;
    let body = Upgrade { instances: instances::vm_ids(&chosen) };
    let value = api.post(&Call::api(&["scale-sets", &set.segment(), "upgrade"]), &body)?;
    let which = if chosen.is_empty() { "all instances".into() } else { client::join_few(&instances::names(&chosen)) };
    output::print_one(&value, output, |set: &ScaleSet| {
        single_line(format!("Updated {which} of {} to the latest model", set.group.name))
    })
}

fn delete(
    api: &Api,
    set: &ResourceName,
    ids: &[String],
    deletion: &DeletionArgs,
    output: Output,
) -> Result<(), Failure> {
    let chosen = instances::select(api, set, ids)?;
    let event_id = event_id(deletion.operation.event_id.as_ref())?;
    let body = DeleteInstances { instances: instances::vm_ids(&chosen), event_id };
    let call = Call::api(&["scale-sets", &set.segment(), "delete-instances"]).creates_events();
    let send = |dry: bool| api.post(&call.clone().dry_run(dry), &body);
    deletion::confirm_and_send(api, send, deletion, output)
}

/// Starts one operation with one event per instance.
fn start_operation(api: &Api, some: &InstanceOperationArgs, action: &str, output: Output) -> Result<(), Failure> {
    let InstanceOperationArgs { set, instances, waiting } = some;
    let instances = instances::vm_ids(&instances::select_named(api, set, &instances.ids)?);
    let body = InstanceSelection { instances, event_id: None };
    let call = Call::api(&["scale-sets", &set.segment(), action]).dry_run(waiting.dry_run).creates_events();
    follow(api, &api.post(&call, &body)?, &waiting.for_one(), output)
}

fn change_power(api: &Api, some: &InstancePowerArgs, action: &str, output: Output) -> Result<(), Failure> {
    let chosen = instances::select(api, &some.set, &some.instances.ids)?;
    chosen.iter().try_for_each(|machine| vm::set_power(api, &machine.vm_id.to_string(), action, output))
}

fn new_set(args: &CreateSetArgs) -> Result<NewScaleSet, Failure> {
    let (group, set) = args.set.parts();
    let notice = args.terminate_notification_time.as_deref().map(terminate_notification);
    Ok(NewScaleSet {
        resource_group: group.map(name),
        policy: policy(&args.policy),
        update_domains: args.update_domains,
        fault_domains: args.fault_domains,
        orchestration: Some(args.orchestration_mode),
        upgrade_mode: Some(args.upgrade_policy_mode),
        placement_group_max: match args.placement_group_max {
            Some(Limit::Of(most)) => Nullable::Value(most),
            Some(Limit::None) => Nullable::Null,
            None => Nullable::Absent,
        },
        zones: args.zones.iter().map(|zone| name(zone)).collect(),
        model: ModelChange {
            priority: args.priority,
            eviction_policy: args.eviction_policy,
            terminate_notification: notice.map_or(Nullable::Absent, Nullable::Value),
            details: changed_details(&args.details),
            tags: changed_tags(&args.details)?,
        },
        ..NewScaleSet::new(name(set), args.instance_count)
    })
}

fn change(args: &UpdateSetArgs) -> Result<ScaleSetChange, Failure> {
    let model = ModelChange {
        priority: args.priority,
        eviction_policy: args.eviction_policy,
        terminate_notification: terminate_change(&args.terminate)?,
        details: changed_details(&args.details),
        tags: changed_tags(&args.details)?,
    };
    let body = ScaleSetChange {
        capacity: None,
        upgrade_mode: args.upgrade_policy_mode,
        policy: policy(&args.policy),
        model: Some(model).filter(|model| !model.is_empty()),
    };
    require_change(body, "vmss update")
}

fn describe_created(set: &ScaleSet) -> String {
    let count = if set.capacity == 1 { "1 instance".into() } else { format!("{} instances", set.capacity) };
    format!("Created scale set {} with {count}", set.group.name)
}

fn notice(set: &ScaleSet) -> String {
    let notice = set.model.terminate_notification.as_ref();
    notice.map_or(String::new(), |notice| notice.not_before_timeout.clone())
}

fn set_facts(set: &ScaleSet) -> Vec<String> {
    let mut facts = facts(&set.group);
    let notice = Some(notice(set)).filter(|text| !text.is_empty());
    facts.extend([
        ("capacity", set.capacity.to_string()),
        ("orchestration", set.orchestration.to_string()),
        ("upgrade mode", set.upgrade_mode.to_string()),
        ("priority", set.model.priority.to_string()),
        ("deletion notice", notice.unwrap_or_else(|| "none".into())),
        ("model", format!("version {}", set.model_version)),
    ]);
    output::format_fields(&facts)
}

impl TableRow for ScaleSet {
    const HEADER: &'static [&'static str] =
        &["NAME", "GROUP", "CAPACITY", "COUNT", "HANDLER", "MODE", "UPGRADE", "PRIORITY", "NOTICE"];
    const EMPTY: &'static str = "There are no scale sets.";

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::new(&self.group.name),
            Cell::new(&self.group.resource_group),
            Cell::new(self.capacity.to_string()),
            Cell::new(self.group.machines.to_string()),
            Cell::new(vm::yes_or_no(has_handler(&self.group))),
            Cell::new(self.orchestration.as_str()),
            Cell::new(self.upgrade_mode.as_str()),
            Cell::new(self.model.priority.as_str()),
            Cell::new(notice(self)),
        ]
    }
}
