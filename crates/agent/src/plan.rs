//! The decisions of the agent. No I/O and no clock: documents, results of steps and the time go in, tasks come out. The
//! driver saves [`Plan::records`] before it carries out the tasks.
//!
//! ```text
//!            appears            starts            disappears
//!   (absent) ──────▶ Scheduled ───────▶ Started ──────────▶ finished
//!                    `prepare`          `started`           `restore`
//!                        │ succeeded                          ▲
//!                        └──▶ approve             canceled ───┘
//! ```
//!
//! - Tasks are derived from the records each time, so a restarted agent continues where the last run stopped.
//! - The steps of one event run one after the other; steps of different events run in parallel.
//! - A step is recorded as running before it starts, so it never runs twice for an event.
//! - An event that is first seen Started has no `prepare`.
//!
//! An action that changes something (drains, stops, cordons) has stricter rules than a hook: it undoes only what it
//! changed, not while another event still needs the change, and never runs for two events at the same time.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use forewarn_client::{Change, Document, Event, EventId, EventStatus, Tracker};

use crate::counters::Counters;
use crate::policy::{FailurePolicy, Policies, Policy};
use crate::record::{EventEnd, Outcome, Phase, ProcessIdentity, Progress, Record, StepRun};
use crate::step::{Step, action_step_name, step_title};

/// Configuration of the plan.
#[derive(Debug, Clone)]
pub struct PlanSettings {
    /// Steps, in the order in which they run within a phase.
    pub steps: Vec<Step>,
    pub policies: Policies,
    pub on_failure: FailurePolicy,
    pub on_late: FailurePolicy,
    pub rerun_interrupted: bool,
    /// Time to keep between the end of `prepare` and `NotBefore`.
    pub margin: Duration,
    /// Time limit for steps that need not finish before `NotBefore`.
    pub limit: Duration,
    /// Percentage of the notice that each machine waits for the one before it to approve.
    pub leader_share_percent: u32,
}

/// Task for the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    Log(String),
    Run(Box<Job>),
    Approve(EventId),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub event: Event,
    pub phase: Phase,
    pub step: String,
    pub limit: Duration,
}

/// Delay before a failed approval is sent again.
pub const APPROVAL_RETRY_DELAY: Duration = Duration::from_secs(5);

/// Finished events to keep, for `status` and in case the service shows them again.
pub const FINISHED_MAX: usize = 32;

/// Shortest time limit of a step, even if no time is left: it may only write a line to a log.
pub const LIMIT_MIN: Duration = Duration::from_secs(1);

/// The margin is at most this fraction of the remaining time, because a Preempt has only 30 s of notice.
const MARGIN_DIVISOR: u32 = 3;

/// Approval that the service has not accepted yet.
#[derive(Debug, Clone, Copy, Default)]
struct PendingApproval {
    /// Time of the next attempt; `None` while an attempt is in progress.
    retry_at: Option<SystemTime>,
    failures: u32,
}

#[derive(Debug)]
pub struct Plan {
    rules: PlanSettings,
    records: BTreeMap<EventId, Record>,
    tracker: Tracker,
    pending_approvals: BTreeMap<EventId, PendingApproval>,
    /// Lines to log.
    messages: Vec<String>,
    counters: Counters,
    is_changed: bool,
    /// Whether a document has arrived in this run. Until then, the recorded events may be outdated.
    has_document: bool,
}

impl Plan {
    /// Creates a plan that continues from the records of an earlier run.
    pub fn resume(rules: PlanSettings, records: impl IntoIterator<Item = Record>) -> Plan {
        let records: BTreeMap<EventId, Record> =
            records.into_iter().map(|record| (record.event.id.clone(), record)).collect();
        let open = records.values().filter(|record| record.end.is_none());
        let mut tracker = Tracker::resume(open.clone().map(|record| record.event.clone()));
        open.filter(|record| record.approved).for_each(|record| tracker.mark_approved(&record.event.id));
        let mut plan = Plan {
            rules,
            records,
            tracker,
            pending_approvals: BTreeMap::new(),
            messages: Vec::new(),
            counters: Counters::default(),
            is_changed: false,
            has_document: false,
        };
        plan.mark_interrupted();
        plan.log_orphaned_actions();
        plan
    }

    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    /// Counters of this run.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Whether the records have changed since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// Applies a document that the service returned to the machine with this name.
    pub fn apply_document(&mut self, machine: &str, document: &Document, now: SystemTime) {
        for change in self.tracker.update(document, now) {
            match change {
                Change::Appeared(event) => self.add_event(machine, event, now),
                Change::Started(event) => self.start_event(event),
                Change::Finished(event) => self.end_event(&event, EventEnd::Finished),
                Change::Canceled(event) => self.end_event(&event, EventEnd::Canceled),
            }
        }
        self.has_document = true;
        self.forget_old_events();
    }

