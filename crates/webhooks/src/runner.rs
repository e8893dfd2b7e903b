//! The tasks of webhooks. Each reads history after its position, delivers messages in order, and saves the position.
//!
//! ```text
//!   resend queue ─▶ send each once, before new messages
//!   read a page ─▶ for each row: filtered out ─▶ skipped
//!        ▲                       matches ─▶ send ─▶ 2xx ─▶ delivered
//!        │                                   └─▶ else: too old ─▶ kept · otherwise ─▶ back off ─▶ send
//!        └── a commit · a change of the webhook ◀── end of the page
//! ```
//!
//! The age of a message is measured on the server's clock; backoff runs on real time, as receivers do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use forewarn_store::{HistoryQuery, StoreError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::event_message;
use super::hook::{DeliveryFailure, DeliveryMode, Hook};
use super::message::Message;
use super::sender::SendError;
use super::undelivered;
use super::{Definition, Undelivered, Webhooks};

/// Rows that are read at once.
const PAGE_ROWS: u32 = 100;

/// Maximum time between saves of the position while deliveries succeed. Unsaved deliveries are repeated after a crash.
const SAVE_AFTER: Duration = Duration::from_secs(1);

/// Skipped rows after which the position is saved. A restart reads unsaved ones again.
const SKIPPED_UNSAVED_MAX: u32 = 1000;

/// Backoff after the first failure, and its maximum.
const BACKOFF_MIN: Duration = Duration::from_millis(500);
const BACKOFF_MAX: Duration = Duration::from_secs(300);

/// Pause after an error of the store.
const STORE_PAUSE: Duration = Duration::from_secs(5);

pub struct Runner {
    webhooks: Arc<Webhooks>,
    hook: Arc<Hook>,
    commits: watch::Receiver<u64>,
    /// Deliveries and skipped rows since the position was saved.
    delivered_unsaved: u32,
    skipped_unsaved: u32,
    saved_at: Instant,
}

/// The result of delivering one message.
enum DeliveryResult {
    Delivered,
    Undelivered,
    /// The webhook was changed, so the page must be read again.
    Changed,
}

impl Runner {
    pub fn new(webhooks: Arc<Webhooks>, hook: Arc<Hook>) -> Runner {
        let commits = webhooks.engine().subscribe();
        Runner { webhooks, hook, commits, delivered_unsaved: 0, skipped_unsaved: 0, saved_at: Instant::now() }
    }

    /// Runs until the webhook is deleted or the server stops; in the latter case, saves the position.
    pub async fn run(mut self, stop: CancellationToken) {
        let gone = self.hook.gone.clone();
        if let Some(None) = stop.run_until_cancelled(gone.run_until_cancelled(self.deliver_all())).await {
            return;
        }
        if self.delivered_unsaved > 0 {
            self.save().await;
        }
    }

    async fn deliver_all(&mut self) {
        loop {
            self.commits.borrow_and_update();
            let definition = self.hook.definition();
            match definition.delivery {
                DeliveryMode::Paused => self.hook.changed.notified().await,
                DeliveryMode::Enabled => match self.resend_next(&definition).await {
                    ResendResult::NothingQueued => self.deliver_page(&definition).await,
                    ResendResult::Attempted => {}
                },
            }
        }
    }

