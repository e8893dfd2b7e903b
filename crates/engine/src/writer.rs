//! The single writer: one thread that owns the region and the store.
//!
//! ```text
//!            ┌──────────────── deadlines come first ◀─────────────────────┐
//!            ▼                                                           │
//!   mailbox ─▶ apply, in sequence ─▶ commit, together ─▶ publish ─▶ driver ─▶ answers
//! ```
//!
//! No answer of a batch is sent before the batch's commit, because even a refusal can depend on an earlier command of the same
//! batch. A commit that certainly failed leaves the old region in place; if its outcome is in doubt, the store is loaded
//! again. A transition is never retried.

mod clustered;
mod gathering;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use forewarn_core::{
    Answer, Command, Effect, Entity, Key, MachineId, Region, Settings, Snapshot, Timestamp, Transition, Write,
};
use forewarn_store::{Attachment, Batch, ClockKind, CommitError, Owner, PAYLOAD_FORMAT, Store, payload_format};
use tokio::sync::oneshot;

use crate::clock::{Clock, ClockWatch};
use crate::cluster::{CommitOutcome, Node};
use crate::effects::EffectSink;
use crate::engine::{
    ADVANCE_MAX, Advance, AdvanceError, Bundle, CommittedBundle, Health, Message, QueuedCommand, SubmitError,
};
use crate::metrics::EngineMetrics;
use crate::publish::{Publisher, publish_commits};
pub use gathering::Gathering;

/// Commands per commit: enough to share the cost of a commit, few enough that the first need not wait long for the last.
pub const BATCH_MAX: usize = 512;

/// The timer's pause after a step of its own could not be stored.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Steps at the same point in time. A deadline causes others at the same time only a few times; more than this is a deadline
/// that does not pass.
const PASSES_MAX: u32 = 10_000;

/// Tries to tell the driver about withheld effects before an advance of the clock is given up.
const CATCH_UP_MAX: u32 = 5;

/// The longest sleep. Sleeps do not count the time for which the system is suspended, but the program's clock does, and the
/// clock must be compared with the wall clock from time to time.
const SLEEP_MAX: Duration = Duration::from_secs(5);

/// Rows of history deleted at once, so that commands need not wait long.
const FORGET_ROWS: u32 = 500;
const FORGET_EVERY: Duration = Duration::from_secs(3600);
const FORGET_AGAIN: Duration = Duration::from_secs(1);

/// The interval at which the driver reconciles.
const RECONCILE_EVERY: Duration = Duration::from_secs(60);

pub struct Writer {
    pub commits: CommitTarget,
    pub settings: Settings,
    pub newest: Arc<Snapshot>,
    pub mailbox: Receiver<Message>,
    pub publisher: Arc<Publisher>,
    pub clock: Arc<Clock>,
    pub driver: Box<dyn EffectSink>,
    pub metrics: Arc<EngineMetrics>,
    pub health: Arc<Health>,
    pub history_kept: Duration,
    pub housekeeping: Housekeeping,
    pub gathering: Gathering,
    /// Messages that arrived during the last commit.
    pub early: VecDeque<Message>,
}

/// Where commits go.
pub enum CommitTarget {
    /// To the store of a single server.
    Store(Box<dyn Store>),
    /// To the log of a cluster, and from there to the store of every server.
    Log(Box<Node>),
}

impl CommitTarget {
    /// The newest format that all recipients of the commits can read.
    fn format(&self) -> u8 {
        match self {
            CommitTarget::Store(_) => PAYLOAD_FORMAT,
            CommitTarget::Log(node) => node.format(),
        }
    }
}

/// Work for idle times.
pub struct Housekeeping {
    /// The timer pauses until then, because its last step failed.
    pub timer_after: Option<Instant>,
    pub forget_at: Instant,
    pub reconcile_at: Instant,
    /// The region in memory may differ from the stored one.
    pub in_doubt: bool,
    /// The driver was not told about all effects, because another server may have led when they were committed.
    pub driver_is_behind: bool,
    pub clock_watch: ClockWatch,
}

