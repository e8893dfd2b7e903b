//! Servers on a log in memory, with a clock of the test, faults in the log, and copies that remember what was applied.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use forewarn_cluster::machine::{Identity, LeadershipLoss, LeadershipStart, Moment, Outcome, Settings};
use forewarn_cluster::{
    Clock, Entry, Fault, Faults, FaultyLog, Follower, Following, Log as _, Member, MemoryLog, Position, RecordKind,
    Replica, Writer,
};

/// A clock that moves when its server waits.
#[derive(Clone, Default)]
struct TestClock(Arc<Mutex<Moment>>);

impl Clock for TestClock {
    /// Every look at the clock takes a moment, so that nothing waits forever.
    fn now(&self) -> Moment {
        let mut now = self.0.lock().unwrap();
        *now += Duration::from_millis(1);
        *now
    }

    fn time_ms(&self) -> i64 {
        self.0.lock().unwrap().as_millis() as i64
    }

    fn sleep_until(&self, moment: Moment) {
        let mut now = self.0.lock().unwrap();
        *now = (*now).max(moment);
    }
}

/// A copy in memory.
#[derive(Default)]
struct Copy {
    entries: Vec<Entry>,
    is_full: bool,
    /// The revision of an entry that the copy cannot apply.
    refused: Option<u64>,
    /// The number of entries in each transaction.
    batches: Vec<usize>,
    cannot_sync: bool,
    /// The last revision that is durable.
    synced: u64,
    syncing: u64,
    /// The copy of a peer, for transfers.
    peer: Option<Vec<Entry>>,
}

impl Copy {
    fn position(&self) -> Position {
        self.entries.last().map_or(Position::START, Entry::position)
    }

    /// The payloads of the application, without the records of the log itself.
    fn payloads(&self) -> Vec<String> {
        let data = self.entries.iter().filter(|entry| entry.record.kind == RecordKind::Data);
        data.map(|entry| String::from_utf8(entry.record.payload.clone()).unwrap()).collect()
    }
}

impl Replica for Copy {
    fn apply(&mut self, entries: &[Entry]) -> Result<(), String> {
        if self.is_full || entries.iter().any(|entry| self.refused.is_some_and(|refused| refused == entry.revision)) {
            return Err("no space left on device".into());
        }
        for entry in entries {
            assert!(self.position().precedes(entry), "{entry:?} after {:?}", self.position());
            self.entries.push(entry.clone());
        }
        self.batches.push(entries.len());
        Ok(())
    }

    fn sync(&mut self) -> Result<u64, String> {
        if self.cannot_sync {
            return Err("input/output error".into());
        }
        // Entries that are applied now become durable until the next call.
        let applied = self.position().revision;
        let durable = std::mem::replace(&mut self.syncing, applied);
        self.synced = durable;
        Ok(durable)
    }

    fn transfer(&mut self, next: u64) -> Result<Position, String> {
        let peer = self.peer.clone().filter(|entries| entries.len() as u64 >= next);
        self.entries = peer.ok_or("no peer has a snapshot")?;
        Ok(self.position())
    }
}

/// One server of a region.
struct Site {
    log: MemoryLog,
    clock: TestClock,
    settings: Settings,
}

struct Server {
    faults: Faults,
    clock: TestClock,
    copy: Copy,
}

impl Site {
    fn new() -> Site {
        let mut log = MemoryLog::new();
        log.create(&Position::START).unwrap();
        // Waits for news would take real time. The clock moves with every look at it instead.
        let settings = Settings { follow_wait: Duration::ZERO, ..Settings::default() };
        Site { log, clock: TestClock::default(), settings }
    }

    fn follower(&self, name: &str, copy: Copy) -> (Follower, Server) {
        let faults = Faults::default();
        let log = FaultyLog::new(self.log.clone(), faults.clone());
        let session = name.bytes().map(u64::from).sum();
        let identity =
            Identity { name: name.into(), address: format!("https://{name}"), format: 1, content_format: 1, session };
        let (settings, clock) = (self.settings.clone(), self.clock.clone());
        let follower = Follower::start(identity, settings, copy.position(), Box::new(log), Box::new(clock.clone()));
        (follower, Server { faults, clock, copy })
    }

