//! Runs a step as a process in its own process group. The event is in its environment and on standard input, its output
//! goes to the log, and the whole group is killed if the step exceeds its time limit.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use forewarn_client::Event;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::environment::event_variables;
use crate::log;
use crate::plan::Job;
use crate::record::{Outcome, ProcessIdentity};
use crate::step::step_title;

/// From SIGTERM to SIGKILL.
pub const KILL_GRACE: Duration = Duration::from_secs(2);

/// Time to wait for the last output of a step that has exited. A background process that still holds the pipe is not
/// waited for.
const OUTPUT_WAIT: Duration = Duration::from_millis(500);

/// Longer lines of output are split, so that a step cannot fill the memory.
const LINE_BYTES_MAX: u64 = 4096;

/// Program to start for a step.
#[derive(Debug)]
pub struct Program {
    pub path: PathBuf,
    pub arguments: Vec<&'static str>,
    pub environment: Vec<(String, String)>,
}

/// Signal to the thread that waits for a step.
#[derive(Debug)]
pub enum StepSignal {
    Exited(std::io::Result<ExitStatus>),
    /// The agent is stopping.
    Stop,
}

/// Runs a step until it ends or is killed. `sender` is the other end of `signals`; `on_start` receives the identity of
/// the process.
pub fn run(
    program: &Program,
    job: &Job,
    sender: Sender<StepSignal>,
    signals: &Receiver<StepSignal>,
    on_start: impl FnOnce(ProcessIdentity),
) -> Outcome {
    let mut child = match spawn(program, &job.event) {
        Ok(child) => child,
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(identity) = identify(child.id()) {
        on_start(identity);
    }
    let output = log_output(&mut child, &format!("event {}: {}", job.event.id, step_title(&job.step)));
    write_stdin(&mut child, job.event.to_json());
    thread::spawn(move || sender.send(StepSignal::Exited(child.wait())));
    let outcome = wait(group, job.limit, signals);
    // No value is ever sent: the channel closes when both readers are done.
    let _ = output.recv_timeout(OUTPUT_WAIT);
    outcome
}

/// Stops a step that a killed agent left running, because its time limit and its outcome are no longer tracked. Returns
/// whether it was still running.
pub fn stop_orphan(identity: &ProcessIdentity) -> bool {
    let is_running = || identify(identity.pid).as_ref() == Some(identity);
    if !is_running() {
        return false;
    }
    let group = i32::try_from(identity.pid).ok().and_then(Pid::from_raw);
    for last in [Signal::TERM, Signal::KILL] {
        signal(group, last);
        let until = Instant::now() + KILL_GRACE;
        while is_running() && Instant::now() < until {
            thread::sleep(ORPHAN_CHECK_INTERVAL);
        }
    }
    true
}

/// The exit of a process that is not a child has to be polled.
const ORPHAN_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Identifies a process. Returns `None` if there is no such process or it is a zombie.
fn identify(pid: u32) -> Option<ProcessIdentity> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program name is in parentheses and can itself contain parentheses; the fields after it cannot.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    let start_ticks = fields.nth(18)?;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    (state != "Z").then(|| ProcessIdentity { pid, started: format!("{} {start_ticks}", boot.trim()) })
}

fn spawn(program: &Program, event: &Event) -> std::io::Result<Child> {
    Command::new(&program.path)
        .args(&program.arguments)
        .envs(event_variables(event))
        .envs(program.environment.iter().map(|(name, value)| (name, value)))
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
}

fn write_stdin(child: &mut Child, text: String) {
    if let Some(mut stdin) = child.stdin.take() {
        // A step need not read its standard input.
        thread::spawn(move || stdin.write_all(format!("{text}\n").as_bytes()));
    }
}

fn log_output(child: &mut Child, prefix: &str) -> Receiver<()> {
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
        log::write_line(format!("{prefix}: {}", String::from_utf8_lossy(&bytes)));
        bytes.clear();
    }
}

fn wait(group: Option<Pid>, limit: Duration, signals: &Receiver<StepSignal>) -> Outcome {
    let started = Instant::now();
    let outcome = match signals.recv_timeout(limit) {
        Ok(StepSignal::Exited(status)) => return outcome_of(status),
        Err(RecvTimeoutError::Timeout) => Outcome::Late,
        Ok(StepSignal::Stop) | Err(RecvTimeoutError::Disconnected) => Outcome::Interrupted,
    };
    signal(group, Signal::TERM);
    let until = started + started.elapsed() + KILL_GRACE;
    let mut exited = false;
    while !exited {
        match signals.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(StepSignal::Exited(_)) => exited = true,
            Ok(StepSignal::Stop) => {}
            Err(_) => break,
        }
    }
    // Even if the first process has exited: the rest of the group must not outlive it.
    signal(group, Signal::KILL);
    while !exited {
        exited = !matches!(signals.recv(), Ok(StepSignal::Stop));
    }
    outcome
}

fn signal(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        // An error means that the whole group has exited.
        let _ = kill_process_group(group, signal);
    }
}

fn outcome_of(status: std::io::Result<ExitStatus>) -> Outcome {
    match status {
        Ok(status) if status.success() => Outcome::Succeeded,
        Ok(status) => Outcome::Failed(status.to_string()),
        Err(error) => Outcome::Failed(error.to_string()),
    }
}
