//! The rest of the program's view of the single writer: submit a command, look at the newest snapshot.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;

use forewarn_core::{Answer, Command, Rejection, Snapshot, Timestamp};
use forewarn_store::{Attachment, Audit, HistoryQuery, HistoryRow, Reader, StoreError};
use prometheus_client::registry::Registry;
use tokio::sync::{oneshot, watch};

use crate::clock::{self, Clock};
use crate::metrics::EngineMetrics;
use crate::publish::Board;

/// A command that was carried out, stored and published.
#[derive(Debug)]
pub struct Done {
    pub answer: Answer,
    /// A snapshot in which it can be seen.
    pub snapshot: Arc<Snapshot>,
}

/// Commands that are carried out together or not at all, and what rides along with them.
pub struct Bundle {
    pub commands: Vec<Command>,
    pub asked: Option<Asked>,
    /// What to attach, given the answers to the commands.
    pub attach: Attach,
}

/// Runs on the writer's thread: it is for naming owners that the commands have just made.
pub type Attach = Box<dyn FnOnce(&[Answer]) -> Vec<Attachment> + Send>;

/// A bundle that was carried out, stored and published.
#[derive(Debug)]
pub struct AllDone {
    /// One for each command.
    pub answers: Vec<Answer>,
    pub snapshot: Arc<Snapshot>,
}

#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The mailbox is full.
    #[error("The server has more to do than it can take. Try again in a second.")]
    Busy,
    /// The commit failed or its fate is not known.
    #[error("The change could not be stored. Look whether it happened before you try again.")]
    Unavailable,
    #[error("The server is stopping.")]
    Stopping,
}

/// Whom a command comes from, for the audit trail. The writer adds the time.
#[derive(Clone, Debug)]
pub struct Asked {
    pub actor: String,
    pub action: String,
    pub target: String,
    pub detail: String,
}

impl Asked {
    pub fn at(&self, at: Timestamp) -> Audit {
        let Asked { actor, action, target, detail } = self.clone();
        Audit { at, actor, action, target, detail }
    }
}

impl Bundle {
    /// Nothing rides along.
    pub fn plain(commands: Vec<Command>, asked: Option<Asked>) -> Bundle {
        Bundle { commands, asked, attach: Box::new(|_| Vec::new()) }
    }
}

/// How to move a manual clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    By(Duration),
    To(Timestamp),
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdvanceError {
    #[error(
        "The clock is the real one, which nobody can move. Start a server with --clock manual and a data directory of its own (or --memory) to move it."
    )]
    RealClock,
    #[error("The clock never goes back. Give a later time than the one it shows.")]
    Backwards { now: Timestamp },
    #[error("The clock moves {} days at a time at the most.", ADVANCE_MAX.as_secs() / 86_400)]
    TooFar,
    #[error("The change could not be stored. The clock stands where the last step that was stored put it.")]
    Unavailable,
    #[error("The server has more to do than it can take. Try again in a second.")]
    Busy,
    #[error("The server is stopping.")]
    Stopping,
}

/// A longer way would keep the writer busy with its steps while everybody waits.
pub const ADVANCE_MAX: Duration = Duration::from_secs(500 * 86_400);

/// Commands that wait for the writer. More are refused with Busy: a queue longer than this is some
/// seconds of commits, and its askers have given up by then.
pub const MAILBOX_MAX: usize = 4096;

/// What the writer finds in its mailbox.
pub enum Letter {
    Command(Box<Pending>),
    Advance {
        how: Advance,
        reply: oneshot::Sender<Result<Timestamp, AdvanceError>>,
    },
    /// Look up: something outside the mailbox has changed.
    Wake,
}

pub struct Pending {
    pub work: Bundle,
    pub reply: oneshot::Sender<Result<AllDone, SubmitError>>,
}

#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

pub struct Inner {
    pub mailbox: SyncSender<Letter>,
    pub board: Arc<Board>,
    pub clock: Arc<Clock>,
    pub reader: Arc<dyn Reader>,
    pub metrics: Arc<EngineMetrics>,
    pub health: Arc<Health>,
}

/// What the writer says about itself.
#[derive(Debug, Default)]
pub struct Health {
    pub stopping: AtomicBool,
    pub store_fails: AtomicBool,
    /// When the driver has something to report; 0: unknown.
    pub next_report_ms: AtomicI64,
}

impl Engine {
    pub fn new(inner: Inner) -> Engine {
        Engine { inner: Arc::new(inner) }
    }

