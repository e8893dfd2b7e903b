//! Runs the operator's executable for each machine of each event that starts. Its exit status is the report.
//!
//! The executable gets the event in its environment and, as JSON, on its standard input. After a crash or restart of the server
//! it runs again for events that had started, with `FOREWARN_RERUN=1`: it may already have done its work.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use forewarn_core::{Effect, Event, EventId, EvictionPolicy, Machine, Region, Report, Source, Timestamp};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command as Process};
use tokio::sync::{Notify, Semaphore};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::{Driver, Orders};

/// The operator's executable, run once for each machine of an event that starts.
#[derive(Clone, Debug)]
pub struct CommandDriver {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub timeout: Duration,
}

/// Concurrent executables. Others are queued.
pub const RUNNING_MAX: usize = 32;

/// Bytes kept of an executable's standard error. The last line becomes the reason of a failure.
const STDERR_BYTES_MAX: usize = 64 * 1024;

/// The longest reason, which is shown on one line.
const REASON_CHARS_MAX: usize = 200;

/// The writer's end: it only signals that there is something to do.
pub struct CommandSignal(pub Arc<Notify>);

impl Driver for CommandSignal {
    fn follow(&mut self, effects: &[Effect]) {
        if !effects.is_empty() {
            self.0.notify_one();
        }
    }

    fn reconcile(&mut self, _region: &Region) {
        self.0.notify_one();
    }

    fn next(&self) -> Option<Timestamp> {
        None
    }

    fn due(&self, _now: Timestamp, _max: usize) -> Vec<(EventId, Report)> {
        Vec::new()
    }

    fn reported(&mut self, _event: EventId) {}
}

/// The end that runs the executables.
pub struct CommandRunner {
    pub orders: Arc<dyn Orders>,
    pub config: Arc<CommandDriver>,
    pub signal: Arc<Notify>,
    /// Events that had started before this server.
    pub reruns: HashSet<EventId>,
}

impl CommandRunner {
    /// Reconciles the running executables with the started events, until stopped. What still runs then is killed and runs
    /// again after the next start.
    pub async fn run(mut self, stop: CancellationToken) {
        let slots = Arc::new(Semaphore::new(RUNNING_MAX));
        let mut running: HashMap<EventId, JoinHandle<()>> = HashMap::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.signal.notified() => {}
            }
            let snapshot = self.orders.snapshot();
            let wanted: HashMap<_, _> = snapshot.region.wanted_effects().map(|event| (event.id, event)).collect();
            running.retain(|id, task| {
                let keep = wanted.contains_key(id);
                if !keep {
                    task.abort();
                }
                keep
            });
            for (id, event) in wanted {
                running.entry(id).or_insert_with(|| {
                    let job = CommandJob {
                        event: event.clone(),
                        machines: machines(&snapshot.region, event),
                        rerun: self.reruns.remove(&id),
                        config: self.config.clone(),
                    };
                    tokio::spawn(perform(job, slots.clone(), self.orders.clone()))
                });
            }
        }
        for task in running.values() {
            task.abort();
        }
    }
}

/// One event with its machines.
struct CommandJob {
    event: Arc<Event>,
    machines: Vec<Arc<Machine>>,
    rerun: bool,
    config: Arc<CommandDriver>,
}

fn machines(region: &Region, event: &Event) -> Vec<Arc<Machine>> {
    event.resources.iter().filter_map(|resource| region.machine(resource.machine).cloned()).collect()
}

async fn perform(job: CommandJob, slots: Arc<Semaphore>, orders: Arc<dyn Orders>) {
    let event = job.event.id;
    let job = Arc::new(job);
    let mut runs = JoinSet::new();
    for machine in job.machines.clone() {
        let (job, slots) = (job.clone(), slots.clone());
        runs.spawn(async move {
            let _slot = slots.acquire_owned().await;
            run_one(&job, &machine).await.map_err(|reason| format!("{}: {reason}", machine.name))
        });
    }
    let mut failures = Vec::new();
    while let Some(run) = runs.join_next().await {
        if let Err(reason) = run.unwrap_or_else(|_| Err("the run was aborted".into())) {
            tracing::warn!(%event, %reason, "command failed");
            failures.push(reason);
        }
    }
    let report = match failures.first() {
        None => Report::Done,
        Some(reason) => Report::Failed(reason.as_str().into()),
    };
    orders.report(event, report).await;
}

