//! The loop: one thread that owns the plan. Everybody else sends it messages.
//!
//! ```text
//!   poller ───┐                      ┌──▶ state file, always first
//!   hooks ────┼──▶ inbox ──▶ plan ───┼──▶ hooks, a thread each
//!   signals ──┘                      └──▶ approvals, a thread each
//! ```

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use forewarn_client::{Client, EventId};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::config::Config;
use crate::hooks::Hooks;
use crate::log;
use crate::plan::{Action, Job, Plan, Rules};
use crate::poller::{self, News};
use crate::process::{self, Wake};
use crate::record::{Outcome, ProcessMark, Record};
use crate::state::State;

#[derive(Debug)]
pub enum Message {
    News(News),
    HookBegan { id: EventId, hook: String, process: ProcessMark },
    HookEnded { id: EventId, hook: String, outcome: Outcome },
    Answered { id: EventId, answer: Result<(), String> },
    Stop,
}

/// Until SIGTERM or SIGINT.
pub fn run(config: Config) -> Result<()> {
    let hooks = Hooks::find(&config.hooks)?;
    let state = State::open(&config.state)?;
    let records = state.load()?;
    records.iter().for_each(stop_left_behind);
    let plan = Plan::resume(rules(&config, &hooks), records);
    // At the start rather than at the first event.
    state.save(plan.records())?;
    let (sender, inbox) = channel();
    stop_on_signals(sender.clone())?;
    let hooks_text = if hooks.names.is_empty() { "none".to_owned() } else { hooks.names.join(", ") };
    log::line(format!("forewarn-agent {} starts; hooks: {hooks_text}", env!("CARGO_PKG_VERSION")));
    let poller_sender = sender.clone();
    thread::spawn(move || poller::run(&config, &poller_sender));
    let driver = Driver {
        plan,
        state,
        hooks,
        sender,
        me: None,
        running: BTreeMap::new(),
        trouble: Trouble::default(),
        is_unsaved: false,
        is_watching: false,
    };
    driver.run(&inbox);
    Ok(())
}

fn rules(config: &Config, hooks: &Hooks) -> Rules {
    Rules {
        hooks: hooks.names.clone(),
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
    for run in &record.hooks {
        if run.process.as_ref().is_some_and(process::stop_left_behind) {
            log::line(format!("event {}: hook {} was left running, and was stopped", record.event.id, run.name));
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
    hooks: Hooks,
    sender: Sender<Message>,
    /// The name of this machine and a client to approve with, once they are known.
    me: Option<(String, Client)>,
    running: BTreeMap<(EventId, String), Sender<Wake>>,
    trouble: Trouble,
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
            Message::News(News::Trouble(problem)) => self.trouble.begins(&problem),
            Message::News(News::Unchanged) => self.trouble.ends(),
            Message::News(News::Ready { name, client }) => {
                self.trouble.ends();
                self.me = Some((name, *client));
            }
            Message::News(News::Document(document)) => {
                self.trouble.ends();
                if let Some((me, client)) = &self.me {
                    if !std::mem::replace(&mut self.is_watching, true) {
                        log::line(format!("this machine is {me}; watching {}", client.endpoint()));
                    }
                    self.plan.document(me, &document, now);
                }
            }
            Message::HookBegan { id, hook, process } => self.plan.hook_began(&id, &hook, process),
            Message::HookEnded { id, hook, outcome } => {
                self.plan.hook_ended(&id, &hook, outcome);
                self.running.remove(&(id, hook));
            }
            Message::Answered { id, answer } => self.plan.answered(&id, answer, now),
            Message::Stop => {}
        }
    }

    /// What is to be done, after it was recorded that it is being done.
    fn act(&mut self) {
        let actions = self.plan.next(SystemTime::now());
        if self.plan.take_changed() || self.is_unsaved {
            self.save();
        }
        for action in actions {
            match action {
                Action::Say(text) => log::line(text),
                Action::Run(job) => self.start(*job),
                Action::Approve(id) => self.approve(id),
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
        log::line(format!("event {}: hook {} begins, for at most {} s", job.event.id, job.hook, job.limit.as_secs()));
        let (wake, wakes) = channel();
        self.running.insert((job.event.id.clone(), job.hook.clone()), wake.clone());
        let (path, sender) = (self.hooks.path(&job.hook), self.sender.clone());
        thread::spawn(move || {
            let (id, hook) = (job.event.id.clone(), job.hook.clone());
            let began = |process| {
                // The agent has stopped, and the hook will be too.
                let _ = sender.send(Message::HookBegan { id, hook, process });
            };
            let outcome = process::run(&path, &job, wake, &wakes, began);
            sender.send(Message::HookEnded { id: job.event.id, hook: job.hook, outcome })
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
                Ok(message @ (Message::HookBegan { .. } | Message::HookEnded { .. } | Message::Answered { .. })) => {
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
