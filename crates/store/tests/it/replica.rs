//! Stores as copies of a replicated region: every store applies the same records, and a copy can be installed elsewhere.

use std::collections::BTreeSet;
use std::io::BufReader;
use std::path::Path;

use forewarn_core::{Entity, Key, StepTarget, Timestamp, Write};
use forewarn_store::conformance::sample;
use forewarn_store::{
    Attachment, Batch, BufferedStore, Change, ClockKind, ClockStamp, HistoryQuery, HistoryRow, MemoryStore, Owner,
    PAYLOAD_FORMAT, Replicated, SqliteStore, archive,
};

/// The distance between simulated crashes in a log, less than a page.
const STEP: usize = 3000;

fn full_change() -> Change {
    let stamp = ClockStamp { boot_id: "b".into(), boot_ms: 5, time: Timestamp(7) };
    let attachments =
        vec![Attachment::put(Owner::Region, "a", "1\n\"2\""), Attachment::remove(Owner::Region, "missing")];
    let batch = Batch { attachments, stamp: Some(stamp), ..sample::batch() };
    Change { clock: Some(ClockKind::Manual), ..Change::of_batch(batch, (Timestamp(i64::MIN), 0)) }
}

fn rows(store: &dyn Replicated) -> Vec<HistoryRow> {
    store.reader().history(&HistoryQuery::default()).unwrap()
}

