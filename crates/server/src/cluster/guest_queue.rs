//! Sends the commands of guests to the leader in batches: a separate request for each command would cost more than everything else about it.
//!
//! ```text
//!   guests ─▶ waiting ──one request at a time──▶ leader ─▶ one answer per command
//! ```
//!
//! While a request is in progress, others wait for its end, unless it takes unusually long.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forewarn_metadata::SourceError;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use super::Cluster;
use super::guests::GuestCommand;

/// Commands of one request, as many as the leader takes into one commit.
const BATCH_MAX: usize = 512;

/// The longest wait for more commands. It is shorter if requests are answered sooner.
const GATHER_MAX: Duration = Duration::from_millis(20);

/// A request that takes longer no longer delays the next one: the leader may be gone.
const SLOW_MIN: Duration = Duration::from_millis(500);

/// A command and the place for its answer: the revision that the local copy must reach.
pub struct WaitingGuest {
    pub command: GuestCommand,
    pub reply: oneshot::Sender<Result<u64, SourceError>>,
}

#[derive(Default)]
pub struct GuestQueue {
    state: Mutex<QueueState>,
    arrived: Notify,
}

#[derive(Default)]
struct QueueState {
    waiting: Vec<WaitingGuest>,
    is_sending: bool,
    /// The number of commands to expect: guests that were answered send the next one soon. Until this moment, the next request
    /// waits for them.
    expected: usize,
    expected_until: Option<Instant>,
}

impl GuestQueue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a command. Returns whether the caller must see to it that the queue is sent.
    fn push(&self, guest: WaitingGuest) -> bool {
        let mut state = self.lock();
        state.waiting.push(guest);
        if state.waiting.len() >= state.expected {
            self.arrived.notify_one();
        }
        !std::mem::replace(&mut state.is_sending, true)
    }

    /// The next batch. None: the queue is empty, and its sender ends.
    async fn take(&self) -> Option<Vec<WaitingGuest>> {
        while let Some(until) = self.wait_until() {
            let _ = timeout_at(until, self.arrived.notified()).await;
        }
        let mut state = self.lock();
        let size = state.waiting.len().min(BATCH_MAX);
        state.is_sending = size > 0;
        state.is_sending.then(|| state.waiting.drain(..size).collect())
    }

    /// Until when the waiting commands wait for others. None: they do not.
    fn wait_until(&self) -> Option<Instant> {
        let state = self.lock();
        let is_incomplete = !state.waiting.is_empty() && state.waiting.len() < state.expected;
        state.expected_until.filter(|until| is_incomplete && Instant::now() < *until)
    }

    /// A request with this number of commands took this long.
    fn record(&self, size: usize, took: Duration) {
        let mut state = self.lock();
        state.expected = size + state.waiting.len();
        state.expected_until = Some(Instant::now() + (took / 2).min(GATHER_MAX));
    }
}

impl Cluster {
    /// Has the leader carry out the command of a guest, and waits until the local copy shows it.
    pub async fn forward_guest(self: &Arc<Self>, command: GuestCommand) -> Result<(), SourceError> {
        let (reply, answer) = oneshot::channel();
        if self.guests.push(WaitingGuest { command, reply }) {
            tokio::spawn(self.clone().send_guests());
        }
        let revision = answer.await.unwrap_or(Err(SourceError::OutcomeUnknown))?;
        self.wait_for_copy(revision).await;
        Ok(())
    }

    async fn send_guests(self: Arc<Self>) {
        while let Some(batch) = self.guests.take().await {
            let (size, begun, cluster) = (batch.len(), Instant::now(), self.clone());
            let _ = timeout(SLOW_MIN, tokio::spawn(async move { cluster.send_batch(batch).await })).await;
            self.guests.record(size, begun.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use forewarn_core::MachineId;

    use super::super::GuestAction;
    use super::*;

    fn push(queue: &GuestQueue) -> bool {
        let command = GuestCommand { machine: MachineId(1), act: GuestAction::Seen };
        queue.push(WaitingGuest { command, reply: oneshot::channel().0 })
    }

    async fn take(queue: &GuestQueue) -> usize {
        queue.take().await.map_or(0, |batch| batch.len())
    }

    #[tokio::test(start_paused = true)]
    async fn commands_that_arrive_during_a_request_are_sent_together() {
        let queue = GuestQueue::default();
        assert!(push(&queue), "the first one starts the sender");
        assert_eq!(take(&queue).await, 1, "at once");
        assert!(!push(&queue) && !push(&queue));
        queue.record(1, Duration::from_millis(8));
        let begun = Instant::now();
        assert_eq!((take(&queue).await, begun.elapsed()), (2, Duration::from_millis(4)), "the first one might return");
        queue.record(2, Duration::from_millis(8));
        assert_eq!(take(&queue).await, 0);
        assert!(push(&queue), "the sender has ended");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_for_the_guests_that_were_just_answered() {
        let queue = GuestQueue::default();
        push(&queue);
        push(&queue);
        assert_eq!(take(&queue).await, 2);
        queue.record(2, Duration::from_secs(1));
        push(&queue);
        let begun = Instant::now();
        let late = async {
            tokio::time::sleep(Duration::from_millis(3)).await;
            push(&queue);
        };
        assert_eq!(tokio::join!(take(&queue), late).0, 2);
        assert_eq!(begun.elapsed(), Duration::from_millis(3), "all are here");
        queue.record(2, Duration::from_secs(1));
        push(&queue);
        let begun = Instant::now();
        assert_eq!((take(&queue).await, begun.elapsed()), (1, GATHER_MAX));
    }
}
