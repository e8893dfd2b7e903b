//! Contact with host agents: turns beats into `ConfirmHost` and silence into `LoseHost`.
//!
//! Most beats change nothing that a rule reads, so they are not commands: a host is confirmed when it was not in contact, or
//! when an event waits for it. In a cluster, only the leader gives hosts up, and not for a silence before it led: agents were in
//! contact with another server then.

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
    last: Mutex<HashMap<Name, Instant>>,
}

impl Beats {
    pub fn new(engine: Engine, silence_max: Duration) -> Beats {
        Beats { engine, silence_max, last: Mutex::default() }
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

    /// Gives up hosts that are silent for too long while this server leads, until it stops.
    pub async fn run(&self, stop: CancellationToken) {
        let pause = self.silence_max / 10;
        let mut tenure = Tenure::default();
        tenure.observe(self.term(), Instant::now());
        while stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
            let Some(since) = tenure.observe(self.term(), Instant::now()) else { continue };
            for host in self.silent_hosts(since) {
                tracing::warn!(%host, "no heartbeat from a host agent; the host is unreachable");
                if let Err(error) = self.engine.submit(Command::LoseHost { name: host }, None).await {
                    tracing::warn!(%error, "cannot record that a host is unreachable");
                }
            }
        }
    }

    /// The current term; None while another server leads.
    fn term(&self) -> Option<u64> {
        self.engine.accepts_commands().then(|| self.engine.snapshot().region.meta().term)
    }

    /// Hosts in contact without a recent beat. After a start or a takeover, agents have as long to come back as otherwise.
    fn silent_hosts(&self, since: Instant) -> Vec<Name> {
        let now = Instant::now();
        let last = self.lock();
        let is_silent = |name: &Name| is_silent(last.get(name).copied(), since, now, self.silence_max);
        let snapshot = self.engine.snapshot();
        let confirmed = snapshot.region.hosts().filter(|host| matches!(host.contact, Contact::Confirmed { .. }));
        confirmed.map(|host| host.name.clone()).filter(is_silent).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Instant>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The term that this server leads, and since when.
#[derive(Default)]
struct Tenure(Option<(u64, Instant)>);

impl Tenure {
    /// Takes note of the current term, if this server leads, and returns since when it has led.
    fn observe(&mut self, term: Option<u64>, now: Instant) -> Option<Instant> {
        self.0 = match (term, self.0) {
            (Some(term), Some((before, since))) if term == before => Some((term, since)),
            (Some(term), _) => Some((term, now)),
            (None, _) => None,
        };
        self.0.map(|(_, since)| since)
    }
}

fn is_silent(last: Option<Instant>, leading_since: Instant, now: Instant, silence_max: Duration) -> bool {
    let heard = last.map_or(leading_since, |last| last.max(leading_since));
    now.saturating_duration_since(heard) >= silence_max
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_leader_gives_hosts_up_and_each_leadership_counts_anew() {
        let start = Instant::now();
        let at = |secs| start + Duration::from_secs(secs);
        let mut tenure = Tenure::default();
        assert_eq!(tenure.observe(None, at(0)), None);
        assert_eq!(tenure.observe(Some(3), at(1)), Some(at(1)));
        assert_eq!(tenure.observe(Some(3), at(2)), Some(at(1)));
        assert_eq!(tenure.observe(None, at(3)), None);
        assert_eq!(tenure.observe(Some(3), at(4)), Some(at(4)));
        assert_eq!(tenure.observe(Some(5), at(5)), Some(at(5)), "another server led between two looks");
    }

    #[test]
    fn a_silence_before_the_takeover_does_not_count() {
        let start = Instant::now();
        let at = |secs| start + Duration::from_secs(secs);
        let max = Duration::from_secs(10);
        assert!(!is_silent(None, at(100), at(109), max));
        assert!(!is_silent(Some(at(1)), at(100), at(109), max));
        assert!(is_silent(Some(at(1)), at(100), at(110), max));
        assert!(!is_silent(Some(at(105)), at(100), at(114), max));
        assert!(is_silent(Some(at(105)), at(100), at(115), max));
    }
}