    pub fn record_start(&mut self, id: &EventId, step: &str, process: ProcessIdentity) {
        if let Some(run) = self.records.get_mut(id).and_then(|record| record.run_mut(step)) {
            run.process = Some(process);
            self.is_changed = true;
        }
    }

    pub fn record_end(&mut self, id: &EventId, step: &str, outcome: Outcome) {
        let Some(run) = self.records.get_mut(id).and_then(|record| record.run_mut(step)) else { return };
        self.counters.count_step(&outcome);
        self.messages.push(format!("event {id}: {} {outcome}", step_title(step)));
        run.progress = Progress::Ended(outcome);
        run.process = None;
        self.is_changed = true;
        let record = &self.records[id];
        if record.event.status == EventStatus::Scheduled && record.end.is_none() && self.is_held(record) {
            self.messages.push(format!("event {id}: not approved because of {step}"));
        }
    }

    /// Records the service's response to an approval.
    pub fn record_approval(&mut self, id: &EventId, result: Result<(), String>, now: SystemTime) {
        let Some(record) = self.records.get_mut(id) else { return };
        match result {
            Ok(()) => {
                record.approved = true;
                self.is_changed = true;
                self.pending_approvals.remove(id);
                self.tracker.mark_approved(id);
                self.counters.approvals += 1;
                self.messages.push(format!("event {id}: approved"));
            }
            Err(problem) => {
                let pending = self.pending_approvals.entry(id.clone()).or_default();
                pending.retry_at = Some(now + APPROVAL_RETRY_DELAY);
                pending.failures += 1;
                self.counters.approvals_failed += 1;
                if pending.failures == 1 {
                    self.messages.push(format!("event {id}: approval failed, retrying: {problem}"));
                }
            }
        }
    }

    /// Takes the lines to log.
    pub fn take_messages(&mut self) -> Vec<String> {
        std::mem::take(&mut self.messages)
    }

    /// Returns the tasks that are due.
    pub fn next(&mut self, now: SystemTime) -> Vec<Task> {
        let mut tasks: Vec<Task> = self.take_messages().into_iter().map(Task::Log).collect();
        let ids: Vec<EventId> = self.records.keys().cloned().collect();
        for id in ids {
            tasks.extend(self.next_step(&id, now).map(|job| Task::Run(Box::new(job))));
            if self.can_approve(&self.records[&id], now) {
                self.pending_approvals.entry(id.clone()).or_default().retry_at = None;
                tasks.push(Task::Approve(id));
            }
        }
        tasks
    }

    /// Time of the next call to [`Plan::next`] if nothing happens before.
    pub fn deadline(&self, now: SystemTime) -> Option<SystemTime> {
        let retries = self.pending_approvals.values().filter_map(|pending| pending.retry_at);
        let turns = self.records.values().filter_map(|record| self.leader_turn_at(record));
        retries.chain(turns).filter(|at| *at > now).min()
    }

    fn mark_interrupted(&mut self) {
        for record in self.records.values_mut() {
            let id = &record.event.id;
            for run in record.runs.iter_mut().filter(|run| run.progress == Progress::Running) {
                run.progress = Progress::Ended(Outcome::Interrupted);
                run.process = None;
                self.is_changed = true;
                self.counters.count_step(&Outcome::Interrupted);
                self.messages
                    .push(format!("event {id}: {} was interrupted when the agent stopped", step_title(&run.name)));
            }
            if self.rules.rerun_interrupted {
                let before = record.runs.len();
                record.runs.retain(|run| run.progress != Progress::Ended(Outcome::Interrupted));
                self.is_changed |= record.runs.len() < before;
            }
        }
    }

