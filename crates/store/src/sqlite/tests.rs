//! Tests specific to the SQLite store: files, permissions, locks, damage and query plans.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use forewarn_core::{
    Cause, Entity, EventKind, Fact, FactKind, Host, MachineId, Name, OperationResult, Plan, Request, Target, Write,
};
use rusqlite::ffi;
use tempfile::TempDir;

use super::*;
use crate::conformance::sample;

/// A data directory that contains the sample.
fn filled() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    SqliteStore::open(directory.path()).unwrap().commit(0, &sample::batch()).unwrap();
    directory
}

fn database(directory: &TempDir) -> std::path::PathBuf {
    directory.path().join("forewarn.db")
}

fn check_opening(directory: &Path, expected: &str) {
    let error = match SqliteStore::open(directory).map(|mut store| store.load()) {
        Err(error) | Ok(Err(error)) => error.to_string(),
        Ok(Ok(loaded)) => panic!("loaded {} entities; expected: {expected}", loaded.entities.len()),
    };
    assert!(error.contains(expected), "{error}\nexpected: {expected}");
}

#[test]
fn damaged_files_are_reported() {
    type Damage = fn(&Path);
    let cases: [(&str, Damage); 12] = [
        ("is not a database", |path| fs::write(path, "not a database, whatever its name says".repeat(100)).unwrap()),
        ("is empty. Restore", |path| fs::write(path, "").unwrap()),
        ("is damaged", |path| cut(path, |length| length / 2)),
        ("is damaged", |path| cut(path, |length| length - 4096)),
        ("is missing, but its log forewarn.db-wal exists", |path| {
            fs::rename(path, path.with_extension("db-wal")).unwrap()
        }),
        ("was not created by Forewarn", |path| sql(path, "PRAGMA application_id = 7")),
        ("its format is 12, but this program reads formats up to 11", |path| {
            sql(path, "UPDATE meta SET value = 12 WHERE key = 'format'")
        }),
        ("the format of forewarn.db is ''", |path| sql(path, "DELETE FROM meta WHERE key = 'format'")),
        ("the revision in forewarn.db is 'x'", |path| sql(path, "UPDATE meta SET value = 'x' WHERE key = 'revision'")),
        ("the record machine '3' has version 2", |path| {
            sql(path, "UPDATE records SET version = 2 WHERE kind = 'machine' AND key = '3'");
        }),
        ("the record machine '3' cannot be read", |path| {
            sql(path, "UPDATE records SET body = '{' WHERE kind = 'machine' AND key = '3'");
        }),
        ("the record host 'host-a' cannot be read: its version", |path| {
            sql(path, "UPDATE records SET body = x'ff' WHERE key = 'host-a'");
        }),
    ];
    for (expected, damage) in cases {
        let directory = filled();
        damage(&database(&directory));
        check_opening(directory.path(), expected);
    }
}

fn cut(path: &Path, length: fn(u64) -> u64) {
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(length(file.metadata().unwrap().len())).unwrap();
}

fn sql(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

#[test]
fn an_unknown_clock_kind_is_reported() {
    let directory = filled();
    sql(&database(&directory), "INSERT INTO meta VALUES ('clock', 'sundial')");
    let error = SqliteStore::open(directory.path()).unwrap().clock_kind().unwrap_err().to_string();
    assert!(error.contains("'sundial'"), "{error}");
}

#[test]
fn a_directory_that_cannot_be_created_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("file"), "").unwrap();
    check_opening(&directory.path().join("file/data"), "cannot create the data directory");
}

#[test]
fn only_one_server_can_open_a_directory_and_locks_do_not_go_stale() {
    let directory = tempfile::tempdir().unwrap();
    let first = SqliteStore::open(directory.path()).unwrap();
    check_opening(directory.path(), &format!("another server (process {}) is using", std::process::id()));
    drop(first);
    assert!(directory.path().join("lock").exists());
    SqliteStore::open(directory.path()).expect("a released lock does not block");
}

#[test]
fn an_interrupted_creation_is_cleaned_up() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["forewarn.db.new", "forewarn.db.new-wal"] {
        fs::write(directory.path().join(name), "half").unwrap();
    }
    let mut store = SqliteStore::open(directory.path()).unwrap();
    assert_eq!(store.load().unwrap().revision, 0);
    assert!(!directory.path().join("forewarn.db.new").exists());
}

#[test]
fn other_users_cannot_read_the_files() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("a/b");
    let mut store = SqliteStore::open(&directory).unwrap();
    store.commit(0, &sample::batch()).unwrap();
    store.copier().copy_to(&directory.join("copy")).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    for entry in fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    drop(store);
    let database = directory.join("forewarn.db");
    fs::set_permissions(&database, fs::Permissions::from_mode(0o644)).unwrap();
    SqliteStore::open(&directory).unwrap();
    assert_eq!(mode(&database), 0o600);
}

