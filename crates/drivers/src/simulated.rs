//! Simulates impacts: an event ends a fixed time after it started. The driver stores nothing, so an event continues after a
//! restart.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use forewarn_core::{Cause, Effect, Event, EventId, EventKind, Region, Report, Status, Timestamp};

use super::Driver;

/// The durations of simulated impacts, before the notice scale divides them.
#[derive(Clone, Debug)]
pub struct Impacts {
    pub live_migration: Duration,
    pub freeze: Duration,
    pub reboot: Duration,
    pub redeploy: Duration,
    pub hardware_failure: Duration,
    pub eviction: Duration,
    pub deletion: Duration,
}

impl Default for Impacts {
    fn default() -> Self {
        let minutes = |n: u64| Duration::from_secs(n * 60);
        Impacts {
            live_migration: minutes(5),
            freeze: minutes(10),
            reboot: minutes(10),
            redeploy: minutes(10),
            hardware_failure: minutes(10),
            eviction: Duration::ZERO,
            deletion: Duration::ZERO,
        }
    }
}

/// The shortest time that an event is Started on a real clock, so that a client that polls every second sees it.
const STARTED_MIN: Duration = Duration::from_secs(2);

pub struct Simulated {
    impacts: Impacts,
    least: Duration,
    ends: HashMap<EventId, Timestamp>,
    queue: BTreeSet<(Timestamp, EventId)>,
}

impl Simulated {
    /// For a real clock, on which every impact lasts at least [`STARTED_MIN`].
    pub fn real_time(impacts: Impacts) -> Simulated {
        Simulated { impacts, least: STARTED_MIN, ends: HashMap::new(), queue: BTreeSet::new() }
    }

    /// For a manual clock.
    pub fn manual_time(impacts: Impacts) -> Simulated {
        Simulated { impacts, least: Duration::ZERO, ends: HashMap::new(), queue: BTreeSet::new() }
    }

    fn begin(&mut self, event: &Event) {
        let Some(end) = self.end_of(event) else { return };
        if self.ends.insert(event.id, end).is_none() {
            self.queue.insert((end, event.id));
        }
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
            Cause::RebalanceRecommendation => Duration::ZERO,
            Cause::HostMaintenance | Cause::UserRestart | Cause::UserRedeploy | Cause::SelfServiceMaintenance => {
                match kind {
                    EventKind::Freeze => self.impacts.freeze,
                    EventKind::Reboot => self.impacts.reboot,
                    EventKind::Redeploy => self.impacts.redeploy,
                    EventKind::Preempt => self.impacts.eviction,
                    EventKind::Terminate => self.impacts.deletion,
                    EventKind::SpotRebalanceRecommendation => Duration::ZERO,
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
    }

    fn reconcile(&mut self, region: &Region) {
        self.ends.clear();
        self.queue.clear();
        for event in region.wanted_effects() {
            self.begin(event);
        }
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
    }
}
