//! Names and IDs from the server, as candidates for the arguments that take them.

use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::Arg;
use forewarn_api_types::Page;
use forewarn_connect::Contexts;
use serde_json::Value;

use super::Candidate;
use crate::args::{Connection, Output};
use crate::client::{Api, Call};
use crate::connect::connect;
use crate::decode::decode;
use crate::failure::Failure;

/// How long a shell waits for candidates: a person has pressed a key.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// The most entries of a list that are offered. A longer list is of no use on a screen.
const ENTRIES_MAX: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// The names of the entries of this list, each with its resource group if it has one.
    Names(&'static str),
    /// The IDs of the entries of this list.
    Ids(&'static str),
    /// Availability sets, cloud services and scale sets.
    Groups,
    ResourceGroups,
    Contexts,
}

/// Lists that are always sent whole.
const UNPAGED: [&str; 3] = ["webhooks", "faults", "scenarios"];

const SETS: [&str; 3] = ["availability-sets", "cloud-services", "scale-sets"];

/// The connection options that were typed.
#[derive(Clone, Debug, Default)]
pub struct TypedWords {
    server: Option<String>,
    data: Option<String>,
    token: Option<String>,
}

impl TypedWords {
    pub fn note(&mut self, arg: &Arg, value: &str) {
        let slot = match arg.get_id().as_str() {
            "server" => &mut self.server,
            "data" => &mut self.data,
            "token" => &mut self.token,
            _ => return,
        };
        *slot = Some(value.to_owned());
    }

    /// With the same variables as in a complete command line.
    fn connection(&self) -> Connection {
        let or_variable = |typed: &Option<String>, name: &str| typed.clone().or_else(|| std::env::var(name).ok());
        Connection {
            server: or_variable(&self.server, "FOREWARN_SERVER"),
            data: or_variable(&self.data, "FOREWARN_DATA").map(PathBuf::from),
            token: or_variable(&self.token, "FOREWARN_TOKEN"),
            output: Output::Json,
        }
    }
}

/// The values of an argument of the command `path`; None if they are not known to a server.
pub fn kind_of(path: &[&str], arg: &Arg) -> Option<ValueKind> {
    let (&noun, verb) = (path.first()?, path.get(1).copied().unwrap_or_default());
    // These have a server of their own.
    if matches!(noun, "run" | "check" | "serve") {
        return None;
    }
    match arg.get_id().as_str() {
        "vm" | "machines" => Some(ValueKind::Names("machines")),
        "host" => Some(ValueKind::Names("hosts")),
        "group" | "set" => Some(ValueKind::Groups),
        "availability_set" => Some(ValueKind::Names("availability-sets")),
        "vmss" => Some(ValueKind::Names("scale-sets")),
        "cloud_service" => Some(ValueKind::Names("cloud-services")),
        "resource_group" | "resource_groups" => Some(ValueKind::ResourceGroups),
        "event" => Some(ValueKind::Ids("events")),
        "operation" => Some(ValueKind::Ids("operations")),
        "rollout" => Some(ValueKind::Ids("rollouts")),
        "scenario" => Some(ValueKind::Names("scenarios")),
        "positional" | "name" if verb != "create" => name_kind(noun),
        "id" | "ids" => id_kind(noun),
        _ => None,
    }
}

/// The kind of a command's own name.
fn name_kind(noun: &str) -> Option<ValueKind> {
    match noun {
        "vm" => Some(ValueKind::Names("machines")),
        "vmss" => Some(ValueKind::Names("scale-sets")),
        "availability-set" => Some(ValueKind::Names("availability-sets")),
        "cloud-service" => Some(ValueKind::Names("cloud-services")),
        "host" => Some(ValueKind::Names("hosts")),
        "webhook" => Some(ValueKind::Names("webhooks")),
        "scenario" => Some(ValueKind::Names("scenarios")),
        "context" => Some(ValueKind::Contexts),
        _ => None,
    }
}

fn id_kind(noun: &str) -> Option<ValueKind> {
    match noun {
        "events" => Some(ValueKind::Ids("events")),
        "operation" => Some(ValueKind::Ids("operations")),
        "rollout" => Some(ValueKind::Ids("rollouts")),
        "fault" => Some(ValueKind::Ids("faults")),
        _ => None,
    }
}

/// Fetches the values, or none if that fails or takes too long.
pub fn fetch(kind: ValueKind, typed: &TypedWords, word: &str) -> Vec<Candidate> {
    if kind == ValueKind::Contexts {
        return contexts();
    }
    let (connection, word) = (typed.connection(), word.to_owned());
    let (sender, receiver) = mpsc::channel();
    // Ends with the program, which does not wait for a server that hangs.
    thread::spawn(move || {
        let found = connect(&connection).and_then(|api| candidates(&api, kind, &word));
        let _ = sender.send(found.unwrap_or_default());
    });
    receiver.recv_timeout(WAIT_MAX).unwrap_or_default()
}

fn contexts() -> Vec<Candidate> {
    let contexts = Contexts::load().map(|contexts| contexts.contexts).unwrap_or_default();
    contexts.into_iter().map(|context| Candidate::new(context.name, context.server)).collect()
}

fn candidates(api: &Api, kind: ValueKind, word: &str) -> Result<Vec<Candidate>, Failure> {
    let list = |path: &str| match UNPAGED.contains(&path) {
        true => decode::<Page<Value>>(&api.get(&Call::api(&[path]))?).map(|page| page.value),
        false => api.list_some(Call::api(&[path]), ENTRIES_MAX),
    };
    Ok(match kind {
        ValueKind::Names(path) => names(&list(path)?, word),
        ValueKind::Ids(path) => list(path)?.iter().filter_map(id).collect(),
        ValueKind::Groups => {
            let lists: Vec<_> = SETS.into_iter().map(list).collect::<Result<_, _>>()?;
            names(&lists.concat(), word)
        }
        ValueKind::ResourceGroups => {
            let mut groups: Vec<_> = list("machines")?.iter().map(|entry| text(entry, "resourceGroup")).collect();
            groups.sort();
            groups.dedup();
            groups.into_iter().map(|group| Candidate::new(group, "")).collect()
        }
        ValueKind::Contexts => contexts(),
    })
}

/// Names; with their resource groups if a `/` was typed, or if the name alone is ambiguous.
fn names(entries: &[Value], word: &str) -> Vec<Candidate> {
    let is_unique = |name: &str| entries.iter().filter(|entry| text(entry, "name") == name).count() == 1;
    let candidate = |entry: &Value| {
        let (name, group) = (text(entry, "name"), text(entry, "resourceGroup"));
        match group.is_empty() || !word.contains('/') && is_unique(&name) {
            true => Candidate::new(name, describe(entry)),
            false => Candidate::new(format!("{group}/{name}"), describe(entry)),
        }
    };
    entries.iter().take(ENTRIES_MAX).map(candidate).collect()
}

fn id(entry: &Value) -> Option<Candidate> {
    let id = entry.get("id")?;
    let id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
    Some(Candidate::new(id, describe(entry)))
}

/// The few words that distinguish entries: type, state, machines.
fn describe(entry: &Value) -> String {
    let machines = entry.get("machines").and_then(Value::as_array);
    let first = machines.and_then(|machines| machines.first()).map(|machine| match machine {
        Value::String(name) => name.clone(),
        other => text(other, "name"),
    });
    let words = ["type", "kind", "status", "state", "power"].map(|key| text(entry, key));
    let shown: Vec<_> = words.into_iter().chain(first).filter(|word| !word.is_empty()).collect();
    shown.join(" ").replace(char::is_control, " ")
}

fn text(entry: &Value, key: &str) -> String {
    entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}
