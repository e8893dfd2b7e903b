//! What changed, as tables: documents on the left, changes on the right.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forewarn_client::{Change, Document, Event, EventId, Tracker, Version};

/// The door. Each step is `<second>: <event> …`, with an event as `id/Type/Status` or, for one that is
/// not to start before a second, `id/Type/Status@second`; a version may stand before the second. The
/// changes are `+` appeared, `!` started, `-` ended, `x` cancelled.
fn check(steps: &[(&str, &str)]) {
    let mut tracker = Tracker::new();
    go_on(&mut tracker, steps);
}

fn go_on(tracker: &mut Tracker, steps: &[(&str, &str)]) {
    for (index, (step, expected)) in steps.iter().enumerate() {
        let (document, now) = document(step);
        let changes: Vec<_> = tracker.feed(&document, now).iter().map(shown).collect();
        assert_eq!(changes.join(" "), *expected, "step {index}: {step}");
        assert_eq!(tracker.feed(&document, now), [], "step {index} again: {step}");
    }
}

fn document(step: &str) -> (Document, SystemTime) {
    let (head, events) = step.split_once(':').unwrap();
    let (version, second) = head.split_once(' ').unwrap_or(("2020-07-01", head));
    let version = Version::parse(Some(version)).unwrap();
    let events = events.split_whitespace().map(|text| event(version, text)).collect();
    (Document { version, incarnation: 1, events }, UNIX_EPOCH + Duration::from_secs(second.parse().unwrap()))
}

fn event(version: Version, text: &str) -> Event {
    let (text, not_before) = text.split_once('@').unwrap_or((text, ""));
    let parts: Vec<_> = text.split('/').collect();
    let json = format!(
        r#"{{"EventId":"{}","EventStatus":"{}","EventType":"{}","Resources":["web"],"NotBefore":""}}"#,
        parts[0], parts[2], parts[1]
    );
    let not_before = not_before.parse().ok().map(|second| UNIX_EPOCH + Duration::from_secs(second));
    Event { not_before, ..Event::parse(version, &json).unwrap() }
}

fn shown(change: &Change) -> String {
    let sign = match change {
        Change::Appeared(_) => '+',
        Change::Started(_) => '!',
        Change::Ended(_) => '-',
        Change::Cancelled(_) => 'x',
    };
    format!("{sign}{}", change.event().id)
}

fn id(text: &str) -> EventId {
    EventId::parse(text).unwrap()
}

#[test]
fn the_whole_life_of_an_event() {
    check(&[
        ("0:", ""),
        ("1: a/Reboot/Scheduled@900", "+a"),
        ("2: a/Reboot/Scheduled@900", ""),
        ("900: a/Reboot/Started", "!a"),
        ("950: a/Reboot/Started", ""),
        ("1500:", "-a"),
        ("1501:", ""),
    ]);
}

#[test]
fn one_that_vanishes_while_it_is_scheduled_was_cancelled() {
    check(&[("1: a/Freeze/Scheduled@900", "+a"), ("480:", "xa")]);
    check(&[("1: a/Freeze/Scheduled@900", "+a"), ("899:", "xa")]);
}

#[test]
fn one_whose_time_had_come_started_and_ended_unseen() {
    check(&[("1: a/Reboot/Scheduled@900", "+a"), ("900:", "-a")]);
    check(&[("1: a/Reboot/Scheduled@900", "+a"), ("86400:", "-a")]);
}

#[test]
fn one_without_a_time_was_cancelled_unless_it_was_seen_started() {
    check(&[("1: a/Reboot/Scheduled", "+a"), ("900:", "xa")]);
}

#[test]
fn one_that_was_approved_started_and_ended_unseen() {
    let mut tracker = Tracker::new();
    tracker.approved(&id("a"));
    go_on(&mut tracker, &[("1: A/Reboot/Scheduled@900", "+A"), ("2:", "xA"), ("3: a/Reboot/Scheduled@900", "+a")]);
    tracker.approved(&id("A"));
    go_on(&mut tracker, &[("62:", "-a"), ("63: a/Reboot/Scheduled@900", "+a"), ("64:", "xa")]);
}

