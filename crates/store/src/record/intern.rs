//! Shares equal names and details between the entities of a loaded region. Without it, a million machines would
//! hold a million copies of their subscription's name.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use forewarn_core::{Details, Name, ResourceGroupRef, SharedDetails, SharedName};

use super::tag::Text;

#[derive(Default)]
pub struct Interner {
    names: HashSet<Name>,
    shared_names: HashSet<SharedName>,
    homes: HashSet<Arc<ResourceGroupRef>>,
    shared: HashSet<Arc<SharedDetails>>,
    details: HashMap<u64, Arc<Details>>,
}

/// Maximum number of details to remember before starting over. Details are often unique to one machine, but machines of one set,
/// which share them, are adjacent.
const DETAILS_MAX: usize = 4096;

impl Interner {
    pub(crate) fn name(&mut self, text: Text<'_>) -> Name {
        if text.0.len() <= Name::INLINE_LIMIT {
            return Name::from(&*text.0);
        }
        if let Some(known) = self.names.get(&*text.0) {
            return known.clone();
        }
        let name = Name::from(&*text.0);
        self.names.insert(name.clone());
        name
    }

    pub(crate) fn shared_name(&mut self, text: Text<'_>) -> SharedName {
        if let Some(name) = self.shared_names.get(&*text.0) {
            return name.clone();
        }
        let name = SharedName::from(&*text.0);
        self.shared_names.insert(name.clone());
        name
    }

    pub(crate) fn home(&mut self, home: ResourceGroupRef) -> Arc<ResourceGroupRef> {
        if let Some(known) = self.homes.get(&home) {
            return known.clone();
        }
        let home = Arc::new(home);
        self.homes.insert(home.clone());
        home
    }

    pub(crate) fn details(&mut self, computer_name: Name, mac: Name, shared: SharedDetails) -> Arc<Details> {
        let details = Details { computer_name, mac, shared: self.shared(shared) };
        let hash = hash(&details);
        if let Some(known) = self.details.get(&hash).filter(|known| ***known == details) {
            return known.clone();
        }
        if self.details.len() >= DETAILS_MAX {
            self.details.clear();
        }
        let details = Arc::new(details);
        self.details.insert(hash, details.clone());
        details
    }

    fn shared(&mut self, shared: SharedDetails) -> Arc<SharedDetails> {
        if let Some(known) = self.shared.get(&shared) {
            return known.clone();
        }
        if self.shared.len() >= DETAILS_MAX {
            self.shared.clear();
        }
        let shared = Arc::new(shared);
        self.shared.insert(shared.clone());
        shared
    }
}

fn hash(details: &Details) -> u64 {
    let Details { computer_name, mac, shared } = details;
    let mut hasher = DefaultHasher::new();
    (computer_name, mac, Arc::as_ptr(shared)).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_and_details_are_shared() {
        let mut interner = Interner::default();
        let [name, same] = [(); 2].map(|()| interner.name("00000000-0000-4000-8000-000000000001".into()));
        assert_eq!(name.as_ptr(), same.as_ptr());
        let shared = || SharedDetails { tags: [("env".into(), "test".into())].into(), ..SharedDetails::default() };
        let mut made = |mac: &str| interner.details("".into(), mac.into(), shared());
        let first = made("1");
        assert!(Arc::ptr_eq(&first, &made("1")));
        assert!(Arc::ptr_eq(&first.shared, &made("2").shared));
        assert_eq!((&*made("2").mac, &made("2").tags), ("2", &shared().tags));
        for n in 0..DETAILS_MAX {
            made(&n.to_string());
        }
        assert!(interner.details.len() <= DETAILS_MAX);
    }
}
