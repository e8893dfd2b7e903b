//! Waiting for a condition, in small steps and not for ever.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How long anything here may take before the run fails: the slowest step, a turn of nine seconds, takes a tenth of it.
pub const WAIT_MAX: Duration = Duration::from_secs(90);

const STEP: Duration = Duration::from_millis(50);

/// Asks until there is an answer.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        if begun.elapsed() > WAIT_MAX {
            bail!("waited {} s in vain for {what}", WAIT_MAX.as_secs());
        }
        std::thread::sleep(STEP);
    }
}
