//! Data directories and archives of every version of the format must stay readable. They are in `fixtures/`,
//! were written by that version, and contain the sample of the conformance suite.
//!
//! To create those of a new version: `FOREWARN_MAKE_FIXTURE=1 cargo test -p forewarn-store --test it versions::`.

use std::fs;
use std::path::{Path, PathBuf};

use forewarn_core::{Region, Settings};
use forewarn_store::conformance::sample;
use forewarn_store::{ClockKind, MemoryStore, SqliteStore, Store, archive};

const CURRENT: &str = "v6";

#[test]
fn this_version_writes_its_fixtures() {
    let mut store = MemoryStore::new();
    fill(&mut store);
    if std::env::var_os("FOREWARN_MAKE_FIXTURE").is_some() {
        make(&fixture(CURRENT), &exported(&mut store));
    }
    assert_eq!(exported(&mut store), kept_archive(CURRENT));
}

#[test]
fn a_directory_of_v1_opens() {
    let copy = tempfile::tempdir().unwrap();
    fs::copy(fixture("v1").join("forewarn.db"), copy.path().join("forewarn.db")).unwrap();
    let mut store = SqliteStore::open(copy.path()).unwrap();
    check_older("v1", 12, &mut store);
    assert_eq!(store.reader().all_attachments(None).unwrap(), []);
    assert_eq!(store.commit(1, &sample::batch()).unwrap(), 2);
}

#[test]
fn an_archive_of_v1_is_imported() {
    let mut store = MemoryStore::new();
    import("v1", &mut store);
    check_older("v1", 12, &mut store);
    assert_eq!(store.reader().all_attachments(None).unwrap(), []);
}

#[test]
fn a_directory_of_v2_opens() {
    let copy = tempfile::tempdir().unwrap();
    fs::copy(fixture("v2").join("forewarn.db"), copy.path().join("forewarn.db")).unwrap();
    let mut store = SqliteStore::open(copy.path()).unwrap();
    check_older("v2", 12, &mut store);
    assert_eq!(store.commit(1, &sample::batch()).unwrap(), 2);
}

#[test]
fn an_archive_of_v2_is_imported() {
    let mut store = MemoryStore::new();
    import("v2", &mut store);
    check_older("v2", 12, &mut store);
}

#[test]
fn a_directory_of_v3_opens() {
    let copy = tempfile::tempdir().unwrap();
    fs::copy(fixture("v3").join("forewarn.db"), copy.path().join("forewarn.db")).unwrap();
    let mut store = SqliteStore::open(copy.path()).unwrap();
    check_older("v3", 14, &mut store);
    assert_eq!(store.commit(1, &sample::batch()).unwrap(), 2);
}

#[test]
fn an_archive_of_v3_is_imported() {
    let mut store = MemoryStore::new();
    import("v3", &mut store);
    check_older("v3", 14, &mut store);
}

#[test]
fn a_directory_of_v4_opens() {
    let copy = tempfile::tempdir().unwrap();
    fs::copy(fixture("v4").join("forewarn.db"), copy.path().join("forewarn.db")).unwrap();
    let mut store = SqliteStore::open(copy.path()).unwrap();
    check_older("v4", 15, &mut store);
    assert_eq!(store.commit(1, &sample::batch()).unwrap(), 2);
}

#[test]
fn an_archive_of_v4_is_imported() {
    let mut store = MemoryStore::new();
    import("v4", &mut store);
    check_older("v4", 15, &mut store);
}

#[test]
fn a_directory_of_v5_opens() {
    let copy = tempfile::tempdir().unwrap();
    fs::copy(fixture("v5").join("forewarn.db"), copy.path().join("forewarn.db")).unwrap();
    let mut store = SqliteStore::open(copy.path()).unwrap();
    check_older("v5", 15, &mut store);
    assert_eq!(store.commit(1, &sample::batch()).unwrap(), 2);
}

#[test]
fn an_archive_of_v5_is_imported() {
    let mut store = MemoryStore::new();
    import("v5", &mut store);
    check_older("v5", 15, &mut store);
}

#[test]
fn a_directory_of_v6_opens() {
    let copy = tempfile::tempdir().unwrap();
    fs::copy(fixture("v6").join("forewarn.db"), copy.path().join("forewarn.db")).unwrap();
    check_current(&mut SqliteStore::open(copy.path()).unwrap());
}

#[test]
fn an_archive_of_v6_is_imported() {
    let mut store = MemoryStore::new();
    import("v6", &mut store);
    check_current(&mut store);
}

/// Data of older versions is exported byte for byte, except for the first line, which contains the version, and
/// the last, in which version 1 did not count attachments.
fn check_older(version: &str, operations: usize, store: &mut dyn Store) {
    check_state(store, operations);
    let between = |archive: &str| -> Vec<String> {
        let lines: Vec<_> = archive.lines().map(str::to_string).collect();
        lines[1..lines.len() - 1].to_vec()
    };
    assert_eq!(between(&exported(store)), between(&kept_archive(version)));
}

fn check_current(store: &mut dyn Store) {
    check_state(store, 15);
    assert_eq!(exported(store), kept_archive(CURRENT));
}

fn check_state(store: &mut dyn Store, operations: usize) {
    assert_eq!(store.clock_kind().unwrap(), Some(ClockKind::Manual));
    let loaded = store.load().unwrap();
    assert_eq!(loaded.revision, 1);
    let region = Region::load(Settings::default(), loaded.entities).unwrap();
    assert_eq!((region.machines().len(), region.events().count(), region.operations().count()), (6, 9, operations));
}

fn import(version: &str, store: &mut dyn Store) {
    archive::import(kept_archive(version).as_bytes(), store).unwrap();
}

fn kept_archive(version: &str) -> String {
    fs::read_to_string(fixture(version).join("archive.jsonl")).unwrap()
}

fn make(directory: &Path, archive: &str) {
    fs::create_dir_all(directory).unwrap();
    let made = tempfile::tempdir().unwrap();
    let mut store = SqliteStore::open(made.path()).unwrap();
    fill(&mut store);
    drop(store);
    fs::copy(made.path().join("forewarn.db"), directory.join("forewarn.db")).unwrap();
    fs::write(directory.join("archive.jsonl"), archive).unwrap();
}

fn fill(store: &mut dyn Store) {
    store.set_clock_kind(ClockKind::Manual).unwrap();
    store.commit(0, &sample::batch()).unwrap();
}

fn exported(store: &mut dyn Store) -> String {
    let mut out = Vec::new();
    archive::export(store, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn fixture(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(version)
}
