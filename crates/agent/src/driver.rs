//! The main loop: one thread owns the plan, and all other threads send it messages.
//!
//! ```text
//!   poller ───┐                      ┌──▶ state file, always written first
//!   steps ────┼──▶ inbox ──▶ plan ───┼──▶ steps, one thread each
//!   signals ──┘                      └──▶ approvals, one thread each
//! ```

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use forewarn_client::{Client, EventId};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::catalog::StepCatalog;
use crate::config::{CONFIG_PATH, Config, HOOKS_DIR};
use crate::log;
use crate::message::{Message, ServiceUpdate};
use crate::metrics::{self, Metrics};
use crate::plan::{Job, Plan, PlanSettings, Task};
use crate::poller;
use crate::process::{self, StepSignal};
use crate::record::Record;
use crate::state::StateDir;
use crate::step::step_title;

/// Runs the agent until SIGTERM or SIGINT.
pub fn run(config: Config) -> Result<()> {
    let catalog = StepCatalog::load(&config)?;
    check_purpose(&config, &catalog)?;
    let state = StateDir::open(&config.state)?;
    let records = state.load()?;
    records.iter().for_each(stop_orphans);
    let known = records.iter().filter(|record| record.end.is_none()).map(|record| record.event.id.clone()).collect();
    let plan = Plan::resume(build_rules(&config, &catalog), records);
    // Fail now rather than at the first event if the state directory is not writable.
    state.save(plan.records())?;
    let (sender, inbox) = channel();
    stop_on_signals(sender.clone())?;
    let names: Vec<String> = catalog.steps().into_iter().map(|step| step.name).collect();
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    log::write_line(format!("forewarn-agent {} started; hooks and actions: {names}", env!("CARGO_PKG_VERSION")));
    let metrics = Arc::new(Metrics::default());
    if let Some(address) = config.metrics {
        metrics::serve(address, metrics.clone());
    }
    let poller_sender = sender.clone();
    thread::spawn(move || poller::run(&config, &poller_sender, known));
    let driver = Driver {
        plan,
        state,
        catalog,
        sender,
        machine: None,
        running: BTreeMap::new(),
        outage: OutageLog::default(),
        metrics,
        is_unsaved: false,
        is_watching: false,
    };
    driver.run(&inbox);
    Ok(())
}

/// Refuses a configuration without hooks and actions: every event would be approved as soon as it is seen, although
/// nothing prepares for it. That is almost always a mistake, such as a wrong directory.
fn check_purpose(config: &Config, catalog: &StepCatalog) -> Result<()> {
    let has_purpose = config.approve_without_hooks || !config.policies.can_approve() || !catalog.steps().is_empty();
    ensure!(
        has_purpose,
        "no hooks or actions are configured, so every event would be approved at once; add a hook to {} or an action to {}, \
         or pass --approve-without-hooks",
        config.hooks.as_deref().unwrap_or(Path::new(HOOKS_DIR)).display(),
        CONFIG_PATH
    );
    Ok(())
}

fn build_rules(config: &Config, catalog: &StepCatalog) -> PlanSettings {
    PlanSettings {
        steps: catalog.steps(),
        policies: config.policies.clone(),
        on_failure: config.on_failure,
        on_late: config.on_late,
        rerun_interrupted: config.rerun_interrupted,
        margin: config.margin,
        limit: config.limit,
        leader_share_percent: config.leader_share_percent,
    }
}

fn stop_orphans(record: &Record) {
    for run in &record.runs {
        if run.process.as_ref().is_some_and(process::stop_orphan) {
            log::write_line(format!(
                "event {}: stopped {}, which was still running",
                record.event.id,
                step_title(&run.name)
            ));
        }
    }
}

fn stop_on_signals(sender: Sender<Message>) -> Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT]).context("cannot handle signals")?;
    thread::spawn(move || signals.forever().try_for_each(|_| sender.send(Message::Stop)));
    Ok(())
}

struct Driver {
    plan: Plan,
    state: StateDir,
    catalog: StepCatalog,
    sender: Sender<Message>,
    /// Name of this machine and a client for approvals, once known.
    machine: Option<(String, Client)>,
    running: BTreeMap<(EventId, String), Sender<StepSignal>>,
    outage: OutageLog,
    metrics: Arc<Metrics>,
    is_unsaved: bool,
    /// Whether the first document has arrived. From then on the service counts this machine's handler as connected.
    is_watching: bool,
}

impl Driver {
    fn run(mut self, inbox: &Receiver<Message>) {
        loop {
            self.carry_out_tasks();
            match self.receive(inbox) {
                Some(Message::Stop) => return self.stop(inbox),
                Some(message) => self.handle(message),
                None => {}
            }
        }
    }

    /// Returns the next message, or `None` if a deadline has passed.
    fn receive(&self, inbox: &Receiver<Message>) -> Option<Message> {
        let now = SystemTime::now();
        let Some(deadline) = self.plan.deadline(now) else { return inbox.recv().ok() };
        let left = deadline.duration_since(now).unwrap_or_default().min(CLOCK_CHECK_INTERVAL);
        inbox.recv_timeout(left).ok()
    }