    /// Logs actions that ran for an event and are no longer configured, because their changes cannot be undone.
    fn log_orphaned_actions(&mut self) {
        let is_orphaned = |run: &&StepRun| {
            let is_action_of_prepare = run.phase == Phase::Prepare && Step::from_hook_name(&run.name).is_none();
            is_action_of_prepare && self.rules.steps.iter().all(|step| step.name != run.name)
        };
        for record in self.records.values().filter(|record| record.end.is_none()) {
            let id = &record.event.id;
            self.messages.extend(record.runs.iter().filter(is_orphaned).map(|run| {
                format!(
                    "event {id}: {} ran and is no longer configured; undo its changes by hand",
                    step_title(&run.name)
                )
            }));
        }
    }

    fn add_event(&mut self, machine: &str, event: Event, now: SystemTime) {
        if let Some(record) = self.records.get_mut(&event.id) {
            self.messages.push(format!("event {}: reappeared in the document; no step runs twice", event.id));
            if event.status == EventStatus::Scheduled && !record.approved && is_undone(&self.rules, record) {
                self.messages.push(format!("event {}: not approved because its preparations were undone", event.id));
            }
            record.end = None;
            record.event = event;
        } else if let Some(record) = Record::new(machine, event, now) {
            let event = &record.event;
            let (id, kind, status) = (&event.id, &event.kind, event.status.as_str());
            let names: Vec<&str> = event.resources.iter().map(|resource| resource.name()).collect();
            let not_before = match event.not_before_text() {
                text if text.is_empty() => String::new(),
                text => format!(", not before {text}"),
            };
            self.messages.push(format!("event {id}: {kind} of {} is {status}{not_before}", names.join(", ")));
            self.counters.count_event(kind);
            self.records.insert(event.id.clone(), record);
        } else {
            return;
        }
        self.is_changed = true;
    }

    fn start_event(&mut self, event: Event) {
        let Some(record) = self.records.get_mut(&event.id) else { return };
        if record.event.status != EventStatus::Started {
            self.messages.push(format!("event {}: has started", event.id));
        }
        self.pending_approvals.remove(&event.id);
        record.event = event;
        self.is_changed = true;
    }

    fn end_event(&mut self, event: &Event, end: EventEnd) {
        let Some(record) = self.records.get_mut(&event.id) else { return };
        record.end = Some(end);
        self.pending_approvals.remove(&event.id);
        self.messages.push(format!("event {}: {end}", event.id));
        self.is_changed = true;
    }

    fn forget_old_events(&mut self) {
        let rules = &self.rules;
        let done = |record: &&Record| {
            record.end.is_some() && !record.is_running() && pending_steps(rules, record).next().is_none()
        };
        let mut old: Vec<(SystemTime, EventId)> =
            self.records.values().filter(done).map(|record| (record.seen_at, record.event.id.clone())).collect();
        old.sort();
        for (_, id) in old.iter().take(old.len().saturating_sub(FINISHED_MAX)) {
            self.records.remove(id);
            self.is_changed = true;
        }
    }

    fn next_step(&mut self, id: &EventId, now: SystemTime) -> Option<Job> {
        let record = &self.records[id];
        let phase = current_phase(record);
        if record.is_running() || !(self.has_document || phase == Phase::Restore) {
            return None;
        }
        if phase == Phase::Prepare && self.is_held(record) {
            return None;
        }
        let can_run = |step: &&Step| !self.must_wait(id, step);
        let step = match phase {
            Phase::Prepare | Phase::Started => pending_steps(&self.rules, record).next().filter(can_run),
            // A change that another event still needs does not block the other steps.
            Phase::Restore => pending_steps(&self.rules, record).find(can_run),
        };
        let step = step?.name.clone();
        let job = Job { event: record.event.clone(), phase, step: step.clone(), limit: self.step_limit(record, now) };
        self.records.get_mut(id)?.runs.push(StepRun::begin(phase, step));
        self.is_changed = true;
        Some(job)
    }

    /// Whether another event is running this step's action, or still needs the change that this step would undo.
    fn must_wait(&self, id: &EventId, step: &Step) -> bool {
        let Some(action) = &step.changed_by else { return false };
        let is_of_action = |name: &str| Phase::ALL.into_iter().any(|phase| action_step_name(action, phase) == name);
        let mut others = self.records.values().filter(|other| other.event.id != *id);
        others.any(|other| {
            let mut running = other.runs.iter().filter(|run| run.progress == Progress::Running);
            let needs = |prepare: String| other.end.is_none() && other.run(&prepare).is_some();
            running.any(|run| is_of_action(&run.name)) || step.undone_step().is_some_and(needs)
        })
    }

