//! Metadata listeners: `127.0.0.1:8169,machine=web_1` on the command line, a table in the file.

use std::path::PathBuf;

use forewarn_server::{ListenAddress, MetadataListener};

use super::choices::Fault;
use super::typed::{Field, Typed};
use crate::network::METADATA;
use crate::words;

/// One for each machine of a large host, and room; each is a socket and a task.
pub const LISTENERS_MAX: usize = 4096;

/// What the kernel keeps of a Unix socket's path.
const UNIX_PATH_BYTES_MAX: usize = 107;

const ADDRESS: &str =
    "an address and a port, such as 127.0.0.1:8169 or [::1]:8169, or unix: and a path of at most 107 bytes";
const FIELDS: &str = "address, machine, network, prefix";

pub fn parse_all(values: &[Typed]) -> Result<Vec<MetadataListener>, Fault> {
    if values.is_empty() || values.len() > LISTENERS_MAX {
        return Err(Fault::must(format!("a list of 1 to {LISTENERS_MAX} listeners")));
    }
    values.iter().map(parse).collect()
}

fn parse(value: &Typed) -> Result<MetadataListener, Fault> {
    match value {
        Typed::Text(text) => parse_text(text),
        Typed::Table(fields) => parse_table(fields),
    }
}

fn parse_text(text: &str) -> Result<MetadataListener, Fault> {
    let mut parts = text.split(',');
    let mut listener = at(address(parts.next().unwrap_or_default())?);
    for part in parts {
        let must = "an address followed by any of ,machine=NAME ,network=NAME ,prefix=on|off";
        let (name, value) = part.split_once('=').filter(|(name, _)| *name != "address").ok_or(must)?;
        put(&mut listener, name, value)?.ok_or(must)?;
    }
    Ok(listener)
}

fn parse_table(fields: &[Field]) -> Result<MetadataListener, Fault> {
    let address_field = fields.iter().find(|field| field.name == "address");
    let address_field = address_field.ok_or_else(|| Fault::must("tables that have an address"))?;
    let in_field = |field: &Field, fault: Fault| fault.in_field(&field.name, &field.text, field.line);
    let mut listener = at(address(&address_field.text).map_err(|fault| in_field(address_field, fault))?);
    for field in fields.iter().filter(|field| field.name != "address") {
        put(&mut listener, &field.name, &field.text)
            .map_err(|fault| in_field(field, fault))?
            .ok_or_else(|| Fault::unknown(&field.name, FIELDS, field.line))?;
    }
    Ok(listener)
}

/// What `link_local` adds.
pub fn link_local() -> MetadataListener {
    at(ListenAddress::Tcp((METADATA, 80).into()))
}

fn at(address: ListenAddress) -> MetadataListener {
    MetadataListener { address, machine: None, network: "default".into(), prefix: None }
}

/// None when there is nothing of that name.
fn put(listener: &mut MetadataListener, name: &str, value: &str) -> Result<Option<()>, Fault> {
    match name {
        "machine" => listener.machine = Some(words::name(value)?),
        "network" => listener.network = words::name(value)?,
        "prefix" => listener.prefix = Some(words::yes_or_no(value)?),
        _ => return Ok(None),
    }
    Ok(Some(()))
}

fn address(text: &str) -> Result<ListenAddress, Fault> {
    match text.strip_prefix("unix:") {
        Some(path) if path.is_empty() || path.len() > UNIX_PATH_BYTES_MAX => Err(Fault::must(ADDRESS)),
        Some(path) => Ok(ListenAddress::Unix(PathBuf::from(path))),
        None => text.parse().map(ListenAddress::Tcp).map_err(|_| Fault::must(ADDRESS)),
    }
}

pub fn show(listener: &MetadataListener) -> toml::Value {
    let mut table = toml::Table::new();
    table.insert("address".into(), address_text(&listener.address).into());
    if let Some(machine) = &listener.machine {
        table.insert("machine".into(), machine.clone().into());
    }
    table.insert("network".into(), listener.network.clone().into());
    if let Some(prefix) = listener.prefix {
        table.insert("prefix".into(), prefix.into());
    }
    table.into()
}

pub fn address_text(address: &ListenAddress) -> String {
    match address {
        ListenAddress::Tcp(address) => address.to_string(),
        ListenAddress::Unix(path) => format!("unix:{}", path.display()),
    }
}
