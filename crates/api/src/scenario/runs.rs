//! Current and recent runs of a server. They are kept in memory and end with the server; history records their actions.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use forewarn_core::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::file::Scenario;
use super::run::{HandlerMode, Run, check_run};
use crate::Actions;

/// Concurrent runs. Each is a task that mostly waits; more are probably started by a runaway loop.
pub const RUNNING_MAX: usize = 32;

/// Runs kept, the newest ones.
pub const RUNS_MAX: usize = 100;

/// The progress of a run.
#[derive(Clone, Debug)]
pub struct Progress {
    pub id: u64,
    /// The name of a built-in scenario or of a file.
    pub name: String,
    pub title: String,
    pub state: RunState,
    /// Why it failed.
    pub reason: Option<String>,
    pub started: Timestamp,
    pub ended: Option<Timestamp>,
    pub steps: Vec<StepState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    Running,
    /// All steps were executed and all expectations held.
    Passed,
    Failed,
    Stopped,
}

#[derive(Clone, Debug)]
pub struct StepState {
    pub text: String,
    /// Line in the file.
    pub line: usize,
    pub status: StepStatus,
    /// Start time on the server's clock.
    pub at: Option<Timestamp>,
    /// Why it failed.
    pub message: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepStatus {
    Waiting,
    Running,
    Done,
    Failed,
}

#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    #[error("{RUNNING_MAX} scenarios are already running. Wait for one to end, or stop one.")]
    TooMany,
    /// The scenario cannot run on this server.
    #[error("{0}")]
    NotRunnable(String),
}

#[derive(Default)]
pub struct Runs {
    table: Mutex<RunTable>,
}

#[derive(Default)]
struct RunTable {
    last_id: u64,
    runs: BTreeMap<u64, RunEntry>,
}

struct RunEntry {
    progress: watch::Receiver<Progress>,
    stop: CancellationToken,
}

impl Runs {
    /// Prepares a run, which begins with `PreparedRun::begin` and ends at the latest when `stop` is canceled.
    pub fn prepare(
        &self,
        name: String,
        scenario: Scenario,
        handler: HandlerMode,
        actions: Actions,
        stop: &CancellationToken,
    ) -> Result<PreparedRun, BeginError> {
        let stop = stop.child_token();
        check_run(&scenario, &actions).map_err(BeginError::NotRunnable)?;
        let mut table = self.table();
        let running = table.runs.values().filter(|run| run.progress.borrow().state == RunState::Running).count();
        if running >= RUNNING_MAX {
            return Err(BeginError::TooMany);
        }
        let first = first_progress(table.last_id + 1, name, &scenario, actions.engine().now());
        let (progress, seen) = watch::channel(first.clone());
        let report = Reporter { progress, stop: stop.clone() };
        let run = Run { actions, scenario, handler, operations: HashMap::new(), report };
        table.last_id += 1;
        table.runs.insert(first.id, RunEntry { progress: seen, stop });
        while table.runs.len() > RUNS_MAX {
            table.runs.pop_first();
        }
        Ok(PreparedRun { first, run })
    }

    /// All runs, oldest first.
    pub fn list(&self) -> Vec<Progress> {
        self.table().runs.values().map(|run| run.progress.borrow().clone()).collect()
    }

    /// The progress of a run as it changes.
    pub fn watch(&self, id: u64) -> Option<watch::Receiver<Progress>> {
        self.table().runs.get(&id).map(|run| run.progress.clone())
    }

    /// Stops a run. Returns false if it does not exist.
    pub fn stop(&self, id: u64) -> bool {
        self.table().runs.get(&id).map(|run| run.stop.cancel()).is_some()
    }

    fn table(&self) -> MutexGuard<'_, RunTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn first_progress(id: u64, name: String, scenario: &Scenario, now: Timestamp) -> Progress {
    let steps = scenario.steps.iter().map(|step| StepState {
        text: step.action.to_string(),
        line: step.line,
        status: StepStatus::Waiting,
        at: None,
        message: None,
    });
    Progress {
        id,
        name,
        title: scenario.title.clone(),
        state: RunState::Running,
        reason: None,
        started: now,
        ended: None,
        steps: steps.collect(),
    }
}

/// A run that has been checked but not started.
pub struct PreparedRun {
    first: Progress,
    run: Run,
}

impl PreparedRun {
    pub fn begin(self) -> Progress {
        tokio::spawn(self.run.execute());
        self.first
    }
}

/// Publishes the progress of a run and tells it when to stop.
pub(super) struct Reporter {
    progress: watch::Sender<Progress>,
    stop: CancellationToken,
}

impl Reporter {
    pub fn begin(&self, number: usize, now: Timestamp) {
        self.update_step(number, |step| {
            step.status = StepStatus::Running;
            step.at = Some(now);
        });
    }

    pub fn end(&self, number: usize, result: &Result<(), String>) {
        self.update_step(number, |step| match result {
            Ok(()) => step.status = StepStatus::Done,
            Err(message) => {
                step.status = StepStatus::Failed;
                step.message = Some(message.clone());
            }
        });
    }

    pub fn finish(self, result: Result<(), String>, now: Timestamp) {
        self.progress.send_modify(|progress| {
            progress.ended = Some(now);
            progress.state = match &result {
                Ok(()) => RunState::Passed,
                Err(_) if self.stop.is_cancelled() => RunState::Stopped,
                Err(_) => RunState::Failed,
            };
            progress.reason = result.err();
        });
    }

    /// Waits for the future, unless the run is stopped first.
    pub async fn run_until_stopped(&self, future: impl Future) -> Result<(), String> {
        tokio::select! {
            _ = future => Ok(()),
            () = self.stop.cancelled() => Err("the run was stopped".into()),
        }
    }

    fn update_step(&self, number: usize, change: impl FnOnce(&mut StepState)) {
        self.progress.send_modify(|progress| progress.steps.get_mut(number).map(change).unwrap_or_default());
    }
}
