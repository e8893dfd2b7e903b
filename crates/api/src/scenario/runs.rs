//! The runs of a server: those that are under way and those that ended lately. They are in memory and end
//! with the server; what they did is in history.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use forewarn_core::{Name, Timestamp};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::file::Scenario;
use super::run::{Handler, Run};
use forewarn_engine::Engine;
use forewarn_metadata::EndpointState;

/// Runs under way at once. Each is a task that mostly waits; more than this is a loop that starts them.
pub const RUNNING_MAX: usize = 32;

/// Runs that are remembered, the oldest ones forgotten first.
pub const KEPT_MAX: usize = 100;

/// How far a run has come.
#[derive(Clone, Debug)]
pub struct Progress {
    pub id: u64,
    /// The name of a shipped scenario or of a file.
    pub name: String,
    pub title: String,
    pub state: RunState,
    /// Why it failed, where no step did.
    pub reason: Option<String>,
    pub started: Timestamp,
    pub ended: Option<Timestamp>,
    pub steps: Vec<StepState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    Running,
    /// Every step was done and every expectation held.
    Passed,
    Failed,
    Stopped,
}

#[derive(Clone, Debug)]
pub struct StepState {
    pub text: String,
    /// In the file.
    pub line: usize,
    pub status: StepStatus,
    /// When it began, on the program's clock.
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
    #[error("{RUNNING_MAX} scenarios run already. Wait until one ends, or stop one.")]
    TooMany,
    /// The scenario does not fit this server.
    #[error("{0}")]
    Unfit(String),
}

/// The server from inside, in somebody's name.
pub struct Inside {
    pub engine: Engine,
    pub endpoint: Arc<EndpointState>,
    /// The routes of the management API, without the guard at the door.
    pub routes: Router,
    pub by: Name,
}

#[derive(Default)]
pub struct Runs {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    last: u64,
    runs: BTreeMap<u64, Known>,
}

struct Known {
    progress: watch::Receiver<Progress>,
    stop: CancellationToken,
}

impl Runs {
    /// A run on this server, which begins when it is told to. It ends at the latest when
    /// `stop` is cancelled.
    pub fn prepare(
        &self,
        name: String,
        scenario: Scenario,
        handler: Handler,
        Inside { engine, endpoint, routes, by }: Inside,
        stop: &CancellationToken,
    ) -> Result<Prepared, BeginError> {
        let stop = stop.child_token();
        let mut kept = self.kept();
        let running = kept.runs.values().filter(|run| run.progress.borrow().state == RunState::Running).count();
        if running >= RUNNING_MAX {
            return Err(BeginError::TooMany);
        }
        let first = first_progress(kept.last + 1, name, &scenario, engine.now());
        let (progress, seen) = watch::channel(first.clone());
        let report = Reporter { progress, stop: stop.clone() };
        let run = Run { engine, endpoint, routes, by, scenario, handler, operations: HashMap::new(), report };
        run.check().map_err(BeginError::Unfit)?;
        kept.last += 1;
        kept.runs.insert(first.id, Known { progress: seen, stop });
        while kept.runs.len() > KEPT_MAX {
            kept.runs.pop_first();
        }
        Ok(Prepared { first, run })
    }

    /// Oldest first.
    pub fn list(&self) -> Vec<Progress> {
        self.kept().runs.values().map(|run| run.progress.borrow().clone()).collect()
    }

    /// A run as it goes on.
    pub fn watch(&self, id: u64) -> Option<watch::Receiver<Progress>> {
        self.kept().runs.get(&id).map(|run| run.progress.clone())
    }

    /// Whether there is such a run.
    pub fn stop(&self, id: u64) -> bool {
        self.kept().runs.get(&id).map(|run| run.stop.cancel()).is_some()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn first_progress(id: u64, name: String, scenario: &Scenario, now: Timestamp) -> Progress {
    let steps = scenario.steps.iter().map(|step| StepState {
        text: step.does.to_string(),
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

/// A run that fits its server and has a place.
pub struct Prepared {
    first: Progress,
    run: Run,
}

impl Prepared {
    pub fn begin(self) -> Progress {
        tokio::spawn(self.run.all());
        self.first
    }
}

/// Where a run says how far it has come, and hears that it should stop.
pub(super) struct Reporter {
    progress: watch::Sender<Progress>,
    stop: CancellationToken,
}

impl Reporter {
    pub fn begin(&self, number: usize, now: Timestamp) {
        self.on_step(number, |step| {
            step.status = StepStatus::Running;
            step.at = Some(now);
        });
    }

    pub fn end(&self, number: usize, result: &Result<(), String>) {
        self.on_step(number, |step| match result {
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

    /// What the future comes to, unless the run is stopped first.
    pub async fn unless_stopped(&self, future: impl Future) -> Result<(), String> {
        tokio::select! {
            _ = future => Ok(()),
            () = self.stop.cancelled() => Err("it was stopped".into()),
        }
    }

    fn on_step(&self, number: usize, change: impl FnOnce(&mut StepState)) {
        self.progress.send_modify(|progress| progress.steps.get_mut(number).map(change).unwrap_or_default());
    }
}
