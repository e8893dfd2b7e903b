//! Metadata listeners: `127.0.0.1:8169,machine=web_1` on the command line, a table in the file.

use std::path::PathBuf;

use forewarn_loopback::METADATA;
use forewarn_server::{ListenAddress, MetadataListener};

use crate::error::ValueError;
use crate::parse;
use crate::raw::{Field, RawValue};

/// One listener per machine of a large host, with headroom; each is a socket and a task.
pub const LISTENERS_MAX: usize = 4096;

/// Limit of the kernel for the path of a Unix socket.
const UNIX_PATH_BYTES_MAX: usize = 107;

const ADDRESS: &str =
    "an address and a port, such as 127.0.0.1:8169 or [::1]:8169, or unix: and a path of at most 107 bytes";
const FIELDS: &str = "address, machine, network, prefix, host, group, mode";

pub fn parse_all(values: &[RawValue]) -> Result<Vec<MetadataListener>, ValueError> {
    if values.is_empty() || values.len() > LISTENERS_MAX {
        return Err(ValueError::expected(format!("a list of 1 to {LISTENERS_MAX} listeners")));
    }
    values.iter().map(parse).collect()
}

/// The listeners of a host agent.
pub fn parse_listeners(texts: &[String]) -> Result<Vec<MetadataListener>, String> {
    let parse =
        |text: &String| parse_text(text).map_err(|_| format!("invalid metadata listener '{text}': use {ADDRESS}"));
    texts.iter().map(parse).collect()
}

fn parse(value: &RawValue) -> Result<MetadataListener, ValueError> {
    match value {
        RawValue::Text(text) => parse_text(text),
        RawValue::Table(fields) => parse_table(fields),
    }
}

fn parse_text(text: &str) -> Result<MetadataListener, ValueError> {
    let mut parts = text.split(',');
    let mut listener = MetadataListener::new(address(parts.next().unwrap_or_default())?);
    for part in parts {
        let expected = "an address followed by any of ,machine=NAME ,network=NAME ,prefix=on|off ,host=NAME, or for Unix sockets ,group=NAME ,mode=0660";
        let (name, value) = part.split_once('=').filter(|(name, _)| *name != "address").ok_or(expected)?;
        put(&mut listener, name, value)?.ok_or(expected)?;
    }
    Ok(listener)
}

fn parse_table(fields: &[Field]) -> Result<MetadataListener, ValueError> {
    let address_field = fields.iter().find(|field| field.name == "address");
    let address_field = address_field.ok_or_else(|| ValueError::expected("tables with an address"))?;
    let in_field = |field: &Field, fault: ValueError| fault.in_field(&field.name, &field.text, field.line);
    let mut listener =
        MetadataListener::new(address(&address_field.text).map_err(|fault| in_field(address_field, fault))?);
    for field in fields.iter().filter(|field| field.name != "address") {
        put(&mut listener, &field.name, &field.text)
            .map_err(|fault| in_field(field, fault))?
            .ok_or_else(|| ValueError::unknown(&field.name, FIELDS, field.line))?;
    }
    Ok(listener)
}

/// The listener that `link_local` adds.
pub fn link_local() -> MetadataListener {
    MetadataListener::new(ListenAddress::Tcp((METADATA, 80).into()))
}

/// Returns None if there is no such field.
fn put(listener: &mut MetadataListener, name: &str, value: &str) -> Result<Option<()>, ValueError> {
    match name {
        "machine" => listener.machine = Some(parse::name(value)?),
        "network" => listener.network = parse::name(value)?,
        "prefix" => listener.prefix = Some(parse::yes_or_no(value)?),
        "host" => listener.hosts.push(parse::name(value)?),
        "group" if is_unix(listener) => listener.group = Some(parse::name(value)?),
        "mode" if is_unix(listener) => listener.mode = Some(mode(value)?),
        _ => return Ok(None),
    }
    Ok(Some(()))
}

fn is_unix(listener: &MetadataListener) -> bool {
    matches!(listener.address, ListenAddress::Unix(_))
}

/// Permissions of a socket in octal.
fn mode(text: &str) -> Result<u32, ValueError> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| ValueError::expected("permissions in octal, such as 0660"))
}

fn address(text: &str) -> Result<ListenAddress, ValueError> {
    match text.strip_prefix("unix:") {
        Some(path) if path.is_empty() || path.len() > UNIX_PATH_BYTES_MAX => Err(ValueError::expected(ADDRESS)),
        Some(path) => Ok(ListenAddress::Unix(PathBuf::from(path))),
        None => parse::socket(text).map(ListenAddress::Tcp).map_err(|_| ValueError::expected(ADDRESS)),
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
    if let Some(host) = listener.hosts.first() {
        table.insert("host".into(), host.clone().into());
    }
    if let Some(group) = &listener.group {
        table.insert("group".into(), group.clone().into());
    }
    if let Some(mode) = listener.mode {
        table.insert("mode".into(), format!("{mode:04o}").into());
    }
    table.into()
}

pub fn address_text(address: &ListenAddress) -> String {
    match address {
        ListenAddress::Tcp(address) => address.to_string(),
        ListenAddress::Unix(path) => format!("unix:{}", path.display()),
    }
}