impl Default for Housekeeping {
    fn default() -> Self {
        let now = Instant::now();
        Housekeeping {
            timer_after: None,
            forget_at: now + FORGET_AGAIN,
            reconcile_at: now + RECONCILE_EVERY,
            in_doubt: false,
            driver_is_behind: false,
            clock_watch: ClockWatch::default(),
        }
    }
}

impl Housekeeping {
    /// Decides what the error of a commit to the store means.
    fn take_error(&mut self, error: &CommitError) -> CommitFailed {
        tracing::error!(error = %render_chain(error), "commit failed");
        match error {
            CommitError::Refused(_) => {}
            CommitError::Conflict { .. } | CommitError::Doubt(_) => self.in_doubt = true,
        }
        CommitFailed::Unavailable
    }
}

/// The commit of a batch failed, certainly or possibly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommitFailed {
    /// See the log of this program.
    Unavailable,
    /// It certainly failed, because another server leads.
    NoLeader,
}

/// One per bundle.
type Answers = Vec<Result<Vec<Answer>, SubmitError>>;

impl Writer {
    /// Runs until the engine is told to stop. `ready` reports whether the store is writable.
    pub fn run(mut self, ready: oneshot::Sender<bool>) {
        let _ended = StopOnDrop(self.health.clone());
        if let CommitTarget::Log(_) = self.commits {
            let _ = ready.send(true);
            return self.run_in_cluster();
        }
        self.follow_wall_clock();
        self.reconcile();
        let taken = self.step_internal(vec![Command::Resume, Command::Tick], self.clock.now()).is_ok();
        let _ = ready.send(taken);
        while !self.health.stopping.load(Ordering::Relaxed) {
            self.follow_wall_clock();
            self.pass_time();
            match self.next_message(self.sleep_time()) {
                Ok(message) => self.serve(message),
                Err(RecvTimeoutError::Timeout) => self.do_housekeeping(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        // Stores the time until which the server ran.
        let _ = self.step_internal(vec![Command::Tick], self.clock.now());
    }

    fn follow_wall_clock(&mut self) {
        self.clock.follow_wall();
        self.housekeeping.clock_watch.log(self.clock.ahead_ms());
    }

    /// Passes everything that is due, in order.
    fn pass_time(&mut self) {
        if self.housekeeping.timer_after.is_some_and(|after| Instant::now() < after) {
            return;
        }
        self.housekeeping.timer_after = None;
        let now = self.clock.now();
        let mut passes = 0;
        while self.next_due().is_some_and(|due| due <= now) {
            passes += 1;
            if self.pass(now).is_err() || passes == PASSES_MAX {
                self.housekeeping.timer_after = Some(Instant::now() + RETRY_AFTER);
                return;
            }
        }
    }

    /// One step of time: the deadlines of the rules, then the driver's reports.
    fn pass(&mut self, now: Timestamp) -> Result<(), CommitFailed> {
        if self.next_tick().is_some_and(|due| due <= now) {
            self.step_internal(vec![Command::Tick], now)?;
        }
        self.take_reports(now)
    }

    fn next_due(&self) -> Option<Timestamp> {
        [self.next_tick(), self.driver.next()].into_iter().flatten().min()
    }

    /// When the rules need a tick.
    fn next_tick(&self) -> Option<Timestamp> {
        let region = &self.newest.region;
        let pulse = match self.clock.kind() {
            ClockKind::Real => region.next_time_checkpoint(),
            ClockKind::Manual => None,
        };
        [region.next_deadline(), pulse].into_iter().flatten().min()
    }

    /// Takes the driver's reports that are due.
    fn take_reports(&mut self, now: Timestamp) -> Result<(), CommitFailed> {
        loop {
            let due = self.driver.due(now, BATCH_MAX);
            if due.is_empty() {
                return Ok(());
            }
            let events: Vec<_> = due.iter().map(|(event, _)| *event).collect();
            let reports: Vec<_> = due.into_iter().map(|(event, report)| Command::Report { event, report }).collect();
            self.step_internal(reports, now)?;
            events.into_iter().for_each(|event| self.driver.reported(event));
            self.publish_next_report();
        }
    }

    /// How long the writer can sleep.
    fn sleep_time(&self) -> Duration {
        let timer = match self.clock.kind() {
            ClockKind::Manual => SLEEP_MAX,
            ClockKind::Real => self.next_due().map_or(SLEEP_MAX, |due| due.since(self.clock.now())),
        };
        let held = self.housekeeping.timer_after.map_or(Duration::ZERO, |after| after.duration_since(Instant::now()));
        timer.max(held).min(SLEEP_MAX).min(self.housekeeping.forget_at.saturating_duration_since(Instant::now()))
    }

    /// Handles a message and those queued behind it.
    fn serve(&mut self, first: Message) {
        let mut batch = Vec::new();
        let mut next = Some(first);
        let begun = Instant::now();
        while let Some(message) = next {
            match message {
                Message::Command(pending) => batch.push(*pending),
                Message::Wake => {}
                Message::StepDown => self.step_down(),
                Message::Contact(has_contact) => self.set_contact(has_contact),
                Message::Advance { how, reply } => {
                    self.apply_batch(std::mem::take(&mut batch));
                    let _ = reply.send(self.advance(how));
                }
            }
            next = if batch.len() < BATCH_MAX { self.next_of_batch(batch.len(), begun) } else { None };
        }
        self.apply_batch(batch);
    }

    /// The next message, if it is here or comes early enough for a batch of this size.
    fn next_of_batch(&mut self, size: usize, begun: Instant) -> Option<Message> {
        self.early.pop_front().or_else(|| self.mailbox.try_recv().ok()).or_else(|| {
            let until = self.gathering.wait_until(size, begun)?;
            self.mailbox.recv_timeout(until.saturating_duration_since(Instant::now())).ok()
        })
    }

    /// The next message, if it comes within this time.
    fn next_message(&mut self, wait: Duration) -> Result<Message, RecvTimeoutError> {
        self.early.pop_front().map_or_else(|| self.mailbox.recv_timeout(wait), Ok)
    }

    /// Separates the commands of clients that waited for a commit from those that will follow it.
    fn take_early(&mut self) {
        let missing = BATCH_MAX.saturating_sub(self.early.len());
        self.early.extend(self.mailbox.try_iter().take(missing));
    }

    fn apply_batch(&mut self, batch: Vec<QueuedCommand>) {
        if batch.is_empty() {
            return;
        }
        let now = self.clock.now();
        let (size, begun) = (batch.len(), Instant::now());
        let (bundles, replies): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|QueuedCommand { work, reply }| (work, reply)).unzip();
        let stepped = self.step(bundles, now);
        self.take_early();
        self.gathering.record_commit(size, self.early.len(), begun.elapsed());
        match stepped {
            Ok(answers) => {
                // Impacts without duration end before anyone sees them, on every clock.
                self.sync_driver();
                let _ = self.take_reports(now);
                let snapshot = &self.newest;
                for (reply, answers) in replies.into_iter().zip(answers) {
                    let done = answers.map(|answers| CommittedBundle { answers, snapshot: snapshot.clone() });
                    let _ = reply.send(done);
                }
            }
            Err(failed) => replies.into_iter().for_each(|reply| {
                let _ = reply.send(Err(failed.into()));
            }),
        }
    }

    fn advance(&mut self, how: Advance) -> Result<Timestamp, AdvanceError> {
        let now = self.clock.now();
        let to = match how {
            Advance::By(span) => now + span,
            Advance::To(to) => to,
        };
        if to < now {
            return Err(AdvanceError::Backwards { now });
        }
        if to.since(now) > ADVANCE_MAX {
            return Err(AdvanceError::TooFar);
        }
        let mut passes = 0;
        loop {
            // Otherwise the clock would skip the ends of events that the driver does not know.
            if !(0..CATCH_UP_MAX).any(|_| self.sync_driver()) {
                return Err(AdvanceError::Unavailable);
            }
            let Some(due) = self.next_due().filter(|due| *due <= to) else { break };
            passes = if due > self.clock.now() { 0 } else { passes + 1 };
            if passes == PASSES_MAX {
                tracing::error!(due = due.0, "a deadline keeps recurring; not advancing the clock past it");
                return Err(AdvanceError::Unavailable);
            }
            self.clock.move_to(due);
            self.pass(self.clock.now()).map_err(|_: CommitFailed| AdvanceError::Unavailable)?;
        }
        self.clock.move_to(to);
        // The time in the answer must be durable.
        self.step_internal(vec![Command::Tick], to).map_err(|_: CommitFailed| AdvanceError::Unavailable)?;
        Ok(to)
    }

    /// A step of the writer itself, each command on its own.
    fn step_internal(&mut self, commands: Vec<Command>, now: Timestamp) -> Result<(), CommitFailed> {
        self.step(commands.into_iter().map(|command| Bundle::plain(vec![command], None)).collect(), now).map(drop)
    }

    /// Applies the bundles in sequence, commits the result, publishes it, and notifies the driver.
    fn step(&mut self, bundles: Vec<Bundle>, now: Timestamp) -> Result<Answers, CommitFailed> {
        if self.housekeeping.in_doubt {
            self.reload()?;
        }
        let mut work = BatchWork::on(self.newest.region.clone());
        let format = self.commits.format();
        let answers: Answers = bundles.into_iter().map(|bundle| work.apply_bundle(bundle, now, format)).collect();
        self.count(&answers);
        self.commit(work)?;
        Ok(answers)
    }

    fn commit(&mut self, work: BatchWork) -> Result<(), CommitFailed> {
        let BatchWork { region, writes, attachments, mut batch, effects } = work;
        batch.writes = writes.into_values().collect();
        batch.attachments = retain_owned(attachments, &region);
        if batch == Batch::default() {
            return Ok(());
        }
        batch.stamp = self.clock.stamp();
        let begun = Instant::now();
        let result = match &mut self.commits {
            CommitTarget::Store(store) => {
                let committed = store.commit(self.newest.revision, &batch);
                committed.map_err(|error| self.housekeeping.take_error(&error)).map(|revision| {
                    self.newest = publish_commits(&self.publisher, &self.newest, revision, region, batch.writes.iter());
                })
            }
            CommitTarget::Log(node) => {
                let commitment = node.commit(batch, region);
                self.newest = node.newest();
                check_commitment(commitment)
            }
        };
        self.metrics.commit_seconds.observe(begun.elapsed().as_secs_f64());
        self.health.store_fails.store(result.is_err(), Ordering::Relaxed);
        if let Err(failed) = result {
            self.metrics.commits_failed.inc();
            self.reload_if_in_doubt();
            return Err(failed);
        }
        self.metrics.commits.inc();
        if self.may_act() {
            self.driver.follow(&effects);
        } else {
            self.housekeeping.driver_is_behind = true;
        }
        self.publish_next_report();
        Ok(())
    }

    fn reload_if_in_doubt(&mut self) {
        if self.housekeeping.in_doubt {
            let _ = self.reload();
        }
    }

    /// Loads the region from the store, which is authoritative.
    fn reload(&mut self) -> Result<(), CommitFailed> {
        let CommitTarget::Store(store) = &mut self.commits else { return Ok(()) };
        let loaded = store.load().and_then(|loaded| {
            let region = Region::load(self.settings.clone(), loaded.entities)?;
            Ok(Snapshot { revision: loaded.revision, region })
        });
        match loaded {
            Ok(snapshot) => {
                self.newest = Arc::new(snapshot);
                self.housekeeping.in_doubt = false;
                self.health.store_fails.store(false, Ordering::Relaxed);
                self.publisher.publish_reloaded(self.newest.clone());
                self.reconcile();
                Ok(())
            }
            Err(error) => {
                tracing::error!(
                    error = %render_chain(&error),
                    "cannot reload the store; changes are refused until it can be read"
                );
                Err(CommitFailed::Unavailable)
            }
        }
    }

    fn reconcile(&mut self) {
        self.housekeeping.driver_is_behind = !self.may_act();
        if self.housekeeping.driver_is_behind {
            return;
        }
        self.driver.reconcile(&self.newest.region);
        self.publish_next_report();
    }

    fn publish_next_report(&self) {
        let next = self.driver.next().map_or(0, |next| next.0);
        self.health.next_report_ms.store(next, Ordering::Relaxed);
    }

    /// Does the work for idle times.
    fn do_housekeeping(&mut self) {
        let now = Instant::now();
        if now >= self.housekeeping.reconcile_at {
            self.housekeeping.reconcile_at = now + RECONCILE_EVERY;
            self.reconcile();
        }
        if now >= self.housekeeping.forget_at {
            let is_more = self.forget_history(self.clock.now() - self.history_kept);
            self.housekeeping.forget_at = now + if is_more { FORGET_AGAIN } else { FORGET_EVERY };
        }
    }

    /// Deletes some old history. Returns whether there may be more.
    fn forget_history(&mut self, before: Timestamp) -> bool {
        match &mut self.commits {
            CommitTarget::Log(node) => {
                let is_more = node.forget_history(before, FORGET_ROWS);
                self.newest = node.newest();
                is_more
            }
            CommitTarget::Store(store) => {
                let deleted = store.forget_history(before, FORGET_ROWS).unwrap_or_else(|error| {
                    tracing::warn!(error = %render_chain(&error), "cannot delete old history");
                    0
                });
                deleted == FORGET_ROWS
            }
        }
    }

    /// Whether drivers may act. A leader that has not been heard of for a moment may already have a successor.
    fn may_act(&self) -> bool {
        match &self.commits {
            CommitTarget::Store(_) => true,
            CommitTarget::Log(node) => node.may_act(),
        }
    }

    fn count(&self, answers: &Answers) {
        let refused = answers.iter().filter(|answer| answer.is_err()).count() as u64;
        let carried_out: usize = answers.iter().flatten().map(Vec::len).sum();
        self.metrics.commands.inc_by(carried_out as u64);
        self.metrics.rejections.inc_by(refused);
        self.metrics.batch_commands.observe((carried_out as u64 + refused) as f64);
    }
}

/// The machines that the commands name or create.
fn named_machines(commands: &[Command], steps: &[Transition]) -> Vec<MachineId> {
    let created = steps.iter().filter_map(|step| match step.answer {
        Answer::Machine(id) => Some(id),
        Answer::Done | Answer::Group { .. } | Answer::Operation(_) | Answer::Rollout(_) | Answer::Scaled { .. } => None,
    });
    let machines: BTreeSet<MachineId> = commands.iter().flat_map(Command::machines).chain(created).collect();
    machines.into_iter().collect()
}

fn check_commitment(commitment: CommitOutcome) -> Result<(), CommitFailed> {
    match commitment {
        CommitOutcome::Done => Ok(()),
        CommitOutcome::Failed | CommitOutcome::Unknown => Err(CommitFailed::Unavailable),
        CommitOutcome::Deposed => Err(CommitFailed::NoLeader),
    }
}

impl From<CommitFailed> for SubmitError {
    fn from(failed: CommitFailed) -> SubmitError {
        match failed {
            CommitFailed::Unavailable => SubmitError::Unavailable,
            CommitFailed::NoLeader => SubmitError::NoLeader,
        }
    }
}

/// Marks the engine as stopping however the writer ends, also by a panic.
struct StopOnDrop(Arc<Health>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stopping.store(true, Ordering::Relaxed);
    }
}

/// The accumulated result of a batch. An entity that is written twice is stored once.
struct BatchWork {
    region: Region,
    writes: BTreeMap<Key, Write>,
    attachments: BTreeMap<(Key, String), Attachment>,
    batch: Batch,
    effects: Vec<Effect>,
}

impl BatchWork {
    fn on(region: Region) -> BatchWork {
        BatchWork {
            region,
            writes: BTreeMap::new(),
            attachments: BTreeMap::new(),
            batch: Batch::default(),
            effects: Vec::new(),
        }
    }

