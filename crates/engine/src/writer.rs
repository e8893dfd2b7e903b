//! The single writer: one thread that owns the region and the store.
//!
//! ```text
//!            ┌──────────── what time has brought comes first ◀───────────┐
//!            ▼                                                           │
//!   mailbox ─▶ apply, in sequence ─▶ commit, together ─▶ publish ─▶ driver ─▶ answers
//! ```
//!
//! No answer of a batch leaves before the batch's commit: even a refusal may rest on an earlier command
//! of the same batch. A commit that certainly failed leaves the old region in place; on any doubt the
//! store is loaded again. A transition is never tried twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use forewarn_core::{
    Answer, Command, Effect, Entity, Key, Region, Rejection, ScopeId, Settings, Snapshot, Timestamp, Transition, Write,
};
use forewarn_store::{Attachment, Batch, CommitError, Owner, Store};
use tokio::sync::oneshot;

use crate::clock::{self, Clock};
use crate::effects::EffectSink;
use crate::engine::{ADVANCE_MAX, Advance, AdvanceError, AllDone, Bundle, Health, Letter, Pending, SubmitError};
use crate::metrics::EngineMetrics;
use crate::publish::Board;

/// Commands in one commit. Enough that the cost of a commit is shared; few enough that the first of them
/// does not wait long for the last to be applied.
pub const BATCH_MAX: usize = 512;

/// How long the timer waits after a step of its own could not be stored.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Steps at one and the same time. Deadlines that pass bring others at the same time only a few times
/// over; more than this is a deadline that does not pass.
const PASSES_MAX: u32 = 10_000;

/// The longest sleep: the system's clock may be set forward meanwhile.
const SLEEP_MAX: Duration = Duration::from_secs(5);

/// Rows of history that are forgotten at once, so that nobody waits long for it.
const FORGET_ROWS: u32 = 500;
const FORGET_EVERY: Duration = Duration::from_secs(3600);
const FORGET_AGAIN: Duration = Duration::from_secs(1);

/// How often the driver is shown everything that should be under way.
const RECONCILE_EVERY: Duration = Duration::from_secs(60);

pub struct Writer {
    pub store: Box<dyn Store>,
    pub settings: Settings,
    pub newest: Arc<Snapshot>,
    pub mailbox: Receiver<Letter>,
    pub board: Arc<Board>,
    pub clock: Arc<Clock>,
    pub driver: Box<dyn EffectSink>,
    pub metrics: Arc<EngineMetrics>,
    pub health: Arc<Health>,
    pub history_kept: Duration,
    pub rest: Rest,
}

/// What the writer does when nobody asks for anything.
pub struct Rest {
    /// The timer rests until then, because its last step failed.
    pub timer_after: Option<Instant>,
    pub forget_at: Instant,
    pub reconcile_at: Instant,
    /// The region in memory may not be the stored one.
    pub in_doubt: bool,
}

impl Default for Rest {
    fn default() -> Self {
        let now = Instant::now();
        Rest { timer_after: None, forget_at: now + FORGET_AGAIN, reconcile_at: now + RECONCILE_EVERY, in_doubt: false }
    }
}

/// A batch whose commit failed, certainly or not.
struct Lost;

/// To each bundle.
type Answers = Vec<Result<Vec<Answer>, Rejection>>;

