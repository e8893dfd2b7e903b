//! Copies whose records are stored together: what readers see before, and what is left after a crash or an error.

use forewarn_core::{Entity, Key, Timestamp, Write};
use forewarn_store::conformance::sample;
use forewarn_store::faulty::{Fault, Faults, FaultyStore};
use forewarn_store::{
    Attachment, BufferedStore, Change, HistoryQuery, HistoryRow, MemoryStore, Owner, Reader as _, Replicated,
    Store as _,
};

/// A copy, the store behind it as it would be found after a crash of the process, and the store's faults.
fn buffered() -> (BufferedStore, MemoryStore, Faults) {
    let stored = MemoryStore::new();
    let (faulty, faults) = FaultyStore::new(stored.clone());
    let mut store = BufferedStore::new(Box::new(faulty)).unwrap();
    let writes = sample::entities().into_iter().map(Write::Put).collect();
    let change = Change { writes, ..rows_after(store.newest_row().unwrap()) };
    store.apply(1, "1", &[change]).unwrap();
    store.sync().unwrap();
    (store, stored, faults)
}

/// A change with the history rows of the sample after this one.
fn rows_after(newest: (Timestamp, u64)) -> Change {
    Change { writes: Vec::new(), attachments: Vec::new(), ..Change::of_batch(sample::batch(), newest) }
}

/// Applies such a change. Returns its rows.
fn add_rows(store: &mut BufferedStore, revision: u64) -> Vec<HistoryRow> {
    let change = rows_after(store.newest_row().unwrap());
    store.apply(revision, &revision.to_string(), std::slice::from_ref(&change)).unwrap();
    change.rows
}

fn after(number: u64) -> HistoryQuery {
    HistoryQuery { after: Some(number), ..HistoryQuery::default() }
}

#[test]
fn records_are_visible_at_once_and_stored_when_they_are_synced() {
    let (mut store, mut stored, _) = buffered();
    let (reader, last) = (store.reader(), store.newest_row().unwrap().1);
    let rows = [add_rows(&mut store, 2), add_rows(&mut store, 3)].concat();
    assert_eq!(reader.recent_history(&after(last)).as_ref(), Some(&rows));
    assert_eq!(store.newest_row().unwrap().1, last + rows.len() as u64);
    assert_eq!(stored.position().unwrap().as_deref(), Some("1"), "a crash loses what was not synced");
    store.sync().unwrap();
    assert_eq!(stored.position().unwrap().as_deref(), Some("3"));
    assert_eq!(stored.history(&after(last)).unwrap(), rows);
}

/// Each kind of read, and what must be stored for it.
#[test]
fn a_read_that_memory_cannot_answer_sees_what_was_applied() {
    let machine = sample::entities().into_iter().find_map(|entity| match entity {
        Entity::Machine(machine) => Some(machine.id),
        _ => None,
    });
    let owner = Owner::Machine(machine.expect("the samples have a machine"));
    let attach = |name: &str| Change { attachments: vec![Attachment::put(owner, name, "1")], ..Change::default() };
    let (mut store, mut stored, _) = buffered();
    let reader = store.reader();
    let rows = add_rows(&mut store, 2);
    assert_eq!(reader.attachment(owner, "a").unwrap(), None);
    assert_eq!(stored.position().unwrap().as_deref(), Some("1"), "rows do not concern attachments");
    let all = reader.history(&HistoryQuery::default()).unwrap();
    assert!(all.ends_with(&rows));
    assert_eq!(stored.position().unwrap().as_deref(), Some("2"));

    store.apply(3, "3", &[attach("a")]).unwrap();
    assert_eq!(reader.attachment(owner, "a").unwrap().as_deref(), Some("1"));
    store.apply(4, "4", &[attach("b")]).unwrap();
    assert_eq!(reader.attachments(owner, "", None, 9).unwrap().len(), 2);
    store.apply(5, "5", &[attach("c")]).unwrap();
    assert!(reader.all_attachments(None).unwrap().len() >= 3);
    let Owner::Machine(machine) = owner else { panic!("a machine") };
    let gone = Change { writes: vec![Write::Delete(Key::Machine(machine))], ..Change::default() };
    store.apply(6, "6", &[gone]).unwrap();
    assert_eq!(reader.attachment(owner, "a").unwrap(), None, "deleted with its owner");

    let rows = add_rows(&mut store, 7);
    let forget = Change { forget_through: Some(rows[0].number), ..Change::default() };
    store.apply(8, "8", &[forget]).unwrap();
    assert_eq!(reader.history(&HistoryQuery::default()).unwrap(), rows[1..]);
}