#[test]
fn a_closed_store_is_a_single_file() {
    let directory = filled();
    let mut names: Vec<_> = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["forewarn.db", "lock"]);
}

#[test]
fn commits_are_synced() {
    let directory = filled();
    let store = SqliteStore::open(directory.path()).unwrap();
    let pragma = |name| store.connection.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0));
    assert_eq!(pragma("journal_mode").unwrap(), "wal".to_string().into());
    assert_eq!(pragma("synchronous").unwrap(), 2.into(), "FULL");
}

#[test]
fn a_full_disk_is_refused_and_writes_nothing() {
    let directory = filled();
    let mut store = SqliteStore::open(directory.path()).unwrap();
    let before = store.load().unwrap().entities;
    let pages: i64 = store.connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    store.connection.pragma_update(None, "max_page_count", pages).unwrap();
    let writes = (0..1000).map(|n| format!("host-{n}").into()).map(Host::new);
    let mut batch = sample::batch();
    batch.writes.extend(writes.map(|host| Write::Put(Entity::Host(Arc::new(host)))));
    let Err(CommitError::Refused(source)) = store.commit(1, &batch) else { panic!("not refused") };
    assert!(source.to_string().contains("full"), "{source}");
    assert_eq!(store.load().unwrap().entities, before);
    assert_eq!(store.reader().history(&HistoryQuery::default()).unwrap().len(), 32);

    store.connection.pragma_update(None, "max_page_count", i64::from(u32::MAX - 1)).unwrap();
    assert_eq!(store.commit(1, &batch).unwrap(), 2);
}

#[test]
fn a_busy_database_is_refused() {
    let directory = filled();
    let mut store = SqliteStore::open(directory.path()).unwrap();
    store.connection.busy_timeout(std::time::Duration::ZERO).unwrap();
    let person = Connection::open(database(&directory)).unwrap();
    person.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(matches!(store.commit(1, &sample::batch()), Err(CommitError::Refused(_))));
    person.execute_batch("ROLLBACK").unwrap();
    assert_eq!(store.commit(1, &sample::batch()).unwrap(), 2);
}

#[test]
fn failed_commits_are_classified() {
    let directory = filled();
    let store = SqliteStore::open(directory.path()).unwrap();
    let fate = |expected, code| {
        let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        match store.classify_commit_error(expected, error) {
            CommitError::Refused(_) => "refused",
            CommitError::Doubt(_) => "doubt",
            CommitError::Conflict { .. } => "conflict",
        }
    };
    assert_eq!(fate(1, ffi::SQLITE_FULL), "refused");
    assert_eq!(fate(1, ffi::SQLITE_BUSY), "refused");
    assert_eq!(fate(0, ffi::SQLITE_FULL), "doubt", "the revision differs from the one before the commit");
    for code in [ffi::SQLITE_IOERR, ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_NOMEM, ffi::SQLITE_CORRUPT] {
        assert_eq!(fate(1, code), "doubt", "{code}");
    }
}

#[test]
fn every_history_query_uses_an_index() {
    let directory = filled();
    let store = SqliteStore::open(directory.path()).unwrap();
    let event = Some(sample::event_id(1));
    let operation = Some(sample::operation_id(1));
    let machine = Some("machine-1".to_string());
    let machine_id = Some(MachineId(1));
    let kinds = vec![HistoryKind::Ended, HistoryKind::Started];
    let all = HistoryQuery::default;
    for query in [
        all(),
        HistoryQuery { event, ..all() },
        HistoryQuery { event, operation, machine: machine.clone(), kinds: kinds.clone(), ..all() },
        HistoryQuery { operation, machine: machine.clone(), ..all() },
        HistoryQuery { machine: machine.clone(), kinds: kinds.clone(), ..all() },
        HistoryQuery { machine, scopes: vec![None, Some(1)], ..all() },
        HistoryQuery { target: Some("h1".into()), before: Some(9), ..all() },
        HistoryQuery { actor: Some("ann".into()), after: Some(1), before: Some(9), ..all() },
        HistoryQuery { machine_id, ..all() },
        HistoryQuery { machine_id, kinds: kinds.clone(), ..all() },
        HistoryQuery { ticket: Some("CHG-9 DIMM".into()), ..all() },
        HistoryQuery { ticket: Some("CHG-9".into()), kinds: kinds.clone(), ..all() },
        HistoryQuery { kinds, ..all() },
    ] {
        for newest in [false, true] {
            for sql in read::statements(&HistoryQuery { newest, ..query.clone() }) {
                check_plan(&store.connection, &sql);
            }
        }
    }
    for sql in [read::NEXT_ROW, &read::rows_between_sql()] {
        check_plan(&store.connection, sql);
    }
}