    fn writer(&self, name: &str) -> (Writer, Server) {
        let (mut follower, mut server) = self.follower(name, Copy::default());
        lead(&mut follower, &mut server);
        let mut writer = follower.lead();
        writer.run_due_tasks(&mut server.copy).unwrap();
        (writer, server)
    }
}

fn follow_for(follower: &mut Follower, server: &mut Server, secs: u64) -> Following {
    let until = server.clock.now() + Duration::from_secs(secs);
    follower.follow(&mut server.copy, until)
}

#[track_caller]
fn lead(follower: &mut Follower, server: &mut Server) -> LeadershipStart {
    match follow_for(follower, server, 60) {
        Following::Lead(lead) => lead,
        other => panic!("expected a leadership, not {other:?}"),
    }
}

/// Commits a payload that must succeed.
#[track_caller]
fn commit(writer: &mut Writer, server: &mut Server, payload: &str) {
    let outcome = writer.commit(&mut server.copy, payload.into());
    assert!(matches!(outcome, Outcome::Committed(position) if position == server.copy.position()), "{outcome:?}");
}

#[test]
fn the_first_server_leads_and_the_second_follows() {
    let site = Site::new();
    let (mut writer, mut a) = site.writer("a");
    commit(&mut writer, &mut a, "one");
    commit(&mut writer, &mut a, "two");
    let (mut follower, mut b) = site.follower("b", Copy::default());
    assert!(matches!(follower.follow(&mut b.copy, Moment::ZERO), Following::Idle));
    assert!(matches!(follow_for(&mut follower, &mut b, 1), Following::Idle));
    assert_eq!(b.copy.payloads(), ["one", "two"]);
    assert_eq!(b.copy.entries, a.copy.entries);
    assert_eq!(follower.leader().unwrap().node, "a");
}

#[test]
fn another_server_takes_over_after_silence_and_raises_the_term() {
    let site = Site::new();
    let (mut writer, mut a) = site.writer("a");
    commit(&mut writer, &mut a, "one");
    let (mut follower, mut b) = site.follower("b", Copy::default());
    let begun = b.clock.now();
    let LeadershipStart { term, last_heartbeat } = lead(&mut follower, &mut b);
    let waited = b.clock.now() - begun;
    assert!((1200..2000).contains(&waited.as_millis()), "{waited:?}");
    assert_eq!(term, 2);
    let (heartbeat, age) = last_heartbeat.expect("the old leader sent heartbeats");
    assert!(heartbeat.time_ms > 0 && age >= Duration::from_millis(1200), "{heartbeat:?} {age:?}");
    let mut second = follower.lead();
    commit(&mut second, &mut b, "two");
    assert!(second.may_act());
    assert!(!writer.may_act(), "its last heartbeat is old");
    assert_eq!(writer.commit(&mut a.copy, b"late".to_vec()), Outcome::Deposed);
    let mut first = writer.follow();
    assert!(matches!(follow_for(&mut first, &mut a, 1), Following::Idle));
    assert_eq!(a.copy.payloads(), ["one", "two"]);
}

#[test]
fn a_lost_request_fails_and_an_empty_record_takes_its_place() {
    let site = Site::new();
    let (mut writer, mut server) = site.writer("a");
    server.faults.inject([Fault::RequestLost]);
    assert!(matches!(writer.commit(&mut server.copy, b"lost".to_vec()), Outcome::Failed(_)));
    commit(&mut writer, &mut server, "next");
    assert_eq!(server.copy.payloads(), ["next"]);
}

#[test]
fn a_lost_answer_is_recognized_by_its_nonce() {
    let site = Site::new();
    let (mut writer, mut server) = site.writer("a");
    server.faults.inject([Fault::AnswerLost]);
    commit(&mut writer, &mut server, "one");
    commit(&mut writer, &mut server, "two");
    assert_eq!(server.copy.payloads(), ["one", "two"]);
}

