//! Truncated or invalid archives are rejected with the line number, and leave the store empty.

use forewarn_store::conformance::sample;
use forewarn_store::{HistoryQuery, MemoryStore, SqliteStore, Store, archive};

fn lines() -> Vec<String> {
    let mut store = MemoryStore::new();
    store.commit(0, &sample::batch()).unwrap();
    let mut out = Vec::new();
    let summary = archive::export(&mut store, &mut out).unwrap();
    assert_eq!((summary.records, summary.attachments, summary.history), (sample::entities().len() as u64, 5, 32));
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

/// The index of the first line that contains this text.
fn find(lines: &[String], part: &str) -> usize {
    lines.iter().position(|line| line.contains(part)).unwrap()
}

fn replace(lines: &mut [String], from: &str, to: &str) {
    let place = find(lines, from);
    lines[place] = lines[place].replace(from, to);
}

#[test]
fn other_files_are_rejected() {
    check(|lines| lines.clear(), "line 1 of the archive: the archive is incomplete: the end line is missing");
    check(|lines| lines[0] = "<html>".into(), "line 1 of the archive: this is not a Forewarn archive");
    check(|lines| drop(lines.remove(0)), "line 1 of the archive: this is not a Forewarn archive");
    check(|lines| replace(lines, "\"forewarn\"", "\"other\""), "this is not a Forewarn archive");
    check(
        |lines| replace(lines, "\"version\":10", "\"version\":11"),
        "the archive has version 11, but this program reads",
    );
    check(
        |lines| replace(lines, "\"revision\":1", "\"revision\":1,\"clock\":\"sundial\""),
        "line 1 of the archive: the clock",
    );
}

#[test]
fn incomplete_archives_are_rejected() {
    check(|lines| drop(lines.pop()), "the end line is missing");
    check(|lines| lines.truncate(5), "line 6 of the archive: the archive is incomplete: the end line is missing");
    check(|lines| lines.push(lines[1].clone()), "unexpected data after the end line");
    check(|lines| drop(lines.remove(lines.len() - 2)), "32 history rows, found");
    check(
        |lines| drop(lines.remove(find(lines, "\"operation\""))),
        "records, 5 attachments and 32 history rows, found",
    );
}

#[test]
fn attachments_need_an_owner_and_come_after_records() {
    let attachment = |lines: &[String]| find(lines, "{\"attachment\":");
    check(
        |lines| replace(lines, "\"group\",\"key\":\"23\",\"name\"", "\"group\",\"key\":\"99\",\"name\""),
        "the owner of the attachment is not in the archive",
    );
    check(|lines| lines.insert(attachment(lines) + 1, lines[1].clone()), "unexpected record after the attachments");
    check(
        |lines| lines.insert(lines.len() - 1, lines[attachment(lines)].clone()),
        "unexpected attachment after the history",
    );
    check(|lines| drop(lines.remove(attachment(lines))), "5 attachments and 32 history rows, found");
}

#[test]
fn errors_name_the_line() {
    check(|lines| lines[3] = "{".into(), "line 4 of the archive: EOF");
    check(|lines| lines[3] = "{\"song\":{}}".into(), "line 4 of the archive: unknown variant `song`");
    check(|lines| replace(lines, "\"power\":\"running\"", "\"power\":\"melted\""), "unknown power state 'melted'");
    check(|lines| lines.insert(3, lines[2].clone()), "line 4 of the archive: duplicate record host");
    check(|lines| lines.insert(3, lines[0].clone()), "line 4 of the archive: unexpected second archive header");
    check(|lines| lines.insert(lines.len() - 1, lines[1].clone()), "unexpected record after the history");
    check(|lines| replace(lines, "\"number\":20", "\"number\":7"), "the history is out of order");
    check(|lines| replace(lines, "\"event\":\"0000", "\"event\":\"x000"), "is not a GUID");
}

#[test]
fn contradictory_records_are_rejected() {
    check(
        |lines| drop(lines.remove(find(lines, "\"kind\":\"scope\""))),
        "the records of the archive contradict each other: event",
    );
}
