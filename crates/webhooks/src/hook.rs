//! The state of one webhook: definition, position, delivery status and undelivered messages.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use forewarn_core::{Guid, Timestamp};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::message::Message;
use super::{Filter, ReceiverUrl, SigningSecret};

/// The configuration of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Distinguishes this webhook from later ones with the same name.
    pub id: Guid,
    pub name: String,
    pub url: ReceiverUrl,
    pub secret: SigningSecret,
    pub filter: Filter,
    pub delivery: DeliveryMode,
    /// Age after which a message is not sent again.
    pub retry: Duration,
    pub created: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryMode {
    Enabled,
    /// Nothing is sent. Changes meanwhile are sent when delivery is enabled again.
    Paused,
}

/// The progress of a webhook, which is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryPosition {
    /// The last processed row of history.
    pub after: u64,
    pub delivered: u64,
    /// Number of undelivered messages.
    pub undelivered: u64,
}

/// The undelivered messages, as rows of history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UndeliveredRows {
    pub kept: BTreeSet<u64>,
    /// Those that are queued for resending.
    pub resend: BTreeSet<u64>,
}

/// The delivery status of a webhook.
#[derive(Clone, Debug, Default)]
pub struct HookStatus {
    pub position: HistoryPosition,
    pub last_success: Option<Timestamp>,
    pub last_failure: Option<DeliveryFailure>,
    /// First failure since the last success.
    pub failing_since: Option<Timestamp>,
    /// Number of failures since the last success.
    pub failures: u32,
}

impl HookStatus {
    fn end_failures(&mut self) {
        self.failures = 0;
        self.failing_since = None;
    }
}

#[derive(Clone, Debug)]
pub struct DeliveryFailure {
    pub at: Timestamp,
    /// The reason, as a sentence.
    pub message: String,
}

pub struct Hook {
    definition: ArcSwap<Definition>,
    status: Mutex<HookStatus>,
    undelivered: Mutex<UndeliveredRows>,
    /// Notified when the definition changes or messages are to be resent.
    pub(crate) changed: Notify,
    pub(crate) gone: CancellationToken,
    running: AtomicBool,
}

impl Hook {
    pub fn new(definition: Definition, position: HistoryPosition, undelivered: UndeliveredRows) -> Hook {
        Hook {
            definition: ArcSwap::from_pointee(definition),
            status: Mutex::new(HookStatus { position, ..HookStatus::default() }),
            undelivered: Mutex::new(undelivered),
            changed: Notify::new(),
            gone: CancellationToken::new(),
            running: AtomicBool::new(false),
        }
    }

    pub fn definition(&self) -> Arc<Definition> {
        self.definition.load_full()
    }

    pub fn status(&self) -> HookStatus {
        self.lock().clone()
    }

    pub fn undelivered_rows(&self) -> UndeliveredRows {
        self.lock_undelivered().clone()
    }

    /// The number of messages that are queued for resending.
    pub fn resend_count(&self) -> usize {
        self.lock_undelivered().resend.len()
    }

    pub(super) fn set_undelivered_rows(&self, rows: UndeliveredRows) {
        *self.lock_undelivered() = rows;
    }

    pub(super) fn redefine(&self, definition: Definition) {
        self.definition.store(Arc::new(definition));
        self.changed.notify_one();
    }

    /// Returns true only the first time: each webhook has one runner.
    pub(super) fn claim_runner(&self) -> bool {
        !self.running.swap(true, Ordering::Relaxed)
    }

    pub(super) fn record_skipped(&self, row: u64) {
        self.lock().position.after = row;
    }

    pub(super) fn record_delivered(&self, row: u64, at: Timestamp) {
        let mut status = self.lock();
        status.position.after = row;
        status.position.delivered += 1;
        drop(status);
        self.record_success(at);
    }

    pub(super) fn record_success(&self, at: Timestamp) {
        let mut status = self.lock();
        status.last_success = Some(at);
        status.end_failures();
    }

    /// Sets a position that has been stored.
    pub(super) fn set_position(&self, position: HistoryPosition) {
        self.lock().position = position;
    }

    /// Records a failure and returns the number of consecutive failures.
    pub(super) fn record_failure(&self, failure: DeliveryFailure) -> u32 {
        let mut status = self.lock();
        status.failing_since.get_or_insert(failure.at);
        status.last_failure = Some(failure);
        status.failures = status.failures.saturating_add(1);
        status.failures
    }

    /// Resets the failure count, after a change of the definition.
    pub(super) fn reset_failures(&self) {
        self.lock().end_failures();
    }

    fn lock_undelivered(&self) -> MutexGuard<'_, UndeliveredRows> {
        self.undelivered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, HookStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A message that could not be delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undelivered {
    /// The row of history that it reports.
    pub row: u64,
    pub message: Message,
    pub at: Timestamp,
    /// Why it could not be delivered, as a sentence.
    pub reason: String,
}

impl Undelivered {
    /// The same message after another failed attempt.
    pub fn with_failure(self, failure: DeliveryFailure) -> Undelivered {
        Undelivered { at: failure.at, reason: failure.message, ..self }
    }
}
