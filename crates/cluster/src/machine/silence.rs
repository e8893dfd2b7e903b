//! Measures the silence of a leader: how long neither the leadership nor its heartbeat has changed while the log answered.
//!
//! The required silence grows while servers depose each other although they are alive, as in an overloaded site. A leader
//! that crashed was deposed for a good reason: it can only lead again as a new process, with another session.

use std::collections::VecDeque;
use std::time::Duration;

use super::Moment;
use super::settings::Settings;
use crate::contract::{ObservedVersions, View};

/// Deposed leaders to remember; clusters have fewer servers.
const DEPOSED_MAX: usize = 16;

/// Returns of deposed leaders that do not make the others wait longer: one can be a server that was paused.
const RETURNS_EXCUSED: u32 = 1;

#[derive(Debug, Default)]
pub struct SilenceDetector {
    seen: Option<Seen>,
    /// The version and the session of the last leader seen, and the time of the change to it.
    leader: Option<(u64, u64)>,
    changed_at: Option<Moment>,
    /// The sessions of leaders whose silence ended their leadership.
    deposed: VecDeque<u64>,
    /// Takeovers by a deposed leader that was alive, without a quiet time between them.
    returns: u32,
}

#[derive(Debug)]
struct Seen {
    sighting: ObservedVersions,
    since: Moment,
    reads: u32,
}

impl SilenceDetector {
    /// Records a successful read.
    pub fn observe(&mut self, now: Moment, view: &View, settings: &Settings) {
        let sighting = view.sighting();
        let leader = view.leader.as_ref().map(|(token, leader)| (token.0, leader.nonce.session));
        self.count_returns(now, leader, settings);
        match &mut self.seen {
            Some(seen) if seen.sighting == sighting => seen.reads += 1,
            Some(_) | None => self.seen = Some(Seen { sighting, since: now, reads: 1 }),
        }
    }

    /// Starts again: the log did not answer, or the leadership was this server's own.
    pub fn reset(&mut self) {
        self.seen = None;
    }

    /// Whether the leader has been silent for the required time.
    pub fn is_over(&self, now: Moment, settings: &Settings) -> bool {
        self.seen.as_ref().is_some_and(|seen| {
            seen.reads >= settings.silence_reads && now.saturating_sub(seen.since) >= self.required(settings)
        })
    }

    fn required(&self, settings: &Settings) -> Duration {
        let doublings = self.returns.saturating_sub(RETURNS_EXCUSED).min(10);
        settings.silence_min.saturating_mul(1 << doublings).min(settings.silence_max)
    }

    /// Only a change from one leader to the next counts: a leader that resigned caused no silence.
    fn count_returns(&mut self, now: Moment, leader: Option<(u64, u64)>, settings: &Settings) {
        if self.changed_at.is_some_and(|at| now.saturating_sub(at) >= settings.quiet_after) {
            self.returns = 0;
            self.deposed.clear();
        }
        if leader == self.leader {
            return;
        }
        if let (Some((_, before)), Some((_, session))) = (self.leader, leader) {
            self.remember_deposed(before);
            self.returns += u32::from(self.deposed.contains(&session));
        }
        self.leader = leader;
        self.changed_at = Some(now);
    }

    fn remember_deposed(&mut self, session: u64) {
        if self.deposed.contains(&session) {
            return;
        }
        if self.deposed.len() == DEPOSED_MAX {
            self.deposed.pop_front();
        }
        self.deposed.push_back(session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Leader, Token};
    use crate::record::Nonce;

    const fn ms(ms: u64) -> Moment {
        Duration::from_millis(ms)
    }

    /// The state of a log. `leader`: its version and session.
    fn view(leader: Option<(u64, u64)>, heartbeat_version: u64) -> View {
        let leader = leader.map(|(version, session)| {
            let nonce = Nonce { session, counter: 1 };
            (Token(version), Leader { node: "n".into(), address: String::new(), nonce })
        });
        View { leader, heartbeat_version, ..View::default() }
    }

    /// Reads every 200 ms from `start` until the silence is over, and returns how long that took.
    fn silence_after(silence: &mut SilenceDetector, start: Moment, view: &View) -> Duration {
        let settings = Settings::default();
        let mut now = start;
        loop {
            silence.observe(now, view, &settings);
            if silence.is_over(now, &settings) {
                return now - start;
            }
            now += ms(200);
        }
    }

    /// The silence before each takeover, with leaders of these sessions. Also returns the time at the end.
    fn silences(silence: &mut SilenceDetector, sessions: &[u64]) -> (Vec<u128>, Moment) {
        let mut now = ms(0);
        let mut waits = Vec::new();
        for (version, session) in (1..).zip(sessions) {
            let waited = silence_after(silence, now, &view(Some((version, *session)), 9));
            waits.push(waited.as_millis());
            now += waited + ms(10);
        }
        (waits, now)
    }

    #[test]
    fn the_required_silence_doubles_while_living_leaders_depose_each_other_and_resets_after_a_quiet_minute() {
        let mut silence = SilenceDetector::default();
        let (waits, now) = silences(&mut silence, &[1, 2, 3, 1, 2, 3, 2, 1, 1]);
        assert_eq!(waits, [1200, 1200, 1200, 1200, 2400, 4800, 9600, 10_000, 10_000]);
        let now = now + ms(60_000);
        silence.observe(now, &view(Some((9, 1)), 10), &Settings::default());
        assert_eq!(silence_after(&mut silence, now + ms(1), &view(Some((9, 1)), 11)), ms(1200));
    }

    #[test]
    fn leaders_that_crash_one_after_the_other_do_not_make_the_others_wait_longer() {
        let sessions: Vec<u64> = (1..=2 * DEPOSED_MAX as u64).collect();
        let mut silence = SilenceDetector::default();
        let (waits, _) = silences(&mut silence, &sessions);
        assert!(waits.iter().all(|wait| *wait == 1200), "{waits:?}");
        assert!(silence.deposed.len() <= DEPOSED_MAX);
    }

    #[test]
    fn leaders_that_resigned_do_not_make_the_others_wait_longer() {
        let mut silence = SilenceDetector::default();
        let mut now = ms(0);
        for version in 1..=6 {
            for leader in [Some((version, version % 2)), None] {
                now += ms(10);
                silence.observe(now, &view(leader, 1), &Settings::default());
            }
        }
        assert_eq!(silence_after(&mut silence, now, &view(Some((7, 1)), 2)), ms(1200));
    }

    #[test]
    fn a_failed_read_starts_the_measurement_again() {
        let settings = Settings::default();
        let mut silence = SilenceDetector::default();
        let same = view(Some((1, 1)), 1);
        for at in 0..6 {
            silence.observe(ms(at * 200), &same, &settings);
        }
        silence.reset();
        silence.observe(ms(1300), &same, &settings);
        assert!(!silence.is_over(ms(1300), &settings));
        assert!(!silence.is_over(ms(9000), &settings), "one read is not enough");
    }
}
