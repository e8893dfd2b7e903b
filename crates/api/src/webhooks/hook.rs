//! One web hook: what it is for, how far it has come, how it fares.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use forewarn_core::{Guid, Timestamp};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{Filter, Secret, Target};

/// What an owner has said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Of this web hook and of no later one of its name.
    pub id: Guid,
    pub name: String,
    pub target: Target,
    pub secret: Secret,
    pub filter: Filter,
    pub switch: Switch,
    /// What has become older than this is given up when it cannot be delivered.
    pub retry: Duration,
    pub created: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    On,
    /// Nothing is sent; what happens meanwhile is sent when it is on again.
    Off,
}

/// What is remembered over a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The last row of history that is dealt with.
    pub after: u64,
    pub delivered: u64,
    /// And not delivered since.
    pub given_up: u64,
}

/// The messages that were given up and can still be sent again, as rows of history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    pub rows: BTreeSet<u64>,
    /// Those that somebody wants to have sent again.
    pub again: BTreeSet<u64>,
}

/// How it fares, for people.
#[derive(Clone, Debug, Default)]
pub struct Status {
    pub position: Position,
    pub last_success: Option<Timestamp>,
    pub last_failure: Option<Trouble>,
    /// Since the last success.
    pub failures: u32,
}

#[derive(Clone, Debug)]
pub struct Trouble {
    pub at: Timestamp,
    /// A sentence.
    pub message: String,
}

pub struct Hook {
    definition: ArcSwap<Definition>,
    status: Mutex<Status>,
    kept: Mutex<Kept>,
    /// The definition is another one, or something is to be sent again.
    pub changed: Notify,
    pub gone: CancellationToken,
    running: AtomicBool,
}

impl Hook {
    pub fn new(definition: Definition, position: Position, kept: Kept) -> Hook {
        Hook {
            definition: ArcSwap::from_pointee(definition),
            status: Mutex::new(Status { position, ..Status::default() }),
            kept: Mutex::new(kept),
            changed: Notify::new(),
            gone: CancellationToken::new(),
            running: AtomicBool::new(false),
        }
    }

    pub fn definition(&self) -> Arc<Definition> {
        self.definition.load_full()
    }

    pub fn status(&self) -> Status {
        self.lock().clone()
    }

    pub fn kept(&self) -> Kept {
        self.lock_kept().clone()
    }

    /// How many messages are to be sent again.
    pub fn again(&self) -> usize {
        self.lock_kept().again.len()
    }

    pub(super) fn keep(&self, kept: Kept) {
        *self.lock_kept() = kept;
    }

    pub(super) fn redefine(&self, definition: Definition) {
        self.definition.store(Arc::new(definition));
        self.changed.notify_one();
    }

    /// Whether it is the first who asks: each web hook has one runner.
    pub(super) fn take_up(&self) -> bool {
        !self.running.swap(true, Ordering::Relaxed)
    }

    pub(super) fn passed(&self, row: u64) {
        self.lock().position.after = row;
    }

    pub(super) fn delivered(&self, row: u64, at: Timestamp) {
        let mut status = self.lock();
        status.position.after = row;
        status.position.delivered += 1;
        drop(status);
        self.succeeded(at);
    }

    pub(super) fn succeeded(&self, at: Timestamp) {
        let mut status = self.lock();
        status.last_success = Some(at);
        status.failures = 0;
    }

    /// The position is this one, and stored.
    pub(super) fn moved(&self, position: Position) {
        self.lock().position = position;
    }

    /// How many failures there have been in a row.
    pub(super) fn failed(&self, trouble: Trouble) -> u32 {
        let mut status = self.lock();
        status.last_failure = Some(trouble);
        status.failures = status.failures.saturating_add(1);
        status.failures
    }

    /// Another address or another switch is a new beginning.
    pub(super) fn forget_failures(&self) {
        self.lock().failures = 0;
    }

    fn lock_kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
