//! Conformance cases for history: the words of every fact, every filter, paging and retention.

use std::sync::Arc;

use forewarn_core::{
    Cause, EventKind, Fact, FactKind, MachineId, OperationResult, Plan, Request, ScopeId, Status, Target,
};

use super::sample::{self, at, event_id, operation_id};
use super::{Case, Fixture};
use crate::history::matches;
use crate::*;

pub(super) const ALL: &[Case] = &[
    ("every fact is stored in words", every_fact_is_stored_in_words),
    ("each filter selects its rows", each_filter_selects_its_rows),
    ("each filter selects its rows among many", each_filter_selects_its_rows_among_many),
    ("a reader on another thread sees each commit", a_reader_sees_each_commit),
    ("tickets are found by their words", tickets_are_found_by_their_words),
    ("pages are consecutive", pages_are_consecutive),
    ("a page is limited", a_page_is_limited),
    ("history never goes back in time", history_never_goes_back_in_time),
    ("the oldest rows are deleted first, a limited number at a time", the_oldest_rows_are_deleted_first),
];

/// Number, kind, event, operation, scope, machines, actor, target, outcome.
const ROWS: &[&str] = &[
    "1 audit - - - [] token:admin Machine-3 restart",
    "2 scope-on - - 3 [] - - -",
    "3 machine-added - - 3 [Machine-3] - - -",
    "4 appeared e001 f001+f065 2 [Machine-2] - - Reboot",
    "5 approved e001 f001+f065 2 [Machine-2] guest:Machine-2 - -",
    "6 approved e001 f001+f065 2 [Machine-2] management:bob - -",
    "7 approved e001 f001+f065 2 [Machine-2] policy - -",
    "8 started e001 f001+f065 2 [Machine-2] - - -",
    "9 ended e002 f002 3 [Machine-3] - - completed",
    "10 ended e003 f003+f067 4 [Machine-4] - - failed",
    "11 ended e004 f004 5 [Machine-5] - - timed-out",
    "12 ended e005 f005+f069 6 [Machine-6] - - superseded",
    "13 ended e006 f006 1 [Machine-1] - - no-effect",
    "14 ended e007 f007+f06b 2 [Machine-2] - - resource-gone",
    "15 ended e008 f008 3 [Machine-3] management:ann - canceled",
    "16 operation-ended - f032 - [] - - succeeded",
    "17 operation-ended - f033 - [] - - failed",
    "18 operation-ended - f034 - [] management:ann - canceled",
    "19 machine-removed - - 3 [Machine-3] - - -",
    "20 scope-off - - 3 [] - - -",
    "21 rollout - - - [] - 00000000-0000-0000-0000-000000007000 started",
    "22 rollout - f00b - [] - 00000000-0000-0000-0000-000000007000 step-started",
    "23 rollout - - - [] - 00000000-0000-0000-0000-000000007000 step-ended",
    "24 rollout - - - [] - 00000000-0000-0000-0000-000000007000 waiting",
    "25 rollout - - - [] - 00000000-0000-0000-0000-000000007000 paused",
    "26 rollout - - - [] - 00000000-0000-0000-0000-000000007000 resumed",
    "27 rollout - - - [] - 00000000-0000-0000-0000-000000007000 stopped",
    "28 rollout - - - [] - 00000000-0000-0000-0000-000000007000 failed",
    "29 rollout - - - [] - 00000000-0000-0000-0000-000000007000 finished",
    "30 host - - - [] - host-c draining",
    "31 host - - - [] - host-d drained",
    "32 host - - - [] - host-e failed",
];