#[test]
fn a_late_request_loses_against_the_empty_record() {
    let site = Site::new();
    let (mut writer, mut server) = site.writer("a");
    server.faults.inject([Fault::Late(1)]);
    assert!(matches!(writer.commit(&mut server.copy, b"late".to_vec()), Outcome::Failed(_)));
    commit(&mut writer, &mut server, "next");
    assert_eq!(server.copy.payloads(), ["next"]);
}

#[test]
fn an_empty_record_whose_answer_was_lost_still_decides() {
    let site = Site::new();
    let (mut writer, mut server) = site.writer("a");
    server.faults.inject([Fault::RequestLost, Fault::AnswerLost]);
    assert!(matches!(writer.commit(&mut server.copy, b"lost".to_vec()), Outcome::Failed(_)));
    commit(&mut writer, &mut server, "next");
    assert_eq!(server.copy.payloads(), ["next"]);
}

#[test]
fn a_leader_that_gets_no_answers_resigns_and_does_not_know_the_outcome() {
    let site = Site::new();
    let (mut writer, mut server) = site.writer("a");
    server.faults.inject([Fault::RequestLost; 100]);
    // The clock stands for the time that the lost requests take.
    let outcome = writer.commit(&mut server.copy, b"lost".to_vec());
    assert_eq!(outcome, Outcome::Unknown);
    assert_eq!(writer.run_due_tasks(&mut server.copy), Err(LeadershipLoss::CannotWrite));
    assert!(!writer.may_act());
}

#[test]
fn a_certain_failure_leaves_the_leader_in_place() {
    let site = Site::new();
    let (mut writer, mut server) = site.writer("a");
    server.faults.inject([Fault::Refused]);
    assert!(matches!(writer.commit(&mut server.copy, b"refused".to_vec()), Outcome::Failed(_)));
    commit(&mut writer, &mut server, "next");
    let revision = server.copy.position().revision;
    assert_eq!((server.copy.payloads(), revision), (vec!["next".to_owned()], 2), "no empty record was needed");
}

#[test]
fn a_copy_that_cannot_apply_ends_the_leadership_but_not_the_commit() {
    let site = Site::new();
    let (mut writer, mut a) = site.writer("a");
    a.copy.is_full = true;
    assert!(matches!(writer.commit(&mut a.copy, b"one".to_vec()), Outcome::Committed(_)));
    assert_eq!(writer.run_due_tasks(&mut a.copy), Err(LeadershipLoss::ApplyFailed));
    let mut stopped = writer.follow();
    let Following::ApplyFailed(error) = follow_for(&mut stopped, &mut a, 5) else { panic!("it does not stop") };
    assert!(error.contains("no space"));
    let (mut follower, mut b) = site.follower("b", Copy::default());
    let begun = b.clock.now();
    lead(&mut follower, &mut b);
    assert!(
        b.clock.now() - begun < Duration::from_secs(1),
        "the leader has resigned, so there is no silence to wait for"
    );
    assert_eq!(b.copy.payloads(), ["one"]);
}

#[test]
fn a_follower_that_was_away_applies_many_entries_in_one_transaction() {
    let mut site = Site::new();
    let (mut writer, mut a) = site.writer("a");
    for number in 0..8 {
        commit(&mut writer, &mut a, &number.to_string());
    }
    // With the first record of the term, there are nine.
    for (entries_max, bytes_max, batches) in [(100, 100, vec![9]), (4, 100, vec![4, 4, 1]), (100, 3, vec![4, 3, 2])] {
        site.settings.apply_entries_max = entries_max;
        site.settings.apply_bytes_max = bytes_max;
        let (mut follower, mut b) = site.follower("b", Copy::default());
        assert!(matches!(follow_for(&mut follower, &mut b, 1), Following::Idle));
        assert_eq!(b.copy.entries, a.copy.entries);
        assert_eq!(b.copy.batches, batches);
        assert_eq!(follower.position(), b.copy.position());
    }
}

