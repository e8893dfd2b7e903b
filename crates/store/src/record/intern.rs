//! Shares equal names and details between the entities of a loaded region. Without it, a million machines would
//! hold a million copies of their subscription's name.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use forewarn_core::{Details, Name, Tags};

use super::tag::Text;

#[derive(Default)]
pub struct Interner {
    names: HashSet<Name>,
    tags: HashSet<Tags>,
    details: HashMap<u64, Arc<Details>>,
}

/// Maximum number of details, and of lists of tags, to remember before starting over. Details are often unique to one machine, but
/// machines of one set, which share them, are adjacent.
const DETAILS_MAX: usize = 4096;

impl Interner {
    pub(crate) fn name(&mut self, text: Text<'_>) -> Name {
        if let Some(name) = self.names.get(&*text.0) {
            return name.clone();
        }
        let name = Name::from(&*text.0);
        self.names.insert(name.clone());
        name
    }

    pub(crate) fn tags(&mut self, tags: Tags) -> Tags {
        if let Some(known) = self.tags.get(&tags) {
            return known.clone();
        }
        if self.tags.len() >= DETAILS_MAX {
            self.tags.clear();
        }
        self.tags.insert(tags.clone());
        tags
    }

    pub(crate) fn details(&mut self, details: Details) -> Arc<Details> {
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
}

fn hash(details: &Details) -> u64 {
    let Details { location, size, os_type, computer_name, publisher, offer, sku, image_version, mac, tags } = details;
    let mut hasher = DefaultHasher::new();
    (location, size, os_type, computer_name, publisher, offer, sku, image_version, mac, tags).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_and_details_are_shared() {
        let mut interner = Interner::default();
        assert!(Arc::ptr_eq(&interner.name("a".into()), &interner.name("a".into())));
        let made = |mac: &str| Details { mac: mac.into(), ..Details::default() };
        let first = interner.details(made("1"));
        assert!(Arc::ptr_eq(&first, &interner.details(made("1"))));
        assert_eq!(*interner.details(made("2")), made("2"));
        let tags = || Tags::from([("env".into(), "test".into())]);
        assert!(Arc::ptr_eq(&interner.tags(tags()), &interner.tags(tags())));
        for n in 0..DETAILS_MAX {
            interner.details(made(&n.to_string()));
        }
        assert!(interner.details.len() <= DETAILS_MAX);
    }
}
