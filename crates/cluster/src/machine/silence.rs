//! Measures the silence of a leader: how long neither the leadership nor its beat has changed while the log answered.

use std::time::Duration;

use super::Moment;
use super::settings::Settings;
use crate::contract::Sighting;

#[derive(Debug, Default)]
pub struct Silence {
    seen: Option<Seen>,
    /// The last leadership seen, and the time of the change to it.
    leader_version: u64,
    changed_at: Option<Moment>,
    /// Takeovers without a quiet time between them.
    takeovers: u32,
}

#[derive(Debug)]
struct Seen {
    sighting: Sighting,
    since: Moment,
    reads: u32,
}

impl Silence {
    /// Takes note of a good read.
    pub fn observe(&mut self, now: Moment, sighting: Sighting, settings: &Settings) {
        self.count_takeovers(now, sighting.leader_version, settings);
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
        let doubled = settings.silence_min.saturating_mul(1 << self.takeovers.min(10));
        doubled.min(settings.silence_max)
    }

    /// Only a change from one leader to the next counts: a leader that resigned caused no silence.
    fn count_takeovers(&mut self, now: Moment, leader_version: u64, settings: &Settings) {
        if self.changed_at.is_some_and(|at| now.saturating_sub(at) >= settings.quiet_after) {
            self.takeovers = 0;
        }
        if leader_version == self.leader_version {
            return;
        }
        if self.leader_version != 0 && leader_version != 0 {
            self.takeovers += 1;
        }
        self.leader_version = leader_version;
        self.changed_at = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Moment {
        Duration::from_millis(ms)
    }

    fn seen(leader_version: u64, beat_version: u64) -> Sighting {
        Sighting { leader_version, beat_version }
    }

    /// Reads every 200 ms from `start` until the silence is over, and returns how long that took.
    fn silence_after(silence: &mut Silence, start: Moment, sighting: Sighting) -> Duration {
        let settings = Settings::default();
        let mut now = start;
        loop {
            silence.observe(now, sighting, &settings);
            if silence.is_over(now, &settings) {
                return now - start;
            }
            now += ms(200);
        }
    }

    #[test]
    fn the_required_silence_doubles_with_every_takeover_and_resets_after_a_quiet_minute() {
        let mut silence = Silence::default();
        let mut now = ms(0);
        let mut waits = Vec::new();
        for leader in 1..=5 {
            let waited = silence_after(&mut silence, now, seen(leader, 9));
            waits.push(waited.as_millis());
            now += waited + ms(10);
        }
        assert_eq!(waits, [1200, 2400, 4800, 9600, 10_000]);
        now += ms(60_000);
        silence.observe(now, seen(5, 10), &Settings::default());
        assert_eq!(silence_after(&mut silence, now + ms(1), seen(5, 11)), ms(1200));
    }

    #[test]
    fn a_leader_that_resigned_does_not_make_the_others_wait_longer() {
        let mut silence = Silence::default();
        for (at, leader) in [(0, 1), (10, 0), (20, 2)] {
            silence.observe(ms(at), seen(leader, 1), &Settings::default());
        }
        assert_eq!(silence_after(&mut silence, ms(30), seen(2, 2)), ms(1200));
    }

    #[test]
    fn a_failed_read_starts_the_measurement_again() {
        let settings = Settings::default();
        let mut silence = Silence::default();
        for at in 0..6 {
            silence.observe(ms(at * 200), seen(1, 1), &settings);
        }
        silence.reset();
        silence.observe(ms(1300), seen(1, 1), &settings);
        assert!(!silence.is_over(ms(1300), &settings));
        assert!(!silence.is_over(ms(9000), &settings), "one read is not enough");
    }
}