fn check_plan(connection: &Connection, sql: &str) {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let steps: Vec<String> = statement.raw_query().mapped(|row| row.get("detail")).collect::<Result<_, _>>().unwrap();
    assert!(!steps.is_empty());
    for step in &steps {
        assert!(!step.contains("SCAN") && !step.contains("TEMP B-TREE"), "{sql}\n{steps:#?}");
    }
}

/// More rows than a search reads one by one. Row 33 is the end of an operation with the ticket CHG-9.
fn with_long_history() -> TempDir {
    let directory = filled();
    let plan = Plan {
        kind: EventKind::Reboot,
        cause: Cause::HostMaintenance,
        at: None,
        notice: None,
        duration_secs: None,
        description: Some("CHG-9 DIMM".into()),
    };
    let request = Request::Maintain { target: Target::Host("host-a".into()), plan };
    let operation = sample::operation(60, request, Some(OperationResult::Succeeded));
    let fact = Fact { at: sample::at(100), what: FactKind::OperationEnded(Arc::new(operation)) };
    let mut store = SqliteStore::open(directory.path()).unwrap();
    store.commit(1, &Batch { facts: vec![fact], ..Batch::default() }).unwrap();
    for revision in 2..40 {
        store.commit(revision, &sample::batch()).unwrap();
    }
    directory
}

#[test]
fn deleting_history_removes_its_index_entries() {
    let directory = with_long_history();
    let mut store = SqliteStore::open(directory.path()).unwrap();
    let count = |store: &SqliteStore, table: &str| -> i64 {
        query_one(&store.connection, &format!("SELECT count(*) FROM {table}"), []).unwrap().unwrap()
    };
    for table in search::TABLES {
        assert!(count(&store, table) > 0, "{table}");
    }
    while store.forget_history(sample::at(1000), 1000).unwrap() > 0 {}
    for table in search::TABLES.into_iter().chain(["history"]) {
        assert_eq!(count(&store, table), 0, "{table}");
    }
}

#[test]
fn an_older_store_gets_its_search_tables() {
    let directory = with_long_history();
    let store = SqliteStore::open(directory.path()).unwrap();
    let search = |store: &SqliteStore| {
        let all = HistoryQuery::default;
        [
            HistoryQuery { ticket: Some("chg-9".into()), ..all() },
            HistoryQuery { event: Some(sample::event_id(1)), ..all() },
            HistoryQuery { kinds: vec![HistoryKind::Started], ..all() },
        ]
        .map(|query| store.reader().history(&query).unwrap().iter().map(|row| row.number).collect::<Vec<_>>())
    };
    let found = search(&store);
    assert_eq!((found[0].clone(), found[1].len(), found[2].len()), (vec![33], 5 * 39, 39));
    drop(store);
    let of_format_9 = "DROP TABLE history_words; DROP TABLE history_events; DROP TABLE history_kinds;
                       CREATE INDEX history_at ON history (at_ms);
                       CREATE INDEX history_kind ON history (kind);
                       CREATE INDEX history_event ON history (event) WHERE event IS NOT NULL;
                       UPDATE meta SET value = '9' WHERE key = 'format'";
    let of_format_10 = "DROP TABLE history_events;
                        CREATE TABLE history_events (event TEXT, number INT, PRIMARY KEY (event, number)) WITHOUT ROWID;
                        INSERT INTO history_events SELECT event, number FROM history WHERE event IS NOT NULL;
                        UPDATE meta SET value = '10' WHERE key = 'format'";
    for older in [of_format_9, of_format_10] {
        sql(&database(&directory), older);
        assert_eq!(search(&SqliteStore::open(directory.path()).unwrap()), found);
    }
}

/// The history of both stores fills three blocks and a part of a fourth.
#[test]
fn a_search_over_several_blocks_finds_what_a_search_in_memory_finds() {
    let directory = filled();
    let mut store = SqliteStore::open(directory.path()).unwrap();
    let mut memory = MemoryStore::new();
    memory.commit(0, &sample::batch()).unwrap();
    for revision in 1..110 {
        store.commit(revision, &sample::batch()).unwrap();
        memory.commit(revision, &sample::batch()).unwrap();
    }
    let newest = query_one::<u64>(&store.connection, "SELECT max(number) FROM history", []).unwrap().unwrap();
    assert!(newest > 3 * 1024 && !newest.is_multiple_of(1024), "{newest}");
    store.forget_recent_rows();
    let all = HistoryQuery::default;
    let machine = Some("machine-1".to_string());
    let filters = [
        all(),
        HistoryQuery { event: Some(sample::event_id(1)), ..all() },
        HistoryQuery { operation: Some(sample::operation_id(1)), kinds: vec![HistoryKind::Ended], ..all() },
        HistoryQuery { machine: machine.clone(), machine_id: Some(MachineId(1)), ..all() },
        HistoryQuery { event: Some(sample::event_id(1)), machine, ..all() },
        HistoryQuery { target: Some("host-a".into()), ..all() },
        HistoryQuery { kinds: vec![HistoryKind::Started, HistoryKind::Ended], ..all() },
    ];
    let bounds =
        [(None, None), (Some(1000), Some(2060)), (Some(1023), Some(1026)), (Some(3000), None), (None, Some(1025))];
    let limits = [None, Some(1), Some(70)];
    let check = |query: &HistoryQuery| {
        let [found, expected] = [store.reader(), memory.reader()].map(|reader| reader.history(query).unwrap());
        assert!(found == expected, "{query:?} finds {} rows instead of {}", found.len(), expected.len());
    };
    for (after, before) in bounds {
        for limit in limits {
            for filter in filters.clone() {
                let query = HistoryQuery { after, before, limit, ..filter };
                check(&query);
                check(&HistoryQuery { newest: true, ..query });
            }
        }
    }
}

