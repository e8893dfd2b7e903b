//! When to ask again, and when to give up. Pure: time and chance are arguments.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

/// How patient a call is. All bounds count from its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// For connections that fail, 429 and 5xx. Zero: one attempt.
    pub total_max: Duration,
    /// For 410: the service says of itself that it is back within 70 seconds.
    pub gone_total_max: Duration,
    /// The pause after the first failure; each is twice as long as the one before.
    pub delay_first: Duration,
    /// The longest pause. A Preempt gives 30 seconds of notice: do not sleep through it.
    pub delay_max: Duration,
    /// The longest pause that a service can ask for with `Retry-After`.
    pub retry_after_max: Duration,
}

impl Default for Retry {
    fn default() -> Retry {
        Retry {
            total_max: Duration::from_secs(20),
            gone_total_max: Duration::from_secs(70),
            delay_first: Duration::from_millis(250),
            delay_max: Duration::from_secs(5),
            retry_after_max: Duration::from_secs(10),
        }
    }
}

impl Retry {
    /// One attempt and no more, for callers who ask again in a second anyway.
    pub fn never() -> Retry {
        Retry { total_max: Duration::ZERO, gone_total_max: Duration::ZERO, ..Retry::default() }
    }

    /// The pause before the next attempt, or `None` to give up. `failed` attempts were made, of which
    /// the last met this trouble; the call is `elapsed` old; `jitter` is from 0 to 1.
    pub fn delay(&self, trouble: &Trouble, failed: u32, elapsed: Duration, jitter: f64) -> Option<Duration> {
        let doubled = self.delay_first.saturating_mul(1 << failed.saturating_sub(1).min(16));
        let backoff = doubled.min(self.delay_max).mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0);
        let (delay, total_max) = match trouble {
            Trouble::Gone => (backoff, self.gone_total_max),
            Trouble::Connection | Trouble::Busy { retry_after: None } => (backoff, self.total_max),
            // Never earlier than asked, and not all of us at once.
            Trouble::Busy { retry_after: Some(asked) } => {
                ((*asked).min(self.retry_after_max) + backoff.min(self.delay_first), self.total_max)
            }
        };
        (!total_max.is_zero() && elapsed + delay <= total_max).then_some(delay)
    }
}

/// What stood in the way of an attempt, as far as patience is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// No connection, no answer in time, or half of one.
    Connection,
    /// 410: the service is being updated.
    Gone,
    /// 429, 5xx, and what the service asked for.
    Busy { retry_after: Option<Duration> },
}

/// Chance enough to keep a fleet from asking in step; good for nothing else.
#[derive(Debug, Clone)]
pub struct Jitter(u64);

impl Jitter {
    pub fn seeded(seed: u64) -> Jitter {
        Jitter(seed | 1)
    }

    /// The standard library's seeds differ between processes and hashers.
    pub fn random() -> Jitter {
        Jitter::seeded(RandomState::new().build_hasher().finish())
    }

    /// The next number from 0 to 1 (xorshift64).
    pub fn draw(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(trouble: &Trouble, failed: u32, elapsed_ms: u64, jitter: f64, expected_ms: Option<u64>) {
        let delay = Retry::default().delay(trouble, failed, Duration::from_millis(elapsed_ms), jitter);
        assert_eq!(delay.map(|delay| delay.as_millis() as u64), expected_ms, "{trouble:?} {failed} {elapsed_ms}");
    }

    fn busy(secs: u64) -> Trouble {
        Trouble::Busy { retry_after: Some(Duration::from_secs(secs)) }
    }

    #[test]
    fn pauses_double_up_to_a_bound_and_vary_by_half() {
        check(&Trouble::Connection, 1, 0, 1.0, Some(250));
        check(&Trouble::Connection, 1, 0, 0.0, Some(125));
        check(&Trouble::Connection, 2, 0, 1.0, Some(500));
        check(&Trouble::Connection, 5, 0, 1.0, Some(4000));
        check(&Trouble::Connection, 6, 0, 1.0, Some(5000));
        check(&Trouble::Connection, u32::MAX, 0, 1.0, Some(5000));
        check(&Trouble::Connection, 1, 0, 7.0, Some(250));
    }

    #[test]
    fn each_trouble_has_its_own_bound() {
        check(&Trouble::Connection, 6, 15_000, 1.0, Some(5000));
        check(&Trouble::Connection, 6, 15_001, 1.0, None);
        check(&Trouble::Busy { retry_after: None }, 6, 15_001, 1.0, None);
        check(&Trouble::Gone, 6, 65_000, 1.0, Some(5000));
        check(&Trouble::Gone, 6, 65_001, 1.0, None);
    }

    #[test]
    fn what_the_service_asks_for_is_done_within_bounds() {
        check(&busy(3), 1, 0, 0.0, Some(3125));
        check(&busy(0), 1, 0, 1.0, Some(250));
        check(&busy(3600), 1, 0, 0.0, Some(10_125));
        check(&busy(10), 1, 10_000, 0.0, None);
    }

    #[test]
    fn never_is_never() {
        for trouble in [Trouble::Connection, Trouble::Gone, busy(0)] {
            assert_eq!(Retry::never().delay(&trouble, 1, Duration::ZERO, 0.0), None);
        }
    }

    #[test]
    fn chance_stays_between_its_bounds_and_a_seed_repeats_itself() {
        let (mut one, mut other) = (Jitter::seeded(7), Jitter::seeded(7));
        for _ in 0..1000 {
            let drawn = one.draw();
            assert!((0.0..1.0).contains(&drawn));
            assert_eq!(drawn, other.draw());
        }
    }
}
