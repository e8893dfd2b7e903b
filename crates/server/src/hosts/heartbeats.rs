//! Contact with host agents: which agent is connected as which host, and how heartbeats become `ConfirmHost` and silence `LoseHost`.
//!
//! Most heartbeats change nothing that a rule reads, so they are not commands: a host is confirmed when it was not in contact, or
//! when an event waits for it. In a cluster, only the leader counts: followers forward to it what their agents send. A new leader
//! does not give hosts up for a silence before it led, because agents were in contact with another server then.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forewarn_api_types::host_link::LinkRefusal;
use forewarn_core::{Command, Contact, Name, Region};
use forewarn_engine::{Engine, SubmitError};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

pub struct AgentMonitor {
    engine: Engine,
    /// A host without a heartbeat for this long is unreachable.
    silence_max: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    tenure: LeadershipTerm,
    /// The agents that were heard from while this server leads.
    agents: HashMap<Name, Agent>,
}

struct Agent {
    instance: String,
    from: SocketAddr,
    /// The stream to the agent. None: it was opened while another server led.
    stream: Option<String>,
    is_open: bool,
    admitted: Instant,
    /// The last heartbeat of this agent, or of the one before it. A stream alone does not count: an agent that cannot store its
    /// copy opens one after the other.
    heard: Option<Instant>,
}

/// An agent is about to get a stream, at this server or at another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The process of the agent.
    pub instance: String,
    /// Identifies the stream.
    pub stream: String,
}

impl AgentMonitor {
    pub fn new(engine: Engine, silence_max: Duration) -> AgentMonitor {
        AgentMonitor { engine, silence_max, state: Mutex::default() }
    }

    /// Admits an agent. A second one with the same name is refused while the first is alive. `stored`: the agent that the
    /// leader before this one has admitted.
    pub fn admit(&self, host: &Name, claim: &Claim, from: SocketAddr, stored: Option<&str>) -> Result<(), LinkRefusal> {
        let now = Instant::now();
        let mut state = self.observe(now);
        let leading_since = state.tenure.since();
        let rival = match state.agents.get(host) {
            Some(agent) if agent.is_rival(&claim.instance, now, self.silence_max) => {
                Some(format!(" from {}", agent.from))
            }
            Some(_) => None,
            None if is_other(stored, &claim.instance) && !is_silent(None, leading_since, now, self.silence_max) => {
                Some(String::new())
            }
            None => None,
        };
        if let Some(from) = rival {
            let message = format!(
                "another agent is connected as host '{host}'{from}: stop it, or let this host join under another name"
            );
            return Err(LinkRefusal::OtherAgent { message });
        }
        let Claim { instance, stream } = claim.clone();
        let heard = state.agents.get(host).and_then(|agent| agent.heard);
        let agent = Agent { instance, from, stream: Some(stream), is_open: true, admitted: now, heard };
        state.agents.insert(host.clone(), agent);
        Ok(())
    }

    /// The stream of an agent has ended, so that another agent may take its place.
    pub fn release(&self, host: &Name, claim: &Claim) {
        let mut state = self.observe(Instant::now());
        if let Some(agent) = state.agents.get_mut(host)
            && agent.instance == claim.instance
            && agent.stream.as_ref().is_none_or(|stream| *stream == claim.stream)
        {
            agent.is_open = false;
        }
    }

    /// Checks that a heartbeat comes from the agent that was admitted, and takes note of it.
    pub fn record_heartbeat(
        &self,
        host: &Name,
        instance: &str,
        from: SocketAddr,
        stored: Option<&str>,
    ) -> Result<(), LinkRefusal> {
        let now = Instant::now();
        let mut state = self.observe(now);
        match state.agents.get_mut(host) {
            Some(agent) if agent.instance == instance => {
                agent.heard = Some(now);
                Ok(())
            }
            // Admitted by the leader before this one.
            None if stored == Some(instance) => {
                let (instance, heard) = (instance.to_owned(), Some(now));
                let agent = Agent { instance, from, stream: None, is_open: true, admitted: now, heard };
                state.agents.insert(host.clone(), agent);
                Ok(())
            }
            Some(_) | None => Err(LinkRefusal::OtherAgent {
                message: format!("this agent's stream is not open for host '{host}': open it first"),
            }),
        }
    }