async fn run_one(job: &CommandJob, machine: &Machine) -> Result<(), String> {
    let program = job.config.program.display();
    let mut child = spawn(job, machine).map_err(|error| format!("cannot start {program}: {error}"))?;
    let group = ProcessGroup::of(&child);
    let mut stderr = child.stderr.take();
    let stdin = child.stdin.take();
    let work = async {
        let input = document(job, machine).to_string();
        let feed = async {
            if let Some(mut stdin) = stdin {
                // The executable need not read its input.
                let _ = stdin.write_all(input.as_bytes()).await;
            }
        };
        let listen = async { last_line(stderr.as_mut()).await };
        let ((), said, status) = tokio::join!(feed, listen, child.wait());
        (said, status)
    };
    match tokio::time::timeout(job.config.timeout, work).await {
        Err(_) => Err(format!("{program} timed out after {} s and was killed", job.config.timeout.as_secs())),
        Ok((_, Err(error))) => Err(format!("cannot wait for {program}: {error}")),
        Ok((said, Ok(status))) => {
            group.finished();
            if status.success() { Ok(()) } else { Err(failure(status, &said)) }
        }
    }
}

fn failure(status: std::process::ExitStatus, said: &str) -> String {
    let reason: String = said.chars().take(REASON_CHARS_MAX).collect();
    if reason.is_empty() { status.to_string() } else { format!("{status}: {reason}") }
}

/// The last non-empty line of the last [`STDERR_BYTES_MAX`] bytes.
async fn last_line(stderr: Option<&mut tokio::process::ChildStderr>) -> String {
    let Some(stderr) = stderr else { return String::new() };
    let mut kept = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
        kept.extend_from_slice(&chunk[..count]);
        if kept.len() > 2 * STDERR_BYTES_MAX {
            kept.drain(..kept.len() - STDERR_BYTES_MAX);
        }
    }
    let text = String::from_utf8_lossy(&kept);
    without_controls(text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default())
}

/// Replaces control characters. The API refuses them, but an older store can contain descriptions with them, and a NUL would
/// keep the command from starting.
fn without_controls(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

fn spawn(job: &CommandJob, machine: &Machine) -> std::io::Result<Child> {
    let event = &job.event;
    let names: Vec<&str> = event.resources.iter().map(|resource| &*resource.name).collect();
    let mut process = Process::new(&job.config.program);
    process
        .args(&job.config.arguments)
        .env("EVENT_ID", event.id.to_string().to_uppercase())
        .env("EVENT_TYPE", event.kind.as_str())
        .env("EVENT_SOURCE", source(event.cause.source()))
        .env("EVENT_RESOURCES", names.join(","))
        .env("EVENT_DESCRIPTION", without_controls(&event.description))
        .env("EVENT_DURATION_SECONDS", event.duration_secs.to_string())
        .env("MACHINE_NAME", &*machine.name)
        .env("MACHINE_VM_ID", machine.vm_id.to_string())
        .env("MACHINE_HOST", machine.host.as_deref().unwrap_or_default())
        .env("MACHINE_RESOURCE_GROUP", &*machine.home.resource_group)
        .env("MACHINE_SUBSCRIPTION", &*machine.home.subscription)
        .env("MACHINE_EVICTION_POLICY", eviction(machine.eviction))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    if job.rerun {
        process.env("FOREWARN_RERUN", "1");
    }
    process.spawn()
}

fn document(job: &CommandJob, machine: &Machine) -> serde_json::Value {
    let event = &job.event;
    let names: Vec<&str> = event.resources.iter().map(|resource| &*resource.name).collect();
    let addresses: Vec<String> = machine.addresses.iter().map(|address| address.ip.to_string()).collect();
    json!({
        "event": {
            "id": event.id.to_string().to_uppercase(),
            "type": event.kind.as_str(),
            "source": source(event.cause.source()),
            "resources": names,
            "description": &*event.description,
            "durationInSeconds": event.duration_secs,
        },
        "machine": {
            "name": &*machine.name,
            "vmId": machine.vm_id.to_string(),
            "host": machine.host.as_deref(),
            "resourceGroup": &*machine.home.resource_group,
            "subscription": &*machine.home.subscription,
            "evictionPolicy": eviction(machine.eviction),
            "addresses": addresses,
        },
        "rerun": job.rerun,
    })
}

/// The process group of an executable. Killed when dropped, unless it has finished.
struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    fn of(child: &Child) -> ProcessGroup {
        ProcessGroup(child.id().and_then(|id| Pid::from_raw(id as i32)))
    }

    fn finished(mut self) {
        self.0 = None;
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

fn eviction(policy: EvictionPolicy) -> &'static str {
    match policy {
        EvictionPolicy::Deallocate => "Deallocate",
        EvictionPolicy::Delete => "Delete",
    }
}

fn source(source: Source) -> &'static str {
    match source {
        Source::Platform => "Platform",
        Source::User => "User",
    }
}
