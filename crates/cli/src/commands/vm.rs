//! `forewarn vm`: manages machines.

use forewarn_api_types::{
    ActionOptions, Address, EmptyBody, FailureOptions, Machine, MachineChange, MachineMemory, MachinePriority,
    NETWORK_DEFAULT, NewMachine, Nullable, PowerState,
};

use super::bodies::{
    addresses, changed_details, changed_tags, details, event_id, name, name_or_null, policy, read, require_change,
    tags, terminate_change, terminate_notification,
};
use super::{deletion, follow, single_line};
use crate::args::{CreateVmArgs, FailureArgs, Output, ResourceName, UpdateVmArgs, VmCommand, VmOperationArgs};
use crate::client::{Api, Call};
use crate::failure::Failure;
use crate::output::{self, Cell, Color, TableRow};

pub fn run(api: &Api, command: &VmCommand, output: Output) -> Result<(), Failure> {
    match command {
        VmCommand::List(within) => {
            let call = Call::api(&["machines"]).with("group", within.resource_group.as_ref());
            output::print_list::<Machine>(&api.list(call)?, output)
        }
        VmCommand::Show(vm) => output::print_one(&api.get(&machine(vm))?, output, facts),
        VmCommand::Create(args) => {
            let value = api.post(&Call::api(&["machines"]), &new_machine(args)?)?;
            output::print_one(&value, output, |machine| single_line(describe_created(machine)))
        }
        VmCommand::Update(args) => {
            let value = api.patch(&machine(&args.vm), &change(args)?)?;
            output::print_one(&value, output, |machine: &Machine| {
                single_line(format!("Updated machine {}", machine.name))
            })
        }
        VmCommand::Identity(command) => super::identity::run(api, command, output),
        VmCommand::Requests(args) => super::requests::run(api, args, output),
        VmCommand::Restart(vm) => start_operation(api, vm, "restart", output),
        VmCommand::Redeploy(vm) => start_operation(api, vm, "redeploy", output),
        VmCommand::PerformMaintenance(vm) => start_operation(api, vm, "perform-maintenance", output),
        VmCommand::SimulateEviction(vm) => start_operation(api, vm, "evict", output),
        VmCommand::SimulateRebalance(vm) => start_operation(api, vm, "recommend-rebalance", output),
        VmCommand::Fail(vm) => {
            fail(api, &Call::api(&["machines", &vm.vm.segment(), "hardware-failure"]), &vm.failure, output)
        }
        VmCommand::Delete { vm, deletion } => deletion::run(api, machine(vm), deletion, output),
        VmCommand::Start(vm) => set_power(api, &vm.segment(), "start", output),
        VmCommand::Stop { vm, deallocate: false } => set_power(api, &vm.segment(), "stop", output),
        VmCommand::Stop { vm, deallocate: true } | VmCommand::Deallocate(vm) => {
            set_power(api, &vm.segment(), "deallocate", output)
        }
    }
}

/// Simulates a hardware failure of a machine or a host.
pub fn fail(api: &Api, call: &Call, failure: &FailureArgs, output: Output) -> Result<(), Failure> {
    let event_id = event_id(failure.operation.event_id.as_ref())?;
    let body = FailureOptions { kind: Some(failure.kind), event_id };
    let call = call.clone().dry_run(failure.operation.dry_run).creates_events();
    follow(api, &api.post(&call, &body)?, &failure.operation, output)
}

/// Changes the power state of a machine.
pub fn set_power(api: &Api, segment: &str, action: &str, output: Output) -> Result<(), Failure> {
    let value = api.post(&Call::api(&["machines", segment, action]), &EmptyBody {})?;
    let words = |machine: &Machine| {
        let state = match &machine.power_change {
            Some(change) => change.describe(),
            None => machine.power.as_str().to_lowercase(),
        };
        single_line(format!("{} is {state}", machine.name))
    };
    output::print_one(&value, output, words)
}

fn machine(vm: &ResourceName) -> Call {
    Call::api(&["machines", &vm.segment()])
}

fn start_operation(api: &Api, vm: &VmOperationArgs, action: &str, output: Output) -> Result<(), Failure> {
    let body = ActionOptions { event_id: event_id(vm.operation.event_id.as_ref())? };
    let call = Call::api(&["machines", &vm.vm.segment(), action]).dry_run(vm.operation.dry_run).creates_events();
    let operation = api.post(&call, &body)?;
    follow(api, &operation, &vm.operation, output)
}

impl TableRow for Machine {
    const HEADER: &'static [&'static str] =
        &["NAME", "GROUP", "SET", "POWER", "HANDLER", "UD", "HOST", "ADDRESSES", "VM ID"];
    const EMPTY: &'static str = "There are no machines.";

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::new(&self.name),
            Cell::new(self.group()),
            Cell::new(self.set().unwrap_or_default()),
            power_cell(self),
            Cell::new(yes_or_no(self.handler_connected)),
            Cell::new(self.update_domain.to_string()),
            Cell::new(self.host.clone().unwrap_or_default()),
            Cell::new(address_text(self)),
            Cell::new(self.vm_id.to_string()),
        ]
    }
}

