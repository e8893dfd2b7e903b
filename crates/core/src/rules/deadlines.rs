//! Changes that happen without a command, because their time has come.

use std::time::Duration;

use crate::entity::Key;
use crate::ids::EventId;
use crate::model::*;
use crate::region::Deadline;
use crate::step::Step;
use crate::time::Timestamp;

impl Step {
    /// Handles every deadline up to now.
    pub fn handle_due(&mut self) {
        while let Some((at, deadline)) = self.region.index.deadlines.get_min().cloned() {
            if at > self.now {
                break;
            }
            self.handle_deadline(deadline);
        }
        self.time_out_events();
        self.turn_off_idle_scopes();
    }

    /// Ends events whose drivers have not reported in time. Neither downtime of the server nor time without contact
    /// to the host counts.
    fn time_out_events(&mut self) {
        while let Some((started, id)) = self.region.index.started.get_min().copied() {
            if self.region.timeout_at(started) > self.now {
                break;
            }
            if self.region.events.get(&id).is_some_and(|event| self.is_held_up(event)) {
                let now = self.now;
                self.edit_event(id, |event| event.attended = now);
            } else {
                self.withdraw_orders(id);
                self.end(id, Outcome::TimedOut);
            }
        }
    }

    fn handle_deadline(&mut self, deadline: Deadline) {
        match deadline {
            Deadline::NotBefore(id) => {
                if let Some(event) = self.edit_event(id, |event| event.due = true) {
                    self.unsettle(&event);
                    self.mark_rollout_unsettled(&event);
                }
            }
            Deadline::Forget(id) => self.forget_event(id),
            Deadline::ForgetOperation(id) => self.delete(Key::Operation(id)),
            Deadline::NextBatch(id) => self.upgrade_next_batch(id),
            Deadline::Rollout(id) => {
                self.edit_rollout(id, |rollout| rollout.wake = None);
                self.replan = true;
            }
            Deadline::ForgetRollout(id) => self.delete(Key::Rollout(id)),
        }
    }

    /// Accounts for the time during which the server was down, so that it counts neither as idle time nor as
    /// notice.
    pub fn resume(&mut self, before: Timestamp) {
        let down = if before == Timestamp::default() { 0 } else { self.now.0 - before.0 };
        let now = self.now;
        self.edit_meta(|meta| {
            meta.resumed = now;
            meta.term += 1;
            meta.downtime_ms += down;
        });
        self.extend_notice(before, Duration::from_millis(u64::try_from(down).unwrap_or(0)));
    }

    /// Extends the notice of events that the machines had not seen for long enough when the server stopped.
    fn extend_notice(&mut self, before: Timestamp, down: Duration) {
        if down.is_zero() {
            return;
        }
        let unseen: Vec<EventId> =
            self.region.index.noticing.iter().rev().map_while(|(end, id)| (*end > before).then_some(*id)).collect();
        for id in unseen {
            self.edit_event(id, |event| event.notice_end = event.notice_end + down);
        }
    }
}
