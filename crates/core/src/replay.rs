//! Replays the writes of commits on a copy of the region. No rule runs: the server that committed has decided.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::entity::{Entity, Key};
use crate::ids::{EventId, ScopeId};
use crate::model::{Event, Scope};
use crate::region::{LoadError, Region};
use crate::transition::Write;

/// The last write of each entity; None: deleted.
type Changed = BTreeMap<Key, Option<Entity>>;

impl Region {
    /// The region after these writes, which must be those of one or several consecutive commits on this region. Like in a store,
    /// the live events of a scope need not be written; they follow from the events.
    pub fn replay<'a>(&self, writes: impl IntoIterator<Item = &'a Write>) -> Result<Region, LoadError> {
        let changed: Changed = writes
            .into_iter()
            .map(|write| match write {
                Write::Put(entity) => (entity.key(), Some(entity.clone())),
                Write::Delete(key) => (key.clone(), None),
            })
            .collect();
        let live = self.replay_live(&changed);
        let mut region = self.clone();
        // All old index entries go before new ones come: two machines can exchange a name or an address. Machines go before
        // their groups, which the index of names reads.
        changed.keys().rev().filter(|key| !matches!(key, Key::Scope(_))).for_each(|key| region.remove(key));
        for (key, entity) in changed {
            match (key, entity) {
                (Key::Scope(id), None) => region.remove(&Key::Scope(id)),
                (_, None) => {}
                (_, Some(Entity::Scope(scope))) => {
                    let live = live.get(&scope.id).cloned().unwrap_or_default();
                    region.insert(Entity::Scope(Arc::new(Scope { live, ..(*scope).clone() })));
                }
                (_, Some(entity)) => region.insert(entity),
            }
        }
        for (id, live) in live {
            region.set_live(id, live)?;
        }
        Ok(region)
    }

    /// The live events of every scope that the writes concern, in order of appearance.
    fn replay_live(&self, changed: &Changed) -> BTreeMap<ScopeId, Vec<EventId>> {
        let put = |key: &Key| match changed.get(key) {
            Some(Some(Entity::Event(event))) => Some(event.clone()),
            Some(_) | None => None,
        };
        let mut scopes = BTreeSet::new();
        let mut added: BTreeMap<ScopeId, Vec<Arc<Event>>> = BTreeMap::new();
        for key in changed.keys() {
            match key {
                Key::Scope(id) => drop(scopes.insert(*id)),
                Key::Event(id) => {
                    scopes.extend(self.events.get(id).map(|event| event.scope));
                    if let Some(event) = put(key).filter(|event| event.is_live()) {
                        scopes.insert(event.scope);
                        added.entry(event.scope).or_default().push(event);
                    }
                }
                Key::Meta | Key::Host(_) | Key::Group(_) | Key::Machine(_) | Key::Operation(_) | Key::Rollout(_) => {}
            }
        }
        let live_of = |id: ScopeId| {
            let before = self.scopes.get(&id).map_or(&[][..], |scope| &scope.live);
            let kept = before.iter().filter(|event| !changed.contains_key(&Key::Event(**event)));
            let kept = kept.filter_map(|event| self.events.get(event).cloned());
            let mut live: Vec<_> = kept.chain(added.get(&id).into_iter().flatten().cloned()).collect();
            live.sort_by_key(|event| event.seq);
            (id, live.into_iter().map(|event| event.id).collect())
        };
        scopes.into_iter().map(live_of).collect()
    }

    fn set_live(&mut self, id: ScopeId, live: Vec<EventId>) -> Result<(), LoadError> {
        match self.scopes.get(&id) {
            Some(scope) if scope.live != live => {
                let scope = Scope { live, ..(**scope).clone() };
                self.insert(Entity::Scope(Arc::new(scope)));
                Ok(())
            }
            Some(_) => Ok(()),
            None if live.is_empty() => Ok(()),
            None => Err(LoadError(format!("event {} belongs to scope {}, which does not exist", live[0], id.0))),
        }
    }
}
