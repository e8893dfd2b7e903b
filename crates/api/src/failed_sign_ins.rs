//! Failed sign-ins by source: logged, and answered more slowly once there are many.
//!
//! Secrets are random and long, so guessing them is hopeless at any speed. Slow answers keep a broken or hostile client from
//! occupying the server and the log. Only failures are slow: other callers at the same address do not notice.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;

/// Failures that are answered without a delay. A person who mistypes, or a tool with an expired token, stays below this.
const FAILURES_FREE: u32 = 10;

/// The delay of each further answer.
const FAILURE_DELAY: Duration = Duration::from_secs(1);

/// A source without a failure for this long starts over.
const FORGET_AFTER: Duration = Duration::from_secs(60);

/// A source is logged at most this often; the line has the number of failures.
const LOG_EVERY: Duration = Duration::from_secs(1);

/// Sources that are remembered. When all are in use, further sources are slow from their first failure on and not logged.
const SOURCES_MAX: usize = 4096;

#[derive(Default)]
pub struct FailedSignIns(Mutex<HashMap<IpAddr, Failures>>);

struct Failures {
    count: u32,
    last: Instant,
    logged: Instant,
}

/// The consequence of a failure.
#[derive(Debug, PartialEq, Eq)]
struct Consequence {
    delay: Duration,
    /// The number of failures to log; None: this source was logged a moment ago.
    log: Option<u32>,
}

impl FailedSignIns {
    /// Logs a failure, and waits if its source has failed often. `attempt` names the way of signing in.
    pub async fn record(&self, source: IpAddr, attempt: &'static str, delays: &Counter) {
        let Consequence { delay, log } = self.count(source, Instant::now());
        if let Some(failures) = log {
            tracing::warn!(%source, attempt, failures, "client failed to sign in");
        }
        if !delay.is_zero() {
            delays.inc();
            tokio::time::sleep(delay).await;
        }
    }

    fn count(&self, source: IpAddr, now: Instant) -> Consequence {
        let mut sources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = sources.get_mut(&source)
            && now.duration_since(known.last) < FORGET_AFTER
        {
            return known.add(now);
        }
        if sources.len() >= SOURCES_MAX {
            sources.retain(|_, known| now.duration_since(known.last) < FORGET_AFTER);
        }
        if sources.len() >= SOURCES_MAX {
            return Consequence { delay: FAILURE_DELAY, log: None };
        }
        sources.insert(source, Failures { count: 1, last: now, logged: now });
        Consequence { delay: Duration::ZERO, log: Some(1) }
    }
}

impl Failures {
    fn add(&mut self, now: Instant) -> Consequence {
        self.count = self.count.saturating_add(1);
        self.last = now;
        let may_log = now.duration_since(self.logged) >= LOG_EVERY;
        if may_log {
            self.logged = now;
        }
        let delay = if self.count > FAILURES_FREE { FAILURE_DELAY } else { Duration::ZERO };
        Consequence { delay, log: may_log.then_some(self.count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 8));

    #[test]
    fn a_source_that_fails_often_is_slowed_down_until_it_pauses_and_others_are_not() {
        let failures = FailedSignIns::default();
        let start = Instant::now();
        for _ in 0..FAILURES_FREE {
            assert_eq!(failures.count(SOURCE, start).delay, Duration::ZERO);
        }
        assert_eq!(failures.count(SOURCE, start).delay, FAILURE_DELAY);
        assert_eq!(failures.count(OTHER, start).delay, Duration::ZERO);
        assert_eq!(failures.count(SOURCE, start + FORGET_AFTER).delay, Duration::ZERO);
    }

    #[test]
    fn a_source_is_logged_once_a_second_with_its_number_of_failures() {
        let failures = FailedSignIns::default();
        let start = Instant::now();
        assert_eq!(failures.count(SOURCE, start).log, Some(1));
        assert_eq!(failures.count(SOURCE, start).log, None);
        assert_eq!(failures.count(OTHER, start).log, Some(1));
        assert_eq!(failures.count(SOURCE, start + LOG_EVERY).log, Some(3));
    }

    #[test]
    fn the_number_of_remembered_sources_is_limited() {
        let failures = FailedSignIns::default();
        let start = Instant::now();
        for number in 0..SOURCES_MAX as u32 {
            failures.count(IpAddr::from(number.to_be_bytes()), start);
        }
        let one_more = failures.count(SOURCE, start);
        assert_eq!(one_more, Consequence { delay: FAILURE_DELAY, log: None });
        assert_eq!(failures.count(SOURCE, start + FORGET_AFTER).log, Some(1), "there is room again");
    }
}
