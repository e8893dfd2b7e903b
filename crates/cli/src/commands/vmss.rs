//! `forewarn vmss`: manages scale sets.

mod instances;

use serde_json::{Value, json};

use super::bodies::{details, object, policy, require_change, tags, terminate_change, terminate_notification};
use super::group::{facts, has_handler};
use super::{filter_by_group, follow, single_line, vm};
use crate::args::NoWaitArgs;
use crate::args::{
    CreateSetArgs, InstanceOperationArgs, InstancePowerArgs, OperationArgs, Output, ResourceName, UpdateSetArgs,
    VmssCommand,
};
use crate::client::{self, Api, Call, ScaleSet, ScaleSetChanged};
use crate::decode::decode;
use crate::failure::Failure;
use crate::output::{self, Cell, TableRow};
use crate::parse::Limit;

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
        VmssCommand::Delete { set, operation } => {
            let call = one(set).with("eventId", operation.event_id.as_ref());
            follow(api, &api.delete(&call)?, operation, output)
        }
        VmssCommand::ListInstances(set) => instances::list(api, set, output),
        VmssCommand::UpdateInstances { set, instances } => upgrade(api, set, &instances.ids, output),
        VmssCommand::DeleteInstances { set, instances, operation } => {
            delete(api, set, &instances.ids, operation, output)
        }
        VmssCommand::Restart(some) => start_operation(api, some, "restart", output),
        VmssCommand::Redeploy(some) => start_operation(api, some, "redeploy", output),
        VmssCommand::PerformMaintenance(some) => start_operation(api, some, "perform-maintenance", output),
        VmssCommand::SimulateEviction { set, instances, waiting } => {
            let chosen = instances::select(api, set, &instances.ids)?;
            instances::start_each(api, &chosen, "evict", waiting, output)
        }
        VmssCommand::Start(some) => switch_each(api, some, "start", output),
        VmssCommand::Stop(some) => switch_each(api, some, "stop", output),
        VmssCommand::Deallocate(some) => switch_each(api, some, "deallocate", output),
    }
}

fn one(set: &ResourceName) -> Call {
    Call::api(&["scale-sets", &set.segment()])
}

fn update(api: &Api, args: &UpdateSetArgs, output: Output) -> Result<(), Failure> {
    let changed: ScaleSetChanged = decode(&api.patch(&one(&args.set), &change(args)?)?)?;
    let words = |set: &ScaleSet| single_line(format!("Updated scale set {}{}", set.group.name, update_hint(set)));
    output::print_one(&changed.scale_set, output, words)
}

/// Reminds users of sets with manual upgrades to update the instances.
fn update_hint(set: &ScaleSet) -> &'static str {
    match set.upgrade_mode.as_str() {
        "Manual" => "; run `forewarn vmss update-instances` to update its instances",
        _ => "",
    }
}

fn scale(api: &Api, set: &ResourceName, capacity: u32, waiting: &NoWaitArgs, output: Output) -> Result<(), Failure> {
    let value = api.patch(&one(set), &json!({ "capacity": capacity }))?;
    let changed: ScaleSetChanged = decode(&value)?;
    if output == Output::Table {
        output::print_line(&output::escape(&describe_scaling(&changed)?))?;
    }
    match &changed.operation {
        Some(operation) => follow(api, operation, &OperationArgs { event_id: None, no_wait: waiting.no_wait }, output),
        None if output == Output::Table => Ok(()),
        None => output::print_one(&changed.scale_set, output, set_facts),
    }
}

fn describe_scaling(changed: &ScaleSetChanged) -> Result<String, Failure> {
    let set: ScaleSet = decode(&changed.scale_set)?;
    let part = |words: &str, names: &[String]| match names {
        [] => String::new(),
        names => format!("; {words} {}", client::join_few(names)),
    };
    let name = &set.group.name;
    Ok(format!(
        "Scaled {name} to {}{}{}",
        set.capacity,
        part("created", &changed.added),
        part("deleting", &changed.removing)
    ))
}

fn upgrade(api: &Api, set: &ResourceName, ids: &[String], output: Output) -> Result<(), Failure> {
    let chosen = instances::select_named(api, set, ids)?;
    let body = json!({ "instances": instances::vm_ids(&chosen) });
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
    operation: &OperationArgs,
    output: Output,
) -> Result<(), Failure> {
    let chosen = instances::select(api, set, ids)?;
    let ids = instances::vm_ids(&chosen);
    let body = object(&[("instances", json!(ids)), ("eventId", json!(operation.event_id))]);
    let call = Call::api(&["scale-sets", &set.segment(), "delete-instances"]);
    follow(api, &api.post(&call, &body)?, operation, output)
}