    /// Resends one undelivered message once, so that new messages do not wait for long.
    async fn resend_next(&mut self, definition: &Definition) -> ResendResult {
        let next = match undelivered::next_resend(&self.webhooks, &self.hook).await {
            Ok(Some(next)) => next,
            Ok(None) => return ResendResult::NothingQueued,
            Err(error) => {
                tracing::warn!(webhook = definition.name, %error, "cannot read the undelivered messages of a webhook");
                tokio::time::sleep(STORE_PAUSE).await;
                return ResendResult::Attempted;
            }
        };
        let (webhooks, hook) = (&self.webhooks, &self.hook);
        let queued = hook.undelivered_rows().resend;
        let stored = match next {
            (row, None) => undelivered::skip_resend(webhooks, hook, row).await,
            (row, Some(kept)) => match self.send(definition, &kept.message).await {
                Ok(()) => undelivered::finish_resend(webhooks, hook, row).await,
                Err(failure) => undelivered::fail_resend(webhooks, hook, &queued, kept.with_failure(failure)).await,
            },
        };
        if let Err(error) = stored {
            tracing::warn!(webhook = definition.name, %error, "cannot store the result of a delivery; it may be repeated");
            tokio::time::sleep(STORE_PAUSE).await;
        }
        ResendResult::Attempted
    }

    async fn deliver_page(&mut self, definition: &Arc<Definition>) {
        let page = match self.read_page(definition.clone()).await {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(webhook = definition.name, %error, "cannot read history for a webhook");
                return tokio::time::sleep(STORE_PAUSE).await;
            }
        };
        let is_full = page.len() == PAGE_ROWS as usize;
        for (row, message) in page {
            let Some(message) = message else {
                self.hook.record_skipped(row);
                self.skipped_unsaved += 1;
                continue;
            };
            if !Arc::ptr_eq(definition, &self.hook.definition()) || self.hook.resend_count() > 0 {
                return;
            }
            match self.deliver(definition, row, &message).await {
                DeliveryResult::Delivered => {
                    self.hook.record_delivered(row, self.webhooks.engine().now());
                    self.delivered_unsaved += 1;
                }
                DeliveryResult::Undelivered => self.mark_saved(),
                DeliveryResult::Changed => return,
            }
            if self.delivered_unsaved > 0 && self.saved_at.elapsed() > SAVE_AFTER {
                self.save().await;
            }
        }
        if self.delivered_unsaved > 0 || self.skipped_unsaved >= SKIPPED_UNSAVED_MAX {
            self.save().await;
        }
        if !is_full {
            tokio::select! {
                _ = self.commits.changed() => {}
                () = self.hook.changed.notified() => {}
            }
        }
    }

    /// Reads rows of all kinds, so that the position follows the newest row.
    async fn read_page(&self, definition: Arc<Definition>) -> Result<Vec<(u64, Option<Message>)>, StoreError> {
        let query = HistoryQuery {
            after: Some(self.hook.status().position.after),
            limit: Some(PAGE_ROWS),
            ..HistoryQuery::default()
        };
        let (reader, snapshot) = (self.webhooks.engine().reader(), self.webhooks.engine().snapshot());
        let read = tokio::task::spawn_blocking(move || {
            let rows = reader.history(&query)?.into_iter();
            rows.map(|row| {
                Ok((row.number, event_message::build_message(&*reader, &snapshot.region, &row, &definition.filter)?))
            })
            .collect()
        });
        read.await.unwrap_or_else(|_| Err(StoreError::Message("the reader stopped".into())))
    }

    async fn deliver(&mut self, definition: &Definition, row: u64, message: &Message) -> DeliveryResult {
        loop {
            if let BackoffEnd::Changed = self.back_off().await {
                return DeliveryResult::Changed;
            }
            let Err(failure) = self.send(definition, message).await else { return DeliveryResult::Delivered };
            if self.webhooks.engine().now() >= message.at + definition.retry {
                let undelivered =
                    Undelivered { row, message: message.clone(), at: failure.at, reason: failure.message };
                match undelivered::give_up(&self.webhooks, &self.hook, undelivered).await {
                    Ok(()) => {
                        self.webhooks.metrics().undelivered.inc();
                        tracing::warn!(webhook = definition.name, delivery = message.id, "gave up a delivery");
                        return DeliveryResult::Undelivered;
                    }
                    Err(error) => {
                        tracing::warn!(webhook = definition.name, %error, "cannot store an undelivered message")
                    }
                }
            }
            if self.delivered_unsaved > 0 {
                self.save().await;
            }
        }
    }

    /// Sends a message once and records a failure.
    async fn send(&self, definition: &Definition, message: &Message) -> Result<(), DeliveryFailure> {
        let metrics = self.webhooks.metrics();
        let sent = self.webhooks.sender().send(&definition.url, &definition.secret, message).await;
        match sent {
            Ok(_) => metrics.deliveries.inc(),
            Err(_) => metrics.failures.inc(),
        };
        sent.map(drop).map_err(|error| self.record_failure(definition, message, &error))
    }

    fn record_failure(&self, definition: &Definition, message: &Message, error: &SendError) -> DeliveryFailure {
        let failure = DeliveryFailure { at: self.webhooks.engine().now(), message: error.to_string() };
        match self.hook.record_failure(failure.clone()) {
            1 => tracing::warn!(webhook = definition.name, delivery = message.id, %error, "delivery failed"),
            _ => tracing::debug!(webhook = definition.name, delivery = message.id, %error, "delivery failed again"),
        }
        failure
    }

    async fn back_off(&self) -> BackoffEnd {
        let failures = self.hook.status().failures;
        if failures == 0 {
            return BackoffEnd::Elapsed;
        }
        tokio::select! {
            () = tokio::time::sleep(backoff(failures, random_jitter())) => BackoffEnd::Elapsed,
            () = self.hook.changed.notified() => {
                self.hook.reset_failures();
                BackoffEnd::Changed
            }
        }
    }

    async fn save(&mut self) {
        match self.webhooks.save_position(&self.hook).await {
            Ok(()) => self.mark_saved(),
            Err(error) => {
                let name = &self.hook.definition().name;
                tracing::warn!(webhook = name, %error, "cannot store the position of a webhook; some deliveries may be repeated");
            }
        }
        self.saved_at = Instant::now();
    }

    /// Resets the counters after the position was saved.
    fn mark_saved(&mut self) {
        (self.delivered_unsaved, self.skipped_unsaved, self.saved_at) = (0, 0, Instant::now());
    }
}

