//! The links in use at this server: one per host, and what each agent was sent last.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forewarn_access::{HostAccess, random_guid};
use forewarn_api::AgentContacts;
use forewarn_api_types::host_link::{CommitResponse, LinkRefusal};
use forewarn_core::{HostState, Machine, MachineId, Name, Snapshot};
use forewarn_engine::Engine;
use tokio::sync::Notify;

use super::guests::GuestServices;
use super::heartbeats::{AgentMonitor, Claim};
use super::part::HostEntities;
use super::routes::Peer;
use super::servers::ServerList;
use crate::cluster::Cluster;

pub struct Links {
    pub engine: Engine,
    pub access: Arc<HostAccess>,
    pub agents: Arc<AgentMonitor>,
    pub contacts: AgentContacts,
    pub servers: Arc<ServerList>,
    /// Carries out requests of agents while another server leads. None: a single server.
    pub cluster: Option<Arc<Cluster>>,
    pub plain_names: bool,
    /// Whether agents drive the machines.
    pub gives_orders: bool,
    pub guests: GuestServices,
    pub table: LinkTable,
}

/// The latest link of each host.
#[derive(Default)]
pub struct LinkTable(Mutex<HashMap<Name, Link>>);

struct Link {
    instance: String,
    /// Counts the streams of this host; only the newest is served.
    session: u64,
    /// The agent waits for a copy with this revision.
    wanted: u64,
    wake: Arc<Notify>,
    sent: Option<SentCopy>,
}

/// The part of the region that an agent has.
#[derive(Clone)]
pub struct SentCopy {
    pub revision: u64,
    pub part: Arc<HostEntities>,
}

/// The right to serve a stream. Another stream of the same host ends it.
pub struct Session {
    links: Arc<Links>,
    pub host: Name,
    number: u64,
    pub wake: Arc<Notify>,
    claim: Claim,
    peer: Peer,
}

impl Links {
    /// Begins a stream of an agent that was admitted with this claim. Returns what the agent was sent before.
    pub fn open(self: &Arc<Self>, host: &Name, claim: Claim, peer: Peer) -> (Session, Option<SentCopy>) {
        let mut links = self.lock();
        let before = links.remove(host);
        let number = before.as_ref().map_or(0, |link| link.session) + 1;
        let instance = claim.instance.clone();
        let sent = before.as_ref().filter(|link| link.instance == instance).and_then(|link| link.sent.clone());
        before.inspect(|link| link.wake.notify_one());
        let wake = Arc::new(Notify::new());
        let link = Link { instance, session: number, wanted: 0, wake: wake.clone(), sent: sent.clone() };
        links.insert(host.clone(), link);
        (Session { links: self.clone(), host: host.clone(), number, wake, claim, peer }, sent)
    }

    /// Whether orders may be given now. In a cluster, the leader must be known to be alive: orders of a copy that is behind may
    /// have ended.
    pub fn may_give_orders(&self) -> bool {
        self.gives_orders && self.cluster.as_ref().is_none_or(|cluster| cluster.is_current())
    }

    /// Whether orders are held back only for now.
    pub fn withholds_orders(&self, may_give_orders: bool) -> bool {
        self.gives_orders && !may_give_orders
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
    pub fn commit(&self, host: &Name, snapshot: &Snapshot) -> CommitResponse {
        let revision = snapshot.region.meta().revision;
        self.request_revision(host, revision);
        CommitResponse { revision }
    }

    /// Brings the copy of an agent to this revision without delay.
    pub fn request_revision(&self, host: &Name, revision: u64) {
        if let Some(link) = self.lock().get_mut(host) {
            link.wanted = link.wanted.max(revision);
            link.wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Link>> {
        self.table.0.lock().unwrap_or_else(PoisonError::into_inner)
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
    pub fn requested_revision(&self) -> u64 {
        self.links.lock().get(&self.host).map_or(0, |link| link.wanted)
    }

    /// Remembers what the agent was sent, so that it can resume.
    pub fn remember(&self, sent: SentCopy) {
        if let Some(link) = self.links.lock().get_mut(&self.host)
            && link.session == self.number
        {
            link.sent = Some(sent);
        }
    }
}

impl Drop for Session {
    /// Lets another agent take the place of this one.
    fn drop(&mut self) {
        let (links, host) = (self.links.clone(), self.host.clone());
        let (claim, peer) = (self.claim.clone(), self.peer.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { super::relay::release(&links, &host, &claim, &peer).await });
        }
    }
}

/// The claim of a new stream.
pub fn new_claim(instance: String) -> Claim {
    Claim { instance, stream: random_guid().to_string() }
}