impl Writer {
    /// Runs until the engine is told to stop. `ready` hears whether the store takes writes at all.
    pub fn run(mut self, ready: oneshot::Sender<bool>) {
        let _ended = Ended(self.health.clone());
        self.reconcile();
        let taken = self.step_alone(vec![Command::Resume, Command::Tick], self.clock.now()).is_ok();
        let _ = ready.send(taken);
        while !self.health.stopping.load(Ordering::Relaxed) {
            self.pass_time();
            match self.mailbox.recv_timeout(self.patience()) {
                Ok(letter) => self.serve(letter),
                Err(RecvTimeoutError::Timeout) => self.tidy(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        // So that the store knows for how long the server ran.
        let _ = self.step_alone(vec![Command::Tick], self.clock.now());
    }

    /// Everything that is due by now, in order.
    fn pass_time(&mut self) {
        if self.rest.timer_after.is_some_and(|after| Instant::now() < after) {
            return;
        }
        self.rest.timer_after = None;
        let now = self.clock.now();
        let mut passes = 0;
        while self.next_due().is_some_and(|due| due <= now) {
            passes += 1;
            if self.pass(now).is_err() || passes == PASSES_MAX {
                self.rest.timer_after = Some(Instant::now() + RETRY_AFTER);
                return;
            }
        }
    }

    /// One step of time: the rules' deadlines, then what the driver has to say.
    fn pass(&mut self, now: Timestamp) -> Result<(), Lost> {
        if self.next_tick().is_some_and(|due| due <= now) {
            self.step_alone(vec![Command::Tick], now)?;
        }
        self.drain(now)
    }

    fn next_due(&self) -> Option<Timestamp> {
        [self.next_tick(), self.driver.next()].into_iter().flatten().min()
    }

    /// When the rules must be told the time.
    fn next_tick(&self) -> Option<Timestamp> {
        let region = &self.newest.region;
        let pulse = match self.clock.kind() {
            clock::Kind::Real => region.next_pulse(),
            clock::Kind::Manual => None,
        };
        [region.next_deadline(), pulse].into_iter().flatten().min()
    }

    /// Lets the driver report all that is over by now.
    fn drain(&mut self, now: Timestamp) -> Result<(), Lost> {
        loop {
            let due = self.driver.due(now, BATCH_MAX);
            if due.is_empty() {
                return Ok(());
            }
            let events: Vec<_> = due.iter().map(|(event, _)| *event).collect();
            let reports: Vec<_> = due.into_iter().map(|(event, report)| Command::Report { event, report }).collect();
            self.step_alone(reports, now)?;
            events.into_iter().for_each(|event| self.driver.reported(event));
            self.publish_next_report();
        }
    }

    /// How long the writer may sleep.
    fn patience(&self) -> Duration {
        let timer = match self.clock.kind() {
            clock::Kind::Manual => SLEEP_MAX,
            clock::Kind::Real => self.next_due().map_or(SLEEP_MAX, |due| due.since(self.clock.now())),
        };
        let held = self.rest.timer_after.map_or(Duration::ZERO, |after| after.duration_since(Instant::now()));
        timer.max(held).min(SLEEP_MAX).min(self.rest.forget_at.saturating_duration_since(Instant::now()))
    }

    /// A letter, and those that wait behind it.
    fn serve(&mut self, first: Letter) {
        let mut batch = Vec::new();
        let mut next = Some(first);
        while let Some(letter) = next {
            match letter {
                Letter::Command(pending) => batch.push(*pending),
                Letter::Wake => {}
                Letter::Advance { how, reply } => {
                    self.carry_out(std::mem::take(&mut batch));
                    let _ = reply.send(self.advance(how));
                }
            }
            next = if batch.len() < BATCH_MAX { self.mailbox.try_recv().ok() } else { None };
        }
        self.carry_out(batch);
    }

    fn carry_out(&mut self, batch: Vec<Pending>) {
        if batch.is_empty() {
            return;
        }
        let now = self.clock.now();
        let (bundles, replies): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|Pending { work, reply }| (work, reply)).unzip();
        match self.step(bundles, now) {
            Ok(answers) => {
                // Impacts that take no time are over before anybody hears of them, on every clock.
                let _ = self.drain(now);
                let snapshot = &self.newest;
                for (reply, answers) in replies.into_iter().zip(answers) {
                    let done = answers.map(|answers| AllDone { answers, snapshot: snapshot.clone() });
                    let _ = reply.send(done.map_err(SubmitError::Rejected));
                }
            }
            Err(Lost) => replies.into_iter().for_each(|reply| {
                let _ = reply.send(Err(SubmitError::Unavailable));
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
        while let Some(due) = self.next_due().filter(|due| *due <= to) {
            passes = if due > self.clock.now() { 0 } else { passes + 1 };
            if passes == PASSES_MAX {
                tracing::error!(due = due.0, "a deadline does not pass; the clock stays there");
                return Err(AdvanceError::Unavailable);
            }
            self.clock.move_to(due);
            self.pass(self.clock.now()).map_err(|Lost| AdvanceError::Unavailable)?;
        }
        self.clock.move_to(to);
        // The store must know the time that was answered.
        self.step_alone(vec![Command::Tick], to).map_err(|Lost| AdvanceError::Unavailable)?;
        Ok(to)
    }

    /// A step of the program's own: each command by itself.
    fn step_alone(&mut self, commands: Vec<Command>, now: Timestamp) -> Result<(), Lost> {
        self.step(commands.into_iter().map(|command| Bundle::plain(vec![command], None)).collect(), now).map(drop)
    }

    /// Applies the bundles one after the other, commits what came of them, publishes it, tells the driver.
    fn step(&mut self, bundles: Vec<Bundle>, now: Timestamp) -> Result<Answers, Lost> {
        if self.rest.in_doubt {
            self.load_again()?;
        }
        let mut work = Work::on(self.newest.region.clone());
        let answers: Answers = bundles.into_iter().map(|bundle| work.carry_out(bundle, now)).collect();
        self.count(&answers);
        self.commit(work)?;
        Ok(answers)
    }

    fn commit(&mut self, work: Work) -> Result<(), Lost> {
        let Work { region, writes, attachments, mut batch, effects } = work;
        batch.writes = writes.into_values().collect();
        batch.attachments = attachments_of(attachments, &region);
        if batch == Batch::default() {
            return Ok(());
        }
        let begun = Instant::now();
        let result = self.store.commit(self.newest.revision, &batch);
        self.metrics.commit_seconds.observe(begun.elapsed().as_secs_f64());
        self.health.store_fails.store(result.is_err(), Ordering::Relaxed);
        match result {
            Ok(revision) => {
                self.metrics.commits.inc();
                let changed = changed_scopes(&self.newest.region, &batch.writes);
                let roster = self.newest.roster + u64::from(moves_machines(&self.newest.region, &batch.writes));
                self.newest = Arc::new(Snapshot { revision, region, roster });
                self.board.publish(self.newest.clone(), &changed);
                self.driver.follow(&effects);
                self.publish_next_report();
                Ok(())
            }
            Err(error) => {
                self.metrics.commits_failed.inc();
                tracing::error!(error = %chain(&error), "a commit failed");
                match error {
                    CommitError::Refused(_) => {}
                    CommitError::Conflict { .. } | CommitError::Doubt(_) => {
                        self.rest.in_doubt = true;
                        let _ = self.load_again();
                    }
                }
                Err(Lost)
            }
        }
    }

    /// What is stored is what counts.
    fn load_again(&mut self) -> Result<(), Lost> {
        let loaded = self.store.load().and_then(|loaded| {
            let region = Region::load(self.settings.clone(), loaded.entities)?;
            Ok(Snapshot { revision: loaded.revision, region, roster: self.newest.roster + 1 })
        });
        match loaded {
            Ok(snapshot) => {
                self.newest = Arc::new(snapshot);
                self.rest.in_doubt = false;
                self.health.store_fails.store(false, Ordering::Relaxed);
                self.board.publish_anew(self.newest.clone());
                self.reconcile();
                Ok(())
            }
            Err(error) => {
                tracing::error!(
                    error = %chain(&error),
                    "the store cannot be loaded again; nothing is changed until it can"
                );
                Err(Lost)
            }
        }
    }

    fn reconcile(&mut self) {
        self.driver.reconcile(&self.newest.region);
        self.publish_next_report();
    }

    fn publish_next_report(&self) {
        let next = self.driver.next().map_or(0, |next| next.0);
        self.health.next_report_ms.store(next, Ordering::Relaxed);
    }

    /// Nobody asks for anything: time for the house.
    fn tidy(&mut self) {
        let now = Instant::now();
        if now >= self.rest.reconcile_at {
            self.rest.reconcile_at = now + RECONCILE_EVERY;
            self.reconcile();
        }
        if now >= self.rest.forget_at {
            let before = self.clock.now() - self.history_kept;
            let gone = self.store.forget_history(before, FORGET_ROWS).unwrap_or_else(|error| {
                tracing::warn!(error = %chain(&error), "old history could not be removed");
                0
            });
            self.rest.forget_at = now + if gone == FORGET_ROWS { FORGET_AGAIN } else { FORGET_EVERY };
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

/// However the writer ends, also by a panic, nobody is told that all is well.
struct Ended(Arc<Health>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.stopping.store(true, Ordering::Relaxed);
    }
}

/// What a batch has come to so far. An entity that is written twice is stored once.
struct Work {
    region: Region,
    writes: BTreeMap<Key, Write>,
    attachments: BTreeMap<(Key, String), Attachment>,
    batch: Batch,
    effects: Vec<Effect>,
}

impl Work {
    fn on(region: Region) -> Work {
        Work {
            region,
            writes: BTreeMap::new(),
            attachments: BTreeMap::new(),
            batch: Batch::default(),
            effects: Vec::new(),
        }
    }

    /// All of a bundle, or nothing of it.
    fn carry_out(&mut self, bundle: Bundle, now: Timestamp) -> Result<Vec<Answer>, Rejection> {
        let mut steps: Vec<Transition> = Vec::with_capacity(bundle.commands.len());
        for command in &bundle.commands {
            let region = steps.last().map_or(&self.region, |step| &step.region);
            steps.push(region.apply(command, now)?);
        }
        self.batch.audit.extend(bundle.asked.map(|asked| asked.at(now)));
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

/// Without those whose owner another bundle of the same batch has removed.
fn attachments_of(attachments: BTreeMap<(Key, String), Attachment>, region: &Region) -> Vec<Attachment> {
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

/// The scopes whose document is another one after these writes.
fn changed_scopes(before: &Region, writes: &[Write]) -> Vec<ScopeId> {
    let incarnation = |id| before.scope(id).map(|scope| scope.incarnation);
    let changed = writes.iter().filter_map(|write| match write {
        Write::Put(Entity::Scope(scope)) => (incarnation(scope.id) != Some(scope.incarnation)).then_some(scope.id),
        Write::Delete(Key::Scope(scope)) => Some(*scope),
        Write::Put(_) | Write::Delete(_) => None,
    });
    changed.collect()
}

/// Whether a machine comes or goes with these writes.
fn moves_machines(before: &Region, writes: &[Write]) -> bool {
    writes.iter().any(|write| match write {
        Write::Put(Entity::Machine(machine)) => before.machine(machine.id).is_none(),
        Write::Delete(Key::Machine(_)) => true,
        Write::Put(_) | Write::Delete(_) => false,
    })
}

/// An error and what is behind it, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