fn every_fact_is_stored_in_words(fixture: &dyn Fixture) {
    let store = filled(fixture);
    let rows = store.reader().history(&HistoryQuery::default()).unwrap();
    assert_eq!(rows.iter().map(words).collect::<Vec<_>>(), ROWS);
    assert_eq!(rows[0].at, at(0));
    assert!(rows[1..].iter().enumerate().all(|(n, row)| row.at == at(n as i64)), "{rows:?}");
    let details: Vec<&str> = [1, 4, 8, 10, 17].map(|number: usize| &*rows[number - 1].detail).into();
    let request = r#""request":{"restart":{"machine":1}},"subscription":"subscription-1""#;
    assert_eq!(
        details,
        [
            r#"{"reason":"why not"}"#,
            r#"{"cause":"live-migration","description":"Virtual machine is being paused","duration_secs":0,"not_before":"2026-01-01T00:15:00.000Z","source":"Platform","subscription":"subscription-1","type":"Reboot","visibility":"shown"}"#,
            r#"{"cause":"live-migration","type":"Reboot"}"#,
            r#"{"cause":"user-redeploy","reason":"no power","type":"Preempt"}"#,
            &format!(
                r#"{{"asked":"2026-01-01T00:00:51.000Z","because":"timed-out","by":"ann","events":["{id}","{id}"],{request}}}"#,
                id = event_id(51)
            ),
        ]
    );
}