    /// A host's agent has a copy with this revision.
    pub async fn confirm(&self, host: &Name, revision: u64) -> Result<(), SubmitError> {
        let snapshot = self.engine.snapshot();
        if !wants_confirmation(&snapshot.region, host, revision) {
            return Ok(());
        }
        self.engine.submit(Command::ConfirmHost { name: host.clone(), revision }, None).await.map(drop)
    }

    /// Gives up hosts that are silent for too long while this server leads, until it stops.
    pub async fn run(&self, stop: CancellationToken) {
        let pause = self.silence_max / 10;
        drop(self.observe(Instant::now()));
        while stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
            for host in self.silent_hosts() {
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

    /// Hosts in contact without a recent heartbeat. After a start or a takeover, agents have as long to come back as otherwise.
    fn silent_hosts(&self) -> Vec<Name> {
        let now = Instant::now();
        let state = self.observe(now);
        let since = state.tenure.since();
        let heard = |name: &Name| state.agents.get(name).and_then(|agent| agent.heard);
        let is_silent = |name: &Name| is_silent(heard(name), since, now, self.silence_max);
        let snapshot = self.engine.snapshot();
        let confirmed = snapshot.region.hosts().filter(|host| matches!(host.contact, Contact::Confirmed { .. }));
        confirmed.map(|host| host.name.clone()).filter(is_silent).collect()
    }

    /// The state in the current term. Agents that were heard from in an earlier one may be connected to other servers by now.
    fn observe(&self, now: Instant) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.tenure.observe(self.term(), now) {
            state.agents.clear();
        }
        state
    }
}

impl Agent {
    fn is_rival(&self, instance: &str, now: Instant, silence_max: Duration) -> bool {
        let last = self.heard.map_or(self.admitted, |heard| heard.max(self.admitted));
        self.instance != instance && self.is_open && now.saturating_duration_since(last) < silence_max
    }
}

fn is_other(stored: Option<&str>, instance: &str) -> bool {
    stored.is_some_and(|stored| stored != instance)
}

/// The term that this server leads, and since when.
#[derive(Default)]
struct LeadershipTerm(Option<(u64, Instant)>);

impl LeadershipTerm {
    /// Takes note of the current term, if this server leads. Returns whether a leadership has begun or ended.
    fn observe(&mut self, term: Option<u64>, now: Instant) -> bool {
        if self.0.map(|(term, _)| term) == term {
            return false;
        }
        self.0 = term.map(|term| (term, now));
        true
    }

    /// Since when this server leads. None: it does not.
    fn since(&self) -> Option<Instant> {
        self.0.map(|(_, since)| since)
    }
}

/// Whether a host was silent for `silence_max` while this server leads. Never at a server that does not lead.
fn is_silent(last: Option<Instant>, leading_since: Option<Instant>, now: Instant, silence_max: Duration) -> bool {
    let Some(leading_since) = leading_since else { return false };
    let heard = last.map_or(leading_since, |last| last.max(leading_since));
    now.saturating_duration_since(heard) >= silence_max
}

/// Whether a heartbeat matters to the rules: the host was not in contact, or an event on it waits for this copy.
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
        let mut tenure = LeadershipTerm::default();
        let mut observe = |term, now| (tenure.observe(term, now), tenure.since());
        assert_eq!(observe(None, at(0)), (false, None));
        assert_eq!(observe(Some(3), at(1)), (true, Some(at(1))));
        assert_eq!(observe(Some(3), at(2)), (false, Some(at(1))));
        assert_eq!(observe(None, at(3)), (true, None));
        assert_eq!(observe(Some(3), at(4)), (true, Some(at(4))));
        assert_eq!(observe(Some(5), at(5)), (true, Some(at(5))), "another server led between two looks");
    }

    #[test]
    fn a_silence_before_the_takeover_does_not_count() {
        let start = Instant::now();
        let at = |secs| start + Duration::from_secs(secs);
        let max = Duration::from_secs(10);
        let since = Some(at(100));
        assert!(!is_silent(None, since, at(109), max));
        assert!(!is_silent(Some(at(1)), since, at(109), max));
        assert!(is_silent(Some(at(1)), since, at(110), max));
        assert!(!is_silent(Some(at(105)), since, at(114), max));
        assert!(is_silent(Some(at(105)), since, at(115), max));
        assert!(!is_silent(Some(at(1)), None, at(110), max), "only a leader gives hosts up");
    }
}
