//! One step as a process: in a group of its own, with the event in its environment and on its
//! standard input, its output in the log, and killed with everything it started when it is late.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use forewarn_client::Event;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::log;
use crate::plan::Job;
use crate::record::{Outcome, ProcessMark};
use crate::step::title;
use crate::toolbox::Program;

/// From SIGTERM to SIGKILL.
pub const GRACE: Duration = Duration::from_secs(2);

/// Output that a hook wrote right before it ended is waited for; a child that it left behind and that
/// still holds the pipe is not.
const OUTPUT_WAIT: Duration = Duration::from_millis(500);

/// A line of output is cut here, so that a hook cannot fill the memory.
const LINE_BYTES_MAX: u64 = 4096;

/// What a running hook can be woken by.
#[derive(Debug)]
pub enum Wake {
    Exited(std::io::Result<ExitStatus>),
    /// The agent stops.
    Stop,
}

/// Runs a hook until it ends, one way or another. `sender` is the other end of `wakes`; `began` is told
/// which process it is.
pub fn run(
    program: &Program,
    job: &Job,
    sender: Sender<Wake>,
    wakes: &Receiver<Wake>,
    began: impl FnOnce(ProcessMark),
) -> Outcome {
    let mut child = match spawn(program, &job.event) {
        Ok(child) => child,
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(mark) = mark_of(child.id()) {
        began(mark);
    }
    let output = forward(&mut child, &format!("event {}: {}", job.event.id, title(&job.step)));
    feed(&mut child, job.event.to_json());
    thread::spawn(move || sender.send(Wake::Exited(child.wait())));
    let outcome = wait(group, job.limit, wakes);
    // Nobody sends on it: it ends when both readers are done.
    let _ = output.recv_timeout(OUTPUT_WAIT);
    outcome
}

/// Stops a hook that an agent left behind when it was killed: nobody minds its time any more, and nobody
/// will know how it ends. Says whether it was still there.
pub fn stop_left_behind(mark: &ProcessMark) -> bool {
    let is_there = || mark_of(mark.pid).as_ref() == Some(mark);
    if !is_there() {
        return false;
    }
    let group = i32::try_from(mark.pid).ok().and_then(Pid::from_raw);
    for last in [Signal::TERM, Signal::KILL] {
        signal(group, last);
        let until = Instant::now() + GRACE;
        while is_there() && Instant::now() < until {
            thread::sleep(LEFT_BEHIND_LOOK);
        }
    }
    true
}

/// Nothing tells the end of a process that is not a child.
const LEFT_BEHIND_LOOK: Duration = Duration::from_millis(20);

/// `None` when there is no such process, or it is dead and only nobody has waited for it.
fn mark_of(pid: u32) -> Option<ProcessMark> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program is in parentheses and may have any in itself; what follows has not.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    let start_ticks = fields.nth(18)?;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    (state != "Z").then(|| ProcessMark { pid, started: format!("{} {start_ticks}", boot.trim()) })
}

fn spawn(program: &Program, event: &Event) -> std::io::Result<Child> {
    Command::new(&program.path)
        .args(&program.arguments)
        .envs(environment(event))
        .envs(program.environment.iter().map(|(name, value)| (name, value)))
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
}

/// The event as variables; what the service does not say is empty.
fn environment(event: &Event) -> impl Iterator<Item = (&'static str, String)> {
    let names: Vec<&str> = event.resources.iter().map(|resource| resource.name()).collect();
    let values = [
        event.id.to_string(),
        event.kind.to_string(),
        event.status.as_str().to_owned(),
        names.join(","),
        event.not_before_text(),
        event.source.as_ref().map(|source| source.as_str().to_owned()).unwrap_or_default(),
        event.description.clone().unwrap_or_default(),
        event.duration_secs.map(|secs| secs.to_string()).unwrap_or_default(),
    ];
    // A zero byte would end the variable, and the operating system refuses it.
    VARIABLES.into_iter().zip(values.map(|value| value.replace('\0', "")))
}

pub const VARIABLES: [&str; 8] = [
    "EVENT_ID",
    "EVENT_TYPE",
    "EVENT_STATUS",
    "EVENT_RESOURCES",
    "EVENT_NOT_BEFORE",
    "EVENT_SOURCE",
    "EVENT_DESCRIPTION",
    "EVENT_DURATION_SECONDS",
];

fn feed(child: &mut Child, text: String) {
    if let Some(mut stdin) = child.stdin.take() {
        // A hook that does not read is no trouble.
        thread::spawn(move || stdin.write_all(format!("{text}\n").as_bytes()));
    }
}

fn forward(child: &mut Child, prefix: &str) -> Receiver<()> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let pipes = [
        child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>),
        child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>),
    ];
    for pipe in pipes.into_iter().flatten() {
        let (prefix, sender) = (prefix.to_owned(), sender.clone());
        thread::spawn(move || {
            let _until_done: Sender<()> = sender;
            log_lines(pipe, &prefix);
        });
    }
    receiver
}

fn log_lines(pipe: impl Read, prefix: &str) {
    let mut reader = BufReader::new(pipe);
    let mut bytes = Vec::new();
    while matches!(reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes), Ok(count) if count > 0) {
        log::line(format!("{prefix}: {}", String::from_utf8_lossy(&bytes)));
        bytes.clear();
    }
}

fn wait(group: Option<Pid>, limit: Duration, wakes: &Receiver<Wake>) -> Outcome {
    let started = Instant::now();
    let because = match wakes.recv_timeout(limit) {
        Ok(Wake::Exited(status)) => return ended(status),
        Err(RecvTimeoutError::Timeout) => Outcome::Late,
        Ok(Wake::Stop) | Err(RecvTimeoutError::Disconnected) => Outcome::Interrupted,
    };
    signal(group, Signal::TERM);
    let until = started + started.elapsed() + GRACE;
    let mut exited = false;
    while !exited {
        match wakes.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Wake::Exited(_)) => exited = true,
            Ok(Wake::Stop) => {}
            Err(_) => break,
        }
    }
    // Also when the first of the group is gone: the others must not outlive it.
    signal(group, Signal::KILL);
    while !exited {
        exited = !matches!(wakes.recv(), Ok(Wake::Stop));
    }
    because
}

fn signal(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        // No such group: all of it has ended, which is what is wanted.
        let _ = kill_process_group(group, signal);
    }
}

fn ended(status: std::io::Result<ExitStatus>) -> Outcome {
    match status {
        Ok(status) if status.success() => Outcome::Succeeded,
        Ok(status) => Outcome::Failed(status.to_string()),
        Err(error) => Outcome::Failed(error.to_string()),
    }
}
