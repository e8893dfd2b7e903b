//! The leader's part of the state machine: heartbeats, the opening record, commits and their outcome, truncation, resignation.

use std::time::Duration;

use super::{
    Call, Delivery, Divergence, LeadershipLoss, LeadershipStart, Machine, Moment, NEVER, Outcome, Role, SeenHeartbeat,
    Step,
};
use crate::contract::{
    AppendResult, Conflict, Heartbeat, HeartbeatResult, LogError, Member, MemberList, Token, TruncateResult,
};
use crate::record::{Entry, Nonce, Record, RecordKind};
use crate::request::Request;

/// A leadership.
#[derive(Debug)]
pub struct Leadership {
    token: Token,
    stage: Stage,
    /// The last heartbeat of the previous leader.
    inherited: Option<SeenHeartbeat>,
    /// The application knows that this server leads.
    is_announced: bool,
    heartbeat_at: Moment,
    /// The version of the last heartbeat, as far as known.
    heartbeat_version: u64,
    /// When the last successful heartbeat was sent.
    last_heartbeat: Option<Moment>,
    /// Since when heartbeats and reads fail.
    failing_since: Option<Moment>,
    /// The first failure of a record since the last success.
    appends_fail_since: Option<Moment>,
    /// Records have failed for too long although heartbeats succeed.
    cannot_append: bool,
    contact_lost_at: Option<Moment>,
    retry_at: Moment,
    roster_at: Moment,
    truncate_to: Option<u64>,
    truncated: u64,
    /// When to send a truncation even if there is nothing to delete.
    compact_at: Moment,
    /// The newest formats that all servers read of payloads and of their contents, once known.
    formats: Option<(u32, u32)>,
    steps_down: bool,
}

#[derive(Debug)]
enum Stage {
    CatchingUp,
    /// Writes the first record of the term.
    Opening(Record),
    Ready,
    Committing(Box<Commit>),
}

#[derive(Debug)]
struct Commit {
    record: Record,
    started_at: Moment,
    /// Takes the record's place once its outcome is in doubt. Tried until one of the two is in the log.
    empty: Option<Record>,
}

/// Why a commit cannot start now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this server does not lead or has a commit in progress")]
pub struct NotReady;

impl Leadership {
    pub fn new(token: Token, now: Moment, inherited: Option<SeenHeartbeat>) -> Leadership {
        Leadership {
            token,
            stage: Stage::CatchingUp,
            inherited,
            is_announced: false,
            heartbeat_at: now,
            heartbeat_version: inherited.map_or(0, |seen| seen.version),
            last_heartbeat: None,
            failing_since: None,
            appends_fail_since: None,
            cannot_append: false,
            contact_lost_at: None,
            retry_at: Moment::ZERO,
            roster_at: now,
            truncate_to: None,
            truncated: 0,
            compact_at: now,
            formats: None,
            steps_down: false,
        }
    }

    pub fn token(&self) -> Token {
        self.token
    }

    pub fn is_catching_up(&self) -> bool {
        matches!(self.stage, Stage::CatchingUp)
    }

    /// The outcome of the commit in progress if the leadership ends now. Without an empty record, the commit was never sent.
    pub fn abandoned_outcome(&self) -> Option<Outcome> {
        let Stage::Committing(commit) = &self.stage else { return None };
        Some(if commit.empty.is_some() { Outcome::Unknown } else { Outcome::Deposed })
    }

    /// The region's time until the application knows that this server leads: it continues from the last heartbeat of the leader
    /// before.
    fn continued_time_ms(&self, now: Moment) -> Option<i64> {
        let seen = self.inherited.filter(|_| !self.is_announced)?;
        let elapsed = now.saturating_sub(seen.answered_at).as_millis();
        Some(seen.heartbeat.time_ms.saturating_add(i64::try_from(elapsed).unwrap_or(i64::MAX)))
    }

    /// The application learns that this server leads, and continues the region's time from now on.
    pub fn announce(&mut self) {
        self.is_announced = true;
    }

    /// Whether the first record of the term is written.
    pub fn is_leading(&self) -> bool {
        match self.stage {
            Stage::CatchingUp | Stage::Opening(_) => false,
            Stage::Ready | Stage::Committing(_) => true,
        }
    }
}

