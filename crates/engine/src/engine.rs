//! The handle to the single writer: submits commands and reads the newest snapshot.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;

use forewarn_core::{Answer, Command, MachineId, Rejection, Snapshot, Timestamp};
use forewarn_store::{Attachment, Audit, ClockKind, HistoryQuery, HistoryRow, Reader, StoreError};
use prometheus_client::registry::Registry;
use tokio::sync::{oneshot, watch};

use crate::clock::{self, Clock};
use crate::cluster::ClusterMonitor;
use crate::metrics::EngineMetrics;
use crate::publish::Publisher;

/// A command that was carried out, stored and published.
#[derive(Debug)]
pub struct SubmitResult {
    pub answer: Answer,
    /// A snapshot that shows the result.
    pub snapshot: Arc<Snapshot>,
}

/// Commands that are carried out together or not at all, with the attachments to store in the same commit.
pub struct Bundle {
    pub commands: Vec<Command>,
    pub audit: Option<AuditEntry>,
    /// Builds the attachments from the answers to the commands.
    pub attach: AttachmentBuilder,
}

/// Runs on the writer's thread. Attachments of entities that the commands create need the answers for their IDs.
pub type AttachmentBuilder = Box<dyn FnOnce(&[Answer]) -> Vec<Attachment> + Send>;

/// A bundle that was carried out, stored and published.
#[derive(Debug)]
pub struct CommittedBundle {
    /// One per command.
    pub answers: Vec<Answer>,
    pub snapshot: Arc<Snapshot>,
}

#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The mailbox is full.
    #[error("The server is overloaded. Try again in a second.")]
    Busy,
    /// The commit failed, or its outcome is unknown.
    #[error("The change could not be stored. Check whether it took effect before retrying.")]
    Unavailable,
    #[error("The server is stopping.")]
    Stopping,
    /// This server does not lead its cluster. Nothing has happened.
    #[error("This server does not lead its cluster. Try again in a second, or use the leader.")]
    NoLeader,
    /// A server of the cluster could not read the change. Nothing has happened.
    #[error(
        "A server of the cluster runs an older version, which cannot store this change. Upgrade all servers first; 'forewarn \
         cluster status' lists them."
    )]
    ServersOutdated,
}

/// The entry of a command in the audit trail. The writer adds the time.
#[derive(Clone, Debug)]
pub struct AuditEntry {
    pub actor: String,
    pub action: String,
    pub target: String,
    pub detail: String,
}

impl AuditEntry {
    pub fn at(&self, at: Timestamp, machines: Vec<MachineId>) -> Audit {
        let AuditEntry { actor, action, target, detail } = self.clone();
        Audit { at, actor, action, target, machines, detail }
    }
}

impl Bundle {
    /// Commands without attachments.
    pub fn plain(commands: Vec<Command>, audit: Option<AuditEntry>) -> Bundle {
        Bundle { commands, audit, attach: Box::new(|_| Vec::new()) }
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
        "The server uses the real clock, which cannot be moved. Start a server with --clock manual and its own data directory, or with --memory."
    )]
    RealClock,
    #[error("The clock cannot be set back. Give a time later than the current one.")]
    Backwards { now: Timestamp },
    #[error("The clock can be advanced by at most {} days at a time.", ADVANCE_MAX.as_secs() / 86_400)]
    TooFar,
    #[error("The change could not be stored. The clock stopped at the last stored step.")]
    Unavailable,
    #[error("The server is overloaded. Try again in a second.")]
    Busy,
    #[error("The server is stopping.")]
    Stopping,
}

/// A longer advance would block the writer for too long.
pub const ADVANCE_MAX: Duration = Duration::from_secs(500 * 86_400);

/// Queued commands. More are refused with Busy: a longer queue is seconds of commits, and its clients have given up by then.
pub const MAILBOX_MAX: usize = 4096;

/// An entry of the writer's mailbox.
pub enum Message {
    Command(Box<QueuedCommand>),
    Advance {
        how: Advance,
        reply: oneshot::Sender<Result<Timestamp, AdvanceError>>,
    },
    /// Something outside the mailbox has changed.
    Wake,
    /// Give up the leadership of the cluster.
    StepDown,
    /// Whether a leader reaches most of the servers that are alive.
    Contact(bool),
}