#[test]
fn a_snapshot_for_another_server_has_everything() {
    let directory = tempfile::tempdir().unwrap();
    let (mut store, _, _) = buffered();
    let copier = store.copier();
    add_rows(&mut store, 2);
    copier.copy_to(&directory.path().join("copy")).unwrap();
    let mut other = MemoryStore::new();
    other.install(&directory.path().join("copy")).unwrap();
    assert_eq!(other.position().unwrap().as_deref(), Some("2"));
}

/// As with a full disk: nothing more is applied until everything before is stored.
#[test]
fn records_that_could_not_be_stored_are_kept_and_stored_later() {
    let (mut store, mut stored, faults) = buffered();
    let rows = add_rows(&mut store, 2);
    faults.next_apply(Fault::Refused);
    assert!(store.sync().is_err());
    faults.next_apply(Fault::Refused);
    assert!(store.apply(3, "3", &[Change::default()]).is_err());
    faults.next_apply(Fault::Refused);
    assert!(store.load().is_err(), "the store is behind what readers have seen");
    assert_eq!(stored.position().unwrap().as_deref(), Some("1"));
    store.apply(3, "3", &[Change::default()]).unwrap();
    assert_eq!(stored.position().unwrap().as_deref(), Some("2"));
    store.sync().unwrap();
    assert_eq!(stored.position().unwrap().as_deref(), Some("3"));
    assert!(stored.history(&HistoryQuery::default()).unwrap().ends_with(&rows));
    assert_eq!(faults.left(), 0);
}

/// Until the thread has done something: it needs no time of the clock, but a turn.
fn wait_until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let mut turns = 0;
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        turns += 1;
        assert!(turns < 100_000_000, "the thread does nothing");
        std::thread::yield_now();
    }
}

#[test]
fn records_are_applied_while_others_are_made_durable() {
    let (mut store, mut stored, faults) = buffered();
    add_rows(&mut store, 2);
    faults.stall();
    assert_eq!(store.sync_in_background(2).unwrap(), 0, "nothing was made durable in the background yet");
    let rows = add_rows(&mut store, 3);
    assert_eq!(store.sync_in_background(3).unwrap(), 0);
    assert_eq!(store.newest_row().unwrap().1, rows.last().unwrap().number);
    faults.resume();
    wait_until(|| (store.sync_in_background(3).unwrap() == 3).then_some(()));
    assert_eq!(stored.position().unwrap().as_deref(), Some("3"));
}

#[test]
fn a_reader_waits_for_the_transaction_that_it_needs() {
    let (mut store, _, faults) = buffered();
    let reader = store.reader();
    let rows = add_rows(&mut store, 2);
    faults.stall();
    store.sync_in_background(2).unwrap();
    let history = std::thread::scope(|scope| {
        let history = scope.spawn(|| reader.history(&HistoryQuery::default()).unwrap());
        faults.resume();
        history.join().unwrap()
    });
    assert!(history.ends_with(&rows));
}

#[test]
fn a_failure_in_the_background_is_reported_and_repeated() {
    let (mut store, mut stored, faults) = buffered();
    add_rows(&mut store, 2);
    faults.next_apply(Fault::Refused);
    faults.next_apply(Fault::Refused);
    wait_until(|| store.sync_in_background(2).err());
    assert_eq!((faults.left(), stored.position().unwrap().as_deref()), (0, Some("1")));
    assert_eq!(store.sync_in_background(2).unwrap(), 2, "the owner's thread repeats it");
    assert_eq!(stored.position().unwrap().as_deref(), Some("2"));
}

#[test]
fn a_transaction_that_happened_although_it_failed_is_not_repeated() {
    let (mut store, mut stored, faults) = buffered();
    add_rows(&mut store, 2);
    faults.next_apply(Fault::DoneButDoubt);
    store.sync().unwrap();
    assert_eq!((stored.position().unwrap().as_deref(), faults.left()), (Some("2"), 0));
    add_rows(&mut store, 3);
    store.sync().unwrap();
    assert_eq!(stored.position().unwrap().as_deref(), Some("3"));
}

#[test]
fn many_records_are_stored_before_they_are_synced() {
    let (mut store, mut stored, _) = buffered();
    let mut revision = 1;
    while stored.position().unwrap().as_deref() == Some("1") {
        revision += 1;
        assert!(revision < 100_000, "the queue has no limit");
        add_rows(&mut store, revision);
    }
}
