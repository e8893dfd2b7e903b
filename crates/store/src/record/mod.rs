//! Records: the stored form of entities, with a kind, a key, a version and a JSON body, the same in every store
//! and in archives. Core types are not serializable. They are converted here by hand, so that a change in the
//! core never silently changes the stored format.
//!
//! A record omits data that can be derived: the ID, which is its key, and the live events of a scope. A body
//! with an unknown field, word or version is an error; a record is never read partially.

mod converted;
mod event;
mod group;
mod host;
mod intern;
mod machine;
mod operation;
mod rollout;
mod tag;

use std::sync::Arc;

use forewarn_core::*;
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::text::parse_guid;
use event::EventBody;
use group::{GroupBody, ScopeBody};
use host::HostBody;
pub use intern::Interner;
use machine::MachineBody;
use operation::OperationBody;
pub(crate) use operation::RequestBody;
use rollout::RolloutBody;
pub(crate) use rollout::{stores_failed_machines, stores_targets};
pub(crate) use tag::Tagged;

/// The version in which records are written.
pub const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub kind: &'static str,
    pub key: String,
    pub version: u32,
    pub body: String,
}

/// Kind and key of an entity in the store.
pub fn name_of(key: &Key) -> (&'static str, String) {
    match key {
        Key::Meta => (META, META_KEY.to_string()),
        Key::Host(name) => (HOST, name.to_string()),
        Key::Group(id) => (GROUP, id.0.to_string()),
        Key::Scope(id) => (SCOPE, id.0.to_string()),
        Key::Machine(id) => (MACHINE, id.0.to_string()),
        Key::Event(id) => (EVENT, id.to_string()),
        Key::Operation(id) => (OPERATION, id.to_string()),
        Key::Rollout(id) => (ROLLOUT, id.to_string()),
    }
}

/// The entity with this kind and key. None: there is no such kind, or the key is invalid.
pub fn key_of(kind: &str, key: &str) -> Option<Key> {
    let key = match kind {
        META if key == META_KEY => Key::Meta,
        HOST => Key::Host(key.into()),
        GROUP => Key::Group(GroupId(number(key).ok()?)),
        SCOPE => Key::Scope(ScopeId(number(key).ok()?)),
        MACHINE => Key::Machine(MachineId(number(key).ok()?)),
        EVENT => Key::Event(guid(key).ok()?),
        OPERATION => Key::Operation(guid(key).ok()?),
        ROLLOUT => Key::Rollout(guid(key).ok()?),
        _ => return None,
    };
    Some(key)
}

pub fn encode(entity: &Entity) -> Record {
    let (kind, key) = name_of(&entity.key());
    let body = match entity {
        Entity::Meta(meta) => json(&MetaBody::from(meta)),
        Entity::Host(host) => json(&HostBody::from(&**host)),
        Entity::Group(group) => json(&GroupBody::from(&**group)),
        Entity::Scope(scope) => json(&ScopeBody::from(&**scope)),
        Entity::Machine(machine) => json(&MachineBody::from(&**machine)),
        Entity::Event(event) => json(&EventBody::from(&**event)),
        Entity::Operation(operation) => json(&OperationBody::from(&**operation)),
        Entity::Rollout(rollout) => json(&RolloutBody::from(&**rollout)),
    };
    Record { kind, key, version: VERSION, body }
}

/// Decodes a record. `interner` shares equal names; use one for a whole region.
pub fn decode(kind: &str, key: &str, version: u32, body: &str, interner: &mut Interner) -> Result<Entity, StoreError> {
    if version != VERSION {
        return Err(StoreError::Message(format!(
            "the record {kind} '{key}' has version {version}, but this program reads version {VERSION}. \
             Use the version of Forewarn that wrote it."
        )));
    }
    decode_v1(kind, key, body, interner).map_err(|reason| unreadable(kind, key, &reason))
}

/// Decodes the rollout that an operation stored before format 7 contains. None: the record contains none.
pub fn decode_rollout(
    kind: &str,
    key: &str,
    body: &str,
    interner: &mut Interner,
) -> Result<Option<Entity>, StoreError> {
    if kind != OPERATION || !body.contains("\"rollout\":{") {
        return Ok(None);
    }
    let rollout = parse::<OperationBody<'_>>(body).and_then(|body| Ok(body.into_rollout(guid(key)?, interner)));
    rollout
        .map(|rollout| rollout.map(|rollout| Entity::Rollout(Arc::new(rollout))))
        .map_err(|reason| unreadable(kind, key, &reason))
}

