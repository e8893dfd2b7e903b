//! Data directories and archives of every version of the format must stay readable. They are in `fixtures/`,
//! were written by that version, and contain the sample of the conformance suite.
//!
//! To create those of a new version: `FOREWARN_MAKE_FIXTURE=1 cargo test -p forewarn-store --test it versions::`.

use std::fs;
use std::path::{Path, PathBuf};

use forewarn_core::{Command, Guid, MachineId, Power, Region, Settings};
use forewarn_store::conformance::sample;
use forewarn_store::{ClockKind, MemoryStore, SqliteStore, Store, archive};

const CURRENT: &str = "v11";

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
    let (_directory, mut store) = open_copy("v1");
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
    let (_directory, mut store) = open_copy("v2");
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
    let (_directory, mut store) = open_copy("v3");
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
    let (_directory, mut store) = open_copy("v4");
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
    let (_directory, mut store) = open_copy("v5");
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
    let (_directory, mut store) = open_copy("v6");
    check_older("v6", 15, &mut store);
    assert_eq!(store.commit(1, &sample::batch()).unwrap(), 2);
}

#[test]
fn an_archive_of_v6_is_imported() {
    let mut store = MemoryStore::new();
    import("v6", &mut store);
    check_older("v6", 15, &mut store);
}

#[test]
fn a_directory_of_v7_opens() {
    let (_directory, mut store) = open_copy("v7");
    check_unchanged("v7", &mut store);
    assert_eq!(store.commit(1, &sample::batch()).unwrap(), 2);
}

#[test]
fn an_archive_of_v7_is_imported() {
    let mut store = MemoryStore::new();
    import("v7", &mut store);
    check_unchanged("v7", &mut store);
}

#[test]
fn a_directory_of_v8_opens() {
    let (_directory, mut store) = open_copy("v8");
    check_unchanged("v8", &mut store);
    assert_eq!(store.commit(1, &sample::batch()).unwrap(), 2);
}

#[test]
fn an_archive_of_v8_is_imported() {
    let mut store = MemoryStore::new();
    import("v8", &mut store);
    check_unchanged("v8", &mut store);
}

#[test]
fn a_directory_of_v9_opens() {
    let (_directory, mut store) = open_copy("v9");
    check_unchanged("v9", &mut store);
    assert_eq!(store.commit(1, &sample::batch()).unwrap(), 2);
}

#[test]
fn an_archive_of_v9_is_imported() {
    let mut store = MemoryStore::new();
    import("v9", &mut store);
    check_unchanged("v9", &mut store);
}

#[test]
fn a_directory_of_v10_opens() {
    let (_directory, mut store) = open_copy("v10");
    check_unchanged("v10", &mut store);
    assert_eq!(store.commit(1, &sample::batch()).unwrap(), 2);
}

#[test]
fn an_archive_of_v10_is_imported() {
    let mut store = MemoryStore::new();
    import("v10", &mut store);
    check_unchanged("v10", &mut store);
}

#[test]
fn a_directory_of_v11_opens() {
    let (_directory, mut store) = open_copy("v11");
    check_current(&mut store);
}

#[test]
fn an_archive_of_v11_is_imported() {
    let mut store = MemoryStore::new();
    import("v11", &mut store);
    check_current(&mut store);
}

/// Before v8, the start of a machine was stored like its arrival at its own host, or like a withdrawn order of a machine
/// without a host.
#[test]
fn a_start_that_was_in_progress_before_v8_goes_on() {
    let archive = kept_archive("v7");
    let line = archive.lines().find(|line| line.contains(r#""arriving":"host-b""#)).expect("a machine that moves");
    let elsewhere = line.replace(r#""host":"host-a","#, "").replace(r#""arriving":"host-b","#, "");
    for start in [line.replace("host-b", "host-a"), elsewhere] {
        let mut store = MemoryStore::new();
        archive::import(archive.replace(line, &start).as_bytes(), &mut store).unwrap();
        let region = Region::load(Settings::default(), store.load().unwrap().entities).unwrap();
        let machine = region.machine(MachineId(6)).unwrap();
        let change = machine.pending_power().map(|change| (change.order, change.to));
        assert_eq!(change, Some((sample::event_id(8), Power::Running)));
        assert_eq!((machine.withdrawn(), machine.arriving()), (None, None));
    }
}

/// In the fixtures, update domain 1 of an availability set is the last one that maintenance visits.
#[test]
fn maintenance_that_was_in_progress_before_v7_goes_on() {
    let operation = Guid(0xf000);
    let resume = sample::at(700);
    for (next_domain, events) in [(1, 3), (2, 2)] {
        let mut store = MemoryStore::new();
        let old = kept_archive("v6").replace(r#""next_domain":2"#, &format!(r#""next_domain":{next_domain}"#));
        archive::import(old.as_bytes(), &mut store).unwrap();
        let region = Region::load(Settings::default(), store.load().unwrap().entities).unwrap();
        let rollout = region.rollout(operation).unwrap();
        assert_eq!((rollout.operation, rollout.pause_end()), (Some(operation), Some(resume)));
        assert_eq!(rollout.next_domain(), next_domain);
        let region = region.apply(&Command::Tick, resume).unwrap().region;
        assert_eq!(region.operation(operation).unwrap().parts.len(), events, "from update domain {next_domain} on");
        assert_eq!(region.rollout(operation).unwrap().is_live(), next_domain == 1);
    }
}

/// Data of older versions is exported byte for byte, except for the first line, which contains the version, the last, which
/// counts records, and maintenance by update domain: its progress is in rollouts now.
fn check_older(version: &str, operations: usize, store: &mut dyn Store) {
    check_state(store, operations);
    let between = |archive: &str| -> Vec<String> {
        let lines: Vec<_> = archive.lines().collect();
        let lines = lines[1..lines.len() - 1].iter().filter(|line| !line.contains(CONVERTED_ROLLOUT));
        lines.map(|line| without(without(line, OLD_PROGRESS, "}"), OLD_LINK, "\"")).collect()
    };
    let exported = exported(store);
    assert_eq!(exported.matches(CONVERTED_ROLLOUT).count(), 2);
    assert_eq!(between(&exported), between(&kept_archive(version)));
}

/// Data of a version whose records all stay as they are. Only the first line of its archive differs.
fn check_unchanged(version: &str, store: &mut dyn Store) {
    check_state(store, 15);
    let without_version = |archive: &str| archive.split_once('\n').map(|(_, rest)| rest.to_owned());
    assert_eq!(without_version(&exported(store)), without_version(&kept_archive(version)));
}

/// Rollouts that the fixtures of older versions did not have.
const CONVERTED_ROLLOUT: &str = r#""kind":"rollout","key":"00000000-0000-0000-0000-00000000f00"#;
const OLD_PROGRESS: &str = r#","rollout":{"next_domain""#;
const OLD_LINK: &str = r#","of_rollout":"00000000-0000-0000-0000-00000000f00"#;

/// The line without the text from `start` through `end`, if it contains it.
fn without(line: impl AsRef<str>, start: &str, end: &str) -> String {
    let line = line.as_ref();
    let Some((before, rest)) = line.split_once(start) else { return line.to_string() };
    let (_, after) = rest.split_once(end).expect("the end");
    format!("{before}{after}")
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

/// Opens a copy of the data directory of this version.
fn open_copy(version: &str) -> (tempfile::TempDir, SqliteStore) {
    let copy = tempfile::tempdir().unwrap();
    fs::copy(fixture(version).join("forewarn.db"), copy.path().join("forewarn.db")).unwrap();
    let store = SqliteStore::open(copy.path()).unwrap();
    (copy, store)
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
