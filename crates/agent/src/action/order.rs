//! What the agent tells the process that does an action, and how that process goes about it.

use std::io::Read;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::Work;
use crate::record::Phase;

/// The variable that an order travels in.
pub const VARIABLE: &str = "FOREWARN_ACTION";

/// Before the agent loses patience, so that the log tells what went wrong and not only that it was late.
const MARGIN: Duration = Duration::from_secs(1);

const AGAIN_FIRST: Duration = Duration::from_secs(1);
const AGAIN_MAX: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    pub work: Work,
    pub phase: Phase,
    pub limit: Duration,
    #[serde(skip, default = "Instant::now")]
    pub begun: Instant,
}

impl Order {
    pub fn new(work: Work, phase: Phase, limit: Duration) -> Order {
        Order { work, phase, limit, begun: Instant::now() }
    }

    /// The variable and its value.
    pub fn variable(&self) -> (String, String) {
        (VARIABLE.to_owned(), serde_json::to_string(self).expect("an order is plain data"))
    }

    /// What is left of the time, but no more than this.
    pub fn left(&self, most: Duration) -> Duration {
        self.limit.saturating_sub(MARGIN).saturating_sub(self.begun.elapsed()).min(most)
    }
}

/// The other end: does what the environment says. What is to be put back is tried as long as there is time:
/// on a machine that has just started, clusters and services may come up after us.
pub fn perform() -> Result<()> {
    let text = std::env::var(VARIABLE)
        .with_context(|| format!("`act` is how the agent runs its own actions, and needs {VARIABLE}"))?;
    let order: Order = serde_json::from_str(&text).with_context(|| format!("{VARIABLE} makes no sense"))?;
    let mut event = String::new();
    std::io::stdin().read_to_string(&mut event).context("the event cannot be read from standard input")?;
    let mut pause = AGAIN_FIRST;
    loop {
        let Err(problem) = order.work.do_it(&order, event.trim()) else { return Ok(()) };
        if !(order.work.is_change() && order.phase == Phase::Restore && order.left(pause) == pause) {
            return Err(problem);
        }
        println!("{problem:#}; trying again in {} s", pause.as_secs());
        sleep(pause);
        pause = (pause * 2).min(AGAIN_MAX);
    }
}
