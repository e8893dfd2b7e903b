//! A client for QMP, the machine protocol of QEMU: one JSON object per line over a Unix socket.
//!
//! ```text
//!  connect ─▶ greeting ─▶ qmp_capabilities ─▶ execute … (replies are matched by ID)
//!                                             events  … (only a hint that something changed: they are not replayed)
//! ```
//!
//! QEMU serves one client per socket. A second one is connected by the kernel, but gets no greeting until the first one
//! is gone. A connection ends with its last handle, or with [`Qmp::close`].

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Time limit for the greeting. QEMU sends it at once, unless it serves another client or hangs.
const GREETING_MAX: Duration = Duration::from_secs(5);

/// Time limit for a reply. `stop` waits for the disks of the guest, which can take seconds.
const REPLY_MAX: Duration = Duration::from_secs(10);

/// The longest line. Replies to the commands of the driver have less than a kilobyte.
const LINE_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug)]
pub enum QmpError {
    /// There is no socket, or nothing listens on it.
    Absent(io::Error),
    /// The socket exists, but cannot be opened.
    Connect(io::Error),
    /// The connection was accepted, but QEMU did not greet.
    Silent,
    /// No reply in time.
    Timeout(&'static str),
    Disconnected(String),
    Malformed(String),
    /// QEMU refused the command.
    Refused {
        command: &'static str,
        reason: String,
    },
}

impl fmt::Display for QmpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QmpError::Absent(error) => write!(f, "QEMU is not listening: {error}"),
            QmpError::Connect(error) => write!(f, "cannot connect: {error}"),
            QmpError::Silent => f.write_str(
                "no greeting: QEMU hangs, or another program is connected; give Forewarn a QMP socket of its own",
            ),
            QmpError::Timeout(command) => write!(f, "no reply to '{command}' within {} s", REPLY_MAX.as_secs()),
            QmpError::Disconnected(reason) => write!(f, "disconnected: {reason}"),
            QmpError::Malformed(reason) => write!(f, "not QMP: {reason}"),
            QmpError::Refused { command, reason } => write!(f, "QEMU refused '{command}': {reason}"),
        }
    }
}

/// A handle of a connection.
#[derive(Clone)]
pub struct Qmp {
    shared: Arc<Shared>,
    end: CancellationToken,
    _last: Arc<DropGuard>,
}

struct Shared {
    writer: tokio::sync::Mutex<OwnedWriteHalf>,
    next_id: AtomicU64,
    replies: Mutex<Replies>,
}

type Reply = Result<Value, String>;

#[derive(Default)]
struct Replies {
    waiting: HashMap<u64, oneshot::Sender<Reply>>,
    /// Why the connection has ended.
    ended: Option<String>,
}

impl Qmp {
    /// Connects and negotiates. `changed` is notified of every event, and of the end of the connection.
    pub async fn connect(socket: &Path, changed: Arc<Notify>) -> Result<Qmp, QmpError> {
        let stream = UnixStream::connect(socket).await.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => QmpError::Absent(error),
            // The queue of connections is full: a process listens, but does not accept.
            io::ErrorKind::WouldBlock => QmpError::Silent,
            _ => QmpError::Connect(error),
        })?;
        let (reader, writer) = stream.into_split();
        let mut lines = Lines(BufReader::new(reader));
        let greeting = timeout(GREETING_MAX, lines.next()).await.map_err(|_| QmpError::Silent)?;
        if greeting.map_err(QmpError::Disconnected)?.get("QMP").is_none() {
            return Err(QmpError::Malformed("the first line is not a QMP greeting".into()));
        }
        let end = CancellationToken::new();
        let shared = Arc::new(Shared {
            writer: tokio::sync::Mutex::new(writer),
            next_id: AtomicU64::new(1),
            replies: Mutex::default(),
        });
        tokio::spawn(shared.clone().run(lines, end.clone(), changed));
        let qmp = Qmp { shared, end: end.clone(), _last: Arc::new(end.drop_guard()) };
        qmp.execute("qmp_capabilities").await?;
        Ok(qmp)
    }

    /// Executes a command without arguments.
    pub async fn execute(&self, command: &'static str) -> Result<Value, QmpError> {
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        {
            let mut replies = self.shared.lock();
            if let Some(reason) = &replies.ended {
                return Err(QmpError::Disconnected(reason.clone()));
            }
            replies.waiting.insert(id, sender);
        }
        let exchange = async {
            let line = format!("{}\n", json!({ "execute": command, "id": id }));
            let written = self.shared.writer.lock().await.write_all(line.as_bytes()).await;
            written.map_err(|error| QmpError::Disconnected(error.to_string()))?;
            match receiver.await {
                Ok(Ok(value)) => Ok(value),
                Ok(Err(reason)) => Err(QmpError::Refused { command, reason }),
                Err(_) => Err(QmpError::Disconnected(self.shared.lock().ended.clone().unwrap_or_default())),
            }
        };
        let result = timeout(REPLY_MAX, exchange).await.unwrap_or(Err(QmpError::Timeout(command)));
        self.shared.lock().waiting.remove(&id);
        result
    }

    /// Ends the connection for all handles, so that QEMU accepts the next one.
    pub fn close(&self) {
        self.end.cancel();
    }

    pub fn is_open(&self) -> bool {
        self.shared.lock().ended.is_none() && !self.end.is_cancelled()
    }
}