    fn handle(&mut self, message: Message) {
        let now = SystemTime::now();
        match message {
            Message::Service(ServiceUpdate::Failed(problem)) => {
                self.metrics.record_failure(&problem);
                self.outage.report_failure(&problem);
            }
            Message::Service(ServiceUpdate::Unchanged) => self.record_response(),
            Message::Service(ServiceUpdate::Ready { name, client }) => self.machine = Some((name, *client)),
            Message::Service(ServiceUpdate::Document(document)) => {
                self.record_response();
                if let Some((name, client)) = &self.machine {
                    if !std::mem::replace(&mut self.is_watching, true) {
                        log::write_line(format!("this machine is {name}; watching {}", client.endpoint()));
                    }
                    self.plan.apply_document(name, &document, now);
                }
            }
            Message::StepBegan { id, step, process } => self.plan.record_start(&id, &step, process),
            Message::StepEnded { id, step, outcome } => {
                self.plan.record_end(&id, &step, outcome);
                self.running.remove(&(id, step));
            }
            Message::Approved { id, result } => self.plan.record_approval(&id, result, now),
            Message::Stop => {}
        }
    }

    fn record_response(&mut self) {
        self.metrics.record_response();
        self.outage.report_recovery();
    }

    /// Carries out the tasks that are due, after the state that marks them as started has been saved.
    fn carry_out_tasks(&mut self) {
        let tasks = self.plan.next(SystemTime::now());
        self.metrics.set_counters(self.plan.counters());
        if self.plan.take_changed() || self.is_unsaved {
            self.save();
        }
        for task in tasks {
            match task {
                Task::Log(text) => log::write_line(text),
                Task::Run(job) => self.start(*job),
                Task::Approve(id) => self.approve(id),
            }
        }
    }

    /// Saves the state. If the disk is full, the agent runs hooks anyway: a hook that may run twice after a crash is
    /// better than none.
    fn save(&mut self) {
        match self.state.save(self.plan.records()) {
            Ok(()) => self.is_unsaved = false,
            Err(error) => {
                if !self.is_unsaved {
                    log::write_line(format!("{error:#}; continuing without saving"));
                }
                self.is_unsaved = true;
            }
        }
    }

    fn start(&mut self, job: Job) {
        let (id, title, secs) = (&job.event.id, step_title(&job.step), job.limit.as_secs());
        log::write_line(format!("event {id}: starting {title} (limit {secs} s)"));
        let (signal, signals) = channel();
        self.running.insert((job.event.id.clone(), job.step.clone()), signal.clone());
        let (program, sender) = (self.catalog.program(&job), self.sender.clone());
        thread::spawn(move || {
            let (id, step) = (job.event.id.clone(), job.step.clone());
            let on_start = |process| {
                // An error means that the agent has stopped; the step is about to be stopped too.
                let _ = sender.send(Message::StepBegan { id, step, process });
            };
            let outcome = process::run(&program, &job, signal, &signals, on_start);
            sender.send(Message::StepEnded { id: job.event.id, step: job.step, outcome })
        });
    }

    fn approve(&mut self, id: EventId) {
        let Some(mut client) = self.machine.as_ref().map(|(_, client)| client.clone()) else {
            let problem = "the service has not been found yet".to_owned();
            return self.plan.record_approval(&id, Err(problem), SystemTime::now());
        };
        let sender = self.sender.clone();
        thread::spawn(move || {
            let result = client.approve(std::slice::from_ref(&id)).map_err(|error| error.to_line());
            sender.send(Message::Approved { id, result })
        });
    }

    /// Stops the running steps and saves the state.
    fn stop(mut self, inbox: &Receiver<Message>) {
        log::write_line(format!("stopping; running hooks and actions: {}", self.running.len()));
        for signal in self.running.values() {
            // An error means that the step has just ended.
            let _ = signal.send(StepSignal::Stop);
        }
        while !self.running.is_empty() {
            match inbox.recv() {
                Ok(message @ (Message::StepBegan { .. } | Message::StepEnded { .. } | Message::Approved { .. })) => {
                    self.handle(message)
                }
                Ok(Message::Service(_) | Message::Stop) => {}
                Err(_) => break,
            }
        }
        self.save();
        for text in self.plan.take_messages() {
            log::write_line(text);
        }
    }
}

/// The system clock may be set while the agent waits for a deadline.
const CLOCK_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Logs the start and the end of an outage of the service, and nothing in between.
#[derive(Debug, Default)]
struct OutageLog {
    since: Option<Instant>,
}

impl OutageLog {
    fn report_failure(&mut self, problem: &str) {
        if self.since.is_none() {
            log::write_line(format!("polling failed, retrying: {problem}"));
            self.since = Some(Instant::now());
        }
    }

    fn report_recovery(&mut self) {
        if let Some(since) = self.since.take() {
            log::write_line(format!("the service responds again after {} s", since.elapsed().as_secs()));
        }
    }
}
