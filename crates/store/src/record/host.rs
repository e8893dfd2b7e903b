//! Record body of a host.

use std::collections::BTreeMap;

use forewarn_core::*;
use serde::{Deserialize, Serialize};

use super::intern::Interner;
use super::tag::{Tag, Text};

/// Fields with default values are omitted, as in records before format 4, which had no fields.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HostBody<'a> {
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pool: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<&'a str, Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    memory_mib: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<Tag<HostState>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    contact: Option<ContactBody>,
    #[serde(default, skip_serializing_if = "is_zero")]
    epoch: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
enum ContactBody {
    #[serde(rename = "confirmed")]
    Confirmed { revision: u64 },
    #[serde(rename = "lost")]
    Lost { since: i64, revision: u64 },
}

impl<'a> From<&'a Host> for HostBody<'a> {
    fn from(host: &'a Host) -> Self {
        HostBody {
            pool: (&*host.pool != Host::POOL_DEFAULT).then(|| (&host.pool).into()),
            labels: host.labels.iter().map(|(key, value)| (&**key, value.into())).collect(),
            memory_mib: host.memory_mib,
            state: (host.state != HostState::Active).then_some(Tag(host.state)),
            contact: match host.contact {
                Contact::None => None,
                Contact::Confirmed { revision } => Some(ContactBody::Confirmed { revision }),
                Contact::Lost { since, revision } => Some(ContactBody::Lost { since: since.0, revision }),
            },
            epoch: host.epoch,
        }
    }
}

impl HostBody<'_> {
    pub fn into_host(self, name: Name, interner: &mut Interner) -> Host {
        let plain = Host::new(name);
        Host {
            pool: self.pool.map_or(plain.pool, |pool| interner.name(pool)),
            labels: self
                .labels
                .into_iter()
                .map(|(key, value)| (interner.name(key.into()), interner.name(value)))
                .collect(),
            memory_mib: self.memory_mib,
            state: self.state.map_or(HostState::Active, |state| state.0),
            contact: match self.contact {
                None => Contact::None,
                Some(ContactBody::Confirmed { revision }) => Contact::Confirmed { revision },
                Some(ContactBody::Lost { since, revision }) => Contact::Lost { since: Timestamp(since), revision },
            },
            epoch: self.epoch,
            name: plain.name,
        }
    }
}
