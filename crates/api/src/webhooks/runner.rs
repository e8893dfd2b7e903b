//! One task for each web hook: reads history after the position, delivers in order, remembers how far it came.
//!
//! ```text
//!   to be sent again ─▶ send once, before what is new
//!   read a page ─▶ for each row: none of ours ─▶ passed
//!        ▲                       ours ─▶ send ─▶ 2xx ─▶ delivered
//!        │                                └─▶ else: too old ─▶ given up · not yet ─▶ wait, longer each time ─▶ send
//!        └── a commit · the web hook was changed ◀── end of the page
//! ```
//!
//! How old something may become is measured on the program's clock; the waits in between run on real time, because
//! receivers do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use forewarn_store::{HistoryQuery, StoreError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::given_up::{self, GivenUp};
use super::hook::{Hook, Switch, Trouble};
use super::sender::SendError;
use super::telling::{self, Message};
use super::{Definition, Webhooks};

/// Rows that are read and made into messages together.
const PAGE_ROWS: u32 = 100;

/// How long progress may stay in memory while deliveries succeed: what is not remembered is sent again after a crash.
const SAVE_AFTER: Duration = Duration::from_secs(1);

/// Rows that concern others are passed without being remembered, up to so many: a restart reads them again.
const PASSED_UNSAVED_MAX: u32 = 1000;

/// The wait after the first failure, and the longest.
const BACKOFF_MIN: Duration = Duration::from_millis(500);
const BACKOFF_MAX: Duration = Duration::from_secs(300);

/// How soon to look again when history cannot be read.
const STORE_PAUSE: Duration = Duration::from_secs(5);

pub struct Runner {
    webhooks: Arc<Webhooks>,
    hook: Arc<Hook>,
    commits: watch::Receiver<u64>,
    /// Deliveries, and rows passed over, that the store does not know of.
    undone: u32,
    passed: u32,
    saved_at: Instant,
}

/// What became of one message.
enum Fate {
    Delivered,
    GivenUp,
    /// The web hook is another one now: everything is looked at again.
    Changed,
}

impl Runner {
    pub fn new(webhooks: Arc<Webhooks>, hook: Arc<Hook>) -> Runner {
        let commits = webhooks.engine().subscribe();
        Runner { webhooks, hook, commits, undone: 0, passed: 0, saved_at: Instant::now() }
    }

    /// Until the web hook is gone or the server stops, which is told how far this came.
    pub async fn run(mut self, stop: CancellationToken) {
        let gone = self.hook.gone.clone();
        if let Some(None) = stop.run_until_cancelled(gone.run_until_cancelled(self.deliver_all())).await {
            return;
        }
        if self.undone > 0 {
            self.save().await;
        }
    }

    async fn deliver_all(&mut self) {
        loop {
            self.commits.borrow_and_update();
            let definition = self.hook.definition();
            match definition.switch {
                Switch::Off => self.hook.changed.notified().await,
                Switch::On => match self.deliver_again(&definition).await {
                    Again::Nothing => self.deliver_page(&definition).await,
                    Again::Done => {}
                },
            }
        }
    }

    /// One message that was given up, once: who asked for it sees what became of it, and nothing new waits for long.
    async fn deliver_again(&mut self, definition: &Definition) -> Again {
        let next = match given_up::next_again(&self.webhooks, &self.hook).await {
            Ok(Some(next)) => next,
            Ok(None) => return Again::Nothing,
            Err(error) => {
                tracing::warn!(webhook = definition.name, %error, "what was given up cannot be read");
                tokio::time::sleep(STORE_PAUSE).await;
                return Again::Done;
            }
        };
        let (webhooks, hook) = (&self.webhooks, &self.hook);
        let stored = match next {
            (_, None) => given_up::not_again(webhooks, hook, None).await,
            (row, Some(kept)) => match self.send(definition, &kept.message).await {
                Ok(()) => given_up::delivered_again(webhooks, hook, row).await,
                Err(trouble) => given_up::not_again(webhooks, hook, Some(kept.again(trouble))).await,
            },
        };
        if let Err(error) = stored {
            tracing::warn!(webhook = definition.name, %error, "what became of a message could not be stored; it may be sent again");
            tokio::time::sleep(STORE_PAUSE).await;
        }
        Again::Done
    }

