//! Conformance cases for attachments: lookup, order, and removal together with the owner.

use forewarn_core::{GroupId, MachineId, Write};

use super::{Case, Fixture, sample};
use crate::*;

pub(super) const ALL: &[Case] = &[
    ("attachments are found by owner and name", attachments_are_found),
    ("attachments are listed by prefix, page by page", attachments_are_listed),
    ("an attachment can be replaced and removed", an_attachment_can_be_replaced_and_removed),
    ("deleting an entity deletes its attachments", deleting_an_entity_deletes_its_attachments),
    ("all attachments are listed in one order", all_attachments_are_listed),
    ("a stale commit attaches nothing", a_stale_commit_attaches_nothing),
];

const ONE: Owner = Owner::Machine(MachineId(1));
const ELEVEN: Owner = Owner::Machine(MachineId(11));

fn attachments_are_found(fixture: &dyn Fixture) {
    let mut store = fixture.open();
    commit(&mut *store, 0, [put(ONE, "a", "1"), put(ELEVEN, "a", "11"), put(Owner::Region, "a", "r")]);
    drop(store);
    let reader = fixture.open().reader();
    for (owner, value) in [(ONE, Some("1")), (ELEVEN, Some("11")), (Owner::Region, Some("r"))] {
        assert_eq!(reader.attachment(owner, "a").unwrap().as_deref(), value);
    }
    assert_eq!(reader.attachment(ONE, "b").unwrap(), None);
    assert_eq!(reader.attachment(Owner::Group(GroupId(1)), "a").unwrap(), None);
}

fn attachments_are_listed(fixture: &dyn Fixture) {
    let mut store = fixture.open();
    let names = ["a", "x/1", "x/2", "x/3", "x0", "X/1", "y"];
    commit(&mut *store, 0, names.map(|name| put(ONE, name, name)));
    commit(&mut *store, 1, [put(ELEVEN, "x/9", "another owner's")]);
    let reader = store.reader();
    let listed = |prefix: &str, after, limit| -> Vec<String> {
        let found = reader.attachments(ONE, prefix, after, limit).unwrap();
        assert!(found.iter().all(|(name, value)| name == value));
        found.into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(listed("x/", None, 10), ["x/1", "x/2", "x/3"]);
    assert_eq!(listed("x/", None, 2), ["x/1", "x/2"]);
    assert_eq!(listed("x/", Some("x/2"), 2), ["x/3"]);
    assert_eq!(listed("x/", Some("a"), 1), ["x/1"]);
    assert_eq!(listed("x/", Some("y"), 10), [""; 0]);
    assert_eq!(listed("", None, 10), ["X/1", "a", "x/1", "x/2", "x/3", "x0", "y"]);
    assert_eq!(listed("z", None, 10), [""; 0]);
}

fn an_attachment_can_be_replaced_and_removed(fixture: &dyn Fixture) {
    let mut store = fixture.open();
    commit(&mut *store, 0, [put(ONE, "a", "old"), put(ONE, "b", "kept")]);
    commit(&mut *store, 1, [put(ONE, "a", "new"), Attachment::remove(ONE, "never there")]);
    assert_eq!(store.reader().attachment(ONE, "a").unwrap().as_deref(), Some("new"));
    commit(&mut *store, 2, [put(ONE, "a", "newer"), Attachment::remove(ONE, "a")]);
    assert_eq!(store.reader().attachment(ONE, "a").unwrap(), None);
    assert_eq!(store.reader().attachment(ONE, "b").unwrap().as_deref(), Some("kept"));
}

fn deleting_an_entity_deletes_its_attachments(fixture: &dyn Fixture) {
    let mut store = fixture.open();
    store.commit(0, &sample::batch()).unwrap();
    let mut left = sample::attachments();
    for (n, entity) in sample::entities().iter().enumerate() {
        let batch = Batch { writes: vec![Write::Delete(entity.key())], ..Batch::default() };
        store.commit(n as u64 + 1, &batch).unwrap();
        left.retain(|attachment| attachment.owner.key() != entity.key());
        assert_eq!(store.reader().all_attachments(None).unwrap(), left);
    }
    assert_eq!(left, []);
}

fn all_attachments_are_listed(fixture: &dyn Fixture) {
    let mut store = fixture.open();
    let mut many: Vec<_> = (0..ATTACHMENTS_PAGE_MAX + 7).map(|n| put(ONE, &format!("{n:06}"), "")).collect();
    many.push(put(Owner::Region, "", "no name"));
    commit(&mut *store, 0, many.clone());
    let reader = store.reader();
    let mut found = reader.all_attachments(None).unwrap();
    assert_eq!(found.len(), ATTACHMENTS_PAGE_MAX as usize);
    let last = found.last().cloned().expect("there is a last one");
    found.extend(reader.all_attachments(Some((last.owner, &last.name))).unwrap());
    assert_eq!(found, many);
}

fn a_stale_commit_attaches_nothing(fixture: &dyn Fixture) {
    let mut store = fixture.open();
    let batch = Batch { attachments: vec![put(ONE, "a", "1")], ..Batch::default() };
    store.commit(7, &batch).expect_err("the revision is 0");
    assert_eq!(store.reader().all_attachments(None).unwrap(), []);
}

fn put(owner: Owner, name: &str, value: &str) -> Attachment {
    Attachment::put(owner, name, value)
}

fn commit(store: &mut dyn Store, revision: u64, attachments: impl IntoIterator<Item = Attachment>) {
    let attachments = attachments.into_iter().collect();
    store.commit(revision, &Batch { attachments, ..Batch::default() }).unwrap();
}
