//! `forewarn vm`: machines, and what is done to one of them.

use serde_json::{Value, json};

use super::{follow, list_json, machine_segment, object};
use crate::args::{OneVm, Output, RegisterArgs, VmCommand};
use crate::client::{self, Api, Call, Machine};
use crate::failure::Failure;
use crate::output::{self, Cell, Colour};

pub fn run(api: &Api, command: &VmCommand, output: Output) -> Result<(), Failure> {
    match command {
        VmCommand::List => list(api, output),
        VmCommand::Register(args) => registered(&api.post(&Call::to(&["machines"]), &new_machine(args)?)?, output),
        VmCommand::Requests(args) => super::requests::run(api, args, output),
        VmCommand::Restart(vm) => ask(api, vm, "restart", output),
        VmCommand::Redeploy(vm) => ask(api, vm, "redeploy", output),
        VmCommand::Evict(vm) => ask(api, vm, "evict", output),
        VmCommand::Delete(vm) => delete(api, vm, output),
        VmCommand::Start { name } => power(api, name, "start", output),
        VmCommand::Stop { name, deallocate: false } => power(api, name, "stop", output),
        VmCommand::Stop { name, deallocate: true } => power(api, name, "deallocate", output),
    }
}

fn list(api: &Api, output: Output) -> Result<(), Failure> {
    let values = api.list(Call::to(&["machines"]))?;
    if output == Output::Json {
        return output::json(&list_json(values));
    }
    let machines: Vec<Machine> = client::read_all(&values)?;
    let rows: Vec<Vec<Cell>> = machines.iter().map(row).collect();
    let head = ["NAME", "GROUP", "POWER", "LISTENS", "DOMAIN", "HOST", "ADDRESSES", "VM ID"];
    output::table(&head, &rows, "There are no machines.")
}

fn row(machine: &Machine) -> Vec<Cell> {
    let group = machine.availability_set.as_ref().or(machine.cloud_service.as_ref()).or(machine.scale_set.as_ref());
    let power_colour = if machine.power == "Running" { Colour::Green } else { Colour::Grey };
    let spot = if machine.priority == "Spot" { ", Spot" } else { "" };
    vec![
        Cell::new(&machine.name),
        Cell::new(group.unwrap_or(&machine.resource_group)),
        Cell::coloured(format!("{}{spot}", machine.power), power_colour),
        Cell::new(if machine.listening { "yes" } else { "no" }),
        Cell::new(machine.update_domain.to_string()),
        Cell::new(machine.host.clone().unwrap_or_default()),
        Cell::new(addresses(machine)),
        Cell::new(&machine.vm_id),
    ]
}

fn addresses(machine: &Machine) -> String {
    let text = |address: &client::Address| match address.network.as_str() {
        "default" => address.ip.clone(),
        network => format!("{network}={}", address.ip),
    };
    machine.addresses.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn registered(value: &Value, output: Output) -> Result<(), Failure> {
    if output == Output::Json {
        return output::json(value);
    }
    let machine: Machine = client::read(value)?;
    let addresses = addresses(&machine);
    let at = if addresses.is_empty() { String::new() } else { format!(" at {addresses}") };
    output::line(&output::tame(&format!("{} is registered{at}.", machine.name)))
}

fn ask(api: &Api, vm: &OneVm, action: &str, output: Output) -> Result<(), Failure> {
    let body = object(&[("eventId", json!(vm.asking.event_id))]);
    let operation = api.post(&Call::to(&["machines", &machine_segment(&vm.name), action]), &body)?;
    follow(api, &operation, &vm.asking, output)
}

fn delete(api: &Api, vm: &OneVm, output: Output) -> Result<(), Failure> {
    let call = Call::to(&["machines", &machine_segment(&vm.name)]).with("eventId", vm.asking.event_id.as_ref());
    follow(api, &api.delete(&call)?, &vm.asking, output)
}

fn power(api: &Api, name: &str, action: &str, output: Output) -> Result<(), Failure> {
    let value = api.post(&Call::to(&["machines", &machine_segment(name), action]), &json!({}))?;
    if output == Output::Json {
        return output::json(&value);
    }
    let machine: Machine = client::read(&value)?;
    output::line(&output::tame(&format!("{} is {}.", machine.name, machine.power.to_lowercase())))
}

fn new_machine(args: &RegisterArgs) -> Result<Value, Failure> {
    let given: Vec<Value> = args.addresses.iter().map(|text| address(text)).collect();
    let addresses = if given.is_empty() && !args.no_address { Value::Null } else { json!(given) };
    Ok(object(&[
        ("name", json!(args.name)),
        ("addresses", addresses),
        ("resourceGroup", json!(args.resource_group)),
        ("availabilitySet", json!(args.availability_set)),
        ("cloudService", json!(args.cloud_service)),
        ("host", json!(args.host)),
        ("updateDomain", json!(args.update_domain)),
        ("faultDomain", json!(args.fault_domain)),
        ("zone", json!(args.zone)),
        ("priority", json!(args.spot.then_some("Spot"))),
        ("terminateNotification", json!(args.terminate_notice.map(terminate_notification))),
        ("tags", tags(&args.tags)?),
    ]))
}

/// `10.0.0.4`, or `tenant-a=10.0.0.4`.
fn address(text: &str) -> Value {
    match text.split_once('=') {
        Some((network, ip)) => json!({ "network": network, "ip": ip }),
        None => json!({ "ip": text }),
    }
}

/// The API wants ISO 8601 here.
fn terminate_notification(seconds: u64) -> Value {
    json!({ "notBeforeTimeout": format!("PT{seconds}S") })
}

fn tags(texts: &[String]) -> Result<Value, Failure> {
    if texts.is_empty() {
        return Ok(Value::Null);
    }
    let pair = |text: &String| {
        let (name, value) = text.split_once('=')?;
        Some((name.to_owned(), json!(value)))
    };
    let pairs: Option<serde_json::Map<String, Value>> = texts.iter().map(pair).collect();
    pairs.map(Value::Object).ok_or_else(|| Failure::Usage("A tag is written --tag NAME=VALUE.".into()))
}
