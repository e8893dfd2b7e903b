//! Waits for a condition by polling, with a time limit.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// The time limit. The slowest step waits nine seconds for a turn, a tenth of this.
pub const WAIT_MAX: Duration = Duration::from_secs(90);

const STEP: Duration = Duration::from_millis(50);

/// Polls until there is a result.
pub fn until<T>(what: &str, ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    until_within(WAIT_MAX, what, ask)
}

/// The same with another time limit.
pub fn until_within<T>(max: Duration, what: &str, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        if begun.elapsed() > max {
            bail!("timed out after {} s waiting for {what}", max.as_secs());
        }
        std::thread::sleep(STEP);
    }
}
