//! Conformance cases for entities: commits are atomic, and committed entities are loaded.

use std::io::BufReader;
use std::sync::Arc;

use forewarn_core::{Entity, Key, MachineId, Region, RegionMeta, Scope, Settings, Write};

use super::{Case, Fixture, sample};
use crate::*;

pub(super) const ALL: &[Case] = &[
    ("a new store is empty", a_new_store_is_empty),
    ("committed entities are loaded in the order of their keys", committed_entities_are_loaded),
    ("committed data survives reopening", committed_data_survives_reopening),
    ("a commit on another revision writes nothing", a_stale_commit_writes_nothing),
    ("deleted entities are gone", deleted_entities_are_gone),
    ("writes of a batch are applied in order", writes_are_applied_in_order),
    ("an empty batch increments the revision", an_empty_batch_increments_the_revision),
    ("a scope is loaded without its live events", a_scope_is_loaded_without_its_live_events),
    ("the clock kind is stored", the_clock_kind_is_stored),
    ("an archive restores an equal store", an_archive_restores_an_equal_store),
    ("a restore is atomic", a_restore_is_atomic),
];

fn a_new_store_is_empty(fixture: &dyn Fixture) {
    let mut store = fixture.open();
    check(&mut *store, 0, &[]);
    assert_eq!(store.clock_kind().unwrap(), None);
    assert_eq!(store.reader().history(&HistoryQuery::default()).unwrap(), []);
}

fn committed_entities_are_loaded(fixture: &dyn Fixture) {
    let mut store = fixture.open();
    let mut batch = sample::batch();
    batch.writes.reverse();
    assert_eq!(store.commit(0, &batch).unwrap(), 1);
    check(&mut *store, 1, &sample::entities());
    Region::load(Settings::default(), store.load().unwrap().entities).expect("the sample is consistent");
}

fn committed_data_survives_reopening(fixture: &dyn Fixture) {
    let mut store = fixture.open();
    store.commit(0, &sample::batch()).unwrap();
    store.set_clock_kind(ClockKind::Manual).unwrap();
    let history = store.reader().history(&HistoryQuery::default()).unwrap();
    drop(store);
    let mut store = fixture.open();
    check(&mut *store, 1, &sample::entities());
    assert_eq!(store.clock_kind().unwrap(), Some(ClockKind::Manual));
    assert_eq!(store.reader().history(&HistoryQuery::default()).unwrap(), history);
    assert_eq!(store.commit(1, &Batch::default()).unwrap(), 2);
}

fn a_stale_commit_writes_nothing(fixture: &dyn Fixture) {
    let mut store = fixture.open();
    store.commit(0, &puts([sample::host("a")])).unwrap();
    let batch =
        Batch { writes: vec![Write::Put(sample::host("b")), Write::Delete(Key::Host("a".into()))], ..sample::batch() };
    for stale in [0, 2] {
        match store.commit(stale, &batch) {
            Err(CommitError::Conflict { expected, found: 1 }) if expected == stale => {}
            other => panic!("not a conflict: {other:?}"),
        }
    }
    check(&mut *store, 1, &[sample::host("a")]);
    assert_eq!(store.reader().history(&HistoryQuery::default()).unwrap(), []);
}

fn deleted_entities_are_gone(fixture: &dyn Fixture) {
    let mut store = fixture.open();
    let all = sample::entities();
    store.commit(0, &puts(all.clone())).unwrap();
    for (n, entity) in all.iter().enumerate() {
        let batch = Batch { writes: vec![Write::Delete(entity.key())], ..Batch::default() };
        store.commit(n as u64 + 1, &batch).unwrap();
        check(&mut *store, n as u64 + 2, &all[n + 1..]);
    }
    let unknown = Batch { writes: vec![Write::Delete(Key::Machine(MachineId(77)))], ..Batch::default() };
    store.commit(all.len() as u64 + 1, &unknown).expect("deleting a missing entity does nothing");
}

fn writes_are_applied_in_order(fixture: &dyn Fixture) {
    let mut store = fixture.open();
    let meta = |next_id| Entity::Meta(RegionMeta { next_id, ..RegionMeta::default() });
    let writes = vec![
        Write::Put(meta(1)),
        Write::Put(sample::host("a")),
        Write::Delete(Key::Host("b".into())),
        Write::Delete(Key::Host("a".into())),
        Write::Put(sample::host("b")),
        Write::Put(meta(2)),
    ];
    store.commit(0, &Batch { writes, ..Batch::default() }).unwrap();
    check(&mut *store, 1, &[meta(2), sample::host("b")]);
}