    fn step_limit(&self, record: &Record, now: SystemTime) -> Duration {
        match record.event.not_before {
            Some(not_before) if current_phase(record) == Phase::Prepare => {
                prepare_limit(not_before.duration_since(now).unwrap_or_default(), self.rules.margin)
            }
            _ => self.rules.limit,
        }
    }

    fn can_approve(&self, record: &Record, now: SystemTime) -> bool {
        let is_open = record.end.is_none() && record.event.status == EventStatus::Scheduled && !record.approved;
        let pending = self.pending_approvals.get(&record.event.id);
        let is_free = pending.is_none_or(|pending| pending.retry_at.is_some_and(|at| at <= now));
        let wants = match self.rules.policies.policy_for(&record.event) {
            Policy::Never => false,
            Policy::AtOnce => true,
            Policy::AfterHooks => self.is_ready(record),
            Policy::Leader => self.is_ready(record) && self.leader_turn_at(record).is_some_and(|at| at <= now),
        };
        self.has_document && is_open && is_free && wants
    }

    fn is_ready(&self, record: &Record) -> bool {
        !record.is_running() && !self.is_held(record) && pending_steps(&self.rules, record).next().is_none()
    }

    /// Whether a step of `prepare` failed in a way that prevents the approval, or was undone because the event seemed
    /// to have finished.
    fn is_held(&self, record: &Record) -> bool {
        let mut prepares = record.runs.iter().filter(|run| run.phase == Phase::Prepare);
        let has_failed = prepares.any(|run| {
            let step = self.rules.steps.iter().find(|step| step.name == run.name);
            let on_failure = step.and_then(|step| step.on_failure).unwrap_or(self.rules.on_failure);
            let on_late = step.and_then(|step| step.on_late).unwrap_or(self.rules.on_late);
            match &run.progress {
                Progress::Running | Progress::Ended(Outcome::Succeeded) => false,
                Progress::Ended(Outcome::Failed(_) | Outcome::Interrupted) => on_failure == FailurePolicy::Hold,
                Progress::Ended(Outcome::Late) => on_late == FailurePolicy::Hold,
            }
        });
        has_failed || is_undone(&self.rules, record)
    }

    /// Time at which this machine may approve as the leader.
    fn leader_turn_at(&self, record: &Record) -> Option<SystemTime> {
        let waits = record.end.is_none() && record.event.status == EventStatus::Scheduled && !record.approved;
        if !waits || self.rules.policies.policy_for(&record.event) != Policy::Leader {
            return None;
        }
        let rank = u32::try_from(record.rank).unwrap_or(u32::MAX);
        let notice = record.event.not_before?.duration_since(record.seen_at).unwrap_or_default();
        Some(record.seen_at + (notice * self.rules.leader_share_percent / 100).saturating_mul(rank).min(notice))
    }
}

/// Time limit of a `prepare` step if this much of the notice is left.
pub fn prepare_limit(left: Duration, margin: Duration) -> Duration {
    (left - margin.min(left / MARGIN_DIVISOR)).max(LIMIT_MIN)
}

/// Phase that the event is in.
fn current_phase(record: &Record) -> Phase {
    match (record.end, record.event.status) {
        (Some(_), _) => Phase::Restore,
        (None, EventStatus::Started) => Phase::Started,
        (None, EventStatus::Scheduled) => Phase::Prepare,
    }
}

/// Whether both `prepare` and `restore` ran, so that the machine is no longer prepared. Steps never run twice, so this
/// counts as a failure.
fn is_undone(rules: &PlanSettings, record: &Record) -> bool {
    let ran = |phase| record.runs.iter().any(|run| run.phase == phase);
    rules.on_failure == FailurePolicy::Hold && ran(Phase::Prepare) && ran(Phase::Restore)
}

/// Steps of the current phase that have not started, in the order in which they run.
fn pending_steps<'r>(rules: &'r PlanSettings, record: &'r Record) -> impl Iterator<Item = &'r Step> {
    let phase = current_phase(record);
    rules.steps.iter().filter(move |step| {
        let has_reason = step.undone_step().is_none_or(|prepare| record.run(&prepare).is_some());
        step.phase == phase && step.applies_to(&record.event.kind) && has_reason && record.run(&step.name).is_none()
    })
}

#[cfg(test)]
mod tests;
