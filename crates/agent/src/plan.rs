//! What to do, and when. No I/O and no clock: documents, ends of steps and the time go in, tasks
//! come out, and whoever carries them out stores [`Plan::records`] first.
//!
//! ```text
//!            appears            starts            vanishes
//!   (absent) ──────▶ Scheduled ───────▶ Started ──────────▶ over
//!                    `prepare`          `started`           `restore`
//!                        │ succeeded                          ▲
//!                        └──▶ approve            cancelled ───┘
//! ```
//!
//! What to do is read from the records each time, so a restart goes on where the last run stopped. The
//! steps of one event run one after the other, those of different events side by side. A step
//! is marked as running before it runs, so it never runs twice for an event. An event that is first
//! seen when it has started has no `prepare`.
//!
//! An action that changes something (drains, stops, cordons) is careful where a hook need not be: it changes
//! back only what it changed, not while another event still needs it changed, and never for two
//! events at the same time.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use forewarn_client::{Change, Document, Event, EventId, Status, Tracker};

use crate::policy::{OnTrouble, Policies, Policy};
use crate::record::{Outcome, Over, Phase, ProcessMark, Progress, Record, StepRun};
use crate::step::{Step, action_step, title};
use crate::tally::Tally;

/// What somebody configured.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Within a phase in the order in which they run.
    pub steps: Vec<Step>,
    pub policies: Policies,
    pub on_failure: OnTrouble,
    pub on_late: OnTrouble,
    pub rerun_interrupted: bool,
    /// `prepare` must be done this long before `NotBefore`.
    pub margin: Duration,
    /// How long steps may take that have no `NotBefore` to keep.
    pub limit: Duration,
    /// The part of the notice, in percent, that each machine gives the one before it to approve.
    pub leader_share_percent: u32,
}

/// Something to be done, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    Say(String),
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

/// An approval that the service did not take is tried again after this long.
pub const APPROVE_AGAIN: Duration = Duration::from_secs(5);

/// Events that are over and whose steps ran, for `status` and against a service that shows them again.
pub const OVER_KEPT_MAX: usize = 32;

/// A step gets this long even when the time is over: it may be only a line in a log.
pub const LIMIT_MIN: Duration = Duration::from_secs(1);

/// No more than this part of the time left is kept back as margin: Preempt gives 30 s in all.
const MARGIN_PART: u32 = 3;

/// An approval under way.
#[derive(Debug, Clone, Copy, Default)]
struct Asking {
    /// It failed, and is due again then; `None` while the service is being asked.
    again_at: Option<SystemTime>,
    failures: u32,
}

#[derive(Debug)]
pub struct Plan {
    rules: Rules,
    records: BTreeMap<EventId, Record>,
    tracker: Tracker,
    asking: BTreeMap<EventId, Asking>,
    says: Vec<String>,
    tally: Tally,
    is_changed: bool,
    /// A document came in this run. Before, what is known of events may long be wrong.
    has_looked: bool,
}

impl Plan {
    /// Goes on with what an earlier run left.
    pub fn resume(rules: Rules, records: impl IntoIterator<Item = Record>) -> Plan {
        let records: BTreeMap<EventId, Record> =
            records.into_iter().map(|record| (record.event.id.clone(), record)).collect();
        let open = records.values().filter(|record| record.over.is_none());
        let mut tracker = Tracker::resume(open.clone().map(|record| record.event.clone()));
        open.filter(|record| record.approved).for_each(|record| tracker.approved(&record.event.id));
        let (asking, says) = (BTreeMap::new(), Vec::new());
        let tally = Tally::default();
        let mut plan = Plan { rules, records, tracker, asking, says, tally, is_changed: false, has_looked: false };
        plan.mark_interrupted();
        plan.say_what_cannot_be_undone();
        plan
    }

    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    /// What was counted in this run.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Whether the records have changed since this was asked last.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// The service shows this to the machine of that name.
    pub fn document(&mut self, me: &str, document: &Document, now: SystemTime) {
        for change in self.tracker.feed(document, now) {
            match change {
                Change::Appeared(event) => self.appeared(me, event, now),
                Change::Started(event) => self.started(event),
                Change::Ended(event) => self.over(&event, Over::Ended),
                Change::Cancelled(event) => self.over(&event, Over::Cancelled),
            }
        }
        self.has_looked = true;
        self.forget_old();
    }

