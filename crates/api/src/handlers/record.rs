//! How the handler of one machine polls, across restarts of the server, and its stored form. Pure.

use std::time::Duration;

use forewarn_core::{MachineId, Timestamp};
use forewarn_metadata::requests::PollSummary;
use forewarn_store::StoreError;
use serde_json::{Value, json};

/// A handler that was silent for longer than this starts over: its polls are counted from the next one.
pub const SILENCE_MAX: Duration = Duration::from_secs(24 * 3600);

/// A handler polls as long as it is not silent for three of its intervals, within these bounds. Handlers poll each second or
/// hold a request for up to five minutes; one slow response is no silence.
const QUIET_INTERVALS: u32 = 3;
const QUIET_MIN: Duration = Duration::from_secs(10);
const QUIET_MAX: Duration = Duration::from_secs(30 * 60);

/// The same for a handler whose interval is unknown: it has polled only once, or the clock stood still.
const QUIET_UNKNOWN: Duration = Duration::from_secs(60);

const VERSION: u64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandlerRecord {
    pub polls: u64,
    /// The first poll.
    pub since: Timestamp,
    pub last_poll: Timestamp,
    /// Median interval of the latest polls.
    pub interval: Option<Duration>,
    pub last_approval: Option<Timestamp>,
    /// How long its latest held request may wait for a change. Not stored: a restart of the server ends held requests.
    pub held_until: Option<Timestamp>,
}

/// A record, and the part of the request record that it already contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandlerState {
    pub record: HandlerRecord,
    counted_since: Option<Timestamp>,
    counted: u64,
}

impl HandlerState {
    /// A record from the store, which contains no request of this process.
    pub fn restored(record: HandlerRecord) -> HandlerState {
        HandlerState { record, counted_since: None, counted: 0 }
    }

    /// The record, updated with the current request record. None: the machine has never polled.
    pub fn advance(before: Option<HandlerState>, seen: &PollSummary) -> Option<HandlerState> {
        let (Some(first), Some(last)) = (seen.first_poll, seen.last_poll) else { return before };
        let continued = before.filter(|it| first.since(it.record.last_poll) <= SILENCE_MAX);
        let known = continued.filter(|it| it.counted_since == Some(first)).map_or(0, |it| it.counted);
        let old = continued.map(|it| it.record);
        let record = HandlerRecord {
            polls: old.map_or(0, |old| old.polls) + seen.polls.saturating_sub(known),
            since: old.map_or(first, |old| old.since.min(first)),
            last_poll: old.map_or(last, |old| old.last_poll.max(last)),
            interval: seen.interval_median.or(old.and_then(|old| old.interval)),
            last_approval: seen.last_approval.max(before.and_then(|it| it.record.last_approval)),
            held_until: seen.held_until,
        };
        Some(HandlerState { record, counted_since: Some(first), counted: seen.polls })
    }
}

impl HandlerRecord {
    /// Whether the handler polls. Time before the server started does not count as silence.
    pub fn is_polling(&self, now: Timestamp, started: Timestamp) -> bool {
        if self.held_until.is_some_and(|until| now <= until + QUIET_MIN) {
            return true;
        }
        let interval = self.interval.filter(|interval| !interval.is_zero());
        let quiet = interval.map(|interval| (interval * QUIET_INTERVALS).clamp(QUIET_MIN, QUIET_MAX));
        now.since(self.last_poll.max(started)) <= quiet.unwrap_or(QUIET_UNKNOWN)
    }
}

/// The stored form of several records, as one attachment.
pub fn encode(records: &[(MachineId, HandlerRecord)]) -> String {
    let rows = records.iter().map(|(machine, record)| {
        let interval = record.interval.map(|interval| interval.as_millis() as u64);
        let approval = record.last_approval.map(|at| at.0);
        json!([machine.0, record.polls, record.since.0, record.last_poll.0, interval, approval])
    });
    json!({ "v": VERSION, "machines": rows.collect::<Vec<_>>() }).to_string()
}

pub fn decode(text: &str) -> Result<Vec<(MachineId, HandlerRecord)>, StoreError> {
    let value: Value = serde_json::from_str(text).map_err(|_| unreadable())?;
    let rows = value["machines"].as_array().filter(|_| value["v"] == VERSION).ok_or_else(unreadable)?;
    rows.iter().map(|row| decode_row(row).ok_or_else(unreadable)).collect()
}

