//! The part of the region that one host needs: its machines, their event groups and what these show. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use forewarn_api_types::host_link::{RecordKey, RecordLine, StreamLine};
use forewarn_core::{Contact, Entity, Host, Key, Machine, MachineTransfer, Name, Region, RegionMeta, ScopeId};
use forewarn_store::record;

/// The entities of a host, by key.
pub type HostEntities = BTreeMap<Key, Entity>;

/// The part of a host, without data that changes with every command and data that only the rules need.
pub fn select_entities(region: &Region, host: &Name) -> HostEntities {
    let mut part = HostEntities::new();
    let mut put = |entity: Entity| part.insert(entity.key(), entity);
    let Some(found) = region.host(host) else { return part };
    // The epoch travels with the orders: an agent of an earlier version could not read it here.
    put(Entity::Host(Arc::new(Host { contact: Contact::None, epoch: 0, ..(**found).clone() })));
    let meta = region.meta();
    put(Entity::Meta(RegionMeta {
        downtime_ms: meta.downtime_ms,
        resumed: meta.resumed,
        term: meta.term,
        ..RegionMeta::default()
    }));
    let mut scopes: Vec<ScopeId> = Vec::new();
    // A machine that has moved runs on its new host before that host has reported it.
    let arriving = region.machines_in_transfer().filter(|machine| machine.arriving() == Some(host));
    let here = region.machines_on(host).chain(arriving).filter(|machine| machine.placed_on() == Some(host));
    for machine in here {
        put(Entity::Machine(without_power_change(machine)));
        let group = machine.membership.group().and_then(|id| region.group(id));
        group.map(|group| put(Entity::Group(group.clone())));
        // The switch of a placement group is that of the first one.
        scopes.extend([machine.scope, region.events_state_owner(machine.scope)]);
    }
    scopes.sort();
    scopes.dedup();
    for scope in scopes.into_iter().filter_map(|id| region.scope(id)) {
        put(Entity::Scope(scope.clone()));
        region.document(scope.id).for_each(|event| drop(put(Entity::Event(event.clone()))));
    }
    part
}

/// A machine as its host agent needs it. Requested power states reach the agent as orders.
fn without_power_change(machine: &Arc<Machine>) -> Arc<Machine> {
    if machine.power_change().is_none() {
        return machine.clone();
    }
    let transfer = machine.transfer.as_deref().cloned().unwrap_or_default();
    let transfer = MachineTransfer { power_change: None, ..transfer };
    let transfer = (transfer != MachineTransfer::default()).then(|| Box::new(transfer));
    Arc::new(Machine { transfer, ..(**machine).clone() })
}

/// The line with a whole part.
pub fn encode_full_copy(revision: u64, part: &HostEntities) -> StreamLine {
    StreamLine::Copy { revision, put: part.values().map(to_line).collect() }
}

/// The line with the difference between two parts; None if they are equal.
pub fn difference(revision: u64, before: &HostEntities, after: &HostEntities) -> Option<StreamLine> {
    let put: Vec<_> = after
        .iter()
        .filter(|(key, entity)| before.get(key) != Some(entity))
        .map(|(_, entity)| to_line(entity))
        .collect();
    let delete: Vec<_> = before.keys().filter(|key| !after.contains_key(key)).map(to_key).collect();
    (!put.is_empty() || !delete.is_empty()).then_some(StreamLine::Change { revision, put, delete })
}

fn to_line(entity: &Entity) -> RecordLine {
    let record::Record { kind, key, version, body } = record::encode(entity);
    RecordLine { kind: kind.to_owned(), key, version, body }
}

fn to_key(key: &Key) -> RecordKey {
    let (kind, key) = record::name_of(key);
    RecordKey { kind: kind.to_owned(), key }
}