/// The complete contents as an archive.
fn contents(store: &mut dyn Replicated) -> String {
    let mut out = Vec::new();
    archive::export(store, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn for_each_store(check: impl Fn(&mut dyn Replicated, &Path)) {
    let directory = tempfile::tempdir().unwrap();
    check(&mut MemoryStore::new(), directory.path());
    let directory = tempfile::tempdir().unwrap();
    check(&mut SqliteStore::open(&directory.path().join("data")).unwrap(), directory.path());
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&directory.path().join("data")).unwrap();
    check(&mut BufferedStore::new(Box::new(store)).unwrap(), directory.path());
}

#[test]
fn a_change_survives_encoding() {
    let stored = |write: &Write| match write {
        Write::Put(forewarn_core::Entity::Scope(scope)) => {
            let scope = forewarn_core::Scope { live: Vec::new(), ..(**scope).clone() };
            Write::Put(forewarn_core::Entity::Scope(scope.into()))
        }
        Write::Put(_) | Write::Delete(_) => write.clone(),
    };
    let mut change = Change { forget_through: Some(9), ..full_change() };
    change.writes.extend(sample::entities().iter().map(|entity| Write::Delete(entity.key())));
    change.writes = change.writes.iter().map(stored).collect();
    assert_eq!(Change::decode(&change.encode().unwrap()).unwrap(), change);
    assert_eq!(Change::decode(&[]).unwrap(), Change::default());
}

#[test]
fn a_payload_has_the_oldest_format_that_can_express_it() {
    let entities = sample::entities();
    let format_of = |entity: &Entity| {
        let change = Change { writes: vec![Write::Put(entity.clone())], ..Change::default() };
        change.encode().unwrap()[0]
    };
    for entity in &entities {
        let expected = match entity {
            Entity::Rollout(rollout) => {
                let has = |is_such: fn(&StepTarget) -> bool| rollout.steps.iter().any(|step| is_such(&step.target));
                match rollout.operation {
                    _ if rollout.has_retries() => 5,
                    Some(_) => 3,
                    None if rollout.plan.at.is_some() || has(|it| matches!(it, StepTarget::Machine(_))) => 2,
                    None => 1,
                }
            }
            Entity::Machine(machine) if machine.power_change().is_some() => 4,
            Entity::Host(host) if host.epoch > 0 => 7,
            _ => 1,
        };
        assert_eq!(format_of(entity), expected, "{entity:?}");
    }
    assert_eq!(Change::default().encode().unwrap(), [1]);
    assert_eq!(full_change().encode().unwrap()[0], 7, "one newer entity decides");
}

#[test]
fn damaged_and_newer_payloads_are_errors() {
    let good = full_change().encode().unwrap();
    let mut newer = good.clone();
    newer[0] = PAYLOAD_FORMAT + 1;
    assert!(Change::decode(&newer).unwrap_err().to_string().contains("Upgrade this server"));
    assert!(Change::decode(&good[..good.len() - 5]).is_err());
}

#[test]
fn applied_records_equal_commits() {
    for_each_store(|store, _| {
        let mut single = MemoryStore::new();
        forewarn_store::Store::commit(&mut single, 0, &sample::batch()).unwrap();
        let change = Change::of_batch(sample::batch(), store.newest_row().unwrap());
        store.apply(1, "first", &[Change::decode(&change.encode().unwrap()).unwrap()]).unwrap();
        assert_eq!(contents(store), contents(&mut single));
        assert_eq!(store.position().unwrap().as_deref(), Some("first"));
        assert_eq!(store.newest_row().unwrap().1, change.rows.len() as u64);
    });
}

#[test]
fn a_record_is_applied_once_and_in_order() {
    for_each_store(|store, _| {
        assert_eq!(store.position().unwrap(), None);
        store.apply(1, "first", &[full_change()]).unwrap();
        let before = contents(store);
        for revision in [1, 3] {
            assert!(store.apply(revision, "wrong", &[full_change()]).is_err());
        }
        assert_eq!((contents(store), store.position().unwrap().as_deref()), (before, Some("first")));
        assert_eq!(store.clock_kind().unwrap(), Some(ClockKind::Manual));
        assert_eq!(store.clock_stamp().unwrap().map(|stamp| stamp.time), Some(Timestamp(7)));
    });
}

/// The entities of the samples in several records, changed and deleted again, with attachments.
fn several_changes() -> Vec<Change> {
    let entities = sample::entities();
    let machine = entities.iter().find_map(|entity| match entity {
        Entity::Machine(machine) => Some(machine.id),
        _ => None,
    });
    let machine = machine.expect("the samples have a machine");
    let attach = |name: &str| Attachment::put(Owner::Machine(machine), name, "1");
    let put = |entity: &Entity| Write::Put(entity.clone());
    let is_machine = |entity: &&Entity| matches!(entity, Entity::Machine(it) if it.id == machine);
    let again: Vec<Write> = entities.iter().filter(is_machine).map(put).collect();
    let stamp = |ms| Some(ClockStamp { boot_id: "b".into(), boot_ms: ms, time: Timestamp(ms) });
    vec![
        Change { attachments: vec![attach("first")], ..full_change() },
        Change { writes: again.clone(), attachments: vec![attach("second")], stamp: stamp(8), ..Change::default() },
        Change { writes: again.iter().map(|_| Write::Delete(Key::Machine(machine))).collect(), ..Change::default() },
        Change { writes: again, attachments: vec![attach("third")], stamp: stamp(9), ..Change::default() },
        Change { forget_through: Some(2), ..Change::default() },
    ]
}

#[test]
fn records_applied_together_equal_records_applied_one_by_one() {
    let changes = several_changes();
    let mut single = MemoryStore::new();
    for (revision, change) in (1..).zip(&changes) {
        single.apply(revision, &revision.to_string(), std::slice::from_ref(change)).unwrap();
    }
    for split in 0..=changes.len() {
        for_each_store(|store, _| {
            let (first, rest) = changes.split_at(split);
            for (revision, part) in [(1, first), (1 + split as u64, rest)] {
                if !part.is_empty() {
                    store.apply(revision, &(revision + part.len() as u64 - 1).to_string(), part).unwrap();
                }
            }
            assert_eq!(store.position().unwrap(), Some(changes.len().to_string()));
            assert_eq!(store.clock_stamp().unwrap().map(|stamp| stamp.boot_ms), Some(9));
            assert_eq!(contents(store), contents(&mut single.clone()), "split after {split}");
            assert_eq!(store.newest_row().unwrap(), single.clone().newest_row().unwrap());
        });
    }
}

#[test]
fn a_record_that_cannot_be_stored_undoes_those_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = SqliteStore::open(directory.path()).unwrap();
    store.apply(1, "1", &[full_change()]).unwrap();
    let before = contents(&mut store);
    let [_, second, third, ..] = &several_changes()[..] else { panic!("there are several changes") };
    // The numbers of its history rows are taken.
    let failed = store.apply(2, "4", &[second.clone(), third.clone(), full_change()]);
    assert!(failed.is_err());
    assert_eq!((contents(&mut store), store.position().unwrap().as_deref()), (before, Some("1")));
    store.apply(2, "3", &[second.clone(), third.clone()]).unwrap();
}

