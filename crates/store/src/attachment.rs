//! What rides along with the region and no rule reads: bodies of resources, identities, things to be sent.
//!
//! An attachment belongs to an entity, or to the region itself, and goes when its owner goes, in the same
//! commit. Attachments stay in the store and are read on demand: they cost no memory.

use forewarn_core::{GroupId, Key, MachineId, OperationId};

use crate::record;

/// Whose an attachment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    Region,
    Machine(MachineId),
    Group(GroupId),
    Operation(OperationId),
}

/// A named text of an owner, to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    pub owner: Owner,
    pub name: String,
    /// None: it is taken away.
    pub value: Option<String>,
}

/// Attachments in one answer.
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

    /// The owner of this name in the store; None: no attachments are kept for such a thing.
    pub(crate) fn named(kind: &str, key: &str) -> Option<Owner> {
        Owner::of(&record::key_of(kind, key)?)
    }

    /// None: what has this key never has attachments.
    pub(crate) fn of(key: &Key) -> Option<Owner> {
        match key {
            Key::Meta => Some(Owner::Region),
            Key::Machine(id) => Some(Owner::Machine(*id)),
            Key::Group(id) => Some(Owner::Group(*id)),
            Key::Operation(id) => Some(Owner::Operation(*id)),
            Key::Host(_) | Key::Scope(_) | Key::Event(_) => None,
        }
    }

    /// Its name in the store: that of the record.
    pub(crate) fn name(self) -> (&'static str, String) {
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