fn decode_row(row: &Value) -> Option<(MachineId, HandlerRecord)> {
    let record = HandlerRecord {
        polls: row[1].as_u64()?,
        since: Timestamp(row[2].as_i64()?),
        last_poll: Timestamp(row[3].as_i64()?),
        interval: row[4].as_u64().map(Duration::from_millis),
        last_approval: row[5].as_i64().map(Timestamp),
        held_until: None,
    };
    Some((MachineId(row[0].as_u64()?), record))
}

fn unreadable() -> StoreError {
    StoreError::Message("the record of handlers was stored by another version of Forewarn. Start that version.".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    fn seen(polls: u64, first: i64, last: i64) -> PollSummary {
        let interval_median = (polls > 1).then_some(Duration::from_secs(1));
        PollSummary {
            polls,
            first_poll: Some(at(first)),
            last_poll: Some(at(last)),
            interval_median,
            ..Default::default()
        }
    }

    #[test]
    fn polls_are_counted_once_and_go_on_after_a_restart() {
        let first = HandlerState::advance(None, &seen(10, 100, 109)).unwrap();
        let later = HandlerState::advance(Some(first), &seen(15, 100, 114)).unwrap();
        assert_eq!((later.record.polls, later.record.since, later.record.last_poll), (15, at(100), at(114)));
        assert_eq!(
            HandlerState::advance(Some(later), &seen(15, 100, 114)),
            Some(later),
            "nothing new, nothing counted"
        );
        let restored = HandlerState::restored(later.record);
        assert_eq!(HandlerState::advance(Some(restored), &PollSummary::default()), Some(restored));
        let resumed = HandlerState::advance(Some(restored), &seen(2, 300, 301)).unwrap();
        assert_eq!((resumed.record.polls, resumed.record.since), (17, at(100)));
    }

    #[test]
    fn a_handler_that_was_silent_for_a_day_begins_anew_but_keeps_its_last_approval() {
        let old = HandlerRecord {
            polls: 9,
            since: at(0),
            last_poll: at(50),
            interval: None,
            last_approval: Some(at(40)),
            held_until: None,
        };
        let late = 50 + SILENCE_MAX.as_secs() as i64 + 1;
        let new = HandlerState::advance(Some(HandlerState::restored(old)), &seen(1, late, late)).unwrap().record;
        assert_eq!((new.polls, new.since, new.last_approval), (1, at(late), Some(at(40))));
    }

    #[test]
    fn a_handler_polls_until_it_is_silent_for_several_intervals() {
        let record = HandlerState::advance(None, &seen(5, 0, 100)).unwrap().record;
        assert!(record.is_polling(at(110), at(0)) && !record.is_polling(at(111), at(0)));
        let slow = HandlerRecord { interval: Some(Duration::from_secs(300)), ..record };
        assert!(slow.is_polling(at(1000), at(0)) && !slow.is_polling(at(1001), at(0)));
        assert!(record.is_polling(at(1000), at(990)), "the server was down");
        assert!(!record.is_polling(at(1001), at(990)));
        let still = HandlerRecord { interval: Some(Duration::ZERO), ..record };
        for unknown in [still, HandlerRecord { interval: None, ..record }] {
            assert!(unknown.is_polling(at(160), at(0)) && !unknown.is_polling(at(161), at(0)));
        }
    }

    #[test]
    fn a_handler_that_waits_for_a_change_is_not_silent() {
        let waiting = PollSummary { held_until: Some(at(400)), ..seen(5, 0, 100) };
        let record = HandlerState::advance(None, &waiting).unwrap().record;
        assert!(record.is_polling(at(410), at(0)) && !record.is_polling(at(411), at(0)));
    }

    #[test]
    fn records_round_trip() {
        let full = HandlerRecord {
            polls: 7,
            since: at(1),
            last_poll: at(9),
            interval: Some(Duration::from_millis(1500)),
            last_approval: Some(at(8)),
            held_until: None,
        };
        let records =
            vec![(MachineId(3), full), (MachineId(4), HandlerRecord { interval: None, last_approval: None, ..full })];
        assert_eq!(decode(&encode(&records)).unwrap(), records);
        assert!(decode(r#"{"v":2,"machines":[]}"#).is_err() && decode("x").is_err());
    }
}