    async fn deliver_page(&mut self, definition: &Arc<Definition>) {
        let page = match self.read(definition.clone()).await {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(webhook = definition.name, %error, "history cannot be read for a web hook");
                return tokio::time::sleep(STORE_PAUSE).await;
            }
        };
        let full = page.len() == PAGE_ROWS as usize;
        for (row, message) in page {
            let Some(message) = message else {
                self.hook.passed(row);
                self.passed += 1;
                continue;
            };
            if !Arc::ptr_eq(definition, &self.hook.definition()) || self.hook.again() > 0 {
                return;
            }
            match self.deliver(definition, row, &message).await {
                Fate::Delivered => {
                    self.hook.delivered(row, self.webhooks.engine().now());
                    self.undone += 1;
                }
                Fate::GivenUp => self.saved(),
                Fate::Changed => return,
            }
            if self.undone > 0 && self.saved_at.elapsed() > SAVE_AFTER {
                self.save().await;
            }
        }
        if self.undone > 0 || self.passed >= PASSED_UNSAVED_MAX {
            self.save().await;
        }
        if !full {
            tokio::select! {
                _ = self.commits.changed() => {}
                () = self.hook.changed.notified() => {}
            }
        }
    }

    /// Rows of every kind, so that the position follows the newest row and nothing is looked at twice.
    async fn read(&self, definition: Arc<Definition>) -> Result<Vec<(u64, Option<Message>)>, StoreError> {
        let query = HistoryQuery {
            after: Some(self.hook.status().position.after),
            limit: Some(PAGE_ROWS),
            ..HistoryQuery::default()
        };
        let (reader, snapshot) = (self.webhooks.engine().reader(), self.webhooks.engine().snapshot());
        let read = tokio::task::spawn_blocking(move || {
            let rows = reader.history(&query)?.into_iter();
            rows.map(|row| Ok((row.number, telling::message(&*reader, &snapshot.region, &row, &definition.filter)?)))
                .collect()
        });
        read.await.unwrap_or_else(|_| Err(StoreError::Message("the reader stopped".into())))
    }

    async fn deliver(&mut self, definition: &Definition, row: u64, message: &Message) -> Fate {
        loop {
            if let Waited::Changed = self.wait_after_failures().await {
                return Fate::Changed;
            }
            let Err(trouble) = self.send(definition, message).await else { return Fate::Delivered };
            if self.webhooks.engine().now() >= message.at + definition.retry {
                let given_up = GivenUp { row, message: message.clone(), at: trouble.at, why: trouble.message };
                match given_up::give_up(&self.webhooks, &self.hook, given_up).await {
                    Ok(()) => {
                        self.webhooks.metrics().webhook_given_up.inc();
                        tracing::warn!(webhook = definition.name, delivery = message.id, "a delivery is given up");
                        return Fate::GivenUp;
                    }
                    Err(error) => {
                        tracing::warn!(webhook = definition.name, %error, "that a delivery is given up could not be stored")
                    }
                }
            }
            if self.undone > 0 {
                self.save().await;
            }
        }
    }

    /// Once; what went wrong is noted.
    async fn send(&self, definition: &Definition, message: &Message) -> Result<(), Trouble> {
        let metrics = self.webhooks.metrics();
        let sent = self.webhooks.sender().send(&definition.target, &definition.secret, message).await;
        match sent {
            Ok(_) => metrics.webhook_deliveries.inc(),
            Err(_) => metrics.webhook_failures.inc(),
        };
        sent.map(drop).map_err(|error| self.failed(definition, message, &error))
    }

    fn failed(&self, definition: &Definition, message: &Message, error: &SendError) -> Trouble {
        let trouble = Trouble { at: self.webhooks.engine().now(), message: error.to_string() };
        match self.hook.failed(trouble.clone()) {
            1 => tracing::warn!(webhook = definition.name, delivery = message.id, %error, "a delivery failed"),
            _ => tracing::debug!(webhook = definition.name, delivery = message.id, %error, "a delivery failed again"),
        }
        trouble
    }

    async fn wait_after_failures(&self) -> Waited {
        let failures = self.hook.status().failures;
        if failures == 0 {
            return Waited::Over;
        }
        tokio::select! {
            () = tokio::time::sleep(backoff(failures, random_share())) => Waited::Over,
            () = self.hook.changed.notified() => {
                self.hook.forget_failures();
                Waited::Changed
            }
        }
    }

    async fn save(&mut self) {
        match self.webhooks.save_position(&self.hook).await {
            Ok(()) => self.saved(),
            Err(error) => {
                let name = &self.hook.definition().name;
                tracing::warn!(webhook = name, %error, "how far a web hook came could not be stored; it may send some again");
            }
        }
        self.saved_at = Instant::now();
    }

    /// The store knows the position.
    fn saved(&mut self) {
        (self.undone, self.passed, self.saved_at) = (0, 0, Instant::now());
    }
}

/// Whether there was something to be sent again.
enum Again {
    Nothing,
    Done,
}

enum Waited {
    Over,
    Changed,
}

/// Twice as long after every failure, up to a limit; half of it is left to chance, so that not all web hooks of a
/// receiver that was away come back at once. `share` is from 0 to 1.
fn backoff(failures: u32, share: f64) -> Duration {
    let doublings = failures.saturating_sub(1).min(30);
    let longest = BACKOFF_MIN.saturating_mul(1 << doublings).min(BACKOFF_MAX);
    longest.mul_f64(0.5 + share / 2.0)
}

fn random_share() -> f64 {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).expect("the system gives random bytes");
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_limit_and_half_of_each_is_chance() {
        assert_eq!(backoff(1, 1.0), BACKOFF_MIN);
        assert_eq!(backoff(1, 0.0), BACKOFF_MIN / 2);
        assert_eq!(backoff(3, 1.0), BACKOFF_MIN * 4);
        assert_eq!(backoff(u32::MAX, 1.0), BACKOFF_MAX);
        assert_eq!(backoff(u32::MAX, 0.0), BACKOFF_MAX / 2);
        assert!((0.0..=1.0).contains(&random_share()));
    }
}
