//! Runs all cases at once, each with a server and a handler, and records what the handlers do.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use forewarn_api_types::{NewMachine, NewRun, ResourceName, Run, RunStatus};
use forewarn_core::{MachineId, MachineLookup, Outcome, ScopeId, Timestamp};
use forewarn_server::{
    Auth, BoundAddress, Config, DriverChoice, EndpointState, Engine, Impacts, ListenAddress, MetadataListener, Running,
};
use forewarn_store::{Actor, HistoryFact, HistoryQuery, HistoryRow};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use super::CheckContext;
use super::handler::Handler;
use super::progress::Progress;
use crate::args::{CheckArgs, Connection, Output};
use crate::client::{Api, Call};
use crate::connect::connect;
use crate::decode::decode;
use crate::failure::Failure;
use forewarn_judge::Case;
use forewarn_judge::GAP_MAX;
use forewarn_judge::{Elapsed, Observation, ObservedEvent, ObservedRequest, RequestKind};
use forewarn_judge::{Mark, Marks};

/// Time limit for the first request of a handler.
const FIRST_REQUEST_MAX: Duration = Duration::from_secs(10);

/// Limit of handlers that start at the same time.
const STARTING_MAX: usize = 4;

/// Consecutive refused polls, without a successful one, after which the handler fails the case.
const REFUSED_MAX: usize = 3;

/// How much of the last line of a handler that exited is reported: enough for an exception.
const LAST_LINE_CHARS_MAX: usize = 120;

/// The request that a handler must send.
const REMEDY: &str = "handlers must poll http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01 with the header Metadata: true";

/// Duration of the case without events; long enough to detect a gap between polls.
const IDLE: Duration = Duration::from_secs(33);

/// How long to wait for a mark after everything else has finished.
const MARK_WAIT: Duration = Duration::from_secs(5);

/// Polling interval for requests and processes.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Duration of impacts before scaling; long enough to be seen by one poll per second.
const IMPACT: Duration = Duration::from_secs(3 * 60);

pub fn run_all(args: &CheckArgs, cases: &[Case], marks: &Marks) -> Result<Vec<Observation>, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Refused(format!("cannot start threads: {error}")))?;
    let context = CheckContext {
        command: args.command.clone(),
        marks: marks.clone(),
        verbose: args.verbose,
        starting: StartLimiter::default(),
        aborted: AtomicBool::new(false),
    };
    let interrupted = Interrupted::listen(&runtime)?;
    let results: Vec<Result<Observation, Failure>> = thread::scope(|scope| {
        let threads: Vec<_> =
            cases.iter().map(|case| scope.spawn(|| CaseRun::open(case, &context, &runtime)?.run())).collect();
        let mut progress = Progress::new();
        while !threads.iter().all(thread::ScopedJoinHandle::is_finished) {
            let running = cases.iter().zip(&threads).filter(|(_, thread)| !thread.is_finished());
            progress.show(cases.len(), &running.map(|(case, _)| case.name).collect::<Vec<_>>());
            if interrupted.is_set() {
                context.aborted.store(true, Ordering::Relaxed);
            }
            thread::sleep(POLL_INTERVAL);
        }
        drop(progress);
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(internal_error()))).collect()
    });
    if interrupted.is_set() { Err(Failure::Interrupted) } else { collect(results) }
}

/// SIGINT and SIGTERM, which would otherwise end only this process: handlers are in process groups of their own.
struct Interrupted(Arc<AtomicBool>);

impl Interrupted {
    fn listen(runtime: &Runtime) -> Result<Interrupted, Failure> {
        let _runtime = runtime.enter();
        let listen =
            |kind| signal(kind).map_err(|error| Failure::Refused(format!("cannot listen for signals: {error}")));
        let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
        let seen = Arc::new(AtomicBool::new(false));
        let set = Arc::clone(&seen);
        runtime.spawn(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            set.store(true, Ordering::Relaxed);
        });
        Ok(Interrupted(seen))
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Returns the failure that has a message; cases that were aborted because of it have none.
fn collect(results: Vec<Result<Observation, Failure>>) -> Result<Vec<Observation>, Failure> {
    let speaks = |result: &Result<Observation, Failure>| matches!(result, Err(failure) if failure.message().is_some());
    let mut results = results;
    match results.iter().position(speaks) {
        Some(place) => results.swap_remove(place).map(|observed| vec![observed]),
        None => results.into_iter().collect(),
    }
}

fn internal_error() -> Failure {
    Failure::Refused("a case ended unexpectedly; this is a bug in forewarn, please report it".into())
}

struct CaseRun<'a> {
    case: &'a Case,
    context: &'a CheckContext,
    runtime: &'a Runtime,
    running: Option<Running>,
    engine: Engine,
    endpoint: Arc<EndpointState>,
    api: Api,
    server: String,
    metadata: String,
}

