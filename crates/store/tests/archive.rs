//! Archives that are not whole or not right are refused with the line, and leave the store empty.

use forewarn_store::conformance::sample;
use forewarn_store::{HistoryQuery, MemoryStore, SqliteStore, Store, archive};

fn lines() -> Vec<String> {
    let mut store = MemoryStore::new();
    store.commit(0, &sample::batch()).unwrap();
    let mut out = Vec::new();
    let summary = archive::export(&mut store, &mut out).unwrap();
    assert_eq!((summary.records, summary.attachments, summary.history), (sample::entities().len() as u64, 5, 20));
    String::from_utf8(out).unwrap().lines().map(String::from).collect()
}

fn check(change: impl Fn(&mut Vec<String>), expected: &str) {
    let mut lines = lines();
    change(&mut lines);
    let archive: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let directory = tempfile::tempdir().unwrap();
    let stores: [Box<dyn Store>; 2] =
        [Box::new(MemoryStore::new()), Box::new(SqliteStore::open(directory.path()).unwrap())];
    for mut store in stores {
        let error = archive::import(archive.as_bytes(), &mut *store).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}\nexpected: {expected}");
        let loaded = store.load().unwrap();
        assert_eq!((loaded.revision, loaded.entities.len()), (0, 0), "after: {error}");
        assert_eq!(store.reader().history(&HistoryQuery::default()).unwrap(), [], "after: {error}");
    }
}

/// The number of the first line with this in it, and its place.
fn find(lines: &[String], part: &str) -> usize {
    lines.iter().position(|line| line.contains(part)).unwrap()
}

fn replace(lines: &mut [String], from: &str, to: &str) {
    let place = find(lines, from);
    lines[place] = lines[place].replace(from, to);
}

#[test]
fn what_is_not_an_archive_is_refused() {
    check(|lines| lines.clear(), "line 1 of the archive: the archive ends before its end line");
    check(|lines| lines[0] = "<html>".into(), "line 1 of the archive: this is not an archive of Forewarn");
    check(|lines| drop(lines.remove(0)), "line 1 of the archive: this is not an archive of Forewarn");
    check(|lines| replace(lines, "\"forewarn\"", "\"other\""), "this is not an archive of Forewarn");
    check(
        |lines| replace(lines, "\"version\":3", "\"version\":4"),
        "the archive is of version 4, and this program knows",
    );
    check(
        |lines| replace(lines, "\"revision\":1", "\"revision\":1,\"clock\":\"sundial\""),
        "line 1 of the archive: the clock",
    );
}

#[test]
fn an_archive_that_is_not_whole_is_refused() {
    check(|lines| drop(lines.pop()), "ends before its end line");
    check(|lines| lines.truncate(5), "line 6 of the archive: the archive ends before its end line");
    check(|lines| lines.push(lines[1].clone()), "there is more after the end line");
    check(|lines| drop(lines.remove(lines.len() - 2)), "20 rows of history, but has");
    check(
        |lines| drop(lines.remove(find(lines, "\"operation\""))),
        "records, 5 attachments and 20 rows of history, but has",
    );
}

#[test]
fn attachments_belong_to_something_and_have_their_place() {
    let attachment = |lines: &[String]| find(lines, "{\"attachment\":");
    check(
        |lines| replace(lines, "\"group\",\"key\":\"23\",\"name\"", "\"group\",\"key\":\"99\",\"name\""),
        "belongs to nothing",
    );
    check(|lines| lines.insert(attachment(lines) + 1, lines[1].clone()), "a record among attachments");
    check(|lines| lines.insert(lines.len() - 1, lines[attachment(lines)].clone()), "an attachment among history");
    check(|lines| drop(lines.remove(attachment(lines))), "5 attachments and 20 rows of history, but has");
}

#[test]
fn a_wrong_line_is_named() {
    check(|lines| lines[3] = "{".into(), "line 4 of the archive: EOF");
    check(|lines| lines[3] = "{\"song\":{}}".into(), "line 4 of the archive: unknown variant `song`");
    check(|lines| replace(lines, "\"power\":\"running\"", "\"power\":\"melted\""), "unknown power state 'melted'");
    check(|lines| lines.insert(3, lines[2].clone()), "line 4 of the archive: a second record host");
    check(|lines| lines.insert(3, lines[0].clone()), "line 4 of the archive: a second archive begins here");
    check(|lines| lines.insert(lines.len() - 1, lines[1].clone()), "a record among history");
    check(|lines| replace(lines, "\"number\":20", "\"number\":7"), "history is not in order");
    check(|lines| replace(lines, "\"event\":\"0000", "\"event\":\"x000"), "is not a GUID");
}

#[test]
fn records_that_do_not_fit_each_other_are_refused() {
    check(
        |lines| drop(lines.remove(find(lines, "\"kind\":\"scope\""))),
        "the records of the archive do not fit each other: event",
    );
}