    pub fn step_began(&mut self, id: &EventId, step: &str, process: ProcessMark) {
        if let Some(run) = self.records.get_mut(id).and_then(|record| record.run_mut(step)) {
            run.process = Some(process);
            self.is_changed = true;
        }
    }

    pub fn step_ended(&mut self, id: &EventId, step: &str, outcome: Outcome) {
        let Some(run) = self.records.get_mut(id).and_then(|record| record.run_mut(step)) else { return };
        self.tally.step_ended(&outcome);
        self.says.push(format!("event {id}: {} {outcome}", title(step)));
        run.progress = Progress::Ended(outcome);
        run.process = None;
        self.is_changed = true;
        let record = &self.records[id];
        if record.event.status == Status::Scheduled && record.over.is_none() && self.is_held(record) {
            self.says.push(format!("event {id}: is not approved, because of {step}"));
        }
    }

    /// What the service said to an approval.
    pub fn answered(&mut self, id: &EventId, answer: Result<(), String>, now: SystemTime) {
        let Some(record) = self.records.get_mut(id) else { return };
        match answer {
            Ok(()) => {
                record.approved = true;
                self.is_changed = true;
                self.asking.remove(id);
                self.tracker.approved(id);
                self.tally.approvals += 1;
                self.says.push(format!("event {id}: approved"));
            }
            Err(problem) => {
                let asking = self.asking.entry(id.clone()).or_default();
                asking.again_at = Some(now + APPROVE_AGAIN);
                asking.failures += 1;
                self.tally.approvals_failed += 1;
                if asking.failures == 1 {
                    self.says.push(format!("event {id}: the approval failed, trying again: {problem}"));
                }
            }
        }
    }

    /// What is left to be said when nothing is to be done any more.
    pub fn take_says(&mut self) -> Vec<String> {
        std::mem::take(&mut self.says)
    }

    /// Everything that is to be done now.
    pub fn next(&mut self, now: SystemTime) -> Vec<Task> {
        let mut tasks: Vec<Task> = self.take_says().into_iter().map(Task::Say).collect();
        let ids: Vec<EventId> = self.records.keys().cloned().collect();
        for id in ids {
            tasks.extend(self.next_step(&id, now).map(|job| Task::Run(Box::new(job))));
            if self.may_approve(&self.records[&id], now) {
                self.asking.entry(id.clone()).or_default().again_at = None;
                tasks.push(Task::Approve(id));
            }
        }
        tasks
    }

    /// When to ask [`Plan::next`] again if nothing happens before.
    pub fn deadline(&self, now: SystemTime) -> Option<SystemTime> {
        let again = self.asking.values().filter_map(|asking| asking.again_at);
        let turns = self.records.values().filter_map(|record| self.turn_at(record));
        again.chain(turns).filter(|at| *at > now).min()
    }

    fn mark_interrupted(&mut self) {
        for record in self.records.values_mut() {
            let id = &record.event.id;
            for run in record.runs.iter_mut().filter(|run| run.progress == Progress::Running) {
                run.progress = Progress::Ended(Outcome::Interrupted);
                run.process = None;
                self.is_changed = true;
                self.tally.step_ended(&Outcome::Interrupted);
                self.says.push(format!("event {id}: {} was interrupted when the agent stopped", title(&run.name)));
            }
            if self.rules.rerun_interrupted {
                let before = record.runs.len();
                record.runs.retain(|run| run.progress != Progress::Ended(Outcome::Interrupted));
                self.is_changed |= record.runs.len() < before;
            }
        }
    }

    /// Actions that an earlier run had and this one has not: what they did, nobody here knows how to undo.
    fn say_what_cannot_be_undone(&mut self) {
        let is_lost = |run: &&StepRun| {
            let is_action_of_prepare = run.phase == Phase::Prepare && Step::of_hook(&run.name).is_none();
            is_action_of_prepare && self.rules.steps.iter().all(|step| step.name != run.name)
        };
        for record in self.records.values().filter(|record| record.over.is_none()) {
            let id = &record.event.id;
            self.says.extend(record.runs.iter().filter(is_lost).map(|run| {
                format!(
                    "event {id}: {} ran and is not in the settings any more; put back by hand what it changed",
                    title(&run.name)
                )
            }));
        }
    }