impl Machine {
    /// Starts a commit. Its end is a [`Delivery::Outcome`].
    pub fn commit(&mut self, now: Moment, payload: Vec<u8>) -> Result<(), NotReady> {
        let is_idle = self.in_flight.is_none() && self.applying.is_none() && self.deliveries.is_empty();
        if !is_idle || !matches!(&self.role, Role::Leading(leadership) if matches!(leadership.stage, Stage::Ready)) {
            return Err(NotReady);
        }
        let record = self.next_record(RecordKind::Data, self.position.term, payload);
        if let Role::Leading(leadership) = &mut self.role {
            leadership.stage = Stage::Committing(Box::new(Commit { record, started_at: now, empty: None }));
        }
        Ok(())
    }

    /// Whether this server may act on machines: it leads, and its last heartbeat is recent.
    pub fn may_act(&self, now: Moment) -> bool {
        let Role::Leading(leadership) = &self.role else { return false };
        let is_recent = |sent: Moment| now.saturating_sub(sent) < self.settings.act_max;
        leadership.is_leading() && self.deliveries.is_empty() && leadership.last_heartbeat.is_some_and(is_recent)
    }

    /// The time since the last successful heartbeat was sent; none before the first one.
    pub fn heartbeat_age(&self, now: Moment) -> Option<Duration> {
        let Role::Leading(leadership) = &self.role else { return None };
        leadership.last_heartbeat.map(|sent| now.saturating_sub(sent))
    }

    /// Reports whether this leader is in contact with most servers.
    pub fn set_contact(&mut self, now: Moment, has_contact: bool) {
        if let Role::Leading(leadership) = &mut self.role {
            leadership.contact_lost_at = if has_contact { None } else { leadership.contact_lost_at.or(Some(now)) };
        }
    }

    /// Resigns as soon as no commit is in progress.
    pub fn step_down(&mut self) {
        if let Role::Leading(leadership) = &mut self.role {
            leadership.steps_down = true;
        }
    }

    /// The newest payload format that all servers read; none until the leader has asked for it.
    pub fn format(&self) -> Option<u32> {
        self.formats().map(|(format, _)| format)
    }

    /// The newest format of contents of payloads that all servers read; none until the leader has asked for it.
    pub fn content_format(&self) -> Option<u32> {
        self.formats().map(|(_, content_format)| content_format)
    }

    fn formats(&self) -> Option<(u32, u32)> {
        match &self.role {
            Role::Leading(leadership) => leadership.formats,
            Role::Following | Role::Resigning(_) | Role::Stopped(_) => None,
        }
    }

    pub(super) fn is_heartbeat_due(&self, now: Moment) -> bool {
        matches!(&self.role, Role::Leading(leadership) if now >= leadership.heartbeat_at)
    }

    pub(super) fn poll_leading(&mut self, now: Moment, time_ms: i64) -> Step {
        if self.resign_if_useless(now) {
            return self.poll(now, time_ms);
        }
        let revision = self.position.revision;
        let heartbeat_every = self.settings.heartbeat_every;
        let Role::Leading(leadership) = &mut self.role else { return Step::Wait(now) };
        let token = leadership.token;
        if now >= leadership.heartbeat_at {
            leadership.heartbeat_at = now + heartbeat_every;
            let time_ms = leadership.continued_time_ms(now).unwrap_or(time_ms);
            let (after_version, heartbeat) = (leadership.heartbeat_version, Heartbeat { time_ms, revision });
            return self.send(now, Call::Heartbeat, Request::Heartbeat { token, after_version, heartbeat });
        }
        if now < leadership.retry_at {
            return Step::Wait(leadership.retry_at.min(leadership.heartbeat_at));
        }
        let record = match &leadership.stage {
            Stage::CatchingUp => {
                let request = Request::Follow { from: revision + 1, wait: Moment::ZERO };
                return self.send(now, Call::Follow, request);
            }
            Stage::Ready => return self.poll_ready(now),
            Stage::Opening(record) => record.clone(),
            Stage::Committing(commit) => commit.empty.as_ref().unwrap_or(&commit.record).clone(),
        };
        self.send(now, Call::Append, Request::Append { token, expected: self.position, record })
    }