#[test]
fn a_copy_has_everything_before_the_entry_that_it_cannot_apply() {
    let site = Site::new();
    let (mut writer, mut a) = site.writer("a");
    for number in 0..8 {
        commit(&mut writer, &mut a, &number.to_string());
    }
    let (mut follower, mut b) = site.follower("b", Copy { refused: Some(6), ..Copy::default() });
    assert!(matches!(follow_for(&mut follower, &mut b, 1), Following::ApplyFailed(_)));
    assert_eq!(b.copy.entries, a.copy.entries[..5]);
    b.copy.refused = None;
    let mut follower = follower.restart(b.copy.position());
    assert!(matches!(follow_for(&mut follower, &mut b, 1), Following::Idle));
    assert_eq!(b.copy.entries, a.copy.entries);
}

#[test]
fn a_leader_steps_down_and_another_one_takes_over_at_once() {
    let site = Site::new();
    let (mut writer, mut a) = site.writer("a");
    commit(&mut writer, &mut a, "one");
    writer.step_down();
    assert_eq!(writer.run_due_tasks(&mut a.copy), Err(LeadershipLoss::SteppedDown));
    let mut first = writer.follow();
    assert!(matches!(follow_for(&mut first, &mut a, 5), Following::Idle), "it pauses");
    let (mut follower, mut b) = site.follower("b", Copy::default());
    let begun = b.clock.now();
    lead(&mut follower, &mut b);
    assert!(b.clock.now() - begun < Duration::from_secs(1));
}

#[test]
fn a_leader_without_contact_to_most_servers_resigns() {
    let site = Site::new();
    let (mut writer, mut server) = site.writer("a");
    writer.set_contact(false);
    let begun = server.clock.now();
    let loss = loop {
        match writer.run_due_tasks(&mut server.copy) {
            Ok(next) => server.clock.sleep_until(next),
            Err(loss) => break loss,
        }
    };
    assert_eq!(loss, LeadershipLoss::NoContact);
    assert!((5..7).contains(&(server.clock.now() - begun).as_secs()));
}

#[test]
fn progress_is_reported_only_once_it_is_durable() {
    let site = Site::new();
    let (mut writer, mut a) = site.writer("a");
    let work = |writer: &mut Writer, a: &mut Server| {
        a.clock.sleep_until(a.clock.now() + site.settings.report_every);
        writer.run_due_tasks(&mut a.copy)
    };
    let reported = || site.log.clone().roster().unwrap().members[0].applied;
    commit(&mut writer, &mut a, "1");
    work(&mut writer, &mut a).unwrap();
    assert!(reported() < a.copy.position().revision, "it begins to become durable");
    work(&mut writer, &mut a).unwrap();
    let first = reported();
    assert_eq!((first, a.copy.synced), (a.copy.position().revision, first));
    commit(&mut writer, &mut a, "2");
    a.copy.cannot_sync = true;
    assert_eq!(work(&mut writer, &mut a), Err(LeadershipLoss::ApplyFailed));
    assert_eq!(reported(), first, "the log must keep what a crash could undo");
    let mut follower = writer.follow();
    assert!(matches!(follow_for(&mut follower, &mut a, 1), Following::ApplyFailed(_)));
    a.copy.cannot_sync = false;
    let mut follower = follower.restart(a.copy.position());
    lead(&mut follower, &mut a);
    let mut writer = follower.lead();
    work(&mut writer, &mut a).unwrap();
    work(&mut writer, &mut a).unwrap();
    assert_eq!(reported(), a.copy.position().revision);
}

/// The first revision that the log keeps of one without a payload and five of one byte each. `others`: the progress of the
/// leader's followers.
fn find_first_kept(log_bytes_max: u64, others: &[(&str, u64)]) -> u64 {
    let mut site = Site::new();
    (site.settings.truncate_records_min, site.settings.log_bytes_max) = (1, log_bytes_max);
    let (mut writer, mut a) = site.writer("a");
    for number in 0..5 {
        commit(&mut writer, &mut a, &number.to_string());
    }
    for (name, applied) in others {
        let (name, address) = ((*name).to_owned(), (*name).to_owned());
        let member = Member { name, applied: *applied, format: 1, content_format: 1, address };
        site.log.clone().report(&member).unwrap();
    }
    while site.log.back_up().entries().next().unwrap().revision == 1 {
        let next = writer.run_due_tasks(&mut a.copy).unwrap();
        a.clock.sleep_until(next);
    }
    assert_eq!(writer.format(), Some(1));
    site.log.back_up().entries().next().unwrap().revision
}

