//! Every store of this crate runs the conformance suite. A store that is not listed here fails the test.

use std::fs;
use std::path::Path;

use forewarn_store::conformance::{Fixture, run};
use forewarn_store::faulty::FaultyStore;
use forewarn_store::{BufferedStore, MemoryStore, SqliteStore, Store};

#[test]
fn memory_store() {
    struct Memory(MemoryStore);
    impl Fixture for Memory {
        fn open(&self) -> Box<dyn Store> {
            Box::new(self.0.clone())
        }
    }
    run(&|| Box::new(Memory(MemoryStore::new())));
}

#[test]
fn sqlite_store() {
    struct Directory(tempfile::TempDir);
    impl Fixture for Directory {
        fn open(&self) -> Box<dyn Store> {
            Box::new(SqliteStore::open(self.0.path()).unwrap())
        }
    }
    run(&|| Box::new(Directory(tempfile::tempdir().unwrap())));
}

#[test]
fn faulty_store() {
    struct Faultless(MemoryStore);
    impl Fixture for Faultless {
        fn open(&self) -> Box<dyn Store> {
            Box::new(FaultyStore::new(self.0.clone()).0)
        }
    }
    run(&|| Box::new(Faultless(MemoryStore::new())));
}

#[test]
fn buffered_store() {
    struct Buffered(MemoryStore);
    impl Fixture for Buffered {
        fn open(&self) -> Box<dyn Store> {
            Box::new(BufferedStore::new(Box::new(self.0.clone())).unwrap())
        }
    }
    run(&|| Box::new(Buffered(MemoryStore::new())));
}

/// A store called `SomeStore` is tested by `fn some_store` above.
#[test]
fn every_store_is_tested() {
    let here = include_str!("conformance.rs");
    let mut stores = Vec::new();
    find_stores(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut stores);
    assert!(stores.len() >= 3, "{stores:?}");
    for store in stores {
        let test = format!("fn {}_store()", store.trim_end_matches("Store").to_lowercase());
        assert!(
            here.contains(&test),
            "{store} does not run the conformance suite: tests/it/conformance.rs has no {test}"
        );
    }
}

fn find_stores(directory: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find_stores(&path, found);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let impls =
            text.lines().filter(|line| line.starts_with("impl")).filter_map(|line| line.split_once(" Store for "));
        found.extend(impls.map(|(_, rest)| rest.split(['<', ' ']).next().unwrap_or_default().to_string()));
    }
}
