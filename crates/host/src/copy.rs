//! The copy: the part of the region that concerns one host, at one revision. Pure: lines of the link go in, a new copy comes out.
//!
//! A copy never goes backward, so neither does a document. A server whose state is older than the copy, such as one that was
//! restored from a backup, is refused; joining again discards the copy.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use forewarn_api_types::host_link::{RecordLine, StreamLine};
use forewarn_core::{Entity, HostState, Key, Name, Region, RegionMeta, Settings, Snapshot};
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
        let snapshot = Arc::new(Snapshot { revision: 0, region });
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
        let snapshot = Arc::new(Snapshot { revision, region: self.snapshot.region.clone() });
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
        let snapshot = Arc::new(Snapshot { revision, region });
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
    let meta = entities.entry(Key::Meta).or_insert(Entity::Meta(RegionMeta::default()));
    if let Entity::Meta(meta) = meta {
        meta.next_id = u64::MAX;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use forewarn_api_types::host_link::RecordKey;
    use forewarn_core::{Contact, EventsState, Host, Machine, MachineId, Scope, ScopeId, ScopeOwner, Timestamp};

    use super::*;

    fn line(entity: &Entity) -> RecordLine {
        let record::Record { kind, key, version, body } = record::encode(entity);
        RecordLine { kind: kind.to_owned(), key, version, body }
    }

    fn host(state: HostState) -> RecordLine {
        line(&Entity::Host(Arc::new(Host { state, contact: Contact::None, ..Host::new("node1".into()) })))
    }

    fn scope(incarnation: u64) -> RecordLine {
        line(&Entity::Scope(Arc::new(Scope {
            id: ScopeId(2),
            owner: ScopeOwner::Machine(MachineId(1)),
            switch: EventsState::On { seen: Timestamp(0) },
            incarnation,
            live: Vec::new(),
        })))
    }

    fn machine() -> Arc<Machine> {
        use forewarn_core::{Command, Guid, NewMachine, ResourceGroupRef};
        let home = ResourceGroupRef { subscription: "s".into(), resource_group: "rg".into() };
        let new = NewMachine { host: Some("node1".into()), ..NewMachine::plain(Guid(7), "web1", home) };
        let register = Command::RegisterMachine(Box::new(new));
        let region = Region::new(Settings::default()).apply(&register, Timestamp(1)).unwrap().region;
        let machine = region.machines().next().unwrap().clone();
        Arc::new(Machine { id: MachineId(1), scope: ScopeId(2), ..(*machine).clone() })
    }

    fn whole(revision: u64, incarnation: u64) -> StreamLine {
        let machine = line(&Entity::Machine(machine()));
        StreamLine::Copy { revision, put: vec![host(HostState::Active), machine, scope(incarnation)] }
    }

    fn change(revision: u64, put: Vec<RecordLine>, delete: Vec<RecordKey>) -> StreamLine {
        StreamLine::Change { revision, put, delete }
    }

    fn copy_at(revision: u64, incarnation: u64) -> Copy {
        Copy::empty("node1".into()).apply(&whole(revision, incarnation)).unwrap().unwrap()
    }

    #[test]
    fn changes_are_applied_to_the_copy() {
        let copy = copy_at(5, 1);
        assert!(copy.is_serving());
        assert_eq!(copy.snapshot().region.scope(ScopeId(2)).unwrap().incarnation, 1);
        let changed = copy.apply(&change(6, vec![scope(2)], vec![])).unwrap().unwrap();
        assert_eq!(changed.snapshot().region.scope(ScopeId(2)).unwrap().incarnation, 2);
        assert_eq!(changed.revision(), 6);
        let gone =
            [("machine", "1"), ("scope", "2")].map(|(kind, key)| RecordKey { kind: kind.into(), key: key.into() });
        let emptied = changed.apply(&change(7, vec![], gone.into())).unwrap().unwrap();
        assert_eq!(emptied.snapshot().region.machines().len(), 0);
    }

    #[test]
    fn a_copy_never_goes_backward() {
        let copy = copy_at(5, 3);
        let backward = |line: &StreamLine| matches!(copy.apply(line), Err(CopyError::Backward { have: 5, .. }));
        assert!(backward(&whole(4, 3)), "an older revision");
        assert!(backward(&whole(6, 2)), "an older document");
        assert!(backward(&change(6, vec![scope(2)], vec![])));
        assert!(copy.at_revision(4).is_err());
        assert_eq!(copy.at_revision(9).unwrap().revision(), 9);
        assert!(copy.apply(&whole(5, 3)).is_ok(), "the same again");
    }

    #[test]
    fn a_host_without_a_copy_or_that_is_fenced_serves_nothing() {
        assert!(!Copy::empty("node1".into()).is_serving());
        let fenced = copy_at(5, 1).apply(&change(6, vec![host(HostState::Failed)], vec![])).unwrap().unwrap();
        assert!(!fenced.is_serving());
    }

    #[test]
    fn records_that_cannot_be_read_are_refused_as_a_whole() {
        let copy = copy_at(5, 1);
        let odd = RecordLine { kind: "scope".into(), key: "2".into(), version: 99, body: "{}".into() };
        assert!(matches!(copy.apply(&change(6, vec![odd], vec![])), Err(CopyError::Invalid(_))));
        let dangling = RecordKey { kind: "scope".into(), key: "2".into() };
        let refused = copy.apply(&change(6, vec![], vec![dangling]));
        assert!(matches!(refused, Err(CopyError::Invalid(_))), "a machine without its event group: {refused:?}");
    }

    #[test]
    fn the_file_brings_the_copy_back() {
        let dir = tempfile::tempdir().unwrap();
        let file = crate::copy_file::CopyFile::in_directory(dir.path());
        let name: Name = "node1".into();
        assert!(file.read(&name).unwrap().is_none());
        file.write(file.take_turn(), &name, &copy_at(5, 3)).unwrap();
        let stored = file.read(&name).unwrap().unwrap().copy;
        assert_eq!(stored.revision(), 5);
        assert_eq!(stored.snapshot().region.scope(ScopeId(2)).unwrap().incarnation, 3);
        assert!(file.read(&"node2".into()).is_err(), "the copy of another host");
        let (late, next) = (file.take_turn(), file.take_turn());
        file.write(next, &name, &copy_at(4, 2)).unwrap();
        file.write(late, &name, &copy_at(6, 3)).unwrap();
        assert_eq!(
            file.read(&name).unwrap().unwrap().copy.revision(),
            4,
            "the copy of the connection before comes late"
        );
        let path = dir.path().join("copy.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 20]).unwrap();
        assert!(file.read(&name).is_err(), "a truncated file");
    }
}
