//! Contact with host agents, as this server sees it. It is kept in memory: an agent that is connected to another server of the
//! cluster is known only by what the region says about its host.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forewarn_api_types::HostAgent;
use forewarn_core::{Contact, Host, Name, Timestamp};
use forewarn_render::Convert;

#[derive(Clone, Default)]
pub struct AgentContacts(Arc<Mutex<BTreeMap<Name, AgentContact>>>);

/// The connection of one agent.
#[derive(Clone, Debug)]
struct AgentContact {
    since: Timestamp,
    address: String,
    /// The agent's version, if it says so.
    version: Option<String>,
    heartbeat: Timestamp,
    revision: Option<u64>,
}

impl AgentContacts {
    /// An agent has connected.
    pub fn note_connection(&self, host: &Name, address: String, version: Option<String>, now: Timestamp) {
        let contact = AgentContact { since: now, address, version, heartbeat: now, revision: None };
        self.lock().insert(host.clone(), contact);
    }

    /// A connected agent has confirmed a copy with this revision.
    pub fn note_heartbeat(&self, host: &Name, revision: u64, now: Timestamp) {
        if let Some(contact) = self.lock().get_mut(host) {
            contact.heartbeat = now;
            contact.revision = Some(revision);
        }
    }

    /// The agent of a host; None if the host has none.
    pub fn describe(&self, host: &Host) -> Option<HostAgent> {
        let contact = self.lock().get(&host.name).cloned();
        let (confirmed, lost) = match host.contact {
            Contact::None => return None,
            Contact::Confirmed { revision } => (revision, None),
            Contact::Lost { since, revision } => (revision, Some(since)),
        };
        // An agent that is lost here may have connected to another server.
        let here = contact.as_ref();
        Some(HostAgent {
            connected_since: here.filter(|_| lost.is_none()).map(|contact| contact.since.convert()),
            last_heartbeat: here.map(|contact| contact.heartbeat.convert()),
            revision: here.and_then(|contact| contact.revision).unwrap_or(0).max(confirmed),
            address: here.map(|contact| contact.address.clone()),
            version: here.and_then(|contact| contact.version.clone()),
            unreachable_since: lost.map(Convert::convert),
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, AgentContact>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_described_by_its_connection_and_by_the_region() {
        let contacts = AgentContacts::default();
        let mut host = Host::new("n-1".into());
        assert_eq!(contacts.describe(&host), None, "a host without an agent");
        host.contact = Contact::Confirmed { revision: 4 };
        let elsewhere = contacts.describe(&host).unwrap();
        assert_eq!((elsewhere.connected_since, elsewhere.revision), (None, 4), "connected to another server");
        contacts.note_connection(&host.name, "10.0.0.1:5000".into(), Some("0.1.0".into()), Timestamp(1_000));
        contacts.note_heartbeat(&host.name, 9, Timestamp(3_000));
        let here = contacts.describe(&host).unwrap();
        assert_eq!((here.connected_since.unwrap().0, here.last_heartbeat.unwrap().0, here.revision), (1_000, 3_000, 9));
        assert_eq!((here.address.as_deref(), here.version.as_deref()), (Some("10.0.0.1:5000"), Some("0.1.0")));
        host.contact = Contact::Lost { since: Timestamp(13_000), revision: 4 };
        let lost = contacts.describe(&host).unwrap();
        assert_eq!((lost.connected_since, lost.unreachable_since.unwrap().0, lost.revision), (None, 13_000, 9));
    }
}
