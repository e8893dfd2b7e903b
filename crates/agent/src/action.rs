//! Built-in actions: what most machines want done, without a script.
//!
//! An action is a step like a hook, and runs like one: the agent starts itself as a process of its own
//! (`forewarn-agent act`) with the event in the environment and on standard input, and what to do in
//! `FOREWARN_ACTION`. So the record, the time limit, the log and the killing are those of hooks. Not on
//! the command line, because there may be a secret in it and everybody can read those.

mod haproxy;
mod journal;
mod kubernetes;
mod nginx;
mod order;
mod programs;
mod systemd;
mod webhook;

use anyhow::{Context, Result, bail};
use forewarn_client::Kind;
use serde::{Deserialize, Serialize};

use crate::policy::OnTrouble;
use crate::record::Phase;
use crate::step::{Step, action_step};

pub use haproxy::Haproxy;
pub use journal::Journal;
pub use kubernetes::Kubernetes;
pub use nginx::Nginx;
pub use order::{Order, perform};
pub use systemd::Systemd;
pub use webhook::Webhook;

/// One `[[action]]` of the configuration.
#[derive(Debug, Clone)]
pub struct Action {
    pub name: String,
    /// None means every type.
    pub kinds: Vec<Kind>,
    pub on_failure: Option<OnTrouble>,
    pub on_late: Option<OnTrouble>,
    pub work: Work,
}

/// What an action does.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    Journal(Journal),
    Webhook(Webhook),
    Nginx(Nginx),
    Haproxy(Haproxy),
    Systemd(Systemd),
    Kubernetes(Kubernetes),
}

impl Action {
    pub fn steps(&self) -> impl Iterator<Item = Step> {
        self.work.phases().iter().map(|phase| Step {
            name: action_step(&self.name, *phase),
            phase: *phase,
            kinds: self.kinds.clone(),
            changed_by: self.work.is_change().then(|| self.name.clone()),
            on_failure: self.on_failure.or(self.work.on_trouble()),
            on_late: self.on_late.or(self.work.on_trouble()),
        })
    }

    /// Whether it could be done: asked at the start, so that a mistake shows then.
    pub fn check(&self) -> Result<()> {
        let checked = match &self.work {
            Work::Journal(work) => work.check(),
            Work::Webhook(work) => work.check(),
            Work::Nginx(work) => work.check(),
            Work::Haproxy(work) => work.check(),
            Work::Systemd(work) => work.check(),
            Work::Kubernetes(work) => work.check(),
        };
        checked.with_context(|| format!("the action {} cannot run", self.name))
    }
}

impl Work {
    fn do_it(&self, order: &Order, event: &str) -> Result<()> {
        match self {
            Work::Journal(work) => work.write(order.phase),
            Work::Webhook(work) => work.post(order, event),
            Work::Nginx(work) => work.turn(order),
            Work::Haproxy(work) => work.turn(order),
            Work::Systemd(work) => work.turn(order),
            Work::Kubernetes(work) => work.turn(order),
        }
    }

    fn phases(&self) -> &[Phase] {
        match self {
            Work::Journal(_) | Work::Webhook(_) => &Phase::ALL,
            Work::Nginx(_) | Work::Haproxy(_) | Work::Systemd(_) | Work::Kubernetes(_) => {
                &[Phase::Prepare, Phase::Restore]
            }
        }
    }

    /// Whether `restore` changes something back; the others only tell somebody.
    fn is_change(&self) -> bool {
        match self {
            Work::Journal(_) | Work::Webhook(_) => false,
            Work::Nginx(_) | Work::Haproxy(_) | Work::Systemd(_) | Work::Kubernetes(_) => true,
        }
    }

    /// A machine is ready also when nobody could be told.
    fn on_trouble(&self) -> Option<OnTrouble> {
        (!self.is_change()).then_some(OnTrouble::Approve)
    }
}

/// For actions that change something when an event is announced, and change it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Out,
    Back,
}

impl Turn {
    fn of(phase: Phase) -> Result<Turn> {
        match phase {
            Phase::Prepare => Ok(Turn::Out),
            Phase::Restore => Ok(Turn::Back),
            Phase::Started => bail!("there is nothing to be done when the event starts"),
        }
    }
}
