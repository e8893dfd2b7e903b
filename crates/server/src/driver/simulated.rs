//! The driver that only takes time: an event ends so and so long after it started. It remembers
//! nothing of its own, so after a restart an event goes on with what remains.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use forewarn_core::{Cause, Effect, Event, EventId, EventKind, Region, Report, Status, Timestamp};

use super::Driver;
use crate::clock;
use crate::config::Impacts;
use crate::engine::Health;

/// On a real clock an event is Started for so long at least, so that a client that polls each second
/// sees it.
const STARTED_MIN: Duration = Duration::from_secs(2);

pub(crate) struct Simulated {
    impacts: Impacts,
    least: Duration,
    ends: HashMap<EventId, Timestamp>,
    queue: BTreeSet<(Timestamp, EventId)>,
    /// Where it says when the next event ends.
    health: Arc<Health>,
}

impl Simulated {
    pub fn new(impacts: Impacts, clock: clock::Kind, health: Arc<Health>) -> Simulated {
        let least = match clock {
            clock::Kind::Real => STARTED_MIN,
            clock::Kind::Manual => Duration::ZERO,
        };
        Simulated { impacts, least, ends: HashMap::new(), queue: BTreeSet::new(), health }
    }

    fn begin(&mut self, event: &Event) {
        let Some(end) = self.end_of(event) else { return };
        if self.ends.insert(event.id, end).is_none() {
            self.queue.insert((end, event.id));
        }
    }

    fn tell_next(&self) {
        let next = self.next().map_or(0, |end| end.0);
        self.health.simulated_end_ms.store(next, Ordering::Relaxed);
    }

    fn end_of(&self, event: &Event) -> Option<Timestamp> {
        let Status::Started { at } = event.status else { return None };
        let impact = self.impact(event.cause, event.kind);
        if impact.is_zero() {
            return Some(at);
        }
        Some(at + (impact / event.notice_scale.max(1)).max(self.least))
    }

    fn impact(&self, cause: Cause, kind: EventKind) -> Duration {
        match cause {
            Cause::LiveMigration => self.impacts.live_migration,
            Cause::HardwareFailure => self.impacts.hardware_failure,
            Cause::Eviction => self.impacts.eviction,
            Cause::Deletion => self.impacts.deletion,
            Cause::HostMaintenance | Cause::UserRestart | Cause::UserRedeploy | Cause::SelfServiceMaintenance => {
                match kind {
                    EventKind::Freeze => self.impacts.freeze,
                    EventKind::Reboot => self.impacts.reboot,
                    EventKind::Redeploy => self.impacts.redeploy,
                    EventKind::Preempt => self.impacts.eviction,
                    EventKind::Terminate => self.impacts.deletion,
                }
            }
        }
    }
}

impl Driver for Simulated {
    fn follow(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Begin(event) => self.begin(event),
                Effect::Stop(event) => self.reported(*event),
            }
        }
        self.tell_next();
    }

    fn reconcile(&mut self, region: &Region) {
        self.ends.clear();
        self.queue.clear();
        for event in region.wanted_effects() {
            self.begin(event);
        }
        self.tell_next();
    }

    fn next(&self) -> Option<Timestamp> {
        self.queue.first().map(|(end, _)| *end)
    }

    fn due(&self, now: Timestamp, max: usize) -> Vec<(EventId, Report)> {
        let due = self.queue.iter().take_while(|(end, _)| *end <= now);
        due.take(max).map(|(_, event)| (*event, Report::Done)).collect()
    }

    fn reported(&mut self, event: EventId) {
        if let Some(end) = self.ends.remove(&event) {
            self.queue.remove(&(end, event));
        }
        self.tell_next();
    }
}
