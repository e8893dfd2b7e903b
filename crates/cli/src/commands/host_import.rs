//! `forewarn host import`: registers the domains of a host as machines. The host's agent reports them; without one, they are read
//! from the libvirtd of this computer. The machines of the QEMU driver are read from its file.

use std::path::Path;

use forewarn_api_types::{
    Address, Details, Host, HostDomain, Id, Ip, Machine, MachineMemory, NETWORK_DEFAULT, NewMachine, Page,
    ResourceName, Text, parse_guid,
};
use forewarn_host::{LIBVIRT_SOCKET, to_host_domain};
use forewarn_server::{QemuMachine, is_listening, read_domains, read_qemu_machines};
use serde::{Deserialize, Serialize};

use crate::args::{ImportArgs, Output};
use crate::client::{Api, Call};
use crate::decode::decode;
use crate::failure::Failure;
use crate::output::{self, ApiValue, Cell, TableRow};

/// A domain, and whether it is a machine; or a machine without a domain.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DomainRow {
    name: String,
    vm_id: String,
    power: String,
    memory_mib: u64,
    macs: Vec<String>,
    addresses: Vec<String>,
    state: String,
}

impl TableRow for DomainRow {
    const HEADER: &'static [&'static str] = &["NAME", "VM ID", "POWER", "MEMORY", "ADDRESSES", "STATE"];
    const EMPTY: &'static str = "The host has no domains.";

    fn cells(&self) -> Vec<Cell> {
        let memory = self.memory_mib.to_string();
        let addresses = self.addresses.join(", ");
        [&self.name, &self.vm_id, &self.power, &memory, &addresses, &self.state].map(Cell::new).into()
    }
}

pub fn run(api: &Api, args: &ImportArgs, output: Output) -> Result<(), Failure> {
    let parse = |text: &str| -> Result<(String, String), Failure> {
        let (key, value) =
            text.split_once('=').ok_or_else(|| Failure::Usage(format!("invalid selector '{text}': use KEY=VALUE")))?;
        Ok((key.to_owned(), value.to_owned()))
    };
    let selector = args.selector.as_deref().map(parse).transpose()?;
    let FoundDomains { domains, is_empty } = find(api, args, selector.as_ref())?;
    let machines = api.list(Call::api(&["machines"]))?.iter().map(decode).collect::<Result<Vec<Machine>, _>>()?;
    let is_known = |vm_id: &str| machines.iter().any(|machine| machine.vm_id.to_string().eq_ignore_ascii_case(vm_id));
    let mut missing = Vec::new();
    if selector.is_none() {
        missing = find_missing(&machines, args.host.name(), &domains);
    }
    let mut rows = Vec::new();
    for mut row in domains {
        if is_known(&row.vm_id) {
            row.state = "managed".into();
        } else if args.adopt {
            api.post(&Call::api(&["machines"]), &adopt(&row, args.host.name())?)?;
            row.state = "adopted".into();
        }
        rows.push(output::to_value(&row));
    }
    rows.extend(missing.iter().map(output::to_value));
    let nothing = match &args.selector {
        Some(selector) if !is_empty => format!("No domain of the host has the label '{selector}'."),
        Some(_) | None => DomainRow::EMPTY.to_owned(),
    };
    output::print_answer(ApiValue::Many(&rows), output, |rows: &[DomainRow]| {
        output::print_table(DomainRow::HEADER, &rows.iter().map(DomainRow::cells).collect::<Vec<_>>(), &nothing)
    })
}

/// The domains to import.
struct FoundDomains {
    domains: Vec<DomainRow>,
    /// Whether the host has no domains at all, selected or not.
    is_empty: bool,
}

/// The machines of a host that have no domain on it.
fn find_missing(machines: &[Machine], host: &str, domains: &[DomainRow]) -> Vec<DomainRow> {
    let is_here = |machine: &&Machine| machine.host.as_deref() == Some(host);
    let is_found = |machine: &&Machine| {
        let vm_id = machine.vm_id.to_string();
        domains.iter().any(|domain| domain.vm_id.eq_ignore_ascii_case(&vm_id))
    };
    let missing = machines.iter().filter(is_here).filter(|machine| !is_found(machine));
    missing.map(describe_missing).collect()
}

fn describe_missing(machine: &Machine) -> DomainRow {
    DomainRow {
        name: machine.name.clone(),
        vm_id: machine.vm_id.to_string(),
        power: machine.power.to_string(),
        memory_mib: machine.memory_mib,
        macs: Vec::new(),
        addresses: machine.addresses.iter().map(|address| address.ip.to_string()).collect(),
        state: "missing".into(),
    }
}

