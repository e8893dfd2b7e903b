//! Tests of change detection as tables: documents on the left, changes on the right.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forewarn_client::{Change, Document, Event, EventId, Tracker, Version};

/// Feeds documents to a new tracker and checks the changes.
///
/// A document is `[version ]second: event…`, and an event is `id/Type/Status[@not_before]`. A change is the ID after
/// `+` (appeared), `!` (started), `-` (finished) or `x` (canceled).
fn check(steps: &[(&str, &str)]) {
    let mut tracker = Tracker::new();
    check_more(&mut tracker, steps);
}

fn check_more(tracker: &mut Tracker, steps: &[(&str, &str)]) {
    for (index, (step, expected)) in steps.iter().enumerate() {
        let (document, now) = document(step);
        let changes: Vec<_> = tracker.update(&document, now).iter().map(render_change).collect();
        assert_eq!(changes.join(" "), *expected, "step {index}: {step}");
        assert_eq!(tracker.update(&document, now), [], "step {index} again: {step}");
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

fn render_change(change: &Change) -> String {
    let sign = match change {
        Change::Appeared(_) => '+',
        Change::Started(_) => '!',
        Change::Finished(_) => '-',
        Change::Canceled(_) => 'x',
    };
    format!("{sign}{}", change.event().id)
}

fn id(text: &str) -> EventId {
    EventId::parse(text).unwrap()
}

#[test]
fn an_event_appears_starts_and_finishes() {
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
fn an_event_that_disappears_while_scheduled_was_canceled() {
    check(&[("1: a/Freeze/Scheduled@900", "+a"), ("480:", "xa")]);
    check(&[("1: a/Freeze/Scheduled@900", "+a"), ("899:", "xa")]);
}

#[test]
fn an_event_that_disappears_after_not_before_has_finished() {
    check(&[("1: a/Reboot/Scheduled@900", "+a"), ("900:", "-a")]);
    check(&[("1: a/Reboot/Scheduled@900", "+a"), ("86400:", "-a")]);
}

#[test]
fn an_event_without_not_before_that_disappears_while_scheduled_was_canceled() {
    check(&[("1: a/Reboot/Scheduled", "+a"), ("900:", "xa")]);
}

#[test]
fn an_approved_event_that_disappears_while_scheduled_has_finished() {
    let mut tracker = Tracker::new();
    tracker.mark_approved(&id("a"));
    check_more(&mut tracker, &[("1: A/Reboot/Scheduled@900", "+A"), ("2:", "xA"), ("3: a/Reboot/Scheduled@900", "+a")]);
    tracker.mark_approved(&id("A"));
    check_more(&mut tracker, &[("62:", "-a"), ("63: a/Reboot/Scheduled@900", "+a"), ("64:", "xa")]);
}

#[test]
fn an_event_without_notice_appears_and_starts_at_once() {
    check(&[("1: a/Reboot/Started", "+a !a"), ("600:", "-a")]);
}

#[test]
fn several_events_are_tracked_and_finished_ones_come_first() {
    check(&[
        ("1: a/Reboot/Scheduled@900 b/Freeze/Scheduled@900", "+a +b"),
        ("2: b/Freeze/Started a/Reboot/Scheduled@900", "!b"),
        ("3: c/Redeploy/Scheduled@900 a/Reboot/Scheduled@900", "-b +c"),
        ("4: d/Preempt/Scheduled@30", "xa xc +d"),
    ]);
}

#[test]
fn ids_are_compared_without_regard_to_case() {
    check(&[("1: abc/Reboot/Scheduled@900", "+abc"), ("2: ABC/Reboot/Started", "!ABC"), ("3:", "-ABC")]);
}

#[test]
fn events_never_return_to_scheduled() {
    check(&[
        ("1: a/Reboot/Started", "+a !a"),
        ("2: a/Reboot/Scheduled@900", ""),
        ("3: a/Reboot/Started", ""),
        ("4: a/Reboot/Scheduled@900", ""),
        ("5:", "-a"),
    ]);
}

#[test]
fn the_latest_not_before_counts() {
    check(&[("1: a/Redeploy/Scheduled@10", "+a"), ("2: a/Redeploy/Scheduled@900", ""), ("20:", "xa")]);
}

#[test]
fn an_incarnation_that_starts_over_changes_nothing() {
    let mut tracker = Tracker::new();
    for (incarnation, expected) in [(192, 1), (1, 0), (7, 0), (7, 0)] {
        let (mut document, now) = document("1: a/Reboot/Scheduled@900");
        document.incarnation = incarnation;
        assert_eq!(tracker.update(&document, now).len(), expected, "{incarnation}");
    }
}

#[test]
fn a_version_that_does_not_show_a_type_does_not_finish_its_events() {
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
fn values_from_a_newer_version_are_kept_when_the_version_gets_older() {
    let mut tracker = Tracker::new();
    let (mut new, now) = document("1: a/Reboot/Scheduled@900");
    new.events[0].description = Some("why".into());
    new.events[0].duration_secs = Some(9);
    tracker.update(&new, now);
    let (old, now) = document("2017-08-01 2: a/Reboot/Started");
    tracker.update(&old, now);
    let event = tracker.get(&id("a")).unwrap();
    assert_eq!((event.description.as_deref(), event.duration_secs), (Some("why"), Some(9)));
}

#[test]
fn a_resumed_tracker_reports_the_changes_in_between() {
    let seen = ["a/Reboot/Started", "b/Freeze/Scheduled@100", "c/Freeze/Scheduled@9000", "d/Reboot/Scheduled@9000"];
    let events = seen.map(|text| event(Version::V2020_07_01, text));
    let mut tracker = Tracker::resume(events);
    assert_eq!(tracker.events().count(), 4);
    check_more(&mut tracker, &[("1000: d/Reboot/Started e/Freeze/Scheduled@9000", "-a -b xc !d +e")]);
}
