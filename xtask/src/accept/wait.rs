//! Waiting for a condition, in small steps and not for ever.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How long anything here may take before the run fails: the slowest step, a turn of nine seconds, takes a tenth of it.
pub const WAIT_MAX: Duration = Duration::from_secs(90);

const STEP: Duration = Duration::from_millis(50);

/// Asks until there is an answer.
pub fn until<T>(what: &str, ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    until_within(WAIT_MAX, what, ask)
}

/// The same for what is known to take longer.
pub fn until_within<T>(max: Duration, what: &str, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        if begun.elapsed() > max {
            bail!("waited {} s in vain for {what}", max.as_secs());
        }
        std::thread::sleep(STEP);
    }
}