fn unreadable(kind: &str, key: &str, reason: &str) -> StoreError {
    StoreError::Message(format!(
        "the record {kind} '{key}' cannot be read: {reason}. \
         Restore the data from a backup, or use the version of Forewarn that wrote it."
    ))
}

const META: &str = "meta";
const META_KEY: &str = "region";
const HOST: &str = "host";
const GROUP: &str = "group";
const SCOPE: &str = "scope";
const MACHINE: &str = "machine";
const EVENT: &str = "event";
const OPERATION: &str = "operation";
const ROLLOUT: &str = "rollout";

fn decode_v1(kind: &str, key: &str, body: &str, interner: &mut Interner) -> Result<Entity, String> {
    Ok(match kind {
        META if key == META_KEY => Entity::Meta(parse::<MetaBody>(body)?.into()),
        META => return Err("the only key of this kind is 'region'".into()),
        HOST => {
            let name = interner.name(key.into());
            Entity::Host(Arc::new(parse::<HostBody<'_>>(body)?.into_host(name, interner)))
        }
        GROUP => {
            let id = GroupId(number(key)?);
            Entity::Group(Arc::new(parse::<GroupBody<'_>>(body)?.into_group(id, interner)))
        }
        SCOPE => Entity::Scope(Arc::new(parse::<ScopeBody>(body)?.into_scope(ScopeId(number(key)?)))),
        MACHINE => {
            let id = MachineId(number(key)?);
            Entity::Machine(Arc::new(parse::<MachineBody<'_>>(body)?.into_machine(id, interner)))
        }
        EVENT => Entity::Event(Arc::new(parse::<EventBody<'_>>(body)?.into_event(guid(key)?, interner))),
        OPERATION => {
            Entity::Operation(Arc::new(parse::<OperationBody<'_>>(body)?.into_operation(guid(key)?, interner)))
        }
        ROLLOUT => Entity::Rollout(Arc::new(parse::<RolloutBody<'_>>(body)?.into_rollout(guid(key)?, interner))),
        _ => return Err("its kind is unknown".into()),
    })
}

fn json(body: &impl Serialize) -> String {
    serde_json::to_string(body).expect("bodies have string keys only and do not fail")
}

fn parse<'a, T: Deserialize<'a>>(body: &'a str) -> Result<T, String> {
    serde_json::from_str(body).map_err(|error| error.to_string())
}

/// Accepts only the canonical form, so that no two keys name the same entity.
fn number(key: &str) -> Result<u64, String> {
    key.parse::<u64>().ok().filter(|number| number.to_string() == key).ok_or_else(|| "its key is not a number".into())
}

fn guid(key: &str) -> Result<Guid, String> {
    parse_guid(key).filter(|guid| guid.to_string() == key).ok_or_else(|| "its key is not a GUID".into())
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MetaBody {
    now: i64,
    next_id: u64,
    next_seq: u64,
    resumed: i64,
    downtime_ms: i64,
    #[serde(default, skip_serializing_if = "is_zero")]
    revision: u64,
    pool_given: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    term: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl From<&RegionMeta> for MetaBody {
    fn from(meta: &RegionMeta) -> Self {
        MetaBody {
            now: meta.now.0,
            next_id: meta.next_id,
            next_seq: meta.next_seq,
            resumed: meta.resumed.0,
            downtime_ms: meta.downtime_ms,
            revision: meta.revision,
            pool_given: meta.pool_given,
            term: meta.term,
        }
    }
}

impl From<MetaBody> for RegionMeta {
    fn from(body: MetaBody) -> Self {
        RegionMeta {
            now: Timestamp(body.now),
            next_id: body.next_id,
            next_seq: body.next_seq,
            resumed: Timestamp(body.resumed),
            downtime_ms: body.downtime_ms,
            revision: body.revision,
            pool_given: body.pool_given,
            term: body.term,
        }
    }
}

#[cfg(test)]
mod tests;
