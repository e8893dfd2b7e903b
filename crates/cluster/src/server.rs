//! The shell around the state machine: a server's log, clock and copy, driven by the thread that commits.
//!
//! A server is a [`Follower`] until [`Follower::follow`] returns [`Following::Lead`], then a [`Writer`] until a call of
//! its own returns a loss. Both use the caller's thread. In particular, heartbeats are sent by [`Writer::run_due_tasks`] and
//! [`Writer::commit`], never by a thread of their own: if the caller hangs, another server takes over.

use std::time::Duration;

use ring::rand::{SecureRandom as _, SystemRandom};
use rustix::time::{ClockId, clock_gettime};

use crate::contract::{Leader, Log, LogError};
use crate::machine::{
    Delivery, Divergence, Freshness, Identity, LeadershipLoss, LeadershipStart, Machine, Moment, NEVER, NotReady,
    Outcome, Settings, Step,
};
use crate::record::{Entry, Position};
use crate::request::Request;

/// A server's own copy of the region.
pub trait Replica {
    /// Applies consecutive entries with the position of the last one, in one transaction: all of them, or none. A crash may lose
    /// entries since the last [`Replica::sync`], in reverse order. The log still has them.
    fn apply(&mut self, entries: &[Entry]) -> Result<(), String>;

    /// Makes all applied entries durable, or begins to. Returns the revision up to which they are: this server reports that much
    /// progress, and the log may delete what all servers have reported.
    fn sync(&mut self) -> Result<u64, String>;

    /// Replaces the copy by a snapshot of a peer that contains at least the revision before `next`, and returns its
    /// position.
    fn transfer(&mut self, next: u64) -> Result<Position, String>;
}

/// A server's clocks.
pub trait Clock {
    /// Time since boot, including time asleep.
    fn now(&self) -> Moment;

    /// The region's time in milliseconds.
    fn time_ms(&self) -> i64;

    /// Waits until this moment at the latest.
    fn sleep_until(&self, moment: Moment);
}

/// The clocks of the system. The region's time is the wall clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock;

impl Clock for BootClock {
    fn now(&self) -> Moment {
        let time = clock_gettime(ClockId::Boottime);
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
    }

    fn time_ms(&self) -> i64 {
        let time = clock_gettime(ClockId::Realtime);
        time.tv_sec * 1000 + time.tv_nsec / 1_000_000
    }

    fn sleep_until(&self, moment: Moment) {
        std::thread::sleep(moment.saturating_sub(self.now()));
    }
}

/// An event that a follower returns to its caller.
#[derive(Debug)]
pub enum Following {
    /// Call [`Follower::lead`].
    Lead(LeadershipStart),
    /// The time is up.
    Idle,
    /// The region does not exist. The follower keeps looking for it.
    NoRegion,
    /// No snapshot could be copied. The follower tries again.
    TransferFailed(String),
    /// The copy could not apply an entry. The follower has stopped: start it again at the copy's position.
    ApplyFailed(String),
    /// The copy does not belong to the log. The follower has stopped.
    Diverged(Divergence),
}

/// A server that follows the log and applies its entries to its copy.
pub struct Follower(Server);

/// A server that leads.
pub struct Writer(Server);

struct Server {
    machine: Machine,
    log: Box<dyn Log>,
    clock: Box<dyn Clock + Send>,
    /// The error of the copy that stopped the machine.
    apply_error: Option<String>,
    /// The error of the last request to the log.
    log_error: Option<LogError>,
}

/// The result of one step.
enum Progress {
    Worked,
    Delivered(Delivery),
    Wait(Moment),
}

impl Follower {
    /// A server whose copy is at this position.
    pub fn start(
        identity: Identity,
        settings: Settings,
        position: Position,
        log: Box<dyn Log>,
        clock: Box<dyn Clock + Send>,
    ) -> Follower {
        Follower(Server {
            machine: Machine::new(identity, settings, position),
            log,
            clock,
            apply_error: None,
            log_error: None,
        })
    }

    /// Follows the log until this moment or until there is an event. A wait for news ends at most one
    /// [`Settings::follow_wait`] later.
    pub fn follow(&mut self, replica: &mut dyn Replica, until: Moment) -> Following {
        loop {
            match self.0.step(replica) {
                Progress::Worked => {}
                Progress::Delivered(delivery) => {
                    if let Some(event) = self.take(replica, delivery) {
                        return event;
                    }
                }
                Progress::Wait(moment) => self.0.clock.sleep_until(moment.min(until)),
            }
            if let Some(error) = &self.0.apply_error {
                return Following::ApplyFailed(error.clone());
            }
            if self.0.clock.now() >= until && !self.0.machine.has_deliveries() {
                return Following::Idle;
            }
        }
    }