/// Starts one operation with one event per instance.
fn start_operation(api: &Api, some: &InstanceOperationArgs, action: &str, output: Output) -> Result<(), Failure> {
    let InstanceOperationArgs { set, instances, waiting } = some;
    let body = json!({ "instances": instances::vm_ids(&instances::select_named(api, set, &instances.ids)?) });
    let operation = api.post(&Call::api(&["scale-sets", &set.segment(), action]), &body)?;
    follow(api, &operation, &OperationArgs { event_id: None, no_wait: waiting.no_wait }, output)
}

fn switch_each(api: &Api, some: &InstancePowerArgs, action: &str, output: Output) -> Result<(), Failure> {
    let chosen = instances::select(api, &some.set, &some.instances.ids)?;
    chosen.iter().try_for_each(|machine| vm::set_power(api, &machine.vm_id, action, output))
}

fn new_set(args: &CreateSetArgs) -> Result<Value, Failure> {
    let (group, name) = args.set.parts();
    let notice = args.terminate_notification_time.as_deref().map(terminate_notification);
    let model = object(&[
        ("priority", json!(args.priority.map(|priority| format!("{priority:?}")))),
        ("evictionPolicy", json!(args.eviction_policy.map(|policy| format!("{policy:?}")))),
        ("terminateNotification", json!(notice)),
        ("details", details(&args.details)),
        ("tags", tags(&args.details)?),
    ]);
    let mut body = object(&[
        ("name", json!(name)),
        ("resourceGroup", json!(group)),
        ("capacity", json!(args.instance_count)),
        ("orchestration", json!(format!("{:?}", args.orchestration_mode))),
        ("upgradeMode", json!(format!("{:?}", args.upgrade_policy_mode))),
        ("zones", json!(args.zones)),
        ("updateDomains", json!(args.update_domains)),
        ("faultDomains", json!(args.fault_domains)),
        ("policy", policy(&args.policy)),
        ("model", model),
    ]);
    match args.placement_group_max {
        Some(Limit::Of(most)) => body["placementGroupMax"] = json!(most),
        Some(Limit::None) => body["placementGroupMax"] = Value::Null,
        None => {}
    }
    Ok(body)
}

fn change(args: &UpdateSetArgs) -> Result<Value, Failure> {
    let mut model = object(&[
        ("priority", json!(args.priority.map(|priority| format!("{priority:?}")))),
        ("evictionPolicy", json!(args.eviction_policy.map(|policy| format!("{policy:?}")))),
        ("details", details(&args.details)),
        ("tags", tags(&args.details)?),
    ]);
    if let Some(terminate) = terminate_change(&args.terminate)? {
        model["terminateNotification"] = terminate;
    }
    let changed = model.as_object().is_some_and(|fields| !fields.is_empty());
    let body = object(&[
        ("upgradeMode", json!(args.upgrade_policy_mode.map(|mode| format!("{mode:?}")))),
        ("policy", policy(&args.policy)),
        ("model", if changed { model } else { Value::Null }),
    ]);
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
        ("orchestration", set.orchestration.clone()),
        ("upgrade mode", set.upgrade_mode.clone()),
        ("priority", set.model.priority.clone()),
        ("deletion notice", notice.unwrap_or_else(|| "none".into())),
        ("model", format!("version {}", set.model_version)),
    ]);
    output::format_fields(&facts)
}

impl TableRow for ScaleSet {
    const HEADER: &'static [&'static str] =
        &["NAME", "RESOURCE GROUP", "CAPACITY", "INSTANCES", "MODE", "UPGRADE", "PRIORITY", "NOTICE", "LISTENS"];
    const EMPTY: &'static str = "There are no scale sets.";

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::new(&self.group.name),
            Cell::new(&self.group.resource_group),
            Cell::new(self.capacity.to_string()),
            Cell::new(self.group.machines.to_string()),
            Cell::new(&self.orchestration),
            Cell::new(&self.upgrade_mode),
            Cell::new(&self.model.priority),
            Cell::new(notice(self)),
            Cell::new(vm::yes_or_no(has_handler(&self.group))),
        ]
    }
}