    /// Applies all commands of a bundle, or none. `format`: the newest format that every server reads.
    fn apply_bundle(&mut self, bundle: Bundle, now: Timestamp, format: u8) -> Result<Vec<Answer>, SubmitError> {
        let mut steps: Vec<Transition> = Vec::with_capacity(bundle.commands.len());
        for command in &bundle.commands {
            let region = steps.last().map_or(&self.region, |step| &step.region);
            steps.push(region.apply(command, now)?);
        }
        if steps.iter().flat_map(|step| &step.writes).any(|write| is_too_new(write, &self.region, format)) {
            return Err(SubmitError::ServersOutdated);
        }
        let machines = named_machines(&bundle.commands, &steps);
        self.batch.audit.extend(bundle.audit.map(|entry| entry.at(now, machines)));
        let answers: Vec<_> = steps.into_iter().map(|step| self.add(step)).collect();
        let attachments = (bundle.attach)(&answers);
        self.attachments.extend(attachments.into_iter().map(|it| ((it.owner.key(), it.name.clone()), it)));
        Ok(answers)
    }

    fn add(&mut self, step: Transition) -> Answer {
        let Transition { region, answer, writes, facts, effects } = step;
        self.region = region;
        self.writes.extend(writes.into_iter().map(|write| (key_of(&write), write)));
        self.batch.facts.extend(facts);
        self.effects.extend(effects);
        answer
    }
}

/// Whether a request brings something into the region that a server of an older version cannot read. The results of what is there
/// already cannot be refused.
fn is_too_new(write: &Write, region: &Region, format: u8) -> bool {
    let is_request = |entity: &Entity| match entity {
        Entity::Rollout(rollout) => {
            region.rollout(rollout.id).is_none_or(|known| rollout.has_retries() && !known.has_retries())
        }
        Entity::Host(host) => region.host(&host.name).is_none_or(|known| known.epoch < host.epoch),
        Entity::Meta(_)
        | Entity::Group(_)
        | Entity::Scope(_)
        | Entity::Machine(_)
        | Entity::Event(_)
        | Entity::Operation(_) => true,
    };
    match write {
        Write::Put(entity) => payload_format(entity) > format && is_request(entity),
        Write::Delete(_) => false,
    }
}

/// The attachments, without those whose owner another bundle of the same batch has removed.
fn retain_owned(attachments: BTreeMap<(Key, String), Attachment>, region: &Region) -> Vec<Attachment> {
    let is_there = |owner: Owner| match owner {
        Owner::Region => true,
        Owner::Machine(id) => region.machine(id).is_some(),
        Owner::Group(id) => region.group(id).is_some(),
        Owner::Operation(id) => region.operation(id).is_some(),
    };
    attachments.into_values().filter(|attachment| is_there(attachment.owner)).collect()
}

fn key_of(write: &Write) -> Key {
    match write {
        Write::Put(entity) => entity.key(),
        Write::Delete(key) => key.clone(),
    }
}

/// An error with its sources, on one line.
fn render_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