    fn take(&mut self, replica: &mut dyn Replica, delivery: Delivery) -> Option<Following> {
        match delivery {
            Delivery::Lead(lead) => Some(Following::Lead(lead)),
            Delivery::NoRegion => {
                // The region may appear with a head that only a snapshot leads to, so the next delivery must not be held back.
                self.0.machine.transfer_failed();
                Some(Following::NoRegion)
            }
            Delivery::Diverged(divergence) => Some(Following::Diverged(divergence)),
            Delivery::Missing { next } => match replica.transfer(next) {
                Ok(position) => {
                    self.0.machine.transferred(position);
                    None
                }
                Err(error) => {
                    self.0.machine.transfer_failed();
                    Some(Following::TransferFailed(error))
                }
            },
            // A leadership that ended before its end was noticed. Outcomes belong to commits, which have all returned.
            Delivery::Lost(_) | Delivery::Outcome(_) | Delivery::Apply(_) => None,
        }
    }

    /// The same server after a stop, with a copy at this position.
    pub fn restart(mut self, position: Position) -> Follower {
        self.0.machine = self.0.machine.restart(position);
        self.0.apply_error = None;
        self
    }

    /// The writer, after [`Following::Lead`].
    pub fn lead(self) -> Writer {
        Writer(self.0)
    }

    /// The leader that this server last saw.
    pub fn leader(&self) -> Option<&Leader> {
        self.0.machine.leader()
    }

    /// The leader that this server last saw, if it is another process with this server's name: possibly an
    /// earlier process of this server.
    pub fn namesake(&self) -> Option<&Leader> {
        self.0.machine.namesake()
    }

    /// The error of the last request to the log, for the health of this server.
    pub fn log_error(&self) -> Option<&LogError> {
        self.0.log_error.as_ref()
    }

    /// How current the copy is; none before the first heartbeat was seen.
    pub fn freshness(&self) -> Option<Freshness> {
        self.0.machine.freshness(self.0.clock.now())
    }

    /// How old the copy is at most. None: it must not be shown yet.
    pub fn copy_age(&self) -> Option<Duration> {
        self.0.machine.copy_age(self.0.clock.now())
    }

    /// The time since the copy was last known to have everything that was in the log.
    pub fn current_age(&self) -> Option<Duration> {
        self.0.machine.current_age(self.0.clock.now())
    }

    pub fn position(&self) -> Position {
        self.0.machine.position()
    }

    /// The log, for requests of operators.
    pub fn log(&mut self) -> &mut dyn Log {
        &mut *self.0.log
    }
}

impl Writer {
    /// Commits a payload: writes it to the log, then applies it to the copy. Also sends heartbeats that are due.
    pub fn commit(&mut self, replica: &mut dyn Replica, payload: Vec<u8>) -> Outcome {
        if let Err(loss) = self.run_due_tasks(replica) {
            self.0.machine.put_back(Delivery::Lost(loss));
            return Outcome::Deposed;
        }
        if let Err(NotReady) = self.0.machine.commit(self.0.clock.now(), payload) {
            return Outcome::Deposed;
        }
        loop {
            match self.0.step(replica) {
                Progress::Delivered(Delivery::Outcome(outcome)) => return outcome,
                Progress::Worked => {}
                Progress::Delivered(event) => {
                    self.0.machine.put_back(event);
                    return Outcome::Unknown;
                }
                Progress::Wait(NEVER) => return Outcome::Unknown,
                Progress::Wait(moment) => self.0.clock.sleep_until(moment),
            }
        }
    }

    /// Does everything that is due: heartbeats, progress, truncation. Returns when to call it next, or why this server no
    /// longer leads. Then call [`Writer::follow`].
    pub fn run_due_tasks(&mut self, replica: &mut dyn Replica) -> Result<Moment, LeadershipLoss> {
        loop {
            match self.0.step(replica) {
                Progress::Worked => {}
                Progress::Delivered(Delivery::Lost(loss)) => return Err(loss),
                // Commits have all returned.
                Progress::Delivered(Delivery::Outcome(_)) => {}
                // The follower deals with it: this is the only time that the machine delivers it.
                Progress::Delivered(event) => {
                    self.0.machine.put_back(event);
                    return Err(LeadershipLoss::Confused);
                }
                Progress::Wait(moment) => {
                    return self.0.machine.is_leading().then_some(moment).ok_or(LeadershipLoss::Confused);
                }
            }
            if !self.0.machine.is_leading() && !self.0.machine.has_deliveries() {
                return Err(LeadershipLoss::Confused);
            }
        }
    }

