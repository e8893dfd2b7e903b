//! The loop: one thread that owns the plan. Everybody else sends it messages.
//!
//! ```text
//!   poller ───┐                      ┌──▶ state file, always first
//!   steps ────┼──▶ inbox ──▶ plan ───┼──▶ steps, a thread each
//!   signals ──┘                      └──▶ approvals, a thread each
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use forewarn_client::{Client, EventId};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::config::Config;
use crate::log;
use crate::metrics::{self, Board};
use crate::plan::{Job, Plan, Rules, Task};
use crate::poller::{self, News};
use crate::process::{self, Wake};
use crate::record::{Outcome, ProcessMark, Record};
use crate::state::State;
use crate::step::title;
use crate::toolbox::Toolbox;

#[derive(Debug)]
pub enum Message {
    News(News),
    StepBegan { id: EventId, step: String, process: ProcessMark },
    StepEnded { id: EventId, step: String, outcome: Outcome },
    Answered { id: EventId, answer: Result<(), String> },
    Stop,
}

/// Until SIGTERM or SIGINT.
pub fn run(config: Config) -> Result<()> {
    let toolbox = Toolbox::open(&config)?;
    let state = State::open(&config.state)?;
    let records = state.load()?;
    records.iter().for_each(stop_left_behind);
    let known = records.iter().filter(|record| record.over.is_none()).map(|record| record.event.id.clone()).collect();
    let plan = Plan::resume(rules(&config, &toolbox), records);
    // At the start rather than at the first event.
    state.save(plan.records())?;
    let (sender, inbox) = channel();
    stop_on_signals(sender.clone())?;
    let names: Vec<String> = toolbox.steps().into_iter().map(|step| step.name).collect();
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    log::line(format!("forewarn-agent {} starts; hooks and actions: {names}", env!("CARGO_PKG_VERSION")));
    let board = Arc::new(Board::default());
    if let Some(address) = config.metrics {
        metrics::serve(address, board.clone());
    }
    let poller_sender = sender.clone();
    thread::spawn(move || poller::run(&config, &poller_sender, known));
    let driver = Driver {
        plan,
        state,
        toolbox,
        sender,
        me: None,
        running: BTreeMap::new(),
        trouble: Trouble::default(),
        board,
        is_unsaved: false,
        is_watching: false,
    };
    driver.run(&inbox);
    Ok(())
}

fn rules(config: &Config, toolbox: &Toolbox) -> Rules {
    Rules {
        steps: toolbox.steps(),
        policies: config.policies.clone(),
        on_failure: config.on_failure,
        on_late: config.on_late,
        rerun_interrupted: config.rerun_interrupted,
        margin: config.margin,
        limit: config.limit,
        leader_share_percent: config.leader_share_percent,
    }
}

fn stop_left_behind(record: &Record) {
    for run in &record.runs {
        if run.process.as_ref().is_some_and(process::stop_left_behind) {
            log::line(format!("event {}: {} was left running, and was stopped", record.event.id, title(&run.name)));
        }
    }
}

fn stop_on_signals(sender: Sender<Message>) -> Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT]).context("signals cannot be handled")?;
    thread::spawn(move || signals.forever().try_for_each(|_| sender.send(Message::Stop)));
    Ok(())
}

struct Driver {
    plan: Plan,
    state: State,
    toolbox: Toolbox,
    sender: Sender<Message>,
    /// The name of this machine and a client to approve with, once they are known.
    me: Option<(String, Client)>,
    running: BTreeMap<(EventId, String), Sender<Wake>>,
    trouble: Trouble,
    board: Arc<Board>,
    is_unsaved: bool,
    /// The first document was there: from then on the service knows that somebody listens.
    is_watching: bool,
}

impl Driver {
    fn run(mut self, inbox: &Receiver<Message>) {
        loop {
            self.act();
            match self.receive(inbox) {
                Some(Message::Stop) => return self.stop(inbox),
                Some(message) => self.take(message),
                None => {}
            }
        }
    }

    /// The next message, or `None` when something is due.
    fn receive(&self, inbox: &Receiver<Message>) -> Option<Message> {
        let now = SystemTime::now();
        let Some(deadline) = self.plan.deadline(now) else { return inbox.recv().ok() };
        let left = deadline.duration_since(now).unwrap_or_default().min(LOOK_AGAIN);
        inbox.recv_timeout(left).ok()
    }