    /// Work between commits.
    fn poll_ready(&mut self, now: Moment) -> Step {
        if let Some(step) = self.poll_report(now) {
            return step;
        }
        let (truncate_every, compact_every) = (self.settings.truncate_every, self.settings.compact_every);
        let Role::Leading(leadership) = &mut self.role else { return Step::Wait(now) };
        let token = leadership.token;
        let compaction = (now >= leadership.compact_at).then_some(leadership.truncated);
        if let Some(through) = leadership.truncate_to.take().or(compaction) {
            leadership.truncated = through;
            leadership.compact_at = now + compact_every;
            return self.send(now, Call::Truncate, Request::Truncate { token, through });
        }
        if now >= leadership.roster_at {
            leadership.roster_at = now + truncate_every;
            return self.send(now, Call::MemberList, Request::MemberList);
        }
        let report_at = if self.report_at > now { self.report_at } else { NEVER };
        let contact = leadership.contact_lost_at.map_or(NEVER, |at| at + self.settings.contact_max);
        Step::Wait(leadership.heartbeat_at.min(leadership.roster_at).min(report_at).min(contact))
    }

    /// Resigns if the leadership is of no use. Returns whether it did.
    fn resign_if_useless(&mut self, now: Moment) -> bool {
        let Role::Leading(leadership) = &mut self.role else { return false };
        let cannot_send_heartbeats =
            leadership.failing_since.is_some_and(|since| now >= since + self.settings.failing_max);
        let cannot_write = cannot_send_heartbeats || leadership.cannot_append;
        let no_contact = leadership.contact_lost_at.is_some_and(|since| now >= since + self.settings.contact_max);
        let loss = match &leadership.stage {
            Stage::Committing(commit) => {
                let is_late = now >= commit.started_at + self.settings.settle_max;
                if !(commit.empty.is_some() && is_late || cannot_write) {
                    return false;
                }
                LeadershipLoss::CannotWrite
            }
            Stage::CatchingUp | Stage::Opening(_) | Stage::Ready => match (cannot_write, no_contact) {
                (true, _) => LeadershipLoss::CannotWrite,
                (false, true) => LeadershipLoss::NoContact,
                (false, false) if leadership.steps_down => LeadershipLoss::SteppedDown,
                (false, false) => return false,
            },
        };
        if matches!(loss, LeadershipLoss::NoContact | LeadershipLoss::SteppedDown) {
            self.paused_until = now + self.settings.pause;
        }
        if let Some(token) = self.lose(loss) {
            self.role = Role::Resigning(token);
        }
        true
    }

    /// The local copy is at the head: raises the term with the first record of the leadership.
    pub(super) fn open_term(&mut self, now: Moment) {
        let term = self.position.term + 1;
        let record = self.next_record(RecordKind::Opening, term, Vec::new());
        if let Role::Leading(leadership) = &mut self.role {
            leadership.stage = Stage::Opening(record);
            leadership.retry_at = now;
        }
    }

    fn next_record(&mut self, kind: RecordKind, term: u64, payload: Vec<u8>) -> Record {
        let nonce = self.next_nonce();
        Record { kind, term, previous: self.position.hash, nonce, payload }
    }

    pub(super) fn on_append_result(&mut self, now: Moment, appended: AppendResult) {
        match appended {
            AppendResult::Done => self.take_done(now),
            AppendResult::Conflict(conflict) => self.take_conflict(now, &conflict),
        }
    }

    /// The record that was sent is in the log.
    fn take_done(&mut self, now: Moment) {
        let Role::Leading(leadership) = &mut self.role else { return };
        leadership.failing_since = None;
        leadership.appends_fail_since = None;
        let inherited = leadership.inherited;
        match std::mem::replace(&mut leadership.stage, Stage::Ready) {
            Stage::Opening(record) => {
                let term = record.term;
                self.push_apply(record);
                let last_heartbeat = inherited.map(|seen| (seen.heartbeat, now.saturating_sub(seen.answered_at)));
                self.deliveries.push_back(Delivery::Lead(LeadershipStart { term, last_heartbeat }));
            }
            Stage::Committing(commit) => match commit.empty {
                None => self.push_committed(commit.record),
                Some(empty) => self.push_failed(empty),
            },
            Stage::CatchingUp | Stage::Ready => {}
        }
    }

