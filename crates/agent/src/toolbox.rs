//! All steps that this machine has, hooks and actions, and which program does each.

use std::path::PathBuf;

use anyhow::Result;

use crate::action::{Action, Order};
use crate::config::Config;
use crate::hooks::Hooks;
use crate::plan::Job;
use crate::record::Phase;
use crate::step::{Step, action_step};

#[derive(Debug, Clone)]
pub struct Toolbox {
    hooks: Hooks,
    actions: Vec<Action>,
}

/// What to start for a step.
#[derive(Debug)]
pub struct Program {
    pub path: PathBuf,
    pub arguments: Vec<&'static str>,
    pub environment: Vec<(String, String)>,
}

/// This program, also after an update has replaced its file.
const OURSELVES: &str = "/proc/self/exe";

impl Toolbox {
    /// Refuses whatever could not run when the event comes.
    pub fn open(config: &Config) -> Result<Toolbox> {
        let hooks = config.hooks.as_deref().map_or_else(|| Ok(Hooks::default()), Hooks::find)?;
        config.actions.iter().try_for_each(Action::check)?;
        Ok(Toolbox { hooks, actions: config.actions.clone() })
    }

    /// Within a phase in the order in which they run: actions as they are in the file, then the hook for
    /// every type, then the one for the type. What was done last is undone first.
    pub fn steps(&self) -> Vec<Step> {
        let steps = self.actions.iter().flat_map(Action::steps).chain(self.hooks.steps());
        let (mut steps, undoing): (Vec<Step>, Vec<Step>) = steps.partition(|step| step.phase != Phase::Restore);
        steps.extend(undoing.into_iter().rev());
        steps
    }

    pub fn program(&self, job: &Job) -> Program {
        let action = self.actions.iter().find(|action| action_step(&action.name, job.phase) == job.step);
        match action {
            Some(action) => Program {
                path: OURSELVES.into(),
                arguments: vec!["act"],
                environment: vec![Order::new(action.work.clone(), job.phase, job.limit).variable()],
            },
            None => Program { path: self.hooks.path(&job.step), arguments: vec![], environment: vec![] },
        }
    }
}
