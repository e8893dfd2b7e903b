//! The conformance suite on etcd, and failures of its members.

use std::collections::BTreeSet;

use forewarn_cluster::conformance::CASES;
use forewarn_cluster::{
    AppendResult, Entry, Hash, Heartbeat, Leader, Log, LogError, Nonce, Position, Record, RecordKind, TakeoverResult,
    Token,
};

use super::members::Members;
use super::{has_etcd, poll_until};

fn record(after: &Position, payload: &[u8]) -> Record {
    let nonce = Nonce { session: 7, counter: after.revision + 1 };
    Record { kind: RecordKind::Data, term: after.term, previous: after.hash, nonce, payload: payload.to_vec() }
}

fn lead(log: &mut dyn Log) -> Token {
    log.create(&Position::START).unwrap();
    let seen = log.read(1).unwrap().view.sighting();
    let leader = Leader { node: "a".into(), address: "a".into(), nonce: Nonce { session: 7, counter: 0 } };
    match log.take_over(seen, &leader).unwrap() {
        TakeoverResult::Won(token) => token,
        TakeoverResult::Lost => panic!("nothing has changed"),
    }
}

#[test]
fn the_log_on_etcd_conforms() {
    if !has_etcd() {
        return;
    }
    let members = Members::start(3);
    CASES.iter().for_each(|case| case.run(&members, case.name));
}

#[test]
fn commits_continue_while_any_one_member_is_down() {
    if !has_etcd() {
        return;
    }
    let mut members = Members::start(3);
    let mut log = members.log("one-down");
    let token = lead(&mut log);
    let mut head = Position::START;
    for index in 0..3 {
        members.kill(index);
        let record = record(&head, format!("without {index}").as_bytes());
        let entry = Entry::new(head.revision + 1, record.clone());
        // A commit whose answer was lost may have happened: then the log shows the record.
        poll_until("a commit", || match log.append(token, &head, &record) {
            Ok(AppendResult::Done) => Some(()),
            Ok(AppendResult::Conflict(conflict)) => (conflict.rival.as_ref() == Some(&entry)).then_some(()),
            Err(_) => None,
        });
        head = entry.position();
        members.restart(index);
        poll_until("the member", || {
            let backends = log.health().ok()?;
            backends.iter().all(|backend| backend.status.is_ok()).then_some(())
        });
    }
    assert_eq!(poll_until("a read", || log.read(1).ok()).view.head, Some(head));
}

#[test]
fn without_a_majority_nothing_is_written_and_recovery_needs_no_restart() {
    if !has_etcd() {
        return;
    }
    let mut members = Members::start(3);
    let mut log = members.log("quorum");
    let token = lead(&mut log);
    let head = Position::START;
    members.kill(0);
    members.kill(1);
    assert!(log.append(token, &head, &record(&head, b"lost")).is_err());
    assert!(matches!(log.read(1), Err(LogError::Unavailable(_))));
    assert!(log.write_heartbeat(token, 0, &Heartbeat { time_ms: 0, revision: 0 }).is_err());
    members.restart(0);
    members.restart(1);
    let heartbeat = Heartbeat { time_ms: 1, revision: 0 };
    poll_until("a heartbeat", || log.write_heartbeat(token, 0, &heartbeat).ok());
    assert!(poll_until("a read", || log.read(1).ok()).view.heartbeat.is_some());
}

#[test]
fn a_follower_survives_a_compaction_under_it() {
    if !has_etcd() {
        return;
    }
    let members = Members::start(1);
    let (mut writer, mut follower) = (members.log("compact"), members.log("compact"));
    let token = lead(&mut writer);
    let mut head = Position::START;
    let wait = std::time::Duration::from_millis(10);
    poll_until("the watch", || follower.follow(1, wait).ok());
    let mut seen = BTreeSet::new();
    for number in 0..6_u64 {
        let record = record(&head, &number.to_be_bytes());
        assert_eq!(writer.append(token, &head, &record), Ok(AppendResult::Done));
        head = record.position_at(head.revision + 1);
        if number % 2 == 1 {
            writer.truncate(token, number).unwrap();
        }
        let tail = poll_until("an entry", || {
            let tail = follower.follow(number + 1, wait).ok()?;
            (!tail.entries.is_empty()).then_some(tail)
        });
        seen.extend(tail.entries.iter().map(|entry| entry.revision));
    }
    assert_eq!(seen, (1..=6).collect());
    assert_ne!(head.hash, Hash::ZERO);
}