#[test]
fn views_list_machines_and_events() {
    let directory = filled();
    let person = Connection::open(database(&directory)).unwrap();
    let text = |sql: &str| query_one::<String>(&person, sql, []).unwrap().unwrap();
    assert_eq!(
        text("SELECT name || ' ' || power || ' ' || host FROM machines WHERE id = 5"),
        "Machine-5 deallocated host-a"
    );
    assert_eq!(
        text("SELECT type || ' ' || status || ' ' || not_before || ' ' || machines FROM events WHERE seq = 1"),
        "Freeze scheduled 2026-01-01T00:15:00.000Z Machine-1"
    );
    assert_eq!(
        text("SELECT at || ' ' || machines FROM history WHERE kind = 'started'"),
        "2026-01-01T00:00:06.000Z [\"Machine-2\"]"
    );
}

#[test]
fn loaded_machines_share_what_they_have_in_common() {
    let directory = filled();
    let entities = SqliteStore::open(directory.path()).unwrap().load().unwrap().entities;
    let machine = |id| {
        entities.iter().find_map(|entity| match entity {
            Entity::Machine(machine) if machine.id == MachineId(id) => Some(machine.clone()),
            _ => None,
        })
    };
    let (one, other) = (machine(1).unwrap(), machine(2).unwrap());
    assert!(Arc::ptr_eq(&one.home, &other.home));
    assert!(Arc::ptr_eq(&one.details.shared, &other.details.shared));
    assert_eq!(one.addresses[0].network.as_ptr(), other.addresses[0].network.as_ptr());
}

/// More records than wait for decoding at once.
#[test]
fn many_records_are_read_in_order_and_a_damaged_one_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let pool = Name::from("p".repeat(2000));
    let host = |n: u32| Entity::Host(Arc::new(Host { pool: pool.clone(), ..Host::new(format!("host-{n:04}").into()) }));
    let hosts: Vec<Entity> = (0..2000).map(host).collect();
    let mut store = SqliteStore::open(directory.path()).unwrap();
    let batch = Batch { writes: hosts.iter().cloned().map(Write::Put).collect(), ..Batch::default() };
    store.commit(0, &batch).unwrap();
    assert_eq!(store.load().unwrap().entities, hosts);
    drop(store);
    sql(&database(&directory), "UPDATE records SET body = body || '}' WHERE key >= 'host-0500'");
    check_opening(directory.path(), "cannot be read: trailing characters");
}

#[test]
fn a_check_finds_damaged_pages_that_loading_does_not_read() {
    let directory = filled();
    assert_eq!(SqliteStore::quick_check(directory.path()).unwrap(), Vec::<String>::new());
    let root: i64 = Connection::open(database(&directory))
        .and_then(|connection| {
            query_one(&connection, "SELECT rootpage FROM sqlite_master WHERE name = 'attachments'", [])
                .map(Option::unwrap)
        })
        .unwrap();
    let mut bytes = fs::read(database(&directory)).unwrap();
    let page = 4096 * (usize::try_from(root).unwrap() - 1);
    bytes[page..page + 4096].fill(0xff);
    fs::write(database(&directory), bytes).unwrap();
    let mut store = SqliteStore::open(directory.path()).unwrap();
    assert!(store.load().is_ok(), "the region can still be read");
    let found = SqliteStore::quick_check(directory.path());
    assert!(found.is_err() || found.is_ok_and(|problems| !problems.is_empty()));
}

#[test]
fn a_slow_history_query_does_not_delay_the_attachments_of_guests() {
    let directory = filled();
    let store = SqliteStore::open(directory.path()).unwrap();
    let reader = store.reader.clone();
    let _slow = store.reader.lock_lists();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = sender.send(reader.attachment(Owner::Machine(MachineId(1)), "identity").is_ok());
    });
    assert_eq!(receiver.recv_timeout(std::time::Duration::from_secs(60)), Ok(true));
}