    /// Whether this server may act on machines now. Ask immediately before every action.
    pub fn may_act(&self) -> bool {
        self.0.machine.may_act(self.0.clock.now())
    }

    /// The time since the last successful heartbeat was sent; none before the first one.
    pub fn heartbeat_age(&self) -> Option<Duration> {
        self.0.machine.heartbeat_age(self.0.clock.now())
    }

    /// Reports whether this leader is in contact with most servers.
    pub fn set_contact(&mut self, has_contact: bool) {
        self.0.machine.set_contact(self.0.clock.now(), has_contact);
    }

    /// Resigns at the next [`Writer::run_due_tasks`].
    pub fn step_down(&mut self) {
        self.0.machine.step_down();
    }

    /// The newest payload format that all servers read; none until the leader knows it.
    pub fn format(&self) -> Option<u32> {
        self.0.machine.format()
    }

    /// The newest format of contents of payloads that all servers read; none until the leader knows it.
    pub fn content_format(&self) -> Option<u32> {
        self.0.machine.content_format()
    }

    pub fn position(&self) -> Position {
        self.0.machine.position()
    }

    pub fn log(&mut self) -> &mut dyn Log {
        &mut *self.0.log
    }

    /// The follower, after a loss.
    pub fn follow(self) -> Follower {
        Follower(self.0)
    }
}

impl Server {
    fn step(&mut self, replica: &mut dyn Replica) -> Progress {
        match self.machine.poll(self.clock.now(), self.clock.time_ms()) {
            Step::Send(request) => {
                let request = if request.reports_progress() {
                    replica.sync().map(|durable| request.limited_to(durable))
                } else {
                    Ok(request)
                };
                match request {
                    Ok(request) => self.send(&request),
                    Err(error) => self.give_up(error),
                }
                Progress::Worked
            }
            Step::Deliver(Delivery::Apply(entries)) => {
                self.apply(replica, &entries);
                Progress::Worked
            }
            Step::Deliver(delivery) => Progress::Delivered(delivery),
            Step::Wait(moment) => Progress::Wait(moment),
        }
    }

    fn send(&mut self, request: &Request) {
        let answer = request.run(&mut *self.log);
        self.note_error(answer.as_ref().err());
        self.machine.answer(self.clock.now(), answer);
    }

    /// The copy cannot become durable, so this server must not lead. The request is not sent.
    fn give_up(&mut self, error: String) {
        tracing::error!(%error, "cannot store the local copy");
        self.machine.answer(self.clock.now(), Err(LogError::Unavailable(error.clone())));
        self.apply_error = Some(error);
        self.machine.apply_failed();
    }

    /// Logs a change between working and failing, and between one error and another.
    fn note_error(&mut self, error: Option<&LogError>) {
        match (&self.log_error, error) {
            (None, None) => return,
            (Some(before), Some(now)) if before == now => return,
            (_, Some(error)) => tracing::warn!(%error, "a request to the log failed"),
            (Some(_), None) => tracing::info!("the log answers again"),
        }
        self.log_error = error.cloned();
    }

    fn apply(&mut self, replica: &mut dyn Replica, entries: &[Entry]) {
        match apply_all(replica, entries) {
            Ok(()) => self.machine.applied(),
            Err((revision, error)) => {
                tracing::error!(%error, revision, "cannot apply a record to the local copy");
                self.apply_error = Some(error);
                self.machine.apply_failed();
            }
        }
    }
}

/// Applies entries together. If that fails, applies them one by one, so that the copy has everything before the entry that
/// cannot be applied. Returns the revision of that entry and the error.
fn apply_all(replica: &mut dyn Replica, entries: &[Entry]) -> Result<(), (u64, String)> {
    if entries.len() > 1 && replica.apply(entries).is_ok() {
        return Ok(());
    }
    for entry in entries {
        replica.apply(std::slice::from_ref(entry)).map_err(|error| (entry.revision, error))?;
    }
    Ok(())
}

/// A random number for [`Identity::session`].
pub fn random_session() -> u64 {
    let mut bytes = [0; 8];
    match SystemRandom::new().fill(&mut bytes) {
        Ok(()) => u64::from_le_bytes(bytes),
        Err(_) => u64::from(std::process::id()),
    }
}