/// SQLite appends the pages of a transaction to its log, so a crash leaves a prefix of what was appended.
#[test]
fn a_crash_in_the_middle_leaves_all_records_or_none() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let mut store = SqliteStore::open(&data).unwrap();
    let changes = several_changes();
    store.apply(1, "1", &changes[..1]).unwrap();
    let log = data.join("forewarn.db-wal");
    let (before, length_before) = (contents(&mut store), std::fs::metadata(&log).unwrap().len());
    store.apply(2, "5", &changes[1..]).unwrap();
    let (after, written) = (contents(&mut store), std::fs::read(&log).unwrap());
    assert_ne!(before, after);
    let mut found = BTreeSet::new();
    for (crash, length) in (length_before as usize..=written.len()).step_by(STEP).chain([written.len()]).enumerate() {
        let crashed = directory.path().join(crash.to_string());
        std::fs::create_dir(&crashed).unwrap();
        std::fs::copy(data.join("forewarn.db"), crashed.join("forewarn.db")).unwrap();
        std::fs::write(crashed.join("forewarn.db-wal"), &written[..length]).unwrap();
        let mut store = SqliteStore::open(&crashed).unwrap();
        let position = store.position().unwrap().unwrap();
        let expected = if position == "5" { &after } else { &before };
        assert_eq!(&contents(&mut store), expected, "cut to {length} of {} bytes", written.len());
        assert_eq!(position == "5", length == written.len());
        found.insert(position);
    }
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn forgetting_history_deletes_the_same_rows_everywhere() {
    for_each_store(|store, _| {
        store.apply(1, "1", &[full_change()]).unwrap();
        let all = rows(store);
        let through = store.find_oldest(Timestamp(i64::MAX), 3).unwrap().unwrap();
        assert_eq!(through, all[2].number);
        store.apply(2, "2", &[Change { forget_through: Some(through), ..Change::default() }]).unwrap();
        assert_eq!(rows(store), all[3..]);
        assert_eq!(store.newest_row().unwrap().1, all.len() as u64, "numbers are not reused");
        assert_eq!(store.find_oldest(Timestamp(i64::MIN), 3).unwrap(), None);
    });
}

#[test]
fn an_installed_copy_replaces_everything_and_continues() {
    for_each_store(|store, directory| {
        store.apply(1, "1", &[full_change()]).unwrap();
        let copy = directory.join("copy");
        store.copier().copy_to(&copy).unwrap();
        let at_copy = contents(store);
        store.apply(2, "2", &[Change { forget_through: Some(2), ..Change::default() }]).unwrap();
        let (reader, newest) = (store.reader(), store.newest_row().unwrap());
        store.install(&copy).unwrap();
        assert_eq!((contents(store), store.position().unwrap().as_deref()), (at_copy, Some("1")));
        assert_eq!(store.newest_row().unwrap(), newest);
        assert_eq!(reader.history(&HistoryQuery::default()).unwrap(), rows(store), "open readers see the copy");
        store.apply(2, "2", &[Change::default()]).unwrap();
    });
}

#[test]
fn a_store_outside_a_cluster_is_not_changed_by_a_copy() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = SqliteStore::open(&directory.path().join("data")).unwrap();
    let archive = contents(&mut store);
    store.copier().copy_to(&directory.path().join("copy")).unwrap();
    assert_eq!((contents(&mut store), store.position().unwrap()), (archive.clone(), None));
    let mut restored = MemoryStore::new();
    archive::import(BufReader::new(archive.as_bytes()), &mut restored).unwrap();
}

#[test]
fn a_file_that_is_no_copy_changes_nothing() {
    for_each_store(|store, directory| {
        store.apply(1, "1", &[full_change()]).unwrap();
        let before = contents(store);
        std::fs::write(directory.join("other"), "not a copy").unwrap();
        assert!(store.install(&directory.join("other")).is_err());
        assert_eq!(contents(store), before);
    });
}
