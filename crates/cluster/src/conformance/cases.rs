//! The cases of the conformance suite.

use std::time::{Duration, Instant};

use super::sample::{append, append_many, heartbeat, lead, leader, member, noise, record};
use super::{Case, TestServer};
use crate::contract::{
    AppendResult, Conflict, Created, Heartbeat, HeartbeatResult, Log, LogError, ObservedVersions, READ_ENTRIES_MAX,
    TakeoverResult, Token, TruncateResult,
};
use crate::encoding::PAYLOAD_BYTES_MAX;
use crate::record::{Entry, Hash, Position};

macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        /// All cases.
        pub const CASES: &[Case] = &[$(Case { name: stringify!($name), run: $name }),*];
    };
}

cases![
    a_region_is_created_once,
    a_missing_region_has_no_head,
    entries_come_back_in_order_with_their_head,
    long_logs_are_read_in_pages,
    a_commit_with_an_old_token_is_refused,
    a_commit_at_another_head_is_refused_and_shows_its_rival,
    a_commit_by_another_chain_is_refused,
    a_takeover_needs_an_unchanged_leader_and_heartbeat,
    heartbeats_are_fenced_and_return_the_head,
    heartbeats_arrive_in_order,
    only_the_leader_can_resign,
    members_report_their_progress,
    truncation_removes_the_beginning_and_is_fenced,
    records_over_one_megabyte_survive,
    a_payload_over_the_limit_is_refused,
    followers_wake_up_for_records,
    followers_get_every_record_once_and_in_order,
    followers_wake_up_when_the_leader_resigns,
    followers_do_not_wait_for_a_leader_that_has_resigned,
    following_ends_without_news,
    regions_are_separate,
    the_service_reports_its_health,
];

/// Much longer than anything here takes; only a defect waits for it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Entries of a log, whatever the size of its pages.
fn read_all(log: &mut dyn Log, mut from: u64) -> Vec<Entry> {
    let mut all = Vec::new();
    loop {
        let page = log.read(from).expect("read").entries;
        let Some(last) = page.last() else { return all };
        assert!(page.len() <= READ_ENTRIES_MAX);
        from = last.revision + 1;
        all.extend(page);
    }
}

fn conflict(answer: AppendResult) -> Conflict {
    match answer {
        AppendResult::Conflict(conflict) => *conflict,
        AppendResult::Done => panic!("a commit was accepted that must be refused"),
    }
}

fn a_region_is_created_once(server: &TestServer<'_>) {
    let first = Position { revision: 7, term: 2, hash: Hash([3; 32]) };
    assert_eq!(server.open().create(&first), Ok(Created::New));
    assert_eq!(server.open().create(&Position::START), Ok(Created::Exists(first)));
    assert_eq!(server.open().read(8).expect("read").view.head, Some(first));
}

fn a_missing_region_has_no_head(server: &TestServer<'_>) {
    let tail = server.open().read(1).expect("read");
    assert_eq!((tail.view.head, tail.view.leader, tail.view.heartbeat), (None, None, None));
    assert!(tail.entries.is_empty());
}

fn entries_come_back_in_order_with_their_head(server: &TestServer<'_>) {
    let (mut writer, mut reader) = (server.open(), server.open());
    let token = lead(&mut *writer, "a");
    let head = append_many(&mut *writer, token, 3);
    let tail = reader.read(1).expect("read");
    assert_eq!(tail.view.head, Some(head));
    assert_eq!(tail.view.leader, Some((token, leader("a"))));
    let payloads: Vec<&[u8]> = tail.entries.iter().map(|entry| &entry.record.payload[..]).collect();
    assert_eq!(payloads, [b"0", b"1", b"2"]);
    assert_eq!(tail.entries[2].position(), head);
    assert_eq!(reader.read(3).expect("read").entries, tail.entries[2..]);
    assert!(reader.read(4).expect("read").entries.is_empty());
}

fn long_logs_are_read_in_pages(server: &TestServer<'_>) {
    let mut log = server.open();
    let token = lead(&mut *log, "a");
    let number = READ_ENTRIES_MAX as u64 + 5;
    append_many(&mut *log, token, number);
    let revisions: Vec<u64> = read_all(&mut *log, 1).iter().map(|entry| entry.revision).collect();
    assert_eq!(revisions, (1..=number).collect::<Vec<_>>());
}

