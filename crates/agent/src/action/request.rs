//! The request that the agent passes to the process of an action, and the main function of that process.

use std::io::Read;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::ActionSpec;
use crate::record::Phase;

/// Environment variable that holds the request.
pub const VARIABLE: &str = "FOREWARN_ACTION";

/// An action stops this long before its time limit, so that the log shows the problem and not only the timeout.
const MARGIN: Duration = Duration::from_secs(1);

const RETRY_DELAY_FIRST: Duration = Duration::from_secs(1);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ActionRequest {
    pub spec: ActionSpec,
    pub phase: Phase,
    pub limit: Duration,
    #[serde(skip, default = "Instant::now")]
    pub started_at: Instant,
}

impl ActionRequest {
    pub fn new(spec: ActionSpec, phase: Phase, limit: Duration) -> ActionRequest {
        ActionRequest { spec, phase, limit, started_at: Instant::now() }
    }

    /// Environment variable and value.
    pub fn to_variable(&self) -> (String, String) {
        (VARIABLE.to_owned(), serde_json::to_string(self).expect("a request serializes to JSON"))
    }

    /// Time left until the limit, but at most `max`.
    pub fn remaining(&self, max: Duration) -> Duration {
        self.limit.saturating_sub(MARGIN).saturating_sub(self.started_at.elapsed()).min(max)
    }
}

/// Performs the action in the environment. `restore` is retried until the time limit, because on a machine that has
/// just started, clusters and services may come up later than the agent.
pub fn run_requested_action() -> Result<()> {
    let text = std::env::var(VARIABLE).with_context(|| format!("`act` is for internal use and requires {VARIABLE}"))?;
    let request: ActionRequest = serde_json::from_str(&text).with_context(|| format!("invalid {VARIABLE}"))?;
    let mut event = String::new();
    std::io::stdin().read_to_string(&mut event).context("cannot read the event from standard input")?;
    let mut delay = RETRY_DELAY_FIRST;
    loop {
        let Err(problem) = request.spec.perform(&request, event.trim()) else { return Ok(()) };
        if !(request.spec.is_reversible() && request.phase == Phase::Restore && request.remaining(delay) == delay) {
            return Err(problem);
        }
        println!("{problem:#}; retrying in {} s", delay.as_secs());
        sleep(delay);
        delay = (delay * 2).min(RETRY_DELAY_MAX);
    }
}
