//! The process of the handler, in a private network, and its output.

use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use forewarn_core::Timestamp;
use rustix::process::{Pid, Signal, kill_process_group};

use super::CheckContext;
use crate::failure::{CANNOT_RUN, Failure, NOT_FOUND, NOT_RUN};
use crate::output;
use forewarn_judge::Case;
use forewarn_judge::Elapsed;
use forewarn_judge::{Mark, Marks};

/// Time between SIGTERM and SIGKILL.
const TERM_GRACE: Duration = Duration::from_secs(2);

/// Limit of a line that is matched against marks.
const LINE_BYTES_MAX: u64 = 64 * 1024;

pub struct Handler {
    child: Child,
    ended: Option<(Timestamp, ExitStatus)>,
    readers: Vec<thread::JoinHandle<()>>,
    written: Arc<Mutex<OutputLog>>,
}

#[derive(Default)]
struct OutputLog {
    marks: Vec<(Timestamp, Mark)>,
    last: Option<String>,
}

impl Handler {
    pub fn start(case: &Case, context: &CheckContext, server: &str, metadata: &str) -> Result<Handler, Failure> {
        let mut command = Command::new("/proc/self/exe");
        command.args(["run", "--quiet", "--vm", case.subject, "--server", server, "--metadata", metadata]);
        command.args(["--parent", &std::process::id().to_string(), "--"]);
        command.args(&context.command).env_remove("FOREWARN_DATA").env_remove("FOREWARN_TOKEN");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let child = command.spawn();
        let mut child = child.map_err(|error| Failure::Refused(format!("cannot start the handler: {error}")))?;
        let written = Arc::new(Mutex::default());
        let streams = [child.stdout.take().map(boxed), child.stderr.take().map(boxed)];
        let mut readers = Vec::new();
        for stream in streams.into_iter().flatten() {
            let reader = Reader {
                name: case.name,
                marks: context.marks.clone(),
                verbose: context.verbose,
                written: Arc::clone(&written),
            };
            readers.push(thread::spawn(move || reader.read(stream)));
        }
        Ok(Handler { child, ended: None, readers, written })
    }

    /// When and how the handler exited by itself.
    pub fn exit(&mut self, started_at: Timestamp) -> Option<(Elapsed, String)> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten().map(|status| (now(), status));
        }
        self.ended.map(|(at, status)| (at.since(started_at), describe_exit(status)))
    }

    /// Ends the handler and its process group.
    pub fn end(&mut self) {
        let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) else { return };
        let _ = kill_process_group(group, Signal::TERM);
        let until = Instant::now() + TERM_GRACE;
        while self.ended.is_none() && Instant::now() < until {
            self.ended = self.child.try_wait().ok().flatten().map(|status| (now(), status));
            thread::sleep(Duration::from_millis(10));
        }
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
        self.drain();
    }

    /// Waits until all output is read. A process that left the group may keep the output open, so there is a limit.
    fn drain(&mut self) {
        let until = Instant::now() + TERM_GRACE;
        while Instant::now() < until && !self.readers.iter().all(thread::JoinHandle::is_finished) {
            thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn marks(&self, started_at: Timestamp) -> Vec<(Elapsed, Mark)> {
        lock(&self.written).marks.iter().map(|(at, mark)| (at.since(started_at), *mark)).collect()
    }

    pub fn last_line(&self) -> Option<String> {
        lock(&self.written).last.clone()
    }

    /// Why `forewarn run` could not start the handler. Call this after the handler has ended.
    pub fn start_error(&self) -> Option<String> {
        let code = self.ended?.1.code()?;
        let line = self.last_line().filter(|_| [NOT_RUN, CANNOT_RUN, NOT_FOUND].map(i32::from).contains(&code))?;
        line.strip_prefix("forewarn: ").map(str::to_owned)
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        self.end();
    }
}

struct Reader {
    name: &'static str,
    marks: Marks,
    verbose: bool,
    written: Arc<Mutex<OutputLog>>,
}

impl Reader {
    fn read(&self, stream: Box<dyn Read + Send>) {
        let mut stream = BufReader::new(stream);
        loop {
            let mut line = Vec::new();
            match (&mut stream).take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => self.record_line(String::from_utf8_lossy(&line).trim_end()),
            }
        }
    }

    fn record_line(&self, line: &str) {
        let at = now();
        if self.verbose {
            output::print_stderr(&output::escape(&format!("{}: {line}", self.name)));
        }
        let mut written = lock(&self.written);
        written.marks.extend(self.marks.find(line).into_iter().map(|mark| (at, mark)));
        if !line.is_empty() {
            written.last = Some(output::escape(line));
        }
    }
}

fn boxed(stream: impl Read + Send + 'static) -> Box<dyn Read + Send> {
    Box::new(stream)
}

fn lock(written: &Mutex<OutputLog>) -> MutexGuard<'_, OutputLog> {
    written.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The current time; the servers of a check use the real clock.
fn now() -> Timestamp {
    Timestamp(jiff::Timestamp::now().as_millisecond())
}

fn describe_exit(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown status".into(),
    }
}
