//! The writer of a server in a cluster: follows the log while another server leads, and decides while it leads itself.
//!
//! ```text
//!   follow ──lead──▶ continue the region's time ─▶ Resume, Tick ─▶ reconcile the driver ─▶ serve the mailbox
//!     ▲                                                                                        │
//!     └───────────────────────── the leadership has ended ◀────────────────────────────────────┘
//! ```
//!
//! Heartbeats are sent by this thread only: if it hangs, another server takes over.

use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use forewarn_cluster::machine::{LeadershipLoss, LeadershipStart};
use forewarn_core::{Command, Timestamp};

use super::{CommitFailed, CommitTarget, FORGET_AGAIN, RECONCILE_EVERY, Writer};
use crate::cluster::{FollowOutcome, Node};
use crate::engine::{AdvanceError, Bundle, Message, SubmitError};

/// The pause before the first commit of a term is tried again.
const BEGIN_RETRY: Duration = Duration::from_millis(100);

impl Writer {
    pub(super) fn run_in_cluster(mut self) {
        self.set_following(true);
        self.take_part();
        self.refuse_all();
        self.sync_copy();
    }

    /// Follows and leads until the server stops, or its copy does not belong to the log.
    fn take_part(&mut self) {
        while !self.is_stopping() {
            self.refuse_all();
            let Some(node) = self.node() else { return };
            let turn = node.follow();
            self.newest = node.newest();
            match turn {
                FollowOutcome::Followed => {}
                FollowOutcome::Lead(lead) => self.lead(&lead),
                FollowOutcome::Diverged(divergence) => {
                    tracing::error!("{divergence}");
                    return;
                }
            }
        }
    }

    /// Stores what the copy has only in memory: operators read the files of a server that has stopped.
    fn sync_copy(&mut self) {
        if let Some(Err(error)) = self.node().map(|node| node.copy.store.sync()) {
            tracing::error!(%error, "cannot store the last records; they are read from the log again");
        }
    }

    fn node(&mut self) -> Option<&mut Node> {
        match &mut self.commits {
            CommitTarget::Log(node) => Some(node),
            CommitTarget::Store(_) => None,
        }
    }

    fn is_stopping(&self) -> bool {
        self.health.stopping.load(Ordering::Relaxed)
    }

    fn set_following(&self, follows: bool) {
        self.health.follows.store(follows, Ordering::Relaxed);
        // A failed commit of a leader says nothing about a follower.
        self.health.store_fails.store(false, Ordering::Relaxed);
    }

    /// Answers commands that arrived at a server that does not lead.
    fn refuse_all(&mut self) {
        while let Ok(message) = self.next_message(Duration::ZERO) {
            match message {
                Message::Command(pending) => drop(pending.reply.send(Err(SubmitError::NoLeader))),
                Message::Advance { reply, .. } => drop(reply.send(Err(AdvanceError::Unavailable))),
                Message::Wake | Message::StepDown | Message::Contact(_) => {}
            }
        }
    }

    /// Leads until the leadership ends.
    fn lead(&mut self, lead: &LeadershipStart) {
        tracing::info!(term = lead.term, "this server leads the cluster");
        if let Some(node) = self.node() {
            node.continue_time(lead);
        }
        let loss = match self.begin_until_done(lead) {
            Ok(()) => {
                self.set_following(false);
                let ended = self.serve_term();
                self.set_following(true);
                ended
            }
            Err(loss) => Err(loss),
        };
        match loss {
            Ok(()) => self.resign(),
            Err(loss) => tracing::warn!(term = lead.term, ?loss, "this server no longer leads the cluster"),
        }
    }

    /// Begins the term, and tries again while a commit fails although this server still leads.
    fn begin_until_done(&mut self, lead: &LeadershipStart) -> Result<(), LeadershipLoss> {
        while self.begin_term(lead).is_err() && !self.is_stopping() {
            self.run_due_tasks()?;
            std::thread::sleep(BEGIN_RETRY);
        }
        Ok(())
    }

    /// The first record of the term is in the log. Drivers are told about started events only after the next one, which
    /// accounts for the time without a leader.
    fn begin_term(&mut self, lead: &LeadershipStart) -> Result<(), CommitFailed> {
        self.follow_wall_clock();
        self.housekeeping.timer_after = None;
        self.housekeeping.forget_at = Instant::now() + FORGET_AGAIN;
        self.housekeeping.reconcile_at = Instant::now() + RECONCILE_EVERY;
        self.store_missing_rules()?;
        // The leader before was alive until its last heartbeat, so the time until then is not a downtime.
        let last_heartbeat = lead.last_heartbeat.map(|(heartbeat, _)| Timestamp(heartbeat.time_ms));
        if let Some(at) = last_heartbeat.filter(|at| *at > self.newest.region.now() && *at <= self.clock.now()) {
            self.step_internal(vec![Command::Tick], at)?;
        }
        self.step_internal(vec![Command::Resume, Command::Tick], self.clock.now())?;
        self.reconcile();
        Ok(())
    }

    /// The first leader of a region gives it the rules of its configuration. Later ones take over those of the region.
    fn store_missing_rules(&mut self) -> Result<(), CommitFailed> {
        let Some(rules) = self.node().and_then(|node| node.build_initial_rules()) else { return Ok(()) };
        let bundle = Bundle { commands: Vec::new(), audit: None, attach: Box::new(move |_| vec![rules]) };
        self.step(vec![bundle], self.clock.now()).map(drop)
    }

    /// Serves until the leadership or the server ends.
    fn serve_term(&mut self) -> Result<(), LeadershipLoss> {
        while !self.is_stopping() {
            let pause = self.run_due_tasks()?;
            if self.housekeeping.driver_is_behind {
                self.reconcile();
            }
            self.follow_wall_clock();
            self.pass_time();
            match self.next_message(self.sleep_time().min(pause)) {
                Ok(message) => self.serve(message),
                Err(RecvTimeoutError::Timeout) => self.do_housekeeping(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let _ = self.step_internal(vec![Command::Tick], self.clock.now());
        Ok(())
    }

    fn run_due_tasks(&mut self) -> Result<Duration, LeadershipLoss> {
        let Some(node) = self.node() else { return Err(LeadershipLoss::Confused) };
        let pause = node.run_due_tasks();
        self.newest = node.newest();
        pause
    }

    /// Tells the driver about effects that were withheld from it, if a new heartbeat shows that this server still leads. Returns
    /// whether the driver knows all effects.
    pub(super) fn sync_driver(&mut self) -> bool {
        if self.housekeeping.driver_is_behind && self.run_due_tasks().is_ok() {
            self.reconcile();
        }
        !self.housekeeping.driver_is_behind
    }

    pub(super) fn step_down(&mut self) {
        if let Some(node) = self.node() {
            node.step_down();
        }
    }

    pub(super) fn set_contact(&mut self, has_contact: bool) {
        if let Some(node) = self.node() {
            node.set_contact(has_contact);
        }
    }

    /// Resigns when the server stops, so that another server can take over at once.
    fn resign(&mut self) {
        self.step_down();
        let _ = self.run_due_tasks();
        if let Some(node) = self.node() {
            node.follow();
        }
    }
}
