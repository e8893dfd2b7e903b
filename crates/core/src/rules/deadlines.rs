//! What time alone changes.

use crate::entity::Key;
use crate::model::*;
use crate::region::Deadline;
use crate::step::Step;
use crate::time::Timestamp;

impl Step {
    /// Everything that is due by now.
    pub fn pass_time(&mut self) {
        while let Some((at, deadline)) = self.region.index.deadlines.get_min().cloned() {
            if at > self.now {
                break;
            }
            self.pass(deadline);
        }
        self.end_silent_events();
        self.turn_off_idle_scopes();
    }

    /// Drivers that have said nothing for too long. What a driver could not say, because the server did
    /// not run, does not count.
    fn end_silent_events(&mut self) {
        while let Some((started, id)) = self.region.index.started.get_min().copied() {
            if self.region.silent_at(started) > self.now {
                break;
            }
            self.end(id, Outcome::TimedOut);
        }
    }

    fn pass(&mut self, deadline: Deadline) {
        match deadline {
            Deadline::NotBefore(id) => {
                if let Some(event) = self.edit_event(id, |event| event.due = true) {
                    self.unsettle(&event);
                }
            }
            Deadline::Forget(id) => self.delete(Key::Event(id)),
            Deadline::ForgetOperation(id) => self.delete(Key::Operation(id)),
            Deadline::NextDomain(id) => self.next_domain(id),
            Deadline::NextBatch(id) => self.next_batch(id),
        }
    }

    /// The server runs again. What it did not see, because it did not run, does not count as silence.
    pub fn resume(&mut self, before: Timestamp) {
        let down = if before == Timestamp::default() { 0 } else { self.now.0 - before.0 };
        let now = self.now;
        self.edit_meta(|meta| {
            meta.resumed = now;
            meta.downtime_ms += down;
        });
    }
}