type CommandReply = oneshot::Receiver<Result<CommittedBundle, SubmitError>>;

pub struct QueuedCommand {
    pub work: Bundle,
    pub reply: oneshot::Sender<Result<CommittedBundle, SubmitError>>,
}

#[derive(Clone)]
pub struct Engine {
    inner: Arc<EngineState>,
}

pub struct EngineState {
    pub mailbox: SyncSender<Message>,
    pub publisher: Arc<Publisher>,
    pub clock: Arc<Clock>,
    pub reader: Arc<dyn Reader>,
    pub metrics: Arc<EngineMetrics>,
    pub health: Arc<Health>,
    /// None: a single server.
    pub cluster: Option<Arc<ClusterMonitor>>,
}

/// The state of the writer, as it reports it.
#[derive(Debug, Default)]
pub struct Health {
    pub stopping: AtomicBool,
    pub store_fails: AtomicBool,
    /// Commands are refused because another server of the cluster leads, or none.
    pub follows: AtomicBool,
    /// When the next report of the driver is due; 0: unknown.
    pub next_report_ms: AtomicI64,
}

async fn receive(reply: CommandReply) -> Result<CommittedBundle, SubmitError> {
    reply.await.unwrap_or(Err(SubmitError::Stopping))
}

impl Engine {
    pub fn new(inner: EngineState) -> Engine {
        Engine { inner: Arc::new(inner) }
    }