fn a_commit_with_an_old_token_is_refused(server: &TestServer<'_>) {
    let (mut old, mut new) = (server.open(), server.open());
    let first = lead(&mut *old, "a");
    let second = lead(&mut *new, "b");
    assert_ne!(first, second);
    let start = Position::START;
    let refused = conflict(old.append(first, &start, &record(&start, b"late")).expect("append"));
    assert_eq!(refused.view.token(), Some(second));
    assert_eq!((refused.view.head, refused.rival), (Some(start), None));
    assert!(old.read(1).expect("read").entries.is_empty());
    append(&mut *new, second, &start, b"current");
}

fn a_commit_at_another_head_is_refused_and_shows_its_rival(server: &TestServer<'_>) {
    let mut log = server.open();
    let token = lead(&mut *log, "a");
    let start = Position::START;
    let head = append(&mut *log, token, &start, b"first");
    let refused = conflict(log.append(token, &start, &record(&start, b"second")).expect("append"));
    assert_eq!((refused.view.token(), refused.view.head), (Some(token), Some(head)));
    assert_eq!(refused.rival, Some(Entry::new(1, record(&start, b"first"))));
    assert_eq!(read_all(&mut *log, 1).len(), 1);
}

fn a_commit_by_another_chain_is_refused(server: &TestServer<'_>) {
    let mut log = server.open();
    let token = lead(&mut *log, "a");
    let head = append(&mut *log, token, &Position::START, b"first");
    for other in [Position { hash: Hash([1; 32]), ..head }, Position { term: 9, ..head }] {
        conflict(log.append(token, &other, &record(&other, b"second")).expect("append"));
    }
}

fn a_takeover_needs_an_unchanged_leader_and_heartbeat(server: &TestServer<'_>) {
    let (mut first, mut second) = (server.open(), server.open());
    let token = lead(&mut *first, "a");
    let seen = second.read(1).expect("read").view.sighting();
    send_heartbeat(&mut *first, token, &heartbeat(0));
    assert_eq!(second.take_over(seen, &leader("b")), Ok(TakeoverResult::Lost), "the leader has sent a heartbeat");
    let seen = second.read(1).expect("read").view.sighting();
    let TakeoverResult::Won(new) = second.take_over(seen, &leader("b")).expect("take over") else { panic!("lost") };
    assert!(new > token);
    assert_eq!(first.take_over(seen, &leader("c")), Ok(TakeoverResult::Lost), "there is another leader");
    assert_eq!(first.read(1).expect("read").view.leader, Some((new, leader("b"))));
}

fn heartbeats_are_fenced_and_return_the_head(server: &TestServer<'_>) {
    let (mut old, mut new) = (server.open(), server.open());
    let first = lead(&mut *old, "a");
    let head = append_many(&mut *old, first, 2);
    assert_eq!(send_heartbeat(&mut *old, first, &heartbeat(2)), Some(head));
    let view = new.read(1).expect("read").view;
    assert_eq!(view.heartbeat, Some(heartbeat(2)));
    lead(&mut *new, "b");
    assert_eq!(old.write_heartbeat(first, view.heartbeat_version, &heartbeat(3)), Ok(HeartbeatResult::Deposed));
    let after = new.read(1).expect("read").view;
    assert_eq!((after.heartbeat, after.heartbeat_version), (Some(heartbeat(2)), view.heartbeat_version));
}

/// A late heartbeat must not replace a newer one.
fn heartbeats_arrive_in_order(server: &TestServer<'_>) {
    let mut log = server.open();
    let token = lead(&mut *log, "a");
    send_heartbeat(&mut *log, token, &heartbeat(1));
    let version = log.read(1).expect("read").view.heartbeat_version;
    assert_eq!(log.write_heartbeat(token, 0, &heartbeat(0)), Ok(HeartbeatResult::Overtaken { version }));
    assert_eq!(log.read(1).expect("read").view.heartbeat, Some(heartbeat(1)));
    send_heartbeat(&mut *log, token, &heartbeat(2));
    assert_eq!(log.read(1).expect("read").view.heartbeat, Some(heartbeat(2)));
}