/// Whether a message was queued for resending.
enum ResendResult {
    NothingQueued,
    Attempted,
}

/// Why a backoff ended.
enum BackoffEnd {
    Elapsed,
    Changed,
}

/// Doubles with every failure up to a maximum. Half of it is random, so that the webhooks of a receiver that was down do not
/// all retry at once. `jitter` is from 0 to 1.
fn backoff(failures: u32, jitter: f64) -> Duration {
    let doublings = failures.saturating_sub(1).min(30);
    let longest = BACKOFF_MIN.saturating_mul(1 << doublings).min(BACKOFF_MAX);
    longest.mul_f64(0.5 + jitter / 2.0)
}

fn random_jitter() -> f64 {
    f64::from(u32::from_le_bytes(forewarn_access::random_bytes())) / f64::from(u32::MAX)
}

impl Webhooks {
    /// Gives every webhook its runner until the server stops.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let runners = TaskTracker::new();
        loop {
            for hook in self.list() {
                if hook.claim_runner() {
                    runners.spawn(Runner::new(self.clone(), hook).run(stop.clone()));
                }
            }
            if stop.run_until_cancelled(self.wait_for_new_hook()).await.is_none() {
                break;
            }
        }
        runners.close();
        runners.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_a_maximum_and_half_of_it_is_random() {
        assert_eq!(backoff(1, 1.0), BACKOFF_MIN);
        assert_eq!(backoff(1, 0.0), BACKOFF_MIN / 2);
        assert_eq!(backoff(3, 1.0), BACKOFF_MIN * 4);
        assert_eq!(backoff(u32::MAX, 1.0), BACKOFF_MAX);
        assert_eq!(backoff(u32::MAX, 0.0), BACKOFF_MAX / 2);
        assert!((0.0..=1.0).contains(&random_jitter()));
    }
}