#[test]
fn the_leader_deletes_what_all_servers_have_applied() {
    assert_eq!(find_first_kept(1000, &[("b", 3)]), 4);
    assert_eq!(find_first_kept(1000, &[("b", 3), ("c", 5)]), 4);
}

#[test]
fn of_a_log_that_is_too_large_the_leader_deletes_what_most_servers_have_applied() {
    assert_eq!(find_first_kept(4, &[("b", 3), ("c", 0)]), 4);
    assert_eq!(find_first_kept(5, &[("b", 3), ("c", 2)]), 3, "five bytes are not too large");
}

#[test]
fn a_server_that_was_away_too_long_copies_a_snapshot() {
    let site = Site::new();
    let (mut writer, mut a) = site.writer("a");
    for number in 0..5 {
        commit(&mut writer, &mut a, &number.to_string());
    }
    let token = site.log.view().token().unwrap();
    site.log.clone().truncate(token, 3).unwrap();
    let (mut follower, mut b) = site.follower("b", Copy::default());
    let event = follow_for(&mut follower, &mut b, 1);
    assert!(matches!(&event, Following::TransferFailed(error) if error.contains("no peer")), "{event:?}");
    b.copy.peer = Some(a.copy.entries[..4].to_vec());
    assert!(matches!(follow_for(&mut follower, &mut b, 2), Following::Idle));
    assert_eq!(b.copy.entries, a.copy.entries);
}

#[test]
fn a_copy_of_another_history_stops_with_an_error() {
    let site = Site::new();
    let (mut writer, mut a) = site.writer("a");
    commit(&mut writer, &mut a, "one");
    let backup = site.log.back_up();
    commit(&mut writer, &mut a, "two");
    site.log.restore(backup);
    // The log ends before the copy.
    let ahead = Copy { entries: a.copy.entries.clone(), ..Copy::default() };
    let (mut follower, mut b) = site.follower("b", ahead);
    let Following::Diverged(divergence) = follow_for(&mut follower, &mut b, 5) else { panic!("it continues") };
    assert_eq!((divergence.local.revision, divergence.log.revision), (3, 2));
    assert!(divergence.to_string().contains("restored or replaced"));
    // Its leader cannot write either, and another leader continues.
    assert!(!matches!(writer.commit(&mut a.copy, b"three".to_vec()), Outcome::Committed(_)));
    let (mut follower, mut c) = site.follower("c", Copy::default());
    lead(&mut follower, &mut c);
    let mut writer = follower.lead();
    commit(&mut writer, &mut c, "another three");
    let (mut follower, mut d) = site.follower("d", Copy { entries: a.copy.entries.clone(), ..Copy::default() });
    assert!(matches!(follow_for(&mut follower, &mut d, 5), Following::Diverged(_)), "the hash differs");
}

#[test]
fn a_leader_whose_log_is_restored_under_load_stops_with_an_error() {
    // The older head is noticed by the heartbeat before the commit, by one during the commit, or by the commit itself.
    for early_ms in 0..6 {
        let site = Site::new();
        let (mut writer, mut server) = site.writer("a");
        commit(&mut writer, &mut server, "one");
        let backup = site.log.back_up();
        commit(&mut writer, &mut server, "two");
        site.log.restore(backup);
        let heartbeat_at = server.clock.now() + site.settings.heartbeat_every;
        while writer.heartbeat_age().unwrap() + Duration::from_millis(early_ms + 2) < site.settings.heartbeat_every {
            assert!(server.clock.now() < heartbeat_at);
        }
        let outcome = writer.commit(&mut server.copy, b"three".to_vec());
        assert!(matches!(outcome, Outcome::Deposed | Outcome::Unknown), "{early_ms} ms early: {outcome:?}");
        assert_eq!(writer.run_due_tasks(&mut server.copy), Err(LeadershipLoss::Confused));
        let mut follower = writer.follow();
        let event = follow_for(&mut follower, &mut server, 5);
        assert!(matches!(event, Following::Diverged(_)), "{early_ms} ms early: {event:?}");
    }
}