pub fn power_cell(machine: &Machine) -> Cell {
    let color = if machine.power == PowerState::Running { Color::Green } else { Color::Gray };
    Cell::colored(power_text(machine), color)
}

fn power_text(machine: &Machine) -> String {
    let change = machine.power_change.as_ref().map_or(String::new(), |change| format!(", {}", change.as_str()));
    format!("{}{change}{}", machine.power, spot_text(machine))
}

fn spot_text(machine: &Machine) -> &'static str {
    if machine.priority == MachinePriority::Spot { ", Spot" } else { "" }
}

fn address_text(machine: &Machine) -> String {
    let text = |address: &Address| match address.network.0.as_str() {
        NETWORK_DEFAULT => address.ip.to_string(),
        network => format!("{network}={}", address.ip),
    };
    machine.addresses.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn describe_created(machine: &Machine) -> String {
    let addresses = address_text(machine);
    let at = if addresses.is_empty() { String::new() } else { format!(" at {addresses}") };
    format!("Created machine {}{at}", machine.name)
}

fn facts(machine: &Machine) -> Vec<String> {
    let mut facts = vec![
        ("name", machine.name.clone()),
        ("vm id", machine.vm_id.to_string()),
        ("resource group", machine.resource_group.clone()),
    ];
    facts.extend(machine.availability_set.clone().map(|name| ("availability set", name)));
    facts.extend(machine.cloud_service.clone().map(|name| ("cloud service", name)));
    facts.extend(machine.scale_set.clone().map(|name| ("scale set", name)));
    facts.extend(machine.latest_model_applied.map(|latest| ("latest model", yes_or_no(latest))));
    facts.extend([
        ("power", format!("{}{}", machine.describe_power(), spot_text(machine))),
        ("handler", if machine.handler_connected { "connected" } else { "not connected" }.into()),
        ("domains", format!("update {}, fault {}", machine.update_domain, machine.fault_domain)),
    ]);
    facts.extend(machine.zone.clone().map(|zone| ("zone", zone)));
    facts.extend(machine.host.clone().map(|host| ("host", host)));
    facts.extend(Some(("addresses", address_text(machine))).filter(|(_, text)| !text.is_empty()));
    let notice = machine.terminate_notification.as_ref().map(|notice| notice.not_before_timeout.clone());
    facts.push(("deletion notice", notice.unwrap_or_else(|| "none".into())));
    if machine.protected {
        facts.push(("protected", "from scale-in".into()));
    }
    facts.extend(machine.details.fields().into_iter().filter_map(|(name, text)| Some((name, text?.to_string()))));
    facts.extend(machine.tags.0.iter().map(|(name, text)| ("tag", format!("{name}={text}"))));
    output::format_fields(&facts)
}

pub fn yes_or_no(yes: bool) -> String {
    if yes { "yes".into() } else { "no".into() }
}

fn new_machine(args: &CreateVmArgs) -> Result<NewMachine, Failure> {
    let (group, machine) = args.vm.parts();
    let placement = &args.placement;
    let named = |text: &Option<String>| text.as_deref().filter(|text| !text.is_empty()).map(name);
    let seconds = args.terminate_notice.map(|seconds| format!("PT{seconds}S"));
    let notice = args.terminate_notification_time.as_ref().or(seconds.as_ref());
    Ok(NewMachine {
        vm_id: args.vm_id.as_deref().map(read).transpose()?,
        addresses: addresses(&placement.addresses, placement.no_address)?,
        resource_group: group.map(name),
        availability_set: args.availability_set.clone(),
        scale_set: args.vmss.clone(),
        cloud_service: args.cloud_service.clone(),
        host: named(&placement.host),
        update_domain: placement.update_domain,
        fault_domain: placement.fault_domain,
        zone: named(&placement.zone),
        memory_mib: placement.memory.map(MachineMemory),
        live_migratable: placement.live_migration,
        priority: if args.spot { Some(MachinePriority::Spot) } else { args.priority },
        eviction_policy: args.eviction_policy,
        terminate_notification: notice.map(|text| terminate_notification(text)),
        policy: policy(&args.policy),
        details: details(&args.details),
        tags: tags(&args.details)?,
        ..NewMachine::named(name(machine))
    })
}

fn change(args: &UpdateVmArgs) -> Result<MachineChange, Failure> {
    let placement = &args.placement;
    let body = MachineChange {
        host: name_or_null(placement.host.as_ref()),
        update_domain: placement.update_domain,
        fault_domain: placement.fault_domain,
        zone: name_or_null(placement.zone.as_ref()),
        addresses: addresses(&placement.addresses, placement.no_address)?,
        protected: args.protect_from_scale_in,
        memory_mib: placement.memory.map(MachineMemory),
        live_migratable: placement.live_migration,
        terminate_notification: terminate_change(&args.terminate)?,
        policy: policy(&args.policy).map_or(Nullable::Absent, Nullable::Value),
        details: changed_details(&args.details),
        tags: changed_tags(&args.details)?,
    };
    require_change(body, "vm update")
}