    fn appeared(&mut self, me: &str, event: Event, now: SystemTime) {
        if let Some(record) = self.records.get_mut(&event.id) {
            self.says.push(format!("event {}: is back in the document; nothing runs twice", event.id));
            if event.status == Status::Scheduled && !record.approved && is_undone(&self.rules, record) {
                self.says.push(format!("event {}: is not approved, because what prepared for it was undone", event.id));
            }
            record.over = None;
            record.event = event;
        } else if let Some(record) = Record::new(me, event, now) {
            let event = &record.event;
            let (id, kind, status) = (&event.id, &event.kind, event.status.as_str());
            let names: Vec<&str> = event.resources.iter().map(|resource| resource.name()).collect();
            let not_before = match event.not_before_text() {
                text if text.is_empty() => String::new(),
                text => format!(", not before {text}"),
            };
            self.says.push(format!("event {id}: {kind} of {} is {status}{not_before}", names.join(", ")));
            self.tally.event_seen(kind);
            self.records.insert(event.id.clone(), record);
        } else {
            return;
        }
        self.is_changed = true;
    }

    fn started(&mut self, event: Event) {
        let Some(record) = self.records.get_mut(&event.id) else { return };
        if record.event.status != Status::Started {
            self.says.push(format!("event {}: has started", event.id));
        }
        self.asking.remove(&event.id);
        record.event = event;
        self.is_changed = true;
    }

    fn over(&mut self, event: &Event, over: Over) {
        let Some(record) = self.records.get_mut(&event.id) else { return };
        record.over = Some(over);
        self.asking.remove(&event.id);
        self.says.push(format!("event {}: {}", event.id, over.as_str()));
        self.is_changed = true;
    }

    fn forget_old(&mut self) {
        let rules = &self.rules;
        let done =
            |record: &&Record| record.over.is_some() && !record.is_running() && missing(rules, record).next().is_none();
        let mut old: Vec<(SystemTime, EventId)> =
            self.records.values().filter(done).map(|record| (record.seen_at, record.event.id.clone())).collect();
        old.sort();
        for (_, id) in old.iter().take(old.len().saturating_sub(OVER_KEPT_MAX)) {
            self.records.remove(id);
            self.is_changed = true;
        }
    }

    fn next_step(&mut self, id: &EventId, now: SystemTime) -> Option<Job> {
        let record = &self.records[id];
        let phase = phase(record);
        if record.is_running() || !(self.has_looked || phase == Phase::Restore) {
            return None;
        }
        if phase == Phase::Prepare && self.is_held(record) {
            return None;
        }
        let may_run = |step: &&Step| !self.must_wait(id, step);
        let step = match phase {
            Phase::Prepare | Phase::Started => missing(&self.rules, record).next().filter(may_run),
            // What another event still needs does not hold up the rest.
            Phase::Restore => missing(&self.rules, record).find(may_run),
        };
        let step = step?.name.clone();
        let job = Job { event: record.event.clone(), phase, step: step.clone(), limit: self.limit(record, now) };
        self.records.get_mut(id)?.runs.push(StepRun::begin(phase, step));
        self.is_changed = true;
        Some(job)
    }

    /// Another event has this step's action at work, or still needs what this step would undo.
    fn must_wait(&self, id: &EventId, step: &Step) -> bool {
        let Some(action) = &step.changed_by else { return false };
        let is_of_action = |name: &str| Phase::ALL.into_iter().any(|phase| action_step(action, phase) == name);
        let mut others = self.records.values().filter(|other| other.event.id != *id);
        others.any(|other| {
            let mut running = other.runs.iter().filter(|run| run.progress == Progress::Running);
            let needs = |prepare: String| other.over.is_none() && other.run(&prepare).is_some();
            running.any(|run| is_of_action(&run.name)) || step.undoes().is_some_and(needs)
        })
    }

