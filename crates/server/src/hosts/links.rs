//! The links in use: one per host, and what each agent was sent last.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forewarn_access::HostAccess;
use forewarn_api_types::host_link::{Committed, LinkRefusal};
use forewarn_core::{HostState, Machine, MachineId, Name, Snapshot};
use forewarn_engine::Engine;
use tokio::sync::Notify;

use super::beats::Beats;
use super::part::Part;

pub struct Links {
    pub engine: Engine,
    pub access: Arc<HostAccess>,
    pub beats: Arc<Beats>,
    pub plain_names: bool,
    /// Whether agents drive the machines.
    pub gives_orders: bool,
    links: Mutex<HashMap<Name, Link>>,
}

/// Settings of the server that agents must know.
pub struct LinkOptions {
    pub plain_names: bool,
    pub gives_orders: bool,
}

struct Link {
    instance: String,
    peer: SocketAddr,
    /// Counts the streams of this host; only the newest is served.
    session: u64,
    is_open: bool,
    /// The agent waits for a copy with this revision.
    wanted: u64,
    wake: Arc<Notify>,
    sent: Option<Sent>,
}

/// The part of the region that an agent has.
#[derive(Clone)]
pub struct Sent {
    pub revision: u64,
    pub part: Arc<Part>,
}

/// The right to serve a stream. Another stream of the same host ends it.
pub struct Session {
    links: Arc<Links>,
    pub host: Name,
    number: u64,
    pub wake: Arc<Notify>,
}

impl Links {
    pub fn new(engine: Engine, access: Arc<HostAccess>, beats: Arc<Beats>, options: LinkOptions) -> Links {
        let LinkOptions { plain_names, gives_orders } = options;
        Links { engine, access, beats, plain_names, gives_orders, links: Mutex::default() }
    }

    /// Begins a stream. A second agent with the same name is refused while the first is alive.
    pub fn open(
        self: &Arc<Self>,
        host: &Name,
        instance: &str,
        peer: SocketAddr,
    ) -> Result<(Session, Option<Sent>), LinkRefusal> {
        let mut links = self.lock();
        if let Some(link) = links.get(host)
            && link.is_open
            && link.instance != instance
            && self.beats.is_recent(host)
        {
            return Err(LinkRefusal::OtherAgent {
                message: format!(
                    "another agent is connected as host '{host}' from {}: stop it, or let this host join under another name",
                    link.peer
                ),
            });
        }
        let before = links.remove(host);
        let number = before.as_ref().map_or(0, |link| link.session) + 1;
        let sent = before.as_ref().filter(|link| link.instance == instance).and_then(|link| link.sent.clone());
        before.inspect(|link| link.wake.notify_one());
        let wake = Arc::new(Notify::new());
        let link = Link {
            instance: instance.to_owned(),
            peer,
            session: number,
            is_open: true,
            wanted: 0,
            wake: wake.clone(),
            sent: sent.clone(),
        };
        links.insert(host.clone(), link);
        self.beats.note_contact(host);
        Ok((Session { links: self.clone(), host: host.clone(), number, wake }, sent))
    }

    /// Checks that a beat comes from the agent whose stream is open.
    pub fn check_instance(&self, host: &Name, instance: &str) -> Result<(), LinkRefusal> {
        match self.lock().get(host) {
            Some(link) if link.instance == instance => Ok(()),
            Some(_) | None => Err(LinkRefusal::OtherAgent {
                message: format!("this agent's stream is not open for host '{host}': open it first"),
            }),
        }
    }

    /// The machine, if it is on this host and the host may act for it.
    pub fn machine_of(&self, host: &Name, machine: MachineId) -> Result<Arc<Machine>, LinkRefusal> {
        let snapshot = self.engine.snapshot();
        let found = snapshot.region.machine(machine).ok_or(LinkRefusal::UnknownMachine)?;
        let refuse = |message: String| Err(LinkRefusal::OtherHost { message });
        if found.placed_on() != Some(host) {
            return refuse(format!("machine '{}' is not on host '{host}'", found.name));
        }
        if snapshot.region.host(host).is_some_and(|host| host.state == HostState::Failed) {
            return refuse(format!("host '{host}' is fenced: activate it first"));
        }
        Ok(found.clone())
    }

    /// The answer to a command, once it is visible here. The agent's copy is brought to this revision without delay.
    pub fn commit(&self, host: &Name, snapshot: &Snapshot) -> Committed {
        let revision = snapshot.region.meta().revision;
        if let Some(link) = self.lock().get_mut(host) {
            link.wanted = link.wanted.max(revision);
            link.wake.notify_one();
        }
        Committed { revision }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Link>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    pub fn links(&self) -> &Arc<Links> {
        &self.links
    }

    /// Whether no other stream has taken over.
    pub fn is_current(&self) -> bool {
        self.links.lock().get(&self.host).is_some_and(|link| link.session == self.number)
    }

    /// The revision that the agent waits for.
    pub fn wanted(&self) -> u64 {
        self.links.lock().get(&self.host).map_or(0, |link| link.wanted)
    }

    /// Remembers what the agent was sent, so that it can resume.
    pub fn remember(&self, sent: Sent) {
        if let Some(link) = self.links.lock().get_mut(&self.host)
            && link.session == self.number
        {
            link.sent = Some(sent);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(link) = self.links.lock().get_mut(&self.host)
            && link.session == self.number
        {
            link.is_open = false;
        }
    }
}
