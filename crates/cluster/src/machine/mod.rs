//! Leadership as a pure state machine: no I/O, no clock, no randomness. Time is an argument, and deadlines are return values.
//!
//! ```text
//!                  silence, caught up            read up to the head       opening record written
//!   Following ──────── take over ──────▶ CatchingUp ─────────▶ Opening ─────────────▶ Ready ◀──▶ Committing
//!       ▲                                    │                    │                     │            │
//!       └────────── deposed, resigned, or unable to write for too long ◀────────────────┴────────────┘
//! ```
//!
//! A machine has at most one request under way, and delivers entries in batches, one at a time. It sends no heartbeats while its copy
//! applies a batch: a server that hangs must not stay leader. All writes are fenced by the log, so this module only decides what to
//! try; a wrong guess costs time, not correctness.

mod chain;
mod following;
mod leading;
mod settings;
mod silence;

use std::collections::VecDeque;
use std::time::Duration;

use crate::contract::{Heartbeat, Leader, LogError, Member, ObservedVersions, Token};
use crate::record::{Entry, Nonce, Position};
use crate::request::{Request, Response};

pub use chain::Divergence;
use leading::Leadership;
pub use leading::NotReady;
pub use settings::Settings;
use silence::SilenceDetector;

/// A point in time on the server's own clock, which never goes back and counts while the computer sleeps.
pub type Moment = Duration;

/// Later than any deadline.
pub const NEVER: Moment = Duration::MAX;

/// A server as others see it.
#[derive(Clone, Debug)]
pub struct Identity {
    pub name: String,
    pub address: String,
    /// The newest payload format that this server reads.
    pub format: u32,
    /// The newest format of contents of payloads that this server reads.
    pub content_format: u32,
    /// A random number of this process.
    pub session: u64,
}

/// The next thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Carry out this request and call [`Machine::answer`].
    Send(Request),
    Deliver(Delivery),
    /// Nothing until this moment.
    Wait(Moment),
}

/// A result for the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Apply these entries in order and together, then call [`Machine::applied`] or [`Machine::apply_failed`].
    Apply(Vec<Entry>),
    /// This server leads and may commit.
    Lead(LeadershipStart),
    /// The end of a commit.
    Outcome(Outcome),
    /// This server no longer leads.
    Lost(LeadershipLoss),
    /// The log no longer has the next entry: copy a snapshot from a peer and call [`Machine::transferred`].
    Missing { next: u64 },
    /// The region does not exist yet.
    NoRegion,
    /// This server's copy does not belong to the log. Nothing more happens.
    Diverged(Divergence),
}

/// The beginning of a leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeadershipStart {
    pub term: u64,
    /// The previous leader's last heartbeat, with the time since then on this server's clock. The region's time continues from
    /// there.
    pub last_heartbeat: Option<(Heartbeat, Duration)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The record is in the log and in the local copy.
    Committed(Position),
    /// The commit did not happen and never will.
    Failed(String),
    /// The same, and this server no longer leads.
    Deposed,
    /// The commit may have happened or may happen yet, and this server no longer leads.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeadershipLoss {
    /// Another server has taken over.
    Deposed,
    /// The log did not answer for too long, or an outcome was not known in time.
    CannotWrite,
    /// Most servers were out of contact.
    NoContact,
    /// An operator asked for it.
    SteppedDown,
    /// The local copy could not apply an entry.
    ApplyFailed,
    /// The log has entries that this leader did not write.
    Confused,
}

/// How current the local copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    pub heartbeat: Heartbeat,
    /// At most this old: counted from the start of the first read that showed the heartbeat.
    pub age: Duration,
}

/// The newest heartbeat that this server has seen.
#[derive(Clone, Copy, Debug)]
struct SeenHeartbeat {
    heartbeat: Heartbeat,
    version: u64,
    asked_at: Moment,
    answered_at: Moment,
}

#[derive(Debug)]
enum Role {
    Following,
    Leading(Box<Leadership>),
    /// Resigns, then follows.
    Resigning(Token),
    /// Resigns, if it leads, then does nothing.
    Stopped(Option<Token>),
}

/// The request under way.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    call: Call,
    sent_at: Moment,
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Follow,
    Append,
    Heartbeat,
    TakeOver,
    Resign,
    Report,
    MemberList,
    Truncate,
}