fn each_filter_selects_its_rows(fixture: &dyn Fixture) {
    let store = filled(fixture);
    let check = |query: HistoryQuery, expected: &[u64]| {
        let rows = store.reader().history(&query).unwrap();
        assert_eq!(rows.iter().map(|row| row.number).collect::<Vec<_>>(), expected, "{query:?}");
    };
    let all = HistoryQuery::default;
    let event = Some(event_id(1));
    let operation = Some(operation_id(1));
    let machine = |name: &str| Some(name.to_string());
    let kinds = |words: &[&str]| words.iter().filter_map(|word| HistoryKind::parse(word)).collect::<Vec<_>>();

    check(HistoryQuery { event, ..all() }, &[4, 5, 6, 7, 8]);
    check(HistoryQuery { event: Some(event_id(99)), ..all() }, &[]);
    check(HistoryQuery { operation, ..all() }, &[4, 5, 6, 7, 8]);
    check(HistoryQuery { operation: Some(operation_id(103)), ..all() }, &[10]);
    check(HistoryQuery { operation: Some(operation_id(51)), ..all() }, &[17]);
    check(HistoryQuery { machine: machine("mAchine-3"), ..all() }, &[1, 3, 9, 15, 19]);
    check(HistoryQuery { machine: machine("Machine"), ..all() }, &[]);
    let machine_id = |id: u64| Some(MachineId(id));
    check(HistoryQuery { machine_id: machine_id(3), ..all() }, &[3, 9, 15, 19]);
    // Audit rows have no IDs and are found by name.
    check(HistoryQuery { machine: machine("machine-3"), machine_id: machine_id(3), ..all() }, &[1, 3, 9, 15, 19]);
    // Another machine with the same name does not share the rows that have IDs.
    check(HistoryQuery { machine: machine("machine-3"), machine_id: machine_id(99), ..all() }, &[1]);
    check(
        HistoryQuery { machine: machine("machine-3"), machine_id: machine_id(3), kinds: kinds(&["ended"]), ..all() },
        &[9, 15],
    );
    check(HistoryQuery { machine_id: machine_id(3), newest: true, limit: Some(1), ..all() }, &[19]);
    check(HistoryQuery { event, machine_id: machine_id(2), ..all() }, &[4, 5, 6, 7, 8]);
    check(HistoryQuery { event, machine_id: machine_id(3), ..all() }, &[]);
    check(HistoryQuery { operation, machine: machine("machine-2"), machine_id: machine_id(9), ..all() }, &[]);
    check(HistoryQuery { machine: machine("machine-3"), scopes: vec![Some(3)], ..all() }, &[3, 9, 15, 19]);
    check(HistoryQuery { machine: machine("machine-3"), scopes: vec![None, Some(3)], ..all() }, &[1, 3, 9, 15, 19]);
    check(HistoryQuery { machine: machine("machine-3"), scopes: vec![None], ..all() }, &[1]);
    check(HistoryQuery { scopes: vec![Some(4), Some(99)], ..all() }, &[10]);
    let text = |text: &str| Some(text.to_string());
    check(HistoryQuery { target: text("HOST-c"), ..all() }, &[30]);
    check(HistoryQuery { target: text("machine-3"), ..all() }, &[1]);
    check(HistoryQuery { target: text("machine"), ..all() }, &[]);
    check(HistoryQuery { target: text("machine-3"), machine: machine("machine-3"), ..all() }, &[1]);
    check(HistoryQuery { target: text("machine-3"), machine_id: machine_id(3), ..all() }, &[]);
    check(HistoryQuery { target: text("host-c"), kinds: kinds(&["audit"]), ..all() }, &[]);
    check(HistoryQuery { actor: text("ANN"), ..all() }, &[15, 18]);
    check(HistoryQuery { actor: text("machine-2"), ..all() }, &[5]);
    check(HistoryQuery { actor: text("ann"), kinds: kinds(&["ended"]), ..all() }, &[15]);
    check(HistoryQuery { actor: text("stranger"), ..all() }, &[]);
    check(HistoryQuery { before: Some(3), ..all() }, &[1, 2]);
    check(HistoryQuery { before: Some(0), ..all() }, &[]);
    check(HistoryQuery { after: Some(4), before: Some(7), ..all() }, &[5, 6]);
    check(HistoryQuery { before: Some(19), newest: true, limit: Some(2), ..all() }, &[17, 18]);
    check(HistoryQuery { event, before: Some(7), newest: true, limit: Some(1), ..all() }, &[6]);
    check(HistoryQuery { machine_id: machine_id(3), before: Some(15), newest: true, limit: Some(1), ..all() }, &[9]);
    check(HistoryQuery { kinds: kinds(&["started"]), ..all() }, &[8]);
    check(HistoryQuery { kinds: kinds(&["started", "audit", "started"]), ..all() }, &[1, 8]);
    check(HistoryQuery { kinds: kinds(&["scope-off"]), ..all() }, &[20]);
    check(HistoryQuery { since: Some(at(17)), ..all() }, &[19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32]);
    check(HistoryQuery { since: Some(at(99)), ..all() }, &[]);
    check(HistoryQuery { until: Some(at(2)), ..all() }, &[1, 2, 3]);
    check(HistoryQuery { until: Some(at(0)), ..all() }, &[]);
    check(HistoryQuery { since: Some(at(3)), until: Some(at(5)), ..all() }, &[5, 6]);
    check(HistoryQuery { since: Some(at(5)), until: Some(at(3)), ..all() }, &[]);
    check(HistoryQuery { after: Some(18), ..all() }, &[19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32]);
    check(HistoryQuery { after: Some(u64::MAX), ..all() }, &[]);
    check(HistoryQuery { limit: Some(2), ..all() }, &[1, 2]);
    check(HistoryQuery { limit: Some(0), ..all() }, &[]);
    check(HistoryQuery { newest: true, limit: Some(2), ..all() }, &[31, 32]);
    check(HistoryQuery { newest: true, after: Some(31), limit: Some(2), ..all() }, &[32]);

    check(HistoryQuery { event, operation, machine: machine("machine-2"), ..all() }, &[4, 5, 6, 7, 8]);
    check(HistoryQuery { event, operation: Some(operation_id(2)), ..all() }, &[]);
    check(HistoryQuery { event, machine: machine("machine-3"), ..all() }, &[]);
    check(HistoryQuery { operation, machine: machine("machine-3"), ..all() }, &[]);
    check(
        HistoryQuery { event, kinds: kinds(&["approved", "started"]), newest: true, limit: Some(2), ..all() },
        &[7, 8],
    );
    check(HistoryQuery { operation, since: Some(at(4)), until: Some(at(6)), ..all() }, &[6, 7]);
    check(HistoryQuery { machine: machine("machine-3"), kinds: kinds(&["ended"]), ..all() }, &[9, 15]);
    check(HistoryQuery { machine: machine("machine-3"), newest: true, limit: Some(1), ..all() }, &[19]);
    check(HistoryQuery { kinds: kinds(&["ended", "audit"]), newest: true, limit: Some(3), ..all() }, &[13, 14, 15]);
    check(HistoryQuery { kinds: kinds(&["ended", "audit"]), limit: Some(3), ..all() }, &[1, 9, 10]);
    check(HistoryQuery { kinds: kinds(&["ended", "audit"]), after: Some(14), ..all() }, &[15]);
}

