//! Built-in actions for common tasks, so that no script is needed.
//!
//! An action is a step like a hook and runs like one: the agent starts itself as a child process (`forewarn-agent act`)
//! with the event in the environment and on standard input. Records, time limits and logging are the same as for hooks.
//! The action itself is passed in `FOREWARN_ACTION`, not on the command line, because it may contain a secret and
//! command lines are visible to every user.

mod haproxy;
mod journal;
mod kubernetes;
mod nginx;
mod programs;
mod request;
mod systemd;
mod webhook;

use anyhow::{Context, Result, bail};
use forewarn_client::EventKind;
use serde::{Deserialize, Serialize};

use crate::policy::FailurePolicy;
use crate::record::Phase;
use crate::step::{Step, action_step_name};

pub use haproxy::Haproxy;
pub use journal::Journal;
pub use kubernetes::Kubernetes;
pub use nginx::Nginx;
pub use request::{ActionRequest, run_requested_action};
pub use systemd::Systemd;
pub use webhook::Webhook;

/// An `[[action]]` of the configuration.
#[derive(Debug, Clone)]
pub struct Action {
    pub name: String,
    /// Event types that the action applies to; empty for all.
    pub kinds: Vec<EventKind>,
    pub on_failure: Option<FailurePolicy>,
    pub on_late: Option<FailurePolicy>,
    pub spec: ActionSpec,
}

/// Kind of an action, with its settings.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ActionSpec {
    Journal(Journal),
    Webhook(Webhook),
    Nginx(Nginx),
    Haproxy(Haproxy),
    Systemd(Systemd),
    Kubernetes(Kubernetes),
}

impl Action {
    pub fn steps(&self) -> impl Iterator<Item = Step> {
        self.spec.phases().iter().map(|phase| Step {
            name: action_step_name(&self.name, *phase),
            phase: *phase,
            kinds: self.kinds.clone(),
            changed_by: self.spec.is_reversible().then(|| self.name.clone()),
            on_failure: self.on_failure.or(self.spec.failure_policy()),
            on_late: self.on_late.or(self.spec.failure_policy()),
        })
    }

    /// Checks at startup whether the action can run.
    pub fn check(&self) -> Result<()> {
        let checked = match &self.spec {
            ActionSpec::Journal(spec) => spec.check(),
            ActionSpec::Webhook(spec) => spec.check(),
            ActionSpec::Nginx(spec) => spec.check(),
            ActionSpec::Haproxy(spec) => spec.check(),
            ActionSpec::Systemd(spec) => spec.check(),
            ActionSpec::Kubernetes(spec) => spec.check(),
        };
        checked.with_context(|| format!("cannot run the action {}", self.name))
    }
}

impl ActionSpec {
    fn perform(&self, request: &ActionRequest, event: &str) -> Result<()> {
        match self {
            ActionSpec::Journal(spec) => spec.write(request.phase),
            ActionSpec::Webhook(spec) => spec.post(request, event),
            ActionSpec::Nginx(spec) => spec.apply(request),
            ActionSpec::Haproxy(spec) => spec.apply(request),
            ActionSpec::Systemd(spec) => spec.apply(request),
            ActionSpec::Kubernetes(spec) => spec.apply(request),
        }
    }

    fn phases(&self) -> &[Phase] {
        match self {
            ActionSpec::Journal(_) | ActionSpec::Webhook(_) => &Phase::ALL,
            ActionSpec::Nginx(_) | ActionSpec::Haproxy(_) | ActionSpec::Systemd(_) | ActionSpec::Kubernetes(_) => {
                &[Phase::Prepare, Phase::Restore]
            }
        }
    }

    /// Whether the action changes something that `restore` undoes; the others only send a notification.
    fn is_reversible(&self) -> bool {
        match self {
            ActionSpec::Journal(_) | ActionSpec::Webhook(_) => false,
            ActionSpec::Nginx(_) | ActionSpec::Haproxy(_) | ActionSpec::Systemd(_) | ActionSpec::Kubernetes(_) => true,
        }
    }

    /// Default failure policy. A failed notification does not prevent the approval.
    fn failure_policy(&self) -> Option<FailurePolicy> {
        (!self.is_reversible()).then_some(FailurePolicy::Approve)
    }
}

/// Direction of an action that makes a change in `prepare` and undoes it in `restore`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Drain,
    Restore,
}

impl Direction {
    fn of(phase: Phase) -> Result<Direction> {
        match phase {
            Phase::Prepare => Ok(Direction::Drain),
            Phase::Restore => Ok(Direction::Restore),
            Phase::Started => bail!("this action has no `started` phase"),
        }
    }
}
