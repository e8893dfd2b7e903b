//! A step: what runs in one phase of an event, be it a hook or a built-in action. Pure.

use forewarn_client::Kind;

use crate::policy::{KINDS, OnTrouble};
use crate::record::Phase;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// No two steps have the same.
    pub name: String,
    pub phase: Phase,
    /// The types of events that it is for; none means every type.
    pub kinds: Vec<Kind>,
    /// The action that changes something which its `restore` changes back.
    pub changed_by: Option<String>,
    /// Instead of what is set for all steps.
    pub on_failure: Option<OnTrouble>,
    pub on_late: Option<OnTrouble>,
}

impl Step {
    /// `None` when no hook may have that name.
    pub fn of_hook(name: &str) -> Option<Step> {
        let (kinds, phase) = match name.split_once('.') {
            None => (Vec::new(), name),
            Some((kind, phase)) => (vec![KINDS.into_iter().find(|known| hook_word(known) == kind)?], phase),
        };
        let phase = Phase::parse(phase)?;
        Some(Step { name: name.to_owned(), phase, kinds, changed_by: None, on_failure: None, on_late: None })
    }

    pub fn is_for(&self, kind: &Kind) -> bool {
        self.kinds.is_empty() || self.kinds.contains(kind)
    }

    /// The step without which this one has nothing to change back.
    pub fn undoes(&self) -> Option<String> {
        let action = self.changed_by.as_deref().filter(|_| self.phase == Phase::Restore)?;
        Some(action_step(action, Phase::Prepare))
    }
}

/// How the step of an action in a phase is called.
pub fn action_step(action: &str, phase: Phase) -> String {
    format!("{action}.{phase}")
}

/// Every name that a hook may have.
pub fn hook_names() -> Vec<String> {
    let general = Phase::ALL.into_iter().map(|phase| phase.to_string());
    let special = KINDS.into_iter().flat_map(|kind| Phase::ALL.map(|phase| format!("{}.{phase}", hook_word(&kind))));
    general.chain(special).collect()
}

/// `hook prepare`, `action nginx.prepare`: the two are told apart by name.
pub fn title(name: &str) -> String {
    match Step::of_hook(name) {
        Some(_) => format!("hook {name}"),
        None => format!("action {name}"),
    }
}

fn hook_word(kind: &Kind) -> String {
    kind.as_str().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_hook_is_one_and_no_other_is() {
        for name in hook_names() {
            assert_eq!(Step::of_hook(&name).unwrap().name, name);
        }
        for name in ["", "Prepare", "prepare.reboot", "rebot.prepare", "nginx.prepare", "reboot.prepare.x"] {
            assert_eq!(Step::of_hook(name), None, "{name}");
        }
        assert_eq!(title("reboot.prepare"), "hook reboot.prepare");
        assert_eq!(title("nginx.prepare"), "action nginx.prepare");
    }
}