/// Stores may enter rows in their indexes in blocks, so every query is repeated on both sides of some thousand rows.
fn each_filter_selects_its_rows_among_many(fixture: &dyn Fixture) {
    let mut store = fixture.open();
    for revision in 0..75 {
        store.commit(revision, &sample::batch()).unwrap();
    }
    check_queries(&*store);
    drop(store);
    // Nothing is in memory.
    let mut store = fixture.open();
    check_queries(&*store);
    assert_eq!(store.forget_history(at(1000), 1500).unwrap(), 1500);
    check_queries(&*store);
    assert_eq!(store.forget_history(at(1000), 850).unwrap(), 850);
    check_queries(&*store);
    assert_eq!(store.forget_history(at(1000), 850).unwrap(), 50);
    store.commit(75, &sample::batch()).unwrap();
    check_queries(&*store);
}

/// Compares the results of many queries with a search through all rows.
fn check_queries(store: &dyn Store) {
    let reader = store.reader();
    let rows = read_all(&*reader);
    let middle = rows[rows.len() / 2].number;
    for filters in filters() {
        let all: Vec<&HistoryRow> = rows.iter().filter(|row| matches(&filters, row)).collect();
        for (after, before, limit) in [
            (None, None, None),
            (None, None, Some(7)),
            (None, Some(middle), Some(40)),
            (Some(middle), None, Some(40)),
            (Some(1000), Some(1100), None),
            (Some(2040), Some(2300), Some(20)),
        ] {
            for newest in [false, true] {
                let query = HistoryQuery { after, before, limit, newest, ..filters.clone() };
                let is_between = |number| after.is_none_or(|it| number > it) && before.is_none_or(|it| number < it);
                let mut expected: Vec<u64> =
                    all.iter().map(|row| row.number).filter(|number| is_between(*number)).collect();
                let left_out = expected.len().saturating_sub(query.page_size());
                match newest {
                    true => drop(expected.drain(..left_out)),
                    false => expected.truncate(expected.len() - left_out),
                }
                let found: Vec<u64> = reader.history(&query).unwrap().iter().map(|row| row.number).collect();
                assert_eq!(found, expected, "{query:?}");
            }
        }
    }
}

fn read_all(reader: &dyn Reader) -> Vec<HistoryRow> {
    let mut rows: Vec<HistoryRow> = Vec::new();
    loop {
        let after = rows.last().map(|row| row.number);
        let page = reader.history(&HistoryQuery { after, ..HistoryQuery::default() }).unwrap();
        if page.is_empty() {
            return rows;
        }
        rows.extend(page);
    }
}

