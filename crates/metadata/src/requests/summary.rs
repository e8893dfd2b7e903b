//! How a machine polls: since when, how often, and its longest gap. Pure.

use std::time::Duration;

use forewarn_core::Timestamp;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PollSummary {
    /// GETs of the document since the first one.
    pub polls: u64,
    pub first_poll: Option<Timestamp>,
    pub last_poll: Option<Timestamp>,
    /// Of the polls that are kept; none before the second one.
    pub interval_median: Option<Duration>,
    /// Of all of them.
    pub gap_longest: Option<Duration>,
    /// The last accepted approval.
    pub last_approval: Option<Timestamp>,
    /// How long the latest held request may wait for a change.
    pub held_until: Option<Timestamp>,
}

/// Counted at each poll, because the polls themselves are not kept.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PollCounter {
    polls: u64,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    gap_longest: Option<Duration>,
    last_approval: Option<Timestamp>,
    held_until: Option<Timestamp>,
}

impl PollCounter {
    pub fn record_approval(&mut self, at: Timestamp) {
        self.last_approval = self.last_approval.max(Some(at));
    }

    pub fn record_hold(&mut self, until: Timestamp) {
        self.held_until = self.held_until.max(Some(until));
    }

    pub fn count(&mut self, at: Timestamp) {
        self.polls += 1;
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
        if let Some(last) = self.last {
            self.gap_longest = self.gap_longest.max(Some(at.since(last)));
        }
        self.last = self.last.max(Some(at));
    }

    /// `kept`: the times of the polls that are still in the log.
    pub fn summarize(&self, kept: &[Timestamp]) -> PollSummary {
        PollSummary {
            polls: self.polls,
            first_poll: self.first,
            last_poll: self.last,
            interval_median: interval_median(kept),
            gap_longest: self.gap_longest,
            last_approval: self.last_approval,
            held_until: self.held_until,
        }
    }
}

/// The median interval between polls; of two in the middle, the longer one. Held requests end in a different order than they
/// arrived, so the times need not be sorted.
fn interval_median(polls: &[Timestamp]) -> Option<Duration> {
    let mut polls = polls.to_vec();
    polls.sort_unstable();
    let mut gaps: Vec<Duration> = polls.windows(2).map(|pair| pair[1].since(pair[0])).collect();
    gaps.sort_unstable();
    gaps.get(gaps.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(polls: &[i64], median: Option<u64>, longest: Option<u64>) {
        let times: Vec<Timestamp> = polls.iter().copied().map(Timestamp::from_secs).collect();
        let mut rhythm = PollCounter::default();
        times.iter().for_each(|at| rhythm.count(*at));
        let summary = rhythm.summarize(&times);
        assert_eq!(summary.interval_median, median.map(Duration::from_secs), "{polls:?}");
        assert_eq!(summary.gap_longest, longest.map(Duration::from_secs), "{polls:?}");
        assert_eq!(summary.polls, polls.len() as u64);
        assert_eq!(summary.first_poll, times.iter().min().copied(), "{polls:?}");
        assert_eq!(summary.last_poll, times.iter().max().copied(), "{polls:?}");
    }

    #[test]
    fn intervals_and_gaps() {
        check(&[], None, None);
        check(&[5], None, None);
        check(&[5, 6], Some(1), Some(1));
        check(&[5, 6, 7, 37, 38], Some(1), Some(30));
        check(&[10, 20, 25], Some(10), Some(10));
        check(&[5, 5, 5], Some(0), Some(0));
    }

    #[test]
    fn a_poll_that_was_held_does_not_make_a_gap() {
        check(&[10, 11, 5, 12], Some(1), Some(1));
    }
}