#[derive(Debug)]
pub struct Machine {
    settings: Settings,
    identity: Identity,
    /// Numbers this process's nonces.
    counter: u64,
    /// The last entry that the local copy has applied.
    position: Position,
    role: Role,
    in_flight: Option<InFlight>,
    applying: Option<Position>,
    deliveries: VecDeque<Delivery>,
    silence: SilenceDetector,
    seen_heartbeat: Option<SeenHeartbeat>,
    /// A heartbeat with a lower version than `seen_heartbeat`, and the number of consecutive reads that showed it.
    lower_heartbeat: Option<(SeenHeartbeat, u32)>,
    leader: Option<Leader>,
    /// When the last read was sent that found the local copy current, or whose entries made it current.
    current_at: Option<Moment>,
    /// The position at which the local copy will be as current as the log was at this moment.
    current_with: Option<(Position, Moment)>,
    /// The takeover to try next.
    swap: Option<ObservedVersions>,
    /// The counter when this server last gave up a leadership. Older takeovers of its own are not resumed.
    given_up: u64,
    retry_at: Moment,
    paused_until: Moment,
    report_at: Moment,
    reported: Option<(u64, Moment)>,
    behind_reads: u32,
    /// [`Delivery::Missing`] or [`Delivery::NoRegion`] was delivered and is not answered yet.
    is_waiting: bool,
}

impl Machine {
    /// A server whose local copy is at this position. It follows.
    pub fn new(identity: Identity, settings: Settings, position: Position) -> Machine {
        Machine {
            settings,
            identity,
            counter: 0,
            position,
            role: Role::Following,
            in_flight: None,
            applying: None,
            deliveries: VecDeque::new(),
            silence: SilenceDetector::default(),
            seen_heartbeat: None,
            lower_heartbeat: None,
            leader: None,
            current_at: None,
            current_with: None,
            swap: None,
            given_up: 0,
            retry_at: Moment::ZERO,
            paused_until: Moment::ZERO,
            report_at: Moment::ZERO,
            reported: None,
            behind_reads: 0,
            is_waiting: false,
        }
    }

    /// The same server, following again from this position. Nonces are not reused.
    #[must_use]
    pub fn restart(&self, position: Position) -> Machine {
        let mut machine = Machine::new(self.identity.clone(), self.settings.clone(), position);
        machine.counter = self.counter;
        machine.given_up = self.counter;
        machine
    }

    /// The next thing to do. `time_ms` is the region's time, for heartbeats.
    pub fn poll(&mut self, now: Moment, time_ms: i64) -> Step {
        if self.in_flight.is_some() || self.applying.is_some() {
            return Step::Wait(NEVER);
        }
        if let Some(step) = self.deliver(now) {
            return step;
        }
        match &self.role {
            Role::Following => self.poll_following(now),
            Role::Leading(_) => self.poll_leading(now, time_ms),
            Role::Resigning(token) | Role::Stopped(Some(token)) => {
                self.send(now, Call::Resign, Request::Resign { token: *token })
            }
            Role::Stopped(None) => Step::Wait(NEVER),
        }
    }

    /// The next delivery. Heartbeats take precedence over entries, because applying many of them takes long.
    fn deliver(&mut self, now: Moment) -> Option<Step> {
        if let (Some(Delivery::Apply(_)), true) = (self.deliveries.front(), self.is_heartbeat_due(now)) {
            return None;
        }
        let delivery = self.deliveries.pop_front()?;
        if let Delivery::Apply(entries) = &delivery {
            self.applying = entries.last().map(Entry::position);
        }
        if let (Delivery::Lead(_), Role::Leading(leadership)) = (&delivery, &mut self.role) {
            leadership.announce();
        }
        Some(Step::Deliver(delivery))
    }

    /// Takes the result of the request under way.
    pub fn answer(&mut self, now: Moment, result: Result<Response, LogError>) {
        let Some(InFlight { call, sent_at }) = self.in_flight.take() else { return };
        match result {
            Ok(Response::LogPage(tail)) => self.take_tail(sent_at, now, tail),
            Ok(Response::Appended(appended)) => self.on_append_result(now, appended),
            Ok(Response::HeartbeatWritten(result)) => self.on_heartbeat_result(sent_at, result),
            Ok(Response::TakenOver(taken)) => self.on_takeover_result(now, taken),
            Ok(Response::Resigned) => self.take_resigned(),
            Ok(Response::Reported { applied }) => self.reported = Some((applied, now)),
            Ok(Response::MemberList(roster)) => self.take_roster(&roster),
            Ok(Response::Truncated(truncated)) => self.on_truncate_result(truncated),
            Err(error) => self.take_error(call, sent_at, now, &error),
        }
    }

    fn take_error(&mut self, call: Call, sent_at: Moment, now: Moment, error: &LogError) {
        match call {
            Call::Follow => self.take_follow_error(sent_at, now),
            Call::Append => self.take_append_error(sent_at, now, error),
            Call::Heartbeat => self.take_heartbeat_error(sent_at, now),
            // If the takeover has happened, the next read shows this server's own nonce.
            Call::TakeOver => self.retry_at = now,
            Call::Resign => self.take_resigned(),
            Call::MemberList => self.take_roster_error(now),
            Call::Report | Call::Truncate => {}
        }
    }

    /// The local copy has applied the entries that were delivered.
    pub fn applied(&mut self) {
        if let Some(position) = self.applying.take() {
            self.position = position;
        }
        if let Some((_, at)) = self.current_with.take_if(|(position, _)| *position == self.position) {
            self.current_at = Some(at);
        }
    }