fn filters() -> Vec<HistoryQuery> {
    let all = HistoryQuery::default;
    let text = |text: &str| Some(text.to_string());
    let event = Some(event_id(1));
    let operation = Some(operation_id(101));
    let (machine, machine_id) = (text("machine-3"), Some(MachineId(3)));
    let kinds = vec![HistoryKind::Ended, HistoryKind::Audit];
    vec![
        all(),
        HistoryQuery { event, ..all() },
        HistoryQuery { event, kinds: vec![HistoryKind::Approved], ..all() },
        HistoryQuery { operation: Some(operation_id(1)), ..all() },
        HistoryQuery { operation, ..all() },
        HistoryQuery { machine: machine.clone(), ..all() },
        HistoryQuery { machine: machine.clone(), kinds: kinds.clone(), scopes: vec![Some(3)], ..all() },
        HistoryQuery { machine_id, ..all() },
        HistoryQuery { machine_id, machine: machine.clone(), kinds: kinds.clone(), ..all() },
        HistoryQuery { target: text("host-c"), ..all() },
        HistoryQuery { target: machine, ..all() },
        HistoryQuery { actor: text("ann"), ..all() },
        HistoryQuery { ticket: text("no such ticket"), ..all() },
        HistoryQuery { kinds: vec![HistoryKind::Started], ..all() },
        HistoryQuery { kinds, ..all() },
        HistoryQuery { kinds: vec![HistoryKind::HostChanged], since: Some(at(30)), until: Some(at(40)), ..all() },
        HistoryQuery { event, since: Some(at(20)), ..all() },
        HistoryQuery { until: Some(at(31)), ..all() },
    ]
}

fn a_reader_sees_each_commit(fixture: &dyn Fixture) {
    let mut store = fixture.open();
    let reader = store.reader();
    let count = || {
        let reader = reader.clone();
        std::thread::spawn(move || reader.history(&HistoryQuery::default()).unwrap().len()).join().unwrap()
    };
    assert_eq!(count(), 0);
    for revision in 0..3 {
        store.commit(revision, &Batch { facts: vec![on(1)], ..Batch::default() }).unwrap();
        assert_eq!(count() as u64, revision + 1);
    }
}

fn tickets_are_found_by_their_words(fixture: &dyn Fixture) {
    let mut store = filled(fixture);
    let plan = |text: &str| Plan {
        kind: EventKind::Reboot,
        cause: Cause::HostMaintenance,
        at: None,
        notice: None,
        duration_secs: None,
        description: Some(text.into()),
    };
    let ended = |n: u64, text: &str| {
        let request = Request::Maintain { target: Target::Machines(vec![MachineId(1)]), plan: plan(text) };
        let operation = Arc::new(sample::operation(n, request, Some(OperationResult::Succeeded)));
        Fact { at: at(100), what: FactKind::OperationEnded(operation) }
    };
    let facts = vec![ended(60, "CHG-9 DIMM"), ended(61, "Fans (CHG-9), CHG-10"), ended(62, "CHG-99")];
    store.commit(1, &Batch { facts, ..Batch::default() }).unwrap();
    let find = |ticket: &str| HistoryQuery { ticket: Some(ticket.into()), ..HistoryQuery::default() };
    let check = |query: HistoryQuery, expected: &[u64]| {
        let rows = store.reader().history(&query).unwrap();
        assert_eq!(rows.iter().map(|row| row.number).collect::<Vec<_>>(), expected, "{query:?}");
    };
    check(find("chg-9"), &[33, 34]);
    check(find("Dimm CHG-9"), &[33]);
    check(find("CHG"), &[]);
    check(find(" "), &[]);
    check(HistoryQuery { newest: true, limit: Some(1), ..find("CHG-9") }, &[34]);
    check(HistoryQuery { operation: Some(operation_id(60)), ..find("CHG-9") }, &[33]);
    check(HistoryQuery { operation: Some(operation_id(62)), ..find("CHG-9") }, &[]);
    check(HistoryQuery { kinds: vec![HistoryKind::Ended], ..find("CHG-9") }, &[]);
}

fn pages_are_consecutive(fixture: &dyn Fixture) {
    let store = filled(fixture);
    let reader = store.reader();
    let mut query = HistoryQuery { limit: Some(3), ..HistoryQuery::default() };
    let mut found = Vec::new();
    loop {
        let page = reader.history(&query).unwrap();
        let Some(last) = page.last() else { break };
        query.after = Some(last.number);
        found.extend(page.iter().map(words));
    }
    assert_eq!(found, ROWS);
}