    fn take(&mut self, message: Message) {
        let now = SystemTime::now();
        match message {
            Message::News(News::Trouble(problem)) => {
                self.board.trouble(&problem);
                self.trouble.begins(&problem);
            }
            Message::News(News::Unchanged) => self.answered(),
            Message::News(News::Ready { name, client }) => self.me = Some((name, *client)),
            Message::News(News::Document(document)) => {
                self.answered();
                if let Some((me, client)) = &self.me {
                    if !std::mem::replace(&mut self.is_watching, true) {
                        log::line(format!("this machine is {me}; watching {}", client.endpoint()));
                    }
                    self.plan.document(me, &document, now);
                }
            }
            Message::StepBegan { id, step, process } => self.plan.step_began(&id, &step, process),
            Message::StepEnded { id, step, outcome } => {
                self.plan.step_ended(&id, &step, outcome);
                self.running.remove(&(id, step));
            }
            Message::Answered { id, answer } => self.plan.answered(&id, answer, now),
            Message::Stop => {}
        }
    }

    fn answered(&mut self) {
        self.board.answered();
        self.trouble.ends();
    }

    /// What is to be done, after it was recorded that it is being done.
    fn act(&mut self) {
        let tasks = self.plan.next(SystemTime::now());
        self.board.count(self.plan.tally());
        if self.plan.take_changed() || self.is_unsaved {
            self.save();
        }
        for task in tasks {
            match task {
                Task::Say(text) => log::line(text),
                Task::Run(job) => self.start(*job),
                Task::Approve(id) => self.approve(id),
            }
        }
    }

    /// A machine whose disk is full still gets its hooks: a hook that may run twice after a crash is
    /// better than none.
    fn save(&mut self) {
        match self.state.save(self.plan.records()) {
            Ok(()) => self.is_unsaved = false,
            Err(error) => {
                if !self.is_unsaved {
                    log::line(format!("{error:#}; going on without"));
                }
                self.is_unsaved = true;
            }
        }
    }

    fn start(&mut self, job: Job) {
        let (id, title, secs) = (&job.event.id, title(&job.step), job.limit.as_secs());
        log::line(format!("event {id}: {title} begins, for at most {secs} s"));
        let (wake, wakes) = channel();
        self.running.insert((job.event.id.clone(), job.step.clone()), wake.clone());
        let (program, sender) = (self.toolbox.program(&job), self.sender.clone());
        thread::spawn(move || {
            let (id, step) = (job.event.id.clone(), job.step.clone());
            let began = |process| {
                // The agent has stopped, and the step will be too.
                let _ = sender.send(Message::StepBegan { id, step, process });
            };
            let outcome = process::run(&program, &job, wake, &wakes, began);
            sender.send(Message::StepEnded { id: job.event.id, step: job.step, outcome })
        });
    }

    fn approve(&mut self, id: EventId) {
        let Some(mut client) = self.me.as_ref().map(|(_, client)| client.clone()) else {
            let problem = "the service is not known yet".to_owned();
            return self.plan.answered(&id, Err(problem), SystemTime::now());
        };
        let sender = self.sender.clone();
        thread::spawn(move || {
            let answer = client.approve(std::slice::from_ref(&id)).map_err(|error| error.to_line());
            sender.send(Message::Answered { id, answer })
        });
    }

    /// Stops the hooks that run and records how far everything came.
    fn stop(mut self, inbox: &Receiver<Message>) {
        log::line(format!("stopping; hooks that are stopped too: {}", self.running.len()));
        for wake in self.running.values() {
            // One that has just ended does not listen any more.
            let _ = wake.send(Wake::Stop);
        }
        while !self.running.is_empty() {
            match inbox.recv() {
                Ok(message @ (Message::StepBegan { .. } | Message::StepEnded { .. } | Message::Answered { .. })) => {
                    self.take(message)
                }
                Ok(Message::News(_) | Message::Stop) => {}
                Err(_) => break,
            }
        }
        self.save();
        for text in self.plan.take_says() {
            log::line(text);
        }
    }
}

/// The time of day may be set while the agent waits for it.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Says that the service is in trouble when it begins and when it ends, and not in between.
#[derive(Debug, Default)]
struct Trouble {
    since: Option<Instant>,
}

impl Trouble {
    fn begins(&mut self, problem: &str) {
        if self.since.is_none() {
            log::line(format!("no news, trying again until there are: {problem}"));
            self.since = Some(Instant::now());
        }
    }

    fn ends(&mut self) {
        if let Some(since) = self.since.take() {
            log::line(format!("the service answers again, after {} s", since.elapsed().as_secs()));
        }
    }
}
