//! `forewarn host import`: registers the domains of this host's libvirtd as machines.

use forewarn_api_types::Machine;
use forewarn_server::{DomainDescription, read_domains};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::args::{ImportArgs, Output};
use crate::client::{Api, Call};
use crate::decode::decode;
use crate::failure::Failure;
use crate::output::{self, Cell, TableRow};

/// A domain, and whether it is a machine.
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
    let domains = read_domains(&args.libvirt_socket).map_err(|error| Failure::Unreachable(format!("{error:#}")))?;
    let machines = api.list(Call::api(&["machines"]))?.iter().map(decode).collect::<Result<Vec<Machine>, _>>()?;
    let is_known = |vm_id: &str| machines.iter().any(|machine| machine.vm_id.to_string().eq_ignore_ascii_case(vm_id));
    let mut rows = Vec::new();
    for domain in domains {
        if selector.as_ref().is_some_and(|(key, value)| !domain.has_label(key, value)) {
            continue;
        }
        let mut row = describe(&domain);
        if is_known(&row.vm_id) {
            row.state = "managed".into();
        } else if args.adopt {
            api.post(&Call::api(&["machines"]), &adopt(&row, args.host.name()))?;
            row.state = "adopted".into();
        }
        rows.push(json!(row));
    }
    output::print_list::<DomainRow>(&rows, output)
}

fn describe(domain: &DomainDescription) -> DomainRow {
    DomainRow {
        name: domain.name.clone(),
        vm_id: domain.vm_id.to_string(),
        power: if domain.is_active { "Running" } else { "Stopped" }.into(),
        memory_mib: domain.memory_mib,
        macs: domain.macs.clone(),
        addresses: domain.addresses.iter().map(ToString::to_string).collect(),
        state: "found".into(),
    }
}

/// The request that registers a domain. The driver sets its power state.
fn adopt(row: &DomainRow, host: &str) -> Value {
    let addresses: Vec<Value> = row.addresses.iter().map(|ip| json!({"ip": ip})).collect();
    // Instance metadata shows MAC addresses without colons.
    let details = row.macs.first().map_or(json!({}), |mac| json!({"mac": mac.replace(':', "").to_uppercase()}));
    json!({
        "name": row.name,
        "vmId": row.vm_id,
        "host": host,
        "memoryMib": row.memory_mib,
        "addresses": addresses,
        "details": details,
    })
}