/// Sends a heartbeat that must be accepted, and returns the head at that time.
fn send_heartbeat(log: &mut dyn Log, token: Token, heartbeat: &Heartbeat) -> Option<Position> {
    let before = log.read(1).expect("read").view.heartbeat_version;
    match log.write_heartbeat(token, before, heartbeat).expect("heartbeat") {
        HeartbeatResult::Done { version, head } => {
            assert!(version > before);
            head
        }
        refused => panic!("a heartbeat was refused: {refused:?}"),
    }
}

fn only_the_leader_can_resign(server: &TestServer<'_>) {
    let (mut old, mut new) = (server.open(), server.open());
    let first = lead(&mut *old, "a");
    let second = lead(&mut *new, "b");
    old.resign(first).expect("resign");
    assert_eq!(new.read(1).expect("read").view.token(), Some(second));
    new.resign(second).expect("resign");
    let view = new.read(1).expect("read").view;
    assert_eq!((view.leader.clone(), view.sighting().leader_version), (None, 0));
    let start = Position::START;
    conflict(new.append(second, &start, &record(&start, b"late")).expect("append"));
    assert!(matches!(old.take_over(view.sighting(), &leader("a")), Ok(TakeoverResult::Won(_))));
}

fn members_report_their_progress(server: &TestServer<'_>) {
    let (mut a, mut b) = (server.open(), server.open());
    a.report(&member("a", 5)).expect("report");
    b.report(&member("b", 3)).expect("report");
    b.report(&member("b", 4)).expect("report");
    assert_eq!(a.roster().expect("roster").members, [member("a", 5), member("b", 4)]);
    a.remove("b").expect("remove");
    a.remove("b").expect("removing twice");
    assert_eq!(b.roster().expect("roster").members, [member("a", 5)]);
}

fn truncation_removes_the_beginning_and_is_fenced(server: &TestServer<'_>) {
    let (mut old, mut new) = (server.open(), server.open());
    let first = lead(&mut *old, "a");
    let head = append_many(&mut *old, first, 5);
    assert_eq!(old.truncate(first, 2), Ok(TruncateResult::Done));
    let revisions = |log: &mut dyn Log| -> Vec<u64> { read_all(log, 1).iter().map(|entry| entry.revision).collect() };
    assert_eq!(revisions(&mut *new), [3, 4, 5]);
    lead(&mut *new, "b");
    assert_eq!(old.truncate(first, 4), Ok(TruncateResult::Deposed));
    assert_eq!(revisions(&mut *new), [3, 4, 5]);
    assert_eq!(new.read(1).expect("read").view.head, Some(head));
}

fn records_over_one_megabyte_survive(server: &TestServer<'_>) {
    let (mut writer, mut reader) = (server.open(), server.open());
    let token = lead(&mut *writer, "a");
    let (large, largest) = (noise((1 << 20) + 1), noise(5 << 20));
    let head = append(&mut *writer, token, &Position::START, &large);
    let head = append(&mut *writer, token, &head, b"small");
    let head = append(&mut *writer, token, &head, &largest);
    let entries = read_all(&mut *reader, 1);
    assert!(entries[0].record.payload == large && entries[2].record.payload == largest);
    assert_eq!(entries[2].position(), head);
    let refused = conflict(writer.append(token, &Position::START, &record(&Position::START, &large)).expect("append"));
    assert!(refused.rival.is_some_and(|rival| rival.record.payload == large));
    assert_eq!(writer.truncate(token, 1), Ok(TruncateResult::Done));
    assert_eq!(read_all(&mut *reader, 1)[1].position(), head);
}

fn a_payload_over_the_limit_is_refused(server: &TestServer<'_>) {
    let mut log = server.open();
    let token = lead(&mut *log, "a");
    let start = Position::START;
    let huge = vec![0; PAYLOAD_BYTES_MAX + 1];
    assert!(matches!(log.append(token, &start, &record(&start, &huge)), Err(LogError::Refused(_))));
    append(&mut *log, token, &start, b"small");
}

/// Follows on another thread while `act` runs.
fn follow_during(server: &TestServer<'_>, from: u64, act: impl FnOnce()) -> crate::contract::LogPage {
    let mut follower = server.open();
    std::thread::scope(|scope| {
        let (ready, started) = std::sync::mpsc::channel();
        let following = scope.spawn(move || {
            follower.read(from).expect("read");
            ready.send(()).expect("the case waits");
            let begun = Instant::now();
            let tail = follower.follow(from, PATIENCE).expect("follow");
            assert!(begun.elapsed() < PATIENCE, "the follower was not woken up");
            tail
        });
        started.recv().expect("the follower starts");
        act();
        following.join().expect("the follower ends")
    })
}

