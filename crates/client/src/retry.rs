//! Retry policy: when to send a request again, and when to give up. Pure; time and randomness are arguments.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

/// Limits for the retries of a call. Totals count from the start of the call.
///
/// ```
/// use std::time::Duration;
/// use forewarn_client::RetryPolicy;
///
/// let patient = RetryPolicy { total_max: Duration::from_secs(120), ..RetryPolicy::default() };
/// # drop(patient);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Limit for connection failures, 408, 429 and 5xx. Zero disables retries.
    pub total_max: Duration,
    /// Limit for 410. Azure documents that the service is back within 70 seconds.
    pub gone_total_max: Duration,
    /// Delay after the first failure; doubles with each further failure.
    pub delay_first: Duration,
    /// Longest delay. A Preempt gives only 30 seconds of notice.
    pub delay_max: Duration,
    /// Longest delay that the service can request with `Retry-After`.
    pub retry_after_max: Duration,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            total_max: Duration::from_secs(20),
            gone_total_max: Duration::from_secs(70),
            delay_first: Duration::from_millis(250),
            delay_max: Duration::from_secs(5),
            retry_after_max: Duration::from_secs(10),
        }
    }
}

impl RetryPolicy {
    /// No retries, for callers that soon poll again.
    pub fn never() -> RetryPolicy {
        RetryPolicy { total_max: Duration::ZERO, gone_total_max: Duration::ZERO, ..RetryPolicy::default() }
    }

    /// Returns the delay before the next attempt, or `None` to give up.
    ///
    /// `cause` is the reason for the last failure, `failed` the number of failed attempts, `elapsed` the time since the
    /// start of the call, and `jitter` a random number from 0 to 1.
    pub fn delay(&self, cause: &RetryCause, failed: u32, elapsed: Duration, jitter: f64) -> Option<Duration> {
        let doubled = self.delay_first.saturating_mul(1 << failed.saturating_sub(1).min(16));
        let backoff = doubled.min(self.delay_max).mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0);
        let (delay, total_max) = match cause {
            RetryCause::Gone => (backoff, self.gone_total_max),
            RetryCause::Connection | RetryCause::Busy { retry_after: None } => (backoff, self.total_max),
            // Not before the requested time, plus jitter, so that clients do not return all at once.
            RetryCause::Busy { retry_after: Some(requested) } => {
                ((*requested).min(self.retry_after_max) + backoff.min(self.delay_first), self.total_max)
            }
        };
        (!total_max.is_zero() && elapsed + delay <= total_max).then_some(delay)
    }
}

/// Reason for a failed attempt that can be retried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryCause {
    /// No connection, a timeout, or an incomplete response.
    Connection,
    /// 410: the service is being updated.
    Gone,
    /// 408, 429 or 5xx, with the delay that the service requested.
    Busy { retry_after: Option<Duration> },
}

/// Small random number generator that keeps machines from polling in lockstep. Not suitable for anything else.
#[derive(Debug, Clone)]
pub struct Jitter(u64);

impl Jitter {
    /// Creates a generator that yields the same numbers for the same seed.
    pub fn seeded(seed: u64) -> Jitter {
        Jitter(seed | 1)
    }

    /// Creates a generator with a random seed, taken from the standard library's hasher.
    pub fn random() -> Jitter {
        Jitter::seeded(RandomState::new().build_hasher().finish())
    }

    /// Draws a number from 0 to 1 (xorshift64).
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

    fn check(cause: &RetryCause, failed: u32, elapsed_ms: u64, jitter: f64, expected_ms: Option<u64>) {
        let delay = RetryPolicy::default().delay(cause, failed, Duration::from_millis(elapsed_ms), jitter);
        assert_eq!(delay.map(|delay| delay.as_millis() as u64), expected_ms, "{cause:?} {failed} {elapsed_ms}");
    }

    fn busy(secs: u64) -> RetryCause {
        RetryCause::Busy { retry_after: Some(Duration::from_secs(secs)) }
    }

    #[test]
    fn delays_double_up_to_a_limit_and_vary_by_half() {
        check(&RetryCause::Connection, 1, 0, 1.0, Some(250));
        check(&RetryCause::Connection, 1, 0, 0.0, Some(125));
        check(&RetryCause::Connection, 2, 0, 1.0, Some(500));
        check(&RetryCause::Connection, 5, 0, 1.0, Some(4000));
        check(&RetryCause::Connection, 6, 0, 1.0, Some(5000));
        check(&RetryCause::Connection, u32::MAX, 0, 1.0, Some(5000));
        check(&RetryCause::Connection, 1, 0, 7.0, Some(250));
    }

    #[test]
    fn each_cause_has_its_own_limit() {
        check(&RetryCause::Connection, 6, 15_000, 1.0, Some(5000));
        check(&RetryCause::Connection, 6, 15_001, 1.0, None);
        check(&RetryCause::Busy { retry_after: None }, 6, 15_001, 1.0, None);
        check(&RetryCause::Gone, 6, 65_000, 1.0, Some(5000));
        check(&RetryCause::Gone, 6, 65_001, 1.0, None);
    }

    #[test]
    fn retry_after_is_obeyed_up_to_a_limit() {
        check(&busy(3), 1, 0, 0.0, Some(3125));
        check(&busy(0), 1, 0, 1.0, Some(250));
        check(&busy(3600), 1, 0, 0.0, Some(10_125));
        check(&busy(10), 1, 10_000, 0.0, None);
    }

    #[test]
    fn never_disables_retries_for_every_cause() {
        for cause in [RetryCause::Connection, RetryCause::Gone, busy(0)] {
            assert_eq!(RetryPolicy::never().delay(&cause, 1, Duration::ZERO, 0.0), None);
        }
    }

    #[test]
    fn jitter_is_from_0_to_1_and_a_seed_repeats_the_same_numbers() {
        let (mut one, mut other) = (Jitter::seeded(7), Jitter::seeded(7));
        for _ in 0..1000 {
            let drawn = one.draw();
            assert!((0.0..1.0).contains(&drawn));
            assert_eq!(drawn, other.draw());
        }
    }
}