    fn push_apply(&mut self, record: Record) -> Entry {
        let entry = Entry::new(self.position.revision + 1, record);
        self.deliveries.push_back(Delivery::Apply(vec![entry.clone()]));
        entry
    }

    fn push_committed(&mut self, record: Record) {
        let entry = self.push_apply(record);
        self.deliveries.push_back(Delivery::Outcome(Outcome::Committed(entry.position())));
    }

    /// The empty record has taken the place of the commit.
    fn push_failed(&mut self, empty: Record) {
        self.push_apply(empty);
        self.deliveries.push_back(Delivery::Outcome(Outcome::Failed("the log did not answer in time".into())));
    }

    /// The log refused the record: something else is there, or another server leads.
    fn take_conflict(&mut self, now: Moment, conflict: &Conflict) {
        let Role::Leading(leadership) = &mut self.role else { return };
        let is_ours = conflict.view.token() == Some(leadership.token);
        match std::mem::replace(&mut leadership.stage, Stage::Ready) {
            Stage::Committing(commit) => self.settle(now, *commit, conflict, is_ours),
            Stage::Opening(_) | Stage::CatchingUp | Stage::Ready => {
                self.set_stage(Stage::CatchingUp, now);
                if !is_ours {
                    self.lose(LeadershipLoss::Deposed);
                }
            }
        }
    }

    /// Decides the outcome of a commit that the log refused.
    fn settle(&mut self, now: Moment, commit: Commit, conflict: &Conflict, is_ours: bool) {
        let holds = |nonce: Nonce| conflict.rival.as_ref().is_some_and(|rival| rival.record.nonce == nonce);
        let is_empty = commit.empty.as_ref().is_some_and(|empty| holds(empty.nonce));
        let is_committed = holds(commit.record.nonce);
        let is_settled = is_committed || is_empty;
        let head = conflict.view.head;
        if is_committed {
            self.push_committed(commit.record);
        } else if let Some(empty) = commit.empty.clone().filter(|_| is_empty) {
            self.push_failed(empty);
        } else if let Some(head) = head.filter(|head| head.revision < self.position.revision) {
            self.push_outcome(Outcome::Unknown);
            return self.stop(Divergence { local: self.position, log: head });
        } else if conflict.rival.is_some() || head == Some(self.position) && !is_ours {
            let failed = Outcome::Failed("another record took its place".into());
            self.push_outcome(if is_ours { failed } else { Outcome::Deposed });
        } else if head == Some(self.position) {
            // Nothing speaks against the record, so the answer was about an older state: try again.
            return self.set_stage(Stage::Committing(Box::new(commit)), now);
        } else {
            self.push_outcome(Outcome::Unknown);
        }
        if !is_ours {
            self.lose(LeadershipLoss::Deposed);
        } else if !is_settled {
            self.lose(LeadershipLoss::Confused);
        }
    }

    fn push_outcome(&mut self, outcome: Outcome) {
        self.deliveries.push_back(Delivery::Outcome(outcome));
    }

    fn set_stage(&mut self, stage: Stage, now: Moment) {
        if let Role::Leading(leadership) = &mut self.role {
            leadership.stage = stage;
            leadership.retry_at = now;
            leadership.failing_since = None;
        }
    }

    pub(super) fn take_append_error(&mut self, sent_at: Moment, now: Moment, error: &LogError) {
        let nonce = self.next_nonce();
        let previous = self.position.hash;
        let retry_after = self.settings.retry_after;
        let Role::Leading(leadership) = &mut self.role else { return };
        leadership.retry_at = now + retry_after;
        match (&mut leadership.stage, error) {
            (Stage::Opening(_), LogError::InDoubt(_)) => leadership.stage = Stage::CatchingUp,
            (Stage::Committing(commit), LogError::InDoubt(_)) if commit.empty.is_none() => {
                let term = commit.record.term;
                commit.empty = Some(Record { kind: RecordKind::Empty, term, previous, nonce, payload: Vec::new() });
                leadership.retry_at = now;
            }
            (Stage::Committing(commit), LogError::Unavailable(_) | LogError::Refused(_)) if commit.empty.is_none() => {
                leadership.stage = Stage::Ready;
                self.push_outcome(Outcome::Failed(error.to_string()));
            }
            (Stage::Committing(_) | Stage::Opening(_) | Stage::CatchingUp | Stage::Ready, _) => {}
        }
        self.note_append_failure(sent_at, now, error);
    }