impl<'a> CaseRun<'a> {
    fn open(case: &'a Case, context: &'a CheckContext, runtime: &'a Runtime) -> Result<CaseRun<'a>, Failure> {
        let running = runtime.block_on(forewarn_server::start(server_config(case)));
        let running = running.map_err(|error| Failure::Refused(format!("{error:#}")))?;
        let Some(BoundAddress::Tcp(metadata)) = running.metadata.first().cloned() else { return Err(internal_error()) };
        let server = format!("http://{}", running.management);
        let connection = Connection { server: Some(server.clone()), data: None, token: None, output: Output::Json };
        Ok(CaseRun {
            case,
            context,
            runtime,
            engine: running.engine.clone(),
            endpoint: running.endpoint.clone(),
            running: Some(running),
            api: connect(&connection)?,
            server,
            metadata: format!("http://{metadata}"),
        })
    }

    fn run(mut self) -> Result<Observation, Failure> {
        let run = self.start_scenario()?;
        let machine = self.wait_for_machine()?;
        let permit = self.context.starting.acquire();
        if self.context.aborted.load(Ordering::Relaxed) {
            return Err(Failure::Silent);
        }
        let mut handler = Handler::start(self.case, self.context, &self.server, &self.metadata)?;
        let scope = self.engine.snapshot().region.machine(machine).map(|machine| machine.scope);
        let mut monitor = Monitor {
            machine,
            scope: scope.ok_or_else(internal_error)?,
            started_at: self.engine.now(),
            next: 0,
            incarnation: 0,
            shown_in: BTreeMap::new(),
            observed: Observation::default(),
        };
        let result = self.observe(run, &mut handler, &mut monitor, permit);
        handler.end();
        monitor.record_requests(&self.endpoint);
        monitor.observed.until = self.engine.now().since(monitor.started_at);
        monitor.observed.marks = handler.marks(monitor.started_at);
        if let (Some((_, how)), Some(line)) = (&mut monitor.observed.exit, handler.last_line()) {
            let line: String = line.chars().take(LAST_LINE_CHARS_MAX).collect();
            *how = format!("{how}; last output: {line}");
        }
        monitor.observed.events = self.read_events(&monitor)?;
        if let Some(running) = self.running.take() {
            self.runtime.block_on(running.stop());
        }
        result.map(|()| monitor.observed)
    }

    /// Starts the scenario; None if the case has none.
    fn start_scenario(&self) -> Result<Option<u64>, Failure> {
        let Some(scenario) = self.case.scenario else {
            self.api.post(&Call::api(&["machines"]), &NewMachine::named(ResourceName(self.case.subject.to_owned())))?;
            return Ok(None);
        };
        let new = NewRun { scenario: Some(scenario.to_owned()), handler: true, ..NewRun::default() };
        let run: Run = decode(&self.api.post(&Call::api(&["scenario-runs"]), &new)?)?;
        Ok(Some(run.id))
    }

    /// Waits until the scenario has created the machine.
    fn wait_for_machine(&self) -> Result<MachineId, Failure> {
        let until = Instant::now() + FIRST_REQUEST_MAX;
        loop {
            if let MachineLookup::One(id) = self.engine.snapshot().region.machine_by_name(self.case.subject, None) {
                return Ok(id);
            }
            if Instant::now() > until {
                return Err(internal_error());
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Records until everything expected of the case has happened.
    fn observe(
        &self,
        run: Option<u64>,
        handler: &mut Handler,
        monitor: &mut Monitor,
        permit: Permit<'_>,
    ) -> Result<(), Failure> {
        let mut permit = Some(permit);
        let started_at = Instant::now();
        let mut finished: Option<(Instant, Elapsed)> = None;
        loop {
            monitor.record_documents(&self.engine);
            monitor.record_requests(&self.endpoint);
            monitor.observed.exit = handler.exit(monitor.started_at);
            if self.context.aborted.load(Ordering::Relaxed) {
                return Err(Failure::Silent);
            }
            if monitor.observed.requests.is_empty()
                && (started_at.elapsed() > FIRST_REQUEST_MAX || monitor.observed.exit.is_some())
            {
                return Err(self.abort(monitor, handler));
            }
            if let Some((status, count)) = monitor
                .observed
                .all_refused()
                .filter(|(_, n)| *n >= REFUSED_MAX && started_at.elapsed() > FIRST_REQUEST_MAX)
            {
                monitor.observed.error =
                    Some(format!("all {count} requests for the document were refused with {status}; {REMEDY}"));
                return Ok(());
            }
            if !monitor.observed.requests.is_empty() {
                drop(permit.take());
            }
            if finished.is_none() && self.has_finished(run, started_at, monitor)? {
                let last = self.read_events(monitor)?.iter().filter_map(|event| event.ended).max();
                finished = Some((Instant::now(), last.unwrap_or_default()));
            }
            if finished.is_some_and(|(since, ended)| self.is_settled(since, ended, monitor, handler))
                || monitor.observed.exit.is_some()
            {
                return Ok(());
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Aborts all cases, because a handler without requests cannot be judged.
    fn abort(&self, monitor: &Monitor, handler: &mut Handler) -> Failure {
        if self.context.aborted.swap(true, Ordering::Relaxed) {
            return Failure::Silent;
        }
        handler.end();
        if let Some(error) = handler.start_error() {
            return Failure::Failed(error);
        }
        let how = match &monitor.observed.exit {
            Some((_, how)) => format!("the handler exited ({how}) before it sent a request"),
            None => format!("no request within {} seconds", FIRST_REQUEST_MAX.as_secs()),
        };
        let last = handler.last_line().map_or_else(String::new, |line| format!("; last output: {line}"));
        Failure::Failed(format!("{how}; {REMEDY}{last}"))
    }

    fn has_finished(&self, run: Option<u64>, started_at: Instant, monitor: &mut Monitor) -> Result<bool, Failure> {
        let Some(run) = run else { return Ok(started_at.elapsed() > IDLE) };
        let run: Run = decode(&self.api.get(&Call::api(&["scenario-runs", &run.to_string()]))?)?;
        match run.state {
            RunStatus::Running => Ok(false),
            RunStatus::Passed => Ok(true),
            RunStatus::Failed | RunStatus::Stopped | RunStatus::Unknown(_) => {
                let reason = run.reason.unwrap_or_default();
                monitor.observed.error = Some(format!("the scenario failed: {reason}"));
                Ok(true)
            }
        }
    }

    /// Whether the handler has had time to notice the end and to report it.
    fn is_settled(&self, since: Instant, ended: Elapsed, monitor: &Monitor, handler: &Handler) -> bool {
        if monitor.observed.error.is_some() || self.case.scenario.is_none() {
            return true;
        }
        let Some(poll) = monitor.observed.poll_after(ended) else {
            return self.case.ends_machine || since.elapsed() > GAP_MAX + POLL_INTERVAL * 4;
        };
        let restored =
            handler.marks(monitor.started_at).iter().any(|(at, mark)| *mark == Mark::Restored && *at >= ended);
        let marked = self.context.marks.restored.is_none() || self.case.ends_machine || restored;
        let now = self.engine.now().since(monitor.started_at);
        marked || now.saturating_sub(poll) > MARK_WAIT
    }

    /// The events that the handler could see. Events of other event groups are left out.
    fn read_events(&self, monitor: &Monitor) -> Result<Vec<ObservedEvent>, Failure> {
        let rows = self.runtime.block_on(self.engine.history(HistoryQuery::default()));
        let mut rows = rows.map_err(|error| Failure::Refused(error.to_string()))?;
        rows.retain(|row| row.scope == Some(monitor.scope.0));
        let mut events = collect_events(&rows, self.case.subject, monitor.started_at);
        for event in &mut events {
            event.shown_in = monitor.shown_in.get(&event.id).copied();
        }
        Ok(events)
    }
}

/// Limits how many handlers start at once: too many would start slowly and seem to send no requests.
#[derive(Default)]
pub struct StartLimiter {
    count: Mutex<usize>,
    changed: Condvar,
}

/// Permission to start, until dropped.
pub struct Permit<'a>(&'a StartLimiter);

impl StartLimiter {
    fn acquire(&self) -> Permit<'_> {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let mut count =
            self.changed.wait_while(count, |count| *count >= STARTING_MAX).unwrap_or_else(PoisonError::into_inner);
        *count += 1;
        Permit(self)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.changed.notify_one();
    }
}

/// Records requests as they arrive.
struct Monitor {
    machine: MachineId,
    /// The machine's event group.
    scope: ScopeId,
    started_at: Timestamp,
    /// Number of the last recorded request.
    next: u64,
    /// The last incarnation of the document that was looked at.
    incarnation: u64,
    /// By event: the first incarnation of the document that contains it.
    shown_in: BTreeMap<String, u64>,
    observed: Observation,
}

impl Monitor {
    /// Several changes between two reads count as one. The error is smaller than the interval between reads.
    fn record_documents(&mut self, engine: &Engine) {
        let snapshot = engine.snapshot();
        let Some(scope) = snapshot.region.scope(self.scope) else { return };
        for event in &scope.live {
            self.shown_in.entry(event.to_string()).or_insert(self.incarnation + 1);
        }
        self.incarnation = scope.incarnation;
    }

    fn record_requests(&mut self, endpoint: &EndpointState) {
        for request in endpoint.requests.log_of(self.machine, self.next).requests {
            self.next = request.number;
            if request.path == PROBE_PATH {
                continue;
            }
            let document = request.path.eq_ignore_ascii_case("/metadata/scheduledevents");
            let what = match request.method.as_str() {
                "GET" if document => RequestKind::Poll,
                "POST" if document => RequestKind::Approve(request.approved.iter().map(ToString::to_string).collect()),
                _ => RequestKind::Other,
            };
            let faulty = request.faults.iter().any(|met| SPOILED.contains(&met.kind));
            self.observed.requests.push(ObservedRequest {
                at: request.at.since(self.started_at),
                what,
                status: request.status,
                incarnation: request.incarnation.map(u64::from),
                faulty,
            });
        }
    }
}

/// The request with which `forewarn run` probes the endpoint.
const PROBE_PATH: &str = "/metadata/versions";

/// Faults after which the document cannot be read.
const SPOILED: [&str; 4] = ["Status", "Reset", "Truncated", "Malformed"];

fn server_config(case: &Case) -> Config {
    let loopback = ([127, 0, 0, 1], 0).into();
    let impacts = Impacts {
        live_migration: IMPACT,
        freeze: IMPACT,
        reboot: IMPACT,
        redeploy: IMPACT,
        hardware_failure: IMPACT,
        ..Impacts::default()
    };
    let mut config = Config {
        metadata: vec![MetadataListener::new(ListenAddress::Tcp(loopback))],
        management: loopback,
        auth: Auth::Off,
        driver: DriverChoice::Simulated(impacts),
        ..Config::default()
    };
    config.rules.notice_scale = case.scale;
    config
}

/// Collects events from history rows.
fn collect_events(rows: &[HistoryRow], subject: &str, started_at: Timestamp) -> Vec<ObservedEvent> {
    let mut events: Vec<ObservedEvent> = Vec::new();
    for row in rows {
        let Some(id) = row.event.map(|id| id.to_string()) else { continue };
        let at = row.at.since(started_at);
        match row.fact() {
            Some(HistoryFact::Appeared(event)) => events.push(ObservedEvent {
                id,
                kind: event.kind.as_str().to_owned(),
                mine: row.machines.iter().any(|name| name.eq_ignore_ascii_case(subject)),
                appeared: at,
                shown_in: None,
                approved_elsewhere: false,
                started: None,
                ended: None,
                canceled: false,
            }),
            Some(HistoryFact::Approved { by: Actor::Guest(machine) }) if !machine.eq_ignore_ascii_case(subject) => {
                update_event(&mut events, &id, |event| event.approved_elsewhere = true);
            }
            Some(HistoryFact::Started) => update_event(&mut events, &id, |event| event.started = Some(at)),
            Some(HistoryFact::Ended(outcome)) => update_event(&mut events, &id, |event| {
                event.ended = Some(at);
                event.canceled = matches!(outcome, Outcome::Canceled { .. });
            }),
            Some(_) | None => {}
        }
    }
    events
}

fn update_event(events: &mut [ObservedEvent], id: &str, change: impl FnOnce(&mut ObservedEvent)) {
    events.iter_mut().find(|event| event.id == id).map(change).unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failure_with_a_message_is_returned() {
        let why = || Failure::Failed("why".into());
        let broken_off = || Err(Failure::Silent);
        assert_eq!(collect(vec![broken_off(), Err(why()), broken_off()]).unwrap_err(), why());
        assert_eq!(collect(vec![Ok(Observation::default())]).unwrap().len(), 1);
    }
}