    /// The local copy could not apply all entries that were delivered. A commit in progress has happened nevertheless. Start
    /// again at the copy's position with [`Machine::restart`].
    pub fn apply_failed(&mut self) {
        self.applying = None;
        self.deliveries.retain(|delivery| matches!(delivery, Delivery::Outcome(_)));
        let token = self.lose(LeadershipLoss::ApplyFailed);
        self.role = Role::Stopped(token);
    }

    /// The local copy was replaced by a snapshot at this position.
    pub fn transferred(&mut self, position: Position) {
        self.position = position;
        self.is_waiting = false;
        self.retry_at = Moment::ZERO;
    }

    /// No snapshot could be copied, or the region still does not exist. The application is asked again.
    pub fn transfer_failed(&mut self) {
        self.is_waiting = false;
    }

    /// Takes back a delivery, to deliver it again before all others.
    pub fn put_back(&mut self, delivery: Delivery) {
        self.deliveries.push_front(delivery);
    }

    pub fn has_deliveries(&self) -> bool {
        !self.deliveries.is_empty()
    }

    /// Whether this server may commit, now or after the commit in progress.
    pub fn is_leading(&self) -> bool {
        matches!(&self.role, Role::Leading(leadership) if leadership.is_leading())
    }

    /// The last entry that the local copy has applied.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The leader that this server last saw, which can be itself.
    pub fn leader(&self) -> Option<&Leader> {
        self.leader.as_ref()
    }

    /// The leader that this server last saw, if it is another process with this server's name.
    pub fn namesake(&self) -> Option<&Leader> {
        let Identity { name, session, .. } = &self.identity;
        self.leader.as_ref().filter(|leader| leader.node == *name && leader.nonce.session != *session)
    }

    pub fn freshness(&self, now: Moment) -> Option<Freshness> {
        let seen = self.seen_heartbeat?;
        Some(Freshness { heartbeat: seen.heartbeat, age: now.saturating_sub(seen.asked_at) })
    }

    /// How old the local copy is at most: the time since a heartbeat whose revision it has. None: it must not be shown yet.
    ///
    /// A crash loses entries that readers have seen, and the last heartbeat can be older than those. So a server that has started shows
    /// nothing until its copy was current once.
    pub fn copy_age(&self, now: Moment) -> Option<Duration> {
        let fresh = self.current_at.and(self.freshness(now))?;
        (fresh.heartbeat.revision <= self.position.revision).then_some(fresh.age)
    }

    /// The time since the local copy was last known to have everything that was in the log.
    pub fn current_age(&self, now: Moment) -> Option<Duration> {
        self.current_at.map(|at| now.saturating_sub(at))
    }

    fn send(&mut self, now: Moment, call: Call, request: Request) -> Step {
        self.in_flight = Some(InFlight { call, sent_at: now });
        Step::Send(request)
    }

    fn next_nonce(&mut self) -> Nonce {
        self.counter += 1;
        Nonce { session: self.identity.session, counter: self.counter }
    }

    /// The report of this server's progress, if it is time for one.
    fn poll_report(&mut self, now: Moment) -> Option<Step> {
        let is_news = self.reported.is_none_or(|(applied, _)| applied != self.position.revision);
        let is_old = self.reported.is_none_or(|(_, at)| now >= at + self.settings.report_idle_every);
        if now < self.report_at || !(is_news || is_old) {
            return None;
        }
        self.report_at = now + self.settings.report_every;
        let Identity { name, address, format, content_format, .. } = self.identity.clone();
        let member = Member { name, applied: self.position.revision, format, content_format, address };
        Some(self.send(now, Call::Report, Request::Report { member }))
    }

    /// Ends the leadership, if there is one, and returns its token. A commit in progress ends first.
    fn lose(&mut self, loss: LeadershipLoss) -> Option<Token> {
        self.given_up = self.counter;
        self.silence.reset();
        self.swap = None;
        let Role::Leading(leadership) = std::mem::replace(&mut self.role, Role::Following) else { return None };
        if let Some(outcome) = leadership.abandoned_outcome() {
            self.deliveries.push_back(Delivery::Outcome(outcome));
        }
        if leadership.is_leading() {
            self.deliveries.push_back(Delivery::Lost(loss));
        }
        Some(leadership.token())
    }

    fn stop(&mut self, divergence: Divergence) {
        let token = self.lose(LeadershipLoss::Confused);
        self.deliveries.push_back(Delivery::Diverged(divergence));
        self.role = Role::Stopped(token);
    }

    fn take_resigned(&mut self) {
        self.role = match self.role {
            Role::Stopped(_) => Role::Stopped(None),
            Role::Following | Role::Leading(_) | Role::Resigning(_) => Role::Following,
        };
    }
}