#[test]
fn a_failure_without_notice_appears_and_starts_at_once() {
    check(&[("1: a/Reboot/Started", "+a !a"), ("600:", "-a")]);
}

#[test]
fn several_events_are_told_apart_and_ends_come_first() {
    check(&[
        ("1: a/Reboot/Scheduled@900 b/Freeze/Scheduled@900", "+a +b"),
        ("2: b/Freeze/Started a/Reboot/Scheduled@900", "!b"),
        ("3: c/Redeploy/Scheduled@900 a/Reboot/Scheduled@900", "-b +c"),
        ("4: d/Preempt/Scheduled@30", "xa xc +d"),
    ]);
}

#[test]
fn ids_are_the_same_in_any_case() {
    check(&[("1: abc/Reboot/Scheduled@900", "+abc"), ("2: ABC/Reboot/Started", "!ABC"), ("3:", "-ABC")]);
}

#[test]
fn events_never_go_back() {
    check(&[
        ("1: a/Reboot/Started", "+a !a"),
        ("2: a/Reboot/Scheduled@900", ""),
        ("3: a/Reboot/Started", ""),
        ("4: a/Reboot/Scheduled@900", ""),
        ("5:", "-a"),
    ]);
}

#[test]
fn a_new_time_counts() {
    check(&[("1: a/Redeploy/Scheduled@10", "+a"), ("2: a/Redeploy/Scheduled@900", ""), ("20:", "xa")]);
}

#[test]
fn a_count_that_begins_anew_changes_nothing() {
    let mut tracker = Tracker::new();
    for (incarnation, expected) in [(192, 1), (1, 0), (7, 0), (7, 0)] {
        let (mut document, now) = document("1: a/Reboot/Scheduled@900");
        document.incarnation = incarnation;
        assert_eq!(tracker.feed(&document, now).len(), expected, "{incarnation}");
    }
}

#[test]
fn a_version_that_never_shows_an_event_does_not_end_it() {
    check(&[
        ("1: a/Terminate/Scheduled@300 b/Preempt/Started c/Reboot/Scheduled@900", "+a +b !b +c"),
        ("2017-08-01 2:", "xc"),
        ("2017-11-01 3:", "-b"),
        ("2019-01-01 4:", "xa"),
    ]);
    check(&[
        ("2019-08-01 1: a/New/Scheduled@300", "+a"),
        ("2019-04-01 2:", ""),
        ("2019-08-01 3: a/New/Started", "!a"),
        ("2020-07-01 4:", "-a"),
    ]);
}

#[test]
fn what_a_newer_version_told_is_not_forgotten_in_an_older_one() {
    let mut tracker = Tracker::new();
    let (mut new, now) = document("1: a/Reboot/Scheduled@900");
    new.events[0].description = Some("why".into());
    new.events[0].duration_secs = Some(9);
    tracker.feed(&new, now);
    let (old, now) = document("2017-08-01 2: a/Reboot/Started");
    tracker.feed(&old, now);
    let event = tracker.get(&id("a")).unwrap();
    assert_eq!((event.description.as_deref(), event.duration_secs), (Some("why"), Some(9)));
}

#[test]
fn a_program_that_was_away_finds_what_it_missed() {
    let seen = ["a/Reboot/Started", "b/Freeze/Scheduled@100", "c/Freeze/Scheduled@9000", "d/Reboot/Scheduled@9000"];
    let events = seen.map(|text| event(Version::V2020_07_01, text));
    let mut tracker = Tracker::resume(events);
    assert_eq!(tracker.events().count(), 4);
    go_on(&mut tracker, &[("1000: d/Reboot/Started e/Freeze/Scheduled@9000", "-a -b xc !d +e")]);
}
