//! Contact with host agents: turns beats into `ConfirmHost` and silence into `LoseHost`.
//!
//! Most beats change nothing that a rule reads, so they are not commands: a host is confirmed when it was not in contact, or
//! when an event waits for it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forewarn_core::{Command, Contact, Name, Region};
use forewarn_engine::{Engine, SubmitError};
use tokio_util::sync::CancellationToken;

pub struct Beats {
    engine: Engine,
    /// A host without a beat for this long is unreachable.
    silence_max: Duration,
    started: Instant,
    last: Mutex<HashMap<Name, Instant>>,
}

impl Beats {
    pub fn new(engine: Engine, silence_max: Duration) -> Beats {
        Beats { engine, silence_max, started: Instant::now(), last: Mutex::default() }
    }

    /// A host's agent is connected.
    pub fn note_contact(&self, host: &Name) {
        self.lock().insert(host.clone(), Instant::now());
    }

    /// A host's agent has a copy with this revision.
    pub async fn beat(&self, host: &Name, revision: u64) -> Result<(), SubmitError> {
        self.note_contact(host);
        let snapshot = self.engine.snapshot();
        if !wants_confirmation(&snapshot.region, host, revision) {
            return Ok(());
        }
        self.engine.submit(Command::ConfirmHost { name: host.clone(), revision }, None).await.map(drop)
    }

    /// Whether a host was in contact recently.
    pub fn is_recent(&self, host: &Name) -> bool {
        self.lock().get(host).is_some_and(|at| at.elapsed() < self.silence_max)
    }

    /// Gives up hosts that are silent for too long, until the server stops.
    pub async fn run(&self, stop: CancellationToken) {
        let pause = self.silence_max / 10;
        while stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
            for host in self.silent_hosts() {
                tracing::warn!(%host, "no heartbeat from a host agent; the host is unreachable");
                if let Err(error) = self.engine.submit(Command::LoseHost { name: host }, None).await {
                    tracing::warn!(%error, "cannot record that a host is unreachable");
                }
            }
        }
    }

    /// Hosts in contact without a recent beat. After a start, agents have as long to come back as otherwise.
    fn silent_hosts(&self) -> Vec<Name> {
        let last = self.lock();
        let is_silent = |name: &Name| last.get(name).unwrap_or(&self.started).elapsed() >= self.silence_max;
        let snapshot = self.engine.snapshot();
        let confirmed = snapshot.region.hosts().filter(|host| matches!(host.contact, Contact::Confirmed { .. }));
        confirmed.map(|host| host.name.clone()).filter(is_silent).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Instant>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a beat matters to the rules: the host was not in contact, or an event on it waits for this copy.
fn wants_confirmation(region: &Region, host: &Name, revision: u64) -> bool {
    let Some(found) = region.host(host) else { return false };
    match found.contact {
        Contact::None | Contact::Lost { .. } => true,
        Contact::Confirmed { revision: before } => {
            let events = region.machines_on(host).flat_map(|machine| region.events_of(machine.id));
            events.into_iter().any(|event| event.unseen && (before + 1..=revision).contains(&event.revision))
        }
    }
}