fn a_page_is_limited(fixture: &dyn Fixture) {
    let mut store = fixture.open();
    let max = u64::from(HISTORY_PAGE_MAX);
    store.commit(0, &Batch { facts: (0..max + 5).map(|n| on(n as i64)).collect(), ..Batch::default() }).unwrap();
    let numbers = |query: HistoryQuery| {
        let rows = store.reader().history(&query).unwrap();
        (rows.len() as u64, rows[0].number, rows[rows.len() - 1].number)
    };
    assert_eq!(numbers(HistoryQuery::default()), (max, 1, max));
    assert_eq!(numbers(HistoryQuery { limit: Some(u32::MAX), ..HistoryQuery::default() }), (max, 1, max));
    assert_eq!(numbers(HistoryQuery { newest: true, ..HistoryQuery::default() }), (max, 6, max + 5));
}

fn history_never_goes_back_in_time(fixture: &dyn Fixture) {
    let mut store = fixture.open();
    store.commit(0, &Batch { facts: vec![on(10), on(5)], ..Batch::default() }).unwrap();
    drop(store);
    let mut store = fixture.open();
    store.commit(1, &Batch { facts: vec![on(7), on(11)], ..Batch::default() }).unwrap();
    store.commit(2, &Batch { facts: vec![on(8)], ..Batch::default() }).unwrap();
    let rows = store.reader().history(&HistoryQuery::default()).unwrap();
    assert_eq!(rows.iter().map(|row| row.at).collect::<Vec<_>>(), [at(10), at(10), at(10), at(11), at(11)]);
}

fn the_oldest_rows_are_deleted_first(fixture: &dyn Fixture) {
    let mut store = filled(fixture);
    let left = |store: &dyn Store| store.reader().history(&HistoryQuery::default()).unwrap();
    assert_eq!(store.forget_history(at(0), 100).unwrap(), 0);
    assert_eq!(store.forget_history(at(5), 4).unwrap(), 4);
    assert_eq!(left(&*store)[0].number, 5);
    assert_eq!(store.forget_history(at(5), 4).unwrap(), 2);
    assert_eq!(store.forget_history(at(5), 4).unwrap(), 0);
    assert_eq!(left(&*store)[0].number, 7);
    let machine = HistoryQuery { machine: Some("machine-3".into()), ..HistoryQuery::default() };
    assert_eq!(store.reader().history(&machine).unwrap().len(), 3);
    assert_eq!(store.load().unwrap().revision, 1);

    assert_eq!(store.forget_history(at(1000), 100).unwrap(), 26);
    assert_eq!(left(&*store), []);
    drop(store);
    let mut store = fixture.open();
    let event = Arc::new(sample::event(1, Status::Scheduled));
    let facts = vec![Fact { at: at(2000), what: FactKind::Started(event) }];
    store.commit(1, &Batch { facts, ..Batch::default() }).unwrap();
    assert_eq!(left(&*store)[0].number, 33, "numbers are not reused");
}

fn filled(fixture: &dyn Fixture) -> Box<dyn Store> {
    let mut store = fixture.open();
    store.commit(0, &sample::batch()).unwrap();
    store
}

fn on(secs: i64) -> Fact {
    Fact { at: at(secs), what: FactKind::ScopeOn(ScopeId(1)) }
}

/// Renders a row without its time and detail. IDs are shortened to their last digits.
fn words(row: &HistoryRow) -> String {
    let id = |id: forewarn_core::Guid| format!("{:x}", id.0);
    let or = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let operations: Vec<_> = row.operation.iter().chain(&row.joined).copied().map(id).collect();
    let operations = if operations.is_empty() { "-".into() } else { operations.join("+") };
    let scope = or(row.scope.map(|scope| scope.to_string()));
    let machines = row.machines.join(",");
    let (actor, target, outcome) = (or(row.actor.clone()), or(row.target.clone()), or(row.outcome.clone()));
    let (number, kind, event) = (row.number, &row.kind, or(row.event.map(id)));
    format!("{number} {kind} {event} {operations} {scope} [{machines}] {actor} {target} {outcome}")
}
