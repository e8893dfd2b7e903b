//! What time alone changes.

use crate::model::*;
use crate::region::Deadline;
use crate::step::Step;
use crate::time::Timestamp;
use crate::transition::Key;

impl Step {
    /// Everything that is due by now.
    pub fn pass_time(&mut self) {
        while let Some((at, deadline)) = self.region.index.deadlines.get_min().cloned() {
            if at > self.now {
                break;
            }
            self.pass(deadline);
        }
        self.turn_off_idle_scopes();
    }

    fn pass(&mut self, deadline: Deadline) {
        match deadline {
            Deadline::NotBefore(id) => {
                if let Some(event) = self.edit_event(id, |event| event.due = true) {
                    self.unsettle(&event);
                }
            }
            Deadline::DriverSilent(id) => self.end(id, Outcome::TimedOut),
            Deadline::Forget(id) => self.delete(Key::Event(id)),
            Deadline::ForgetOperation(id) => self.delete(Key::Operation(id)),
            Deadline::NextDomain(id) => self.next_domain(id),
            Deadline::NextBatch(id) => self.next_batch(id),
        }
    }

    /// The server runs again. What it did not see, because it did not run, does not count as silence.
    pub fn resume(&mut self, before: Timestamp) {
        let down = self.now.0 - before.0;
        if before != Timestamp::default() {
            self.edit_meta(|meta| meta.downtime_ms += down);
        }
    }
}