fn an_empty_batch_increments_the_revision(fixture: &dyn Fixture) {
    let mut store = fixture.open();
    for revision in 0..3 {
        assert_eq!(store.commit(revision, &Batch::default()).unwrap(), revision + 1);
    }
    check(&mut *store, 3, &[]);
}

fn a_scope_is_loaded_without_its_live_events(fixture: &dyn Fixture) {
    let mut store = fixture.open();
    let Entity::Scope(scope) = sample::scope(1) else { panic!("not a scope") };
    let live = Scope { live: vec![sample::event_id(1)], ..(*scope).clone() };
    store.commit(0, &puts([Entity::Scope(Arc::new(live))])).unwrap();
    check(&mut *store, 1, &[Entity::Scope(scope)]);
}

fn the_clock_kind_is_stored(fixture: &dyn Fixture) {
    let mut store = fixture.open();
    for kind in [ClockKind::Real, ClockKind::Manual] {
        store.set_clock_kind(kind).unwrap();
        assert_eq!(store.clock_kind().unwrap(), Some(kind));
    }
    check(&mut *store, 0, &[]);
}

fn an_archive_restores_an_equal_store(fixture: &dyn Fixture) {
    let mut store = MemoryStore::new();
    store.commit(0, &sample::batch()).unwrap();
    store.commit(1, &sample::batch()).unwrap();
    store.forget_history(sample::at(0), 1).unwrap();
    store.set_clock_kind(ClockKind::Manual).unwrap();
    let original = exported(&mut store);

    let mut copy = fixture.open();
    archive::import(BufReader::new(&*original), &mut *copy).unwrap();
    assert_eq!(text(&exported(&mut *copy)), text(&original));
    assert_eq!(copy.commit(2, &sample::batch()).unwrap(), 3);
    let rows = copy.reader().history(&HistoryQuery::default()).unwrap();
    assert!(rows.is_sorted_by(|a, b| a.number < b.number && a.at <= b.at), "{rows:?}");

    let error = archive::import(BufReader::new(&*original), &mut *copy).unwrap_err().to_string();
    assert!(error.contains("not empty"), "{error}");
}

fn a_restore_is_atomic(fixture: &dyn Fixture) {
    let mut full = MemoryStore::new();
    full.commit(0, &sample::batch()).unwrap();
    let rows = full.reader().history(&HistoryQuery::default()).unwrap();
    let contents = || Contents {
        revision: 9,
        clock: Some(ClockKind::Real),
        entities: sample::entities(),
        attachments: sample::attachments(),
    };

    let mut store = fixture.open();
    let broken = StoreError::Message("half of it".into());
    let mut half = rows.iter().take(3).cloned().map(Ok).chain([Err(broken)]);
    store.restore(&contents(), &mut half).unwrap_err();
    check(&mut *store, 0, &[]);
    assert_eq!(store.clock_kind().unwrap(), None);
    assert_eq!(store.reader().history(&HistoryQuery::default()).unwrap(), []);

    store.restore(&contents(), &mut rows.iter().cloned().map(Ok)).unwrap();
    check(&mut *store, 9, &sample::entities());
    assert_eq!(store.reader().history(&HistoryQuery::default()).unwrap(), rows);
    store.restore(&contents(), &mut std::iter::empty()).expect_err("it is not empty");
    check(&mut *store, 9, &sample::entities());
}

fn check(store: &mut dyn Store, revision: u64, entities: &[Entity]) {
    let loaded = store.load().unwrap();
    assert_eq!(loaded.revision, revision);
    assert_eq!(loaded.entities, entities);
}

fn puts(entities: impl IntoIterator<Item = Entity>) -> Batch {
    Batch { writes: entities.into_iter().map(Write::Put).collect(), ..Batch::default() }
}

fn exported(store: &mut dyn Store) -> Vec<u8> {
    let mut out = Vec::new();
    archive::export(store, &mut out).unwrap();
    out
}

fn text(archive: &[u8]) -> &str {
    std::str::from_utf8(archive).unwrap()
}