/// The machines of the QEMU driver's file, or the selected domains of the host.
fn find(api: &Api, args: &ImportArgs, selector: Option<&(String, String)>) -> Result<FoundDomains, Failure> {
    if let Some(file) = &args.driver_machines {
        let machines = read_qemu_machines(file).map_err(|error| Failure::Usage(format!("{error:#}")))?;
        return Ok(FoundDomains {
            domains: machines.iter().map(describe_qemu).collect(),
            is_empty: machines.is_empty(),
        });
    }
    let domains = list_domains(api, args)?;
    let is_selected = |domain: &&HostDomain| selector.is_none_or(|(key, value)| domain.labels.get(key) == Some(value));
    let is_empty = domains.is_empty();
    Ok(FoundDomains { domains: domains.iter().filter(is_selected).map(describe).collect(), is_empty })
}

/// The domains that the host's agent has reported, or those of the libvirtd of this computer.
fn list_domains(api: &Api, args: &ImportArgs) -> Result<Vec<HostDomain>, Failure> {
    let host = args.host.name();
    let socket = match &args.libvirt_socket {
        Some(socket) => socket.as_path(),
        None if has_agent(api, host)? => {
            let reported = api.get(&Call::api(&["hosts", host, "domains"]))?;
            return decode::<Page<HostDomain>>(&reported).map(|page| page.value);
        }
        None => Path::new(LIBVIRT_SOCKET),
    };
    let domains = read_domains(socket).map_err(|error| Failure::Unreachable(format!("{error:#}")))?;
    Ok(domains.iter().map(to_host_domain).collect())
}

fn has_agent(api: &Api, host: &str) -> Result<bool, Failure> {
    let hosts = api.list(Call::api(&["hosts"]))?;
    let hosts = hosts.iter().map(decode).collect::<Result<Vec<Host>, _>>()?;
    Ok(hosts.iter().any(|known| known.name == host && known.reachable.is_some()))
}

fn describe_qemu(machine: &QemuMachine) -> DomainRow {
    DomainRow {
        name: machine.name.clone(),
        vm_id: machine.vm_id.to_string(),
        power: if is_listening(machine) { "Running" } else { "Stopped" }.into(),
        memory_mib: machine.memory_mib,
        macs: machine.mac.iter().cloned().collect(),
        addresses: machine.addresses.iter().map(ToString::to_string).collect(),
        state: "found".into(),
    }
}

fn describe(domain: &HostDomain) -> DomainRow {
    DomainRow {
        name: domain.name.clone(),
        vm_id: domain.vm_id.clone(),
        power: if domain.active { "Running" } else { "Stopped" }.into(),
        memory_mib: domain.memory_mib,
        macs: domain.macs.clone(),
        addresses: domain.addresses.clone(),
        state: "found".into(),
    }
}

/// The request that registers a domain. The driver sets its power state.
fn adopt(row: &DomainRow, host: &str) -> Result<NewMachine, Failure> {
    let invalid = |what: &str| Failure::Refused(format!("cannot adopt '{}': invalid {what}", row.name));
    let addresses = row.addresses.iter().map(|text| {
        let ip = text.parse().map_err(|_| invalid(&format!("address '{text}'")))?;
        Ok(Address { network: ResourceName(NETWORK_DEFAULT.to_owned()), ip: Ip(ip) })
    });
    // Instance metadata shows MAC addresses without colons.
    let mac = row.macs.first().map(|mac| Text(mac.replace(':', "").to_uppercase()));
    Ok(NewMachine {
        vm_id: Some(Id(parse_guid(&row.vm_id).map_err(|_| invalid(&format!("UUID '{}'", row.vm_id)))?)),
        host: Some(ResourceName(host.to_owned())),
        memory_mib: Some(MachineMemory(u32::try_from(row.memory_mib).map_err(|_| invalid("memory size"))?)),
        addresses: Some(addresses.collect::<Result<_, Failure>>()?),
        details: Details { mac, ..Details::default() },
        ..NewMachine::named(ResourceName(row.name.clone()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adopted_domain_keeps_its_first_mac_address() {
        let domain = |macs: &[&str]| DomainRow {
            name: "web".into(),
            vm_id: "5c4e4f50-0000-4000-8000-000000000001".into(),
            power: "Running".into(),
            memory_mib: 128,
            macs: macs.iter().map(ToString::to_string).collect(),
            addresses: Vec::new(),
            state: "found".into(),
        };
        let adopted = adopt(&domain(&["52:54:00:ab:34:56", "52:54:00:ab:34:57"]), "host1").unwrap();
        assert_eq!(adopted.details.mac, Some(Text("525400AB3456".into())));
        assert_eq!(adopt(&domain(&[]), "host1").unwrap().details, Details::default());
    }
}