impl Shared {
    async fn run(self: Arc<Self>, lines: Lines, end: CancellationToken, changed: Arc<Notify>) {
        let reason = tokio::select! {
            () = end.cancelled() => "closed".to_owned(),
            reason = self.read(lines, &changed) => reason,
        };
        {
            let mut replies = self.lock();
            replies.ended = Some(reason);
            replies.waiting.clear();
        }
        let _ = self.writer.lock().await.shutdown().await;
        changed.notify_one();
    }

    /// Reads until the connection ends, and returns why.
    async fn read(&self, mut lines: Lines, changed: &Notify) -> String {
        loop {
            let mut message = match lines.next().await {
                Ok(message) => message,
                Err(reason) => return reason,
            };
            if message.get("event").is_some() {
                changed.notify_one();
                continue;
            }
            let Some(waiting) = message["id"].as_u64().and_then(|id| self.lock().waiting.remove(&id)) else { continue };
            // The caller may have given up.
            let _ = waiting.send(match message.get("error") {
                Some(error) => Err(error["desc"].as_str().unwrap_or("unknown error").to_owned()),
                None => Ok(message["return"].take()),
            });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Replies> {
        self.replies.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

struct Lines(BufReader<OwnedReadHalf>);

impl Lines {
    /// The next message, or the reason why there is none.
    async fn next(&mut self) -> Result<Value, String> {
        let mut line = Vec::new();
        let read = (&mut self.0).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await;
        read.map_err(|error| error.to_string())?;
        match line.last() {
            None => Err("QEMU closed the connection".into()),
            Some(b'\n') => serde_json::from_slice(&line).map_err(|error| format!("invalid line from QEMU: {error}")),
            Some(_) if line.len() as u64 == LINE_BYTES_MAX => Err("QEMU sent a line that is too long".into()),
            Some(_) => Err("QEMU closed the connection in the middle of a line".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::*;

    const GREETING: &str = "{\"QMP\": {\"version\": {}, \"capabilities\": []}}\n";

    /// A QEMU that greets, accepts the negotiation, and then sends `lines` after the next command.
    async fn connect_to(lines: &'static str) -> (Qmp, Arc<Notify>, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("qmp");
        let listener = UnixListener::bind(&socket).unwrap();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = BufReader::new(stream);
            stream.write_all(GREETING.as_bytes()).await.unwrap();
            let mut line = String::new();
            stream.read_line(&mut line).await.unwrap();
            assert!(line.contains("qmp_capabilities"), "{line}");
            stream.write_all(b"{\"return\": {}, \"id\": 1}\n").await.unwrap();
            stream.read_line(&mut line).await.unwrap();
            stream.write_all(lines.as_bytes()).await.unwrap();
        });
        let changed = Arc::new(Notify::new());
        (Qmp::connect(&socket, changed.clone()).await.unwrap(), changed, dir)
    }

    #[tokio::test]
    async fn replies_are_matched_by_id_and_events_notify() {
        let (qmp, changed, _dir) = connect_to(
            "{\"event\": \"STOP\"}\n{\"return\": 7, \"id\": 99}\n{\"return\": {\"status\": \"paused\"}, \"id\": 2}\n",
        )
        .await;
        assert_eq!(qmp.execute("query-status").await.unwrap()["status"], "paused");
        changed.notified().await;
    }

    #[tokio::test]
    async fn refusals_have_the_text_of_qemu() {
        let (qmp, _, _dir) =
            connect_to("{\"id\": 2, \"error\": {\"class\": \"GenericError\", \"desc\": \"Not now\"}}\n").await;
        let error = qmp.execute("cont").await.unwrap_err();
        assert_eq!(error.to_string(), "QEMU refused 'cont': Not now");
    }

    #[tokio::test]
    async fn a_connection_that_ends_fails_all_calls() {
        for (lines, expected) in [
            ("", "QEMU closed the connection"),
            ("{\"return\": {}", "in the middle of a line"),
            ("nonsense\n", "invalid line from QEMU"),
        ] {
            let (qmp, changed, _dir) = connect_to(lines).await;
            for _ in 0..2 {
                let error = qmp.execute("query-status").await.unwrap_err().to_string();
                assert!(error.contains(expected), "{error}");
            }
            assert!(!qmp.is_open());
            changed.notified().await;
        }
    }

    #[tokio::test]
    async fn lines_without_an_end_are_refused() {
        let line: &'static str = Box::leak("x".repeat(usize::try_from(LINE_BYTES_MAX).unwrap() + 1).into_boxed_str());
        let (qmp, _, _dir) = connect_to(line).await;
        let error = qmp.execute("query-status").await.unwrap_err().to_string();
        assert!(error.contains("too long"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_client_gets_no_greeting_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("qmp");
        let _listener = UnixListener::bind(&socket).unwrap();
        let error = Qmp::connect(&socket, Arc::default()).await.err().unwrap();
        assert!(matches!(error, QmpError::Silent), "{error}");
    }

    #[tokio::test]
    async fn a_socket_that_is_not_there_is_absent() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("qmp");
        assert!(matches!(Qmp::connect(&socket, Arc::default()).await, Err(QmpError::Absent(_))));
        drop(UnixListener::bind(&socket).unwrap());
        assert!(matches!(Qmp::connect(&socket, Arc::default()).await, Err(QmpError::Absent(_))));
    }
}
