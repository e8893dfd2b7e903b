//! A step: a hook, or one phase of a built-in action. Pure.

use forewarn_client::EventKind;

use crate::policy::{FailurePolicy, KNOWN_KINDS};
use crate::record::Phase;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Unique name.
    pub name: String,
    pub phase: Phase,
    /// Event types that the step applies to; empty for all.
    pub kinds: Vec<EventKind>,
    /// Action that the step belongs to, if the action makes changes that its `restore` undoes.
    pub changed_by: Option<String>,
    /// Overrides the setting for all steps.
    pub on_failure: Option<FailurePolicy>,
    pub on_late: Option<FailurePolicy>,
}

impl Step {
    /// Parses the name of a hook.
    pub fn from_hook_name(name: &str) -> Option<Step> {
        let (kinds, phase) = match name.split_once('.') {
            None => (Vec::new(), name),
            Some((kind, phase)) => (vec![KNOWN_KINDS.iter().find(|known| hook_prefix(known) == kind)?.clone()], phase),
        };
        let phase = Phase::parse(phase)?;
        Some(Step { name: name.to_owned(), phase, kinds, changed_by: None, on_failure: None, on_late: None })
    }

    pub fn applies_to(&self, kind: &EventKind) -> bool {
        self.kinds.is_empty() || self.kinds.contains(kind)
    }

    /// Name of the step that this one undoes.
    pub fn undone_step(&self) -> Option<String> {
        let action = self.changed_by.as_deref().filter(|_| self.phase == Phase::Restore)?;
        Some(action_step_name(action, Phase::Prepare))
    }
}

/// Name of an action's step in a phase.
pub fn action_step_name(action: &str, phase: Phase) -> String {
    format!("{action}.{phase}")
}

/// All valid hook names.
pub fn hook_names() -> Vec<String> {
    let general = Phase::ALL.into_iter().map(|phase| phase.to_string());
    let special = KNOWN_KINDS.iter().flat_map(|kind| Phase::ALL.map(|phase| format!("{}.{phase}", hook_prefix(kind))));
    general.chain(special).collect()
}

/// Name of a step for the log: `hook prepare`, `action nginx.prepare`.
pub fn step_title(name: &str) -> String {
    match Step::from_hook_name(name) {
        Some(_) => format!("hook {name}"),
        None => format!("action {name}"),
    }
}

fn hook_prefix(kind: &EventKind) -> String {
    kind.as_str().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_hook_names_are_parsed() {
        for name in hook_names() {
            assert_eq!(Step::from_hook_name(&name).unwrap().name, name);
        }
        for name in ["", "Prepare", "prepare.reboot", "rebot.prepare", "nginx.prepare", "reboot.prepare.x"] {
            assert_eq!(Step::from_hook_name(name), None, "{name}");
        }
        assert_eq!(step_title("reboot.prepare"), "hook reboot.prepare");
        assert_eq!(step_title("nginx.prepare"), "action nginx.prepare");
    }
}
