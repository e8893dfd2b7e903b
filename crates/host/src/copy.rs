//! The copy: the part of the region that concerns one host, at one revision. Pure: lines of the link go in, a new copy comes out.
//!
//! A copy never goes backward, so neither does a document. A server whose state is older than the copy, such as one that was
//! restored from a backup, is refused; joining again discards the copy.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use forewarn_api_types::host_link::{RecordLine, StreamLine};
use forewarn_core::{Entity, HostState, Key, Meta, Name, Region, Settings, Snapshot};
use forewarn_store::record::{self, Interner};

#[derive(Clone, Debug)]
pub struct Copy {
    host: Name,
    entities: BTreeMap<Key, Entity>,
    snapshot: Arc<Snapshot>,
}

/// The reason why a line was not applied.
#[derive(Debug, PartialEq, Eq)]
pub enum CopyError {
    /// The server's state is older than the copy.
    Backward { have: u64, got: u64 },
    /// A record cannot be read, or contradicts others.
    Invalid(String),
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CopyError::Backward { have, got } => write!(
                f,
                "the server is at revision {got}, but this host has seen revision {have}: if the server was restored from a \
                 backup, join this host again"
            ),
            CopyError::Invalid(reason) => write!(f, "the server sent a copy that cannot be used: {reason}"),
        }
    }
}

impl std::error::Error for CopyError {}

impl Copy {
    /// Nothing: the agent has never been in contact.
    pub fn empty(host: Name) -> Copy {
        let region = Region::new(Settings::default());
        let snapshot = Arc::new(Snapshot { revision: 0, region, roster: 0 });
        Copy { host, entities: BTreeMap::new(), snapshot }
    }

    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The revision of the region, 0 without contact.
    pub fn revision(&self) -> u64 {
        self.snapshot.revision
    }

    /// Whether documents can be shown: there is a copy, and the host is not fenced.
    pub fn is_serving(&self) -> bool {
        self.snapshot.region.host(&self.host).is_some_and(|host| host.state != HostState::Failed)
    }

    /// The entities, for the file.
    pub fn entities(&self) -> impl Iterator<Item = &Entity> {
        self.entities.values()
    }

    /// The copy after a line. None: the line changes nothing but the revision, or is not about the copy.
    pub fn apply(&self, line: &StreamLine) -> Result<Option<Copy>, CopyError> {
        match line {
            StreamLine::Copy { revision, put } => {
                let mut entities = BTreeMap::new();
                insert(&mut entities, put)?;
                self.replace(*revision, entities).map(Some)
            }
            StreamLine::Change { revision, put, delete } => {
                let mut entities = self.entities.clone();
                for gone in delete {
                    let key = record::key_of(&gone.kind, &gone.key);
                    let key = key.ok_or_else(|| CopyError::Invalid(format!("unknown kind '{}'", gone.kind)))?;
                    entities.remove(&key);
                }
                insert(&mut entities, put)?;
                self.replace(*revision, entities).map(Some)
            }
            StreamLine::Unchanged { .. } | StreamLine::Orders { .. } => Ok(None),
        }
    }

    /// The same copy at a later revision.
    pub fn at_revision(&self, revision: u64) -> Result<Copy, CopyError> {
        self.check_forward(revision)?;
        let Snapshot { region, roster, .. } = &*self.snapshot;
        let snapshot = Arc::new(Snapshot { revision, region: region.clone(), roster: *roster });
        Ok(Copy { snapshot, ..self.clone() })
    }

    /// A copy from a file.
    pub fn load(host: Name, revision: u64, records: &[RecordLine]) -> Result<Copy, CopyError> {
        let line = StreamLine::Copy { revision, put: records.to_vec() };
        let loaded = Copy::empty(host.clone()).apply(&line)?;
        Ok(loaded.unwrap_or_else(|| Copy::empty(host)))
    }

    fn replace(&self, revision: u64, entities: BTreeMap<Key, Entity>) -> Result<Copy, CopyError> {
        self.check_forward(revision)?;
        let invalid = |error: &dyn fmt::Display| CopyError::Invalid(error.to_string());
        let region = Region::load(Settings::default(), entities.values().cloned()).map_err(|error| invalid(&error))?;
        for scope in self.snapshot.region.scopes() {
            if region.scope(scope.id).is_some_and(|new| new.incarnation < scope.incarnation) {
                return Err(CopyError::Backward { have: self.revision(), got: revision });
            }
        }
        let machines = |entities: &BTreeMap<Key, Entity>| -> Vec<Key> {
            entities.keys().filter(|key| matches!(key, Key::Machine(_))).cloned().collect()
        };
        let roster = self.snapshot.roster + u64::from(machines(&entities) != machines(&self.entities));
        let snapshot = Arc::new(Snapshot { revision, region, roster });
        Ok(Copy { host: self.host.clone(), entities, snapshot })
    }

    fn check_forward(&self, revision: u64) -> Result<(), CopyError> {
        if revision < self.revision() {
            return Err(CopyError::Backward { have: self.revision(), got: revision });
        }
        Ok(())
    }
}

fn insert(entities: &mut BTreeMap<Key, Entity>, records: &[RecordLine]) -> Result<(), CopyError> {
    let mut interner = Interner::default();
    for RecordLine { kind, key, version, body } in records {
        let entity = record::decode(kind, key, *version, body, &mut interner);
        let entity = entity.map_err(|error| CopyError::Invalid(error.to_string()))?;
        entities.insert(entity.key(), entity);
    }
    // IDs are assigned by the server only.
    let meta = entities.entry(Key::Meta).or_insert(Entity::Meta(Meta::default()));
    if let Entity::Meta(meta) = meta {
        meta.next_id = u64::MAX;
    }
    Ok(())
}