fn followers_wake_up_for_records(server: &TestServer<'_>) {
    let mut writer = server.open();
    let token = lead(&mut *writer, "a");
    let head = append(&mut *writer, token, &Position::START, b"first");
    let mut second = head;
    let tail = follow_during(server, 2, || second = append(&mut *writer, token, &head, b"second"));
    assert_eq!(tail.view.head, Some(second));
    assert_eq!(tail.entries.len(), 1);
    let begun = Instant::now();
    assert_eq!(server.open().follow(1, PATIENCE).expect("follow").entries.len(), 2);
    assert!(begun.elapsed() < PATIENCE, "entries that exist already must not be waited for");
}

/// Records that arrive while a follower waits, and others that it must read.
fn followers_get_every_record_once_and_in_order(server: &TestServer<'_>) {
    let (mut writer, mut follower) = (server.open(), server.open());
    let token = lead(&mut *writer, "a");
    let (small, large) = (150, noise(2 << 20));
    std::thread::scope(|scope| {
        let following = scope.spawn(move || {
            let mut last = Position::START;
            let begun = Instant::now();
            while last.revision <= small && begun.elapsed() < PATIENCE {
                let tail = follower.follow(last.revision + 1, Duration::from_millis(50)).expect("follow");
                for entry in &tail.entries {
                    assert!(last.precedes(entry), "{entry:?} after {last:?}");
                    last = entry.position();
                }
                assert!(tail.view.head.is_some_and(|head| head.revision >= last.revision), "{:?}", tail.view);
                assert_eq!(tail.view.token(), Some(token));
            }
            last
        });
        let head = append_many(&mut *writer, token, small);
        let head = append(&mut *writer, token, &head, &large);
        assert_eq!(following.join().expect("the follower ends"), head);
    });
}

fn followers_wake_up_when_the_leader_resigns(server: &TestServer<'_>) {
    let mut writer = server.open();
    let token = lead(&mut *writer, "a");
    let tail = follow_during(server, 1, || writer.resign(token).expect("resign"));
    assert_eq!(tail.view.leader, None);
}

/// Before the follower has a watch, so that only its own read can notice it.
fn followers_do_not_wait_for_a_leader_that_has_resigned(server: &TestServer<'_>) {
    let (mut writer, mut follower) = (server.open(), server.open());
    let token = lead(&mut *writer, "a");
    assert_eq!(follower.read(1).expect("read").view.token(), Some(token));
    writer.resign(token).expect("resign");
    let begun = Instant::now();
    assert_eq!(follower.follow(1, PATIENCE).expect("follow").view.leader, None);
    assert!(begun.elapsed() < PATIENCE, "the end of the leadership must not be waited for");
}

fn following_ends_without_news(server: &TestServer<'_>) {
    let mut log = server.open();
    lead(&mut *log, "a");
    let begun = Instant::now();
    assert!(log.follow(1, Duration::from_millis(50)).expect("follow").entries.is_empty());
    assert!(begun.elapsed() < PATIENCE);
}

fn regions_are_separate(server: &TestServer<'_>) {
    let (mut ours, mut other) = (server.open(), server.open_other_region());
    let token = lead(&mut *ours, "a");
    append_many(&mut *ours, token, 2);
    ours.report(&member("a", 2)).expect("report");
    let tail = other.read(1).expect("read");
    assert!(tail.entries.is_empty() && tail.view.head.is_none() && tail.view.leader.is_none());
    assert!(other.roster().expect("roster").members.is_empty());
    other.create(&Position::START).expect("create");
    let seen = ObservedVersions { leader_version: 0, heartbeat_version: 0 };
    let TakeoverResult::Won(Token(_)) = other.take_over(seen, &leader("b")).expect("take over") else { panic!("lost") };
    append_many(&mut *ours, token, 0);
    assert_eq!(ours.read(1).expect("read").entries.len(), 2);
}

fn the_service_reports_its_health(server: &TestServer<'_>) {
    let backends = server.open().health().expect("health");
    assert!(backends.iter().any(|backend| backend.status.is_ok()), "{backends:?}");
}