    /// The newest region that is durable.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.inner.board.newest()
    }

    /// Carries out `command`; when this returns it is durable and visible. A refusal has changed nothing.
    pub async fn submit(&self, command: Command, asked: Option<Asked>) -> Result<Done, SubmitError> {
        let AllDone { answers, snapshot } = self.submit_all(Bundle::plain(vec![command], asked)).await?;
        let answer = answers.into_iter().next().unwrap_or(Answer::Done);
        Ok(Done { answer, snapshot })
    }

    /// Carries out all the commands of a bundle and attaches what goes with them, in one commit; or, when one
    /// of them is refused, nothing.
    pub async fn submit_all(&self, work: Bundle) -> Result<AllDone, SubmitError> {
        let (reply, answer) = oneshot::channel();
        self.send(Letter::Command(Box::new(Pending { work, reply })))?;
        answer.await.unwrap_or(Err(SubmitError::Stopping))
    }

    /// Writes into history what was done beside the rules: the note rides on a tick, which changes nothing.
    pub async fn note(&self, asked: Asked) -> Result<(), SubmitError> {
        self.submit(Command::Tick, Some(asked)).await.map(drop)
    }

    /// The number of the newest snapshot, as it changes.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.inner.board.revisions()
    }

    /// The time on the program's clock.
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// When the driver reports next, if it knows: the simulated driver does.
    pub fn next_report(&self) -> Option<Timestamp> {
        let next = self.inner.health.next_report_ms.load(Ordering::Relaxed);
        (next != 0).then_some(Timestamp(next))
    }

    pub fn clock_kind(&self) -> clock::Kind {
        self.inner.clock.kind()
    }

    /// Moves a manual clock, past every deadline on the way, each its own step. Returns the time then.
    pub async fn advance(&self, how: Advance) -> Result<Timestamp, AdvanceError> {
        if self.clock_kind() == clock::Kind::Real {
            return Err(AdvanceError::RealClock);
        }
        let (reply, answer) = oneshot::channel();
        self.send(Letter::Advance { how, reply }).map_err(|error| match error {
            SubmitError::Busy => AdvanceError::Busy,
            SubmitError::Stopping | SubmitError::Rejected(_) | SubmitError::Unavailable => AdvanceError::Stopping,
        })?;
        answer.await.unwrap_or(Err(AdvanceError::Stopping))
    }

    /// History, beside the writer. Blocking: call it where blocking is allowed.
    pub fn reader(&self) -> Arc<dyn Reader> {
        self.inner.reader.clone()
    }

    /// Rows of history.
    pub async fn history(&self, query: HistoryQuery) -> Result<Vec<HistoryRow>, StoreError> {
        self.read(move |reader| reader.history(&query)).await
    }

    /// What the store keeps beside the region, read where blocking is allowed.
    pub async fn read<T: Send + 'static>(
        &self,
        what: impl FnOnce(&dyn Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let reader = self.reader();
        let read = tokio::task::spawn_blocking(move || what(&*reader)).await;
        read.unwrap_or_else(|_| Err(StoreError::Message("the reader stopped".into())))
    }

    /// Whether changes can be taken: the writer runs and its last commit did not fail.
    pub fn is_healthy(&self) -> bool {
        let health = &self.inner.health;
        !health.stopping.load(Ordering::Relaxed) && !health.store_fails.load(Ordering::Relaxed)
    }

    /// Registers what the engine counts.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.inner.metrics.register(registry, self.inner.board.clone());
    }

    pub fn board(&self) -> &Arc<Board> {
        &self.inner.board
    }

    /// Asks the writer to stop. What waits in the mailbox is answered with Stopping.
    pub fn begin_stop(&self) {
        self.inner.health.stopping.store(true, Ordering::Relaxed);
        // A full mailbox wakes the writer as well.
        let _ = self.inner.mailbox.try_send(Letter::Wake);
    }

    fn send(&self, letter: Letter) -> Result<(), SubmitError> {
        if self.inner.health.stopping.load(Ordering::Relaxed) {
            return Err(SubmitError::Stopping);
        }
        self.inner.mailbox.try_send(letter).map_err(|error| match error {
            TrySendError::Full(_) => {
                self.inner.metrics.mailbox_full.inc();
                SubmitError::Busy
            }
            TrySendError::Disconnected(_) => SubmitError::Stopping,
        })
    }
}