    /// The newest durable state.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.inner.publisher.newest()
    }

    /// Carries out a command. Once this returns, the result is durable and visible. A refused command changes nothing.
    pub async fn submit(&self, command: Command, audit: Option<AuditEntry>) -> Result<SubmitResult, SubmitError> {
        let CommittedBundle { answers, snapshot } = self.submit_all(Bundle::plain(vec![command], audit)).await?;
        let answer = answers.into_iter().next().unwrap_or(Answer::Done);
        Ok(SubmitResult { answer, snapshot })
    }

    /// Queues a command, so that several can be queued before the first is carried out. The result has the revision of the commit.
    pub fn queue(&self, command: Command) -> impl Future<Output = Result<u64, SubmitError>> + Send + use<> {
        let queued = self.enqueue(Bundle::plain(vec![command], None));
        async move { Ok(receive(queued?).await?.snapshot.revision) }
    }

    /// Carries out all commands of a bundle and stores its attachments in one commit; if one command is refused, nothing
    /// changes.
    pub async fn submit_all(&self, work: Bundle) -> Result<CommittedBundle, SubmitError> {
        receive(self.enqueue(work)?).await
    }

    fn enqueue(&self, work: Bundle) -> Result<CommandReply, SubmitError> {
        let (reply, answer) = oneshot::channel();
        self.send(Message::Command(Box::new(QueuedCommand { work, reply })))?;
        Ok(answer)
    }

    /// Records an action outside the rules in history, with a tick that changes nothing else.
    pub async fn note(&self, entry: AuditEntry) -> Result<(), SubmitError> {
        self.submit(Command::Tick, Some(entry)).await.map(drop)
    }

    /// The revision of the newest snapshot, as it changes.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.inner.publisher.revisions()
    }

    /// Changes when the servers of a cluster have stored or removed attachments of the region itself.
    pub fn region_attachments(&self) -> watch::Receiver<u64> {
        self.inner.publisher.region_attachments()
    }

    /// The time on the program's clock.
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// When the driver reports next, if known: the simulated driver knows.
    pub fn next_report(&self) -> Option<Timestamp> {
        let next = self.inner.health.next_report_ms.load(Ordering::Relaxed);
        (next != 0).then_some(Timestamp(next))
    }

    pub fn clock_kind(&self) -> ClockKind {
        self.inner.clock.kind()
    }

    /// Advances a manual clock past every deadline on the way, each as its own step. Returns the new time.
    pub async fn advance(&self, how: Advance) -> Result<Timestamp, AdvanceError> {
        if self.clock_kind() == ClockKind::Real {
            return Err(AdvanceError::RealClock);
        }
        let (reply, answer) = oneshot::channel();
        self.send(Message::Advance { how, reply }).map_err(|error| match error {
            SubmitError::Busy => AdvanceError::Busy,
            SubmitError::NoLeader => AdvanceError::Unavailable,
            SubmitError::Stopping
            | SubmitError::Rejected(_)
            | SubmitError::Unavailable
            | SubmitError::ServersOutdated => AdvanceError::Stopping,
        })?;
        answer.await.unwrap_or(Err(AdvanceError::Stopping))
    }

    /// Reads the store beside the writer. Its methods block.
    pub fn reader(&self) -> Arc<dyn Reader> {
        self.inner.reader.clone()
    }

    /// Reads rows of history.
    pub async fn history(&self, query: HistoryQuery) -> Result<Vec<HistoryRow>, StoreError> {
        match self.inner.reader.recent_history(&query) {
            Some(rows) => Ok(rows),
            None => self.read(move |reader| reader.history(&query)).await,
        }
    }

    /// Reads from the store on a thread that may block.
    pub async fn read<T: Send + 'static>(
        &self,
        what: impl FnOnce(&dyn Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let reader = self.reader();
        let read = tokio::task::spawn_blocking(move || what(&*reader)).await;
        read.unwrap_or_else(|_| Err(StoreError::Message("the reader stopped".into())))
    }

    /// Whether changes are accepted: the writer runs and its last commit did not fail.
    pub fn is_healthy(&self) -> bool {
        let health = &self.inner.health;
        !health.stopping.load(Ordering::Relaxed) && !health.store_fails.load(Ordering::Relaxed)
    }

    /// Whether commands can be carried out here: not while another server of the cluster leads.
    pub fn accepts_commands(&self) -> bool {
        let health = &self.inner.health;
        !health.stopping.load(Ordering::Relaxed) && !health.follows.load(Ordering::Relaxed)
    }

    /// Problems of a server that still accepts changes, for its health report.
    pub fn problems(&self) -> Vec<String> {
        let clock = clock::describe_difference(self.inner.clock.ahead_ms());
        let rules = self.inner.cluster.iter().flat_map(|cluster| cluster.status().rule_differences.clone());
        clock
            .into_iter()
            .chain(rules.map(|difference| format!("the rule {difference}; that of the region applies")))
            .collect()
    }

    /// Registers the metrics of the engine.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.inner.metrics.register(registry, self.inner.publisher.clone(), self.inner.clock.clone());
    }

    pub fn publisher(&self) -> &Arc<Publisher> {
        &self.inner.publisher
    }

    /// The state of this server in its cluster. None: a single server.
    pub fn cluster(&self) -> Option<&Arc<ClusterMonitor>> {
        self.inner.cluster.as_ref()
    }

    /// Asks a leader to give up the leadership of its cluster.
    pub fn step_down(&self) -> Result<(), SubmitError> {
        self.send(Message::StepDown)
    }

    /// Tells a leader whether it reaches most of the servers that are alive. Without them, it resigns after a while.
    pub fn set_contact(&self, has_contact: bool) -> Result<(), SubmitError> {
        self.send(Message::Contact(has_contact))
    }

    /// Asks the writer to stop. Queued commands are answered with Stopping.
    pub fn begin_stop(&self) {
        self.inner.health.stopping.store(true, Ordering::Relaxed);
        // A full mailbox wakes the writer as well.
        let _ = self.inner.mailbox.try_send(Message::Wake);
    }

    fn send(&self, message: Message) -> Result<(), SubmitError> {
        if self.inner.health.stopping.load(Ordering::Relaxed) {
            return Err(SubmitError::Stopping);
        }
        if self.inner.health.follows.load(Ordering::Relaxed) {
            return Err(SubmitError::NoLeader);
        }
        self.inner.mailbox.try_send(message).map_err(|error| match error {
            TrySendError::Full(_) => {
                self.inner.metrics.mailbox_full.inc();
                SubmitError::Busy
            }
            TrySendError::Disconnected(_) => SubmitError::Stopping,
        })
    }
}
