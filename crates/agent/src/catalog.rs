//! The configured steps (hooks and actions) and the program for each.

use anyhow::Result;

use crate::action::{Action, ActionRequest};
use crate::config::Config;
use crate::hooks::Hooks;
use crate::plan::Job;
use crate::process::Program;
use crate::record::Phase;
use crate::step::{Step, action_step_name};

#[derive(Debug, Clone)]
pub struct StepCatalog {
    hooks: Hooks,
    actions: Vec<Action>,
}

/// This program, even after an update has replaced its file.
const SELF_PATH: &str = "/proc/self/exe";

impl StepCatalog {
    /// Loads and checks all hooks and actions.
    pub fn load(config: &Config) -> Result<StepCatalog> {
        let hooks = config.hooks.as_deref().map_or_else(|| Ok(Hooks::default()), Hooks::load)?;
        config.actions.iter().try_for_each(Action::check)?;
        Ok(StepCatalog { hooks, actions: config.actions.clone() })
    }

    /// Steps in the order in which they run: actions in the order of the file, then the general hook, then the hook for
    /// the type. `restore` runs in reverse order.
    pub fn steps(&self) -> Vec<Step> {
        let steps = self.actions.iter().flat_map(Action::steps).chain(self.hooks.steps());
        let (mut steps, restores): (Vec<Step>, Vec<Step>) = steps.partition(|step| step.phase != Phase::Restore);
        steps.extend(restores.into_iter().rev());
        steps
    }

    /// Program that carries out a job.
    pub fn program(&self, job: &Job) -> Program {
        let action = self.actions.iter().find(|action| action_step_name(&action.name, job.phase) == job.step);
        match action {
            Some(action) => Program {
                path: SELF_PATH.into(),
                arguments: vec!["act"],
                environment: vec![ActionRequest::new(action.spec.clone(), job.phase, job.limit).to_variable()],
            },
            None => Program { path: self.hooks.path(&job.step), arguments: vec![], environment: vec![] },
        }
    }
}