    fn limit(&self, record: &Record, now: SystemTime) -> Duration {
        match record.event.not_before {
            Some(not_before) if phase(record) == Phase::Prepare => {
                limit_of_prepare(not_before.duration_since(now).unwrap_or_default(), self.rules.margin)
            }
            _ => self.rules.limit,
        }
    }

    fn may_approve(&self, record: &Record, now: SystemTime) -> bool {
        let is_open = record.over.is_none() && record.event.status == Status::Scheduled && !record.approved;
        let asking = self.asking.get(&record.event.id);
        let is_free = asking.is_none_or(|asking| asking.again_at.is_some_and(|at| at <= now));
        let wants = match self.rules.policies.of(&record.event) {
            Policy::Never => false,
            Policy::AtOnce => true,
            Policy::AfterHooks => self.is_ready(record),
            Policy::Leader => self.is_ready(record) && self.turn_at(record).is_some_and(|at| at <= now),
        };
        self.has_looked && is_open && is_free && wants
    }

    fn is_ready(&self, record: &Record) -> bool {
        !record.is_running() && !self.is_held(record) && missing(&self.rules, record).next().is_none()
    }

    /// A step of `prepare` ended in a way that forbids the approval, or was undone because the event seemed
    /// to be over.
    fn is_held(&self, record: &Record) -> bool {
        let mut prepares = record.runs.iter().filter(|run| run.phase == Phase::Prepare);
        let is_in_trouble = prepares.any(|run| {
            let step = self.rules.steps.iter().find(|step| step.name == run.name);
            let on_failure = step.and_then(|step| step.on_failure).unwrap_or(self.rules.on_failure);
            let on_late = step.and_then(|step| step.on_late).unwrap_or(self.rules.on_late);
            match &run.progress {
                Progress::Running | Progress::Ended(Outcome::Succeeded) => false,
                Progress::Ended(Outcome::Failed(_) | Outcome::Interrupted) => on_failure == OnTrouble::Hold,
                Progress::Ended(Outcome::Late) => on_late == OnTrouble::Hold,
            }
        });
        is_in_trouble || is_undone(&self.rules, record)
    }

    /// When it is this machine's turn to lead.
    fn turn_at(&self, record: &Record) -> Option<SystemTime> {
        let waits = record.over.is_none() && record.event.status == Status::Scheduled && !record.approved;
        if !waits || self.rules.policies.of(&record.event) != Policy::Leader {
            return None;
        }
        let rank = u32::try_from(record.rank).unwrap_or(u32::MAX);
        let notice = record.event.not_before?.duration_since(record.seen_at).unwrap_or_default();
        Some(record.seen_at + (notice * self.rules.leader_share_percent / 100).saturating_mul(rank).min(notice))
    }
}

/// How long a step of `prepare` may take when this much of the notice is left.
pub fn limit_of_prepare(left: Duration, margin: Duration) -> Duration {
    (left - margin.min(left / MARGIN_PART)).max(LIMIT_MIN)
}

/// The phase whose steps an event has now.
fn phase(record: &Record) -> Phase {
    match (record.over, record.event.status) {
        (Some(_), _) => Phase::Restore,
        (None, Status::Started) => Phase::Started,
        (None, Status::Scheduled) => Phase::Prepare,
    }
}

/// Both sides ran, so that the machine is as it was before the event was announced. It will not be prepared
/// again, and counts as one whose steps failed.
fn is_undone(rules: &Rules, record: &Record) -> bool {
    let ran = |phase| record.runs.iter().any(|run| run.phase == phase);
    rules.on_failure == OnTrouble::Hold && ran(Phase::Prepare) && ran(Phase::Restore)
}

/// The steps of the present phase that were not begun, in the order in which they run.
fn missing<'r>(rules: &'r Rules, record: &'r Record) -> impl Iterator<Item = &'r Step> {
    let phase = phase(record);
    rules.steps.iter().filter(move |step| {
        let has_reason = step.undoes().is_none_or(|prepare| record.run(&prepare).is_some());
        step.phase == phase && step.is_for(&record.event.kind) && has_reason && record.run(&step.name).is_none()
    })
}

#[cfg(test)]
mod tests;