#[test]
fn a_follower_sees_the_heartbeats_of_a_log_that_counts_its_versions_from_one_again() {
    let site = Site::new();
    let (mut writer, mut a) = site.writer("a");
    for _ in 0..20 {
        let next = writer.run_due_tasks(&mut a.copy).unwrap();
        a.clock.sleep_until(next);
    }
    let (mut follower, mut b) = site.follower("b", Copy::default());
    assert!(matches!(follow_for(&mut follower, &mut b, 1), Following::Idle));
    let rebuilt = MemoryLog::new();
    rebuilt.clone().create(&a.copy.position()).unwrap();
    site.log.restore(rebuilt.back_up());
    // A new server leads, which has never seen the higher versions.
    let (mut other, mut c) = site.follower("c", Copy { entries: a.copy.entries.clone(), ..Copy::default() });
    lead(&mut other, &mut c);
    let mut second = other.lead();
    let seen = follower.freshness().unwrap().heartbeat;
    for _ in 0..5 {
        second.run_due_tasks(&mut c.copy).unwrap();
        let event = follower.follow(&mut b.copy, b.clock.now() + site.settings.heartbeat_every);
        assert!(matches!(event, Following::Idle), "{event:?}");
    }
    let fresh = follower.freshness().unwrap();
    assert!(fresh.heartbeat.time_ms > seen.time_ms && fresh.age < Duration::from_secs(1), "{fresh:?} after {seen:?}");
}

#[test]
fn a_region_that_does_not_exist_is_reported_until_it_does() {
    let mut site = Site::new();
    site.log = MemoryLog::new();
    let (mut follower, mut server) = site.follower("a", Copy::default());
    for _ in 0..3 {
        assert!(matches!(follow_for(&mut follower, &mut server, 5), Following::NoRegion));
    }
    site.log.create(&Position::START).unwrap();
    assert_eq!(lead(&mut follower, &mut server).term, 1);
}

#[test]
fn a_region_that_appears_with_a_history_is_copied_from_a_peer() {
    let source = Site::new();
    let (mut writer, mut a) = source.writer("a");
    commit(&mut writer, &mut a, "one");
    let mut site = Site::new();
    site.log = MemoryLog::new();
    let (mut follower, mut b) = site.follower("b", Copy { peer: Some(a.copy.entries.clone()), ..Copy::default() });
    assert!(matches!(follow_for(&mut follower, &mut b, 5), Following::NoRegion));
    site.log.create(&a.copy.position()).unwrap();
    lead(&mut follower, &mut b);
    assert_eq!(b.copy.payloads(), ["one"]);
}

#[test]
fn freshness_counts_from_the_read_that_first_showed_a_heartbeat() {
    let site = Site::new();
    let (mut writer, mut a) = site.writer("a");
    writer.run_due_tasks(&mut a.copy).unwrap();
    let (mut follower, mut b) = site.follower("b", Copy::default());
    assert_eq!(follower.freshness(), None);
    assert!(matches!(follower.follow(&mut b.copy, b.clock.now() + Duration::from_millis(30)), Following::Idle));
    let first = follower.freshness().unwrap();
    assert!(matches!(follower.follow(&mut b.copy, b.clock.now() + Duration::from_millis(500)), Following::Idle));
    let second = follower.freshness().unwrap();
    assert_eq!(second.heartbeat, first.heartbeat);
    assert!(second.age >= first.age + Duration::from_millis(400), "{first:?} {second:?}");
}

#[test]
fn a_leader_whose_commits_fail_for_two_seconds_resigns_although_its_heartbeats_succeed() {
    let site = Site::new();
    let (mut writer, mut server) = site.writer("a");
    let begun = server.clock.now();
    let loss = loop {
        if let Err(loss) = writer.run_due_tasks(&mut server.copy) {
            break loss;
        }
        server.faults.inject([Fault::Refused]);
        writer.commit(&mut server.copy, b"refused".to_vec());
        server.clock.sleep_until(server.clock.now() + Duration::from_millis(50));
    };
    assert_eq!(loss, LeadershipLoss::CannotWrite);
    assert!((2..4).contains(&(server.clock.now() - begun).as_secs()));
}
