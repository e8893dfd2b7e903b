//! The door to the rules: one command at one time, whole or not at all.

use crate::command::Command;
use crate::region::Region;
use crate::rejection::Rejection;
use crate::time::Timestamp;
use crate::transition::Transition;

impl Region {
    /// What comes of `command` at `now`. What was due by then happens first, as a step of its own. A
    /// command that is refused changes nothing: even the time that passed is as if it had not.
    pub fn apply(&self, command: &Command, now: Timestamp) -> Result<Transition, Rejection> {
        let _ = (command, now);
        Err(Rejection::NothingThere)
    }
}
