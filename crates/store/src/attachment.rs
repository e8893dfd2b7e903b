//! Attachments: data that no rule reads, such as resource bodies, identities and webhooks.
//!
//! An attachment belongs to an entity or to the region, and is removed in the commit that removes its owner.
//! Attachments are not kept in memory; they are read from the store on demand.

use forewarn_core::{GroupId, Key, MachineId, OperationId};

use crate::record;

/// The entity that an attachment belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    Region,
    Machine(MachineId),
    Group(GroupId),
    Operation(OperationId),
}

/// A named text to write or remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    pub owner: Owner,
    pub name: String,
    /// None: remove the attachment.
    pub value: Option<String>,
}

/// Maximum number of attachments in one result.
pub const ATTACHMENTS_PAGE_MAX: u32 = 1000;

impl Owner {
    pub fn key(self) -> Key {
        match self {
            Owner::Region => Key::Meta,
            Owner::Machine(id) => Key::Machine(id),
            Owner::Group(id) => Key::Group(id),
            Owner::Operation(id) => Key::Operation(id),
        }
    }

    /// The owner with this kind and key in the store. None: such entities have no attachments.
    pub(crate) fn from_record_name(kind: &str, key: &str) -> Option<Owner> {
        Owner::from_key(&record::key_of(kind, key)?)
    }

    /// None: entities with this key have no attachments.
    pub(crate) fn from_key(key: &Key) -> Option<Owner> {
        match key {
            Key::Meta => Some(Owner::Region),
            Key::Machine(id) => Some(Owner::Machine(*id)),
            Key::Group(id) => Some(Owner::Group(*id)),
            Key::Operation(id) => Some(Owner::Operation(*id)),
            Key::Host(_) | Key::Scope(_) | Key::Event(_) | Key::Rollout(_) => None,
        }
    }

    /// Kind and key in the store, the same as those of the entity's record.
    pub(crate) fn record_name(self) -> (&'static str, String) {
        record::name_of(&self.key())
    }
}

impl Attachment {
    pub fn put(owner: Owner, name: impl Into<String>, value: impl Into<String>) -> Attachment {
        Attachment { owner, name: name.into(), value: Some(value.into()) }
    }

    pub fn remove(owner: Owner, name: impl Into<String>) -> Attachment {
        Attachment { owner, name: name.into(), value: None }
    }
}