    /// A record that is refused because of its content does not predict the outcome of the next one, but the first one of a term is always the
    /// same.
    fn note_append_failure(&mut self, sent_at: Moment, now: Moment, error: &LogError) {
        let failing_max = self.settings.failing_max;
        let Role::Leading(leadership) = &mut self.role else { return };
        if matches!(error, LogError::Refused(_)) && leadership.is_leading() {
            return;
        }
        let since = *leadership.appends_fail_since.get_or_insert(sent_at);
        leadership.cannot_append = now >= since + failing_max;
    }

    pub(super) fn on_heartbeat_result(&mut self, sent_at: Moment, result: HeartbeatResult) {
        let position = self.position;
        let Role::Leading(leadership) = &mut self.role else { return };
        let head = match result {
            HeartbeatResult::Done { version, head } => {
                leadership.heartbeat_version = version;
                head
            }
            HeartbeatResult::Overtaken { version } => {
                leadership.heartbeat_version = version;
                leadership.heartbeat_at = Moment::ZERO;
                return;
            }
            HeartbeatResult::Deposed => return self.take_deposed(),
        };
        leadership.failing_since = None;
        leadership.last_heartbeat = Some(sent_at);
        match head {
            Some(head) if head.revision < position.revision => self.stop(Divergence { local: position, log: head }),
            Some(head)
                if head != position && matches!(leadership.stage, Stage::Ready) && self.deliveries.is_empty() =>
            {
                self.lose(LeadershipLoss::Confused);
            }
            Some(_) | None => {}
        }
    }

    /// Another server leads. A commit in doubt is settled first: the log refuses its empty record, and shows why.
    fn take_deposed(&mut self) {
        let Role::Leading(leadership) = &mut self.role else { return };
        match &leadership.stage {
            Stage::Committing(_) => {}
            Stage::CatchingUp | Stage::Opening(_) | Stage::Ready => {
                self.lose(LeadershipLoss::Deposed);
            }
        }
    }

    pub(super) fn take_heartbeat_error(&mut self, sent_at: Moment, now: Moment) {
        if let Role::Leading(leadership) = &mut self.role {
            leadership.heartbeat_at = now + self.settings.retry_after;
        }
        self.note_failure(sent_at);
    }

    /// A request of the leader failed. Counted from the moment when it was sent.
    pub(super) fn note_failure(&mut self, sent_at: Moment) {
        if let Role::Leading(leadership) = &mut self.role {
            leadership.failing_since.get_or_insert(sent_at);
        }
    }

    /// Without the formats of the other servers, a leader that must seal secrets commits none, so it asks again soon.
    pub(super) fn take_roster_error(&mut self, now: Moment) {
        let retry_after = self.settings.retry_after;
        if let Role::Leading(leadership) = &mut self.role
            && leadership.formats.is_none()
        {
            leadership.roster_at = now + retry_after;
        }
    }

    /// Decides what can be deleted: what all servers have applied or, if the log is too large, what most of them have.
    pub(super) fn take_roster(&mut self, roster: &MemberList) {
        let revision = self.position.revision;
        let Role::Leading(leadership) = &mut self.role else { return };
        let least = |format: fn(&Member) -> u32| roster.members.iter().map(format).min();
        leadership.formats = least(|member| member.format).zip(least(|member| member.content_format));
        let mut applied: Vec<u64> = roster.members.iter().map(|member| member.applied.min(revision)).collect();
        applied.sort_unstable();
        let is_large = roster.log_bytes > self.settings.log_bytes_max;
        let slowest = if is_large { applied.len().saturating_sub(1) / 2 } else { 0 };
        let Some(through) = applied.get(slowest).copied() else { return };
        if through >= leadership.truncated + self.settings.truncate_records_min {
            leadership.truncate_to = Some(through);
        }
    }

    pub(super) fn on_truncate_result(&mut self, truncated: TruncateResult) {
        match truncated {
            TruncateResult::Done => {}
            TruncateResult::Deposed => self.take_deposed(),
        }
    }
}
