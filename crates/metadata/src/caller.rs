//! Identifies the caller: by the listener, the source address, the path, or the configuration, in this order. Where guests are
//! identified by their bridge ports, only the port counts.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use forewarn_core::{Address, Guid, Machine, MachineId, MachineLookup, Membership, Region, SharedName};
use forewarn_wire::error::MetadataError;
use forewarn_wire::guid;

use super::limits::{Activity, SourceKey};
use super::ports::{GuestPort, GuestPorts};
use super::route::NamedMachine;

/// How a listener identifies its callers.
#[derive(Clone)]
pub struct ListenerPolicy {
    /// Every caller is this machine.
    pub machine: Option<String>,
    /// Source addresses are looked up on this network.
    pub network: SharedName,
    pub prefix_allowed: bool,
    /// Whether only programs on this computer reach the listener.
    pub is_local: bool,
    /// Names in the `Host` header that a loopback listener accepts, besides `localhost` and addresses.
    pub hosts: Vec<String>,
    /// The machine that local callers are treated as when nothing else identifies them.
    pub default: DefaultMachine,
    /// Callers are identified by their bridge ports, and by nothing else.
    pub ports: Option<Arc<GuestPorts>>,
}

#[derive(Clone, Debug)]
pub enum DefaultMachine {
    Named(String),
    /// The machine that an empty store starts with.
    First,
    /// No machine: local callers are programs of the host itself.
    None,
}

/// The other end of a connection.
#[derive(Debug)]
pub enum Peer {
    Address {
        address: Address,
        location: Location,
    },
    /// A Unix socket.
    Socket(PathBuf),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// On this computer: the caller came by loopback, or from the very link-local address that it called, as with
    /// `serve --link-local`.
    Local,
    Remote,
}

impl Peer {
    fn is_local(&self) -> bool {
        match self {
            Peer::Address { location, .. } => *location == Location::Local,
            Peer::Socket(_) => true,
        }
    }

    fn has_address_of_a_machine(&self, region: &Region) -> bool {
        match self {
            Peer::Address { address, .. } => region.machine_by_address(address).is_some(),
            Peer::Socket(_) => false,
        }
    }

    fn describe(&self) -> String {
        match self {
            Peer::Address { address, .. } => address.ip.to_string(),
            Peer::Socket(_) => "of this Unix socket".to_owned(),
        }
    }
}

impl ListenerPolicy {
    /// The peer with the address `ip` that connected to `called`.
    pub fn peer(&self, ip: IpAddr, called: Option<IpAddr>) -> Peer {
        let from = ip.to_canonical();
        let is_link_local = matches!(from, IpAddr::V4(v4) if v4.is_link_local());
        let is_local = from.is_loopback() || is_link_local && called == Some(ip);
        let address = Address { network: self.network.clone(), ip: from };
        Peer::Address { address, location: if is_local { Location::Local } else { Location::Remote } }
    }

    /// The source that a connection counts for: the listener's machine, else the mark, else the address. None: no limit of
    /// its own.
    pub fn source(&self, region: &Region, peer: &Peer, mark: u32) -> Option<SourceKey> {
        if let Some(machine) = &self.machine {
            return Some(SourceKey::Listener(machine.clone()));
        }
        if mark != 0 {
            return Some(SourceKey::Mark(mark));
        }
        if self.is_local && self.prefix_allowed && !peer.has_address_of_a_machine(region) {
            return None;
        }
        Some(match peer {
            Peer::Address { address, .. } => SourceKey::Address(address.ip),
            Peer::Socket(path) => SourceKey::Socket(path.clone()),
        })
    }
}

/// One client connection.
pub struct Client {
    pub policy: Arc<ListenerPolicy>,
    pub peer: Peer,
    /// The bridge port, on a listener that identifies callers by it.
    pub port: Option<Arc<GuestPort>>,
    pub source: Option<SourceKey>,
    pub activity: Arc<Activity>,
}

impl Client {
    /// Whether the connection says nothing about its guest. The next one may: the rules for marks can be newer.
    pub fn is_unmarked(&self) -> bool {
        self.policy.ports.is_some() && self.port.is_none()
    }

    /// Whether the client could be a browser on this computer: it is connected over TCP, to a loopback listener or from this
    /// computer.
    pub fn could_be_browser(&self) -> bool {
        matches!(self.peer, Peer::Address { .. }) && (self.policy.is_local || self.peer.is_local())
    }

    /// The source that held requests and long bodies count for.
    pub fn source_for(&self, machine: MachineId) -> SourceKey {
        self.source.clone().unwrap_or(SourceKey::Machine(machine))
    }

    pub fn find<'r>(
        &self,
        region: &'r Region,
        named: Option<&NamedMachine<'_>>,
    ) -> Result<&'r Arc<Machine>, MetadataError> {
        if let Some(machine) = &self.policy.machine {
            return find_named(region, &NamedMachine::parse(machine));
        }
        if let Some(ports) = &self.policy.ports {
            let vm_id = ports.identify(self.port.as_deref())?;
            let machine = region.machine_by_vm_id(vm_id).and_then(|id| region.machine(id));
            return machine.ok_or_else(|| MetadataError::UnknownMachine { name: vm_id.to_string() });
        }
        if let Peer::Address { address, .. } = &self.peer
            && let Some(machine) = region.machine_by_address(address)
        {
            return Ok(machine);
        }
        if let Some(named) = named {
            return find_named(region, named);
        }
        let default = match &self.policy.default {
            _ if !self.peer.is_local() => None,
            DefaultMachine::Named(name) => Some(find_named(region, &NamedMachine::parse(name))?),
            DefaultMachine::None => None,
            DefaultMachine::First => region.machine(FIRST_MACHINE).filter(|machine| is_first(machine)),
        };
        default.ok_or_else(|| MetadataError::UnknownCaller { address: self.peer.describe() })
    }
}

/// The ID of the machine that the server registers in an empty store, before anything else.
pub const FIRST_MACHINE: MachineId = MachineId(1);

/// In a store that began otherwise, this ID may belong to a machine of the fleet.
fn is_first(machine: &Machine) -> bool {
    machine.membership == Membership::Standalone && machine.addresses.is_empty()
}

fn find_named<'r>(region: &'r Region, named: &NamedMachine<'_>) -> Result<&'r Arc<Machine>, MetadataError> {
    let unknown = || MetadataError::UnknownMachine { name: named.to_string() };
    if named.group.is_none()
        && let Some(vm_id) = guid::parse(&named.name)
        && let Some(machine) = region.machine_by_vm_id(Guid(vm_id)).and_then(|id| region.machine(id))
    {
        return Ok(machine);
    }
    match region.machine_by_name(&named.name, named.group.as_deref()) {
        MachineLookup::One(id) => region.machine(id).ok_or_else(unknown),
        MachineLookup::Nothing => Err(unknown()),
        MachineLookup::Many(ids) => Err(MetadataError::AmbiguousName {
            name: named.to_string(),
            candidates: ids.iter().filter_map(|id| region.machine(*id)).map(|m| unique_path(region, m)).collect(),
        }),
    }
}

/// A path prefix for this machine and no other: group and name, or the VM ID where those are not unique.
fn unique_path(region: &Region, machine: &Machine) -> String {
    let service = match &machine.membership {
        Membership::RoleInstance { service, .. } => region.group(*service).map(|group| &group.name),
        Membership::Standalone | Membership::AvailabilitySet(_) | Membership::Instance { .. } => None,
    };
    let within = service.unwrap_or(&machine.home.resource_group);
    match region.machine_by_name(&machine.name, Some(within)) {
        MachineLookup::One(_) => format!("/vm/{within}/{}", machine.name),
        MachineLookup::Many(_) | MachineLookup::Nothing => format!("/vm/{}", machine.vm_id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forewarn_core::Settings;

    fn policy() -> ListenerPolicy {
        ListenerPolicy {
            machine: None,
            network: "default".into(),
            prefix_allowed: false,
            is_local: false,
            hosts: Vec::new(),
            default: DefaultMachine::First,
            ports: None,
        }
    }

    #[test]
    fn a_connection_counts_for_the_listeners_machine_else_its_mark_else_its_address() {
        let check = |policy: &ListenerPolicy, from: &str, mark: u32, expected: Option<SourceKey>| {
            let peer = policy.peer(from.parse().unwrap(), None);
            assert_eq!(policy.source(&Region::new(Settings::default()), &peer, mark), expected, "{from}, mark {mark}");
        };
        let own = ListenerPolicy { machine: Some("web".into()), ..policy() };
        check(&own, "10.0.0.4", 7, Some(SourceKey::Listener("web".into())));
        check(&policy(), "10.0.0.4", 7, Some(SourceKey::Mark(7)));
        check(&policy(), "10.0.0.5", 7, Some(SourceKey::Mark(7)));
        check(&policy(), "10.0.0.4", 0, Some(SourceKey::Address("10.0.0.4".parse().unwrap())));
        let prefixed = ListenerPolicy { is_local: true, prefix_allowed: true, ..policy() };
        check(&prefixed, "127.0.0.1", 0, None);
        check(&prefixed, "127.0.0.1", 7, Some(SourceKey::Mark(7)));
    }

    #[test]
    fn browsers_on_this_computer_are_recognized_on_every_listener() {
        let check = |is_local: bool, from: &str, called: &str, expected: bool| {
            let policy = Arc::new(ListenerPolicy { is_local, ..policy() });
            let peer = policy.peer(from.parse().unwrap(), Some(called.parse().unwrap()));
            let client = Client { policy, peer, port: None, source: None, activity: Arc::default() };
            assert_eq!(client.could_be_browser(), expected, "{from} → {called}");
        };
        check(true, "127.0.0.1", "127.0.0.1", true);
        check(false, "127.0.0.1", "127.0.0.1", true);
        check(false, "169.254.169.254", "169.254.169.254", true);
        check(false, "10.0.0.4", "169.254.169.254", false);
    }

    #[test]
    fn local_callers_come_by_loopback_or_from_the_link_local_address_that_they_called() {
        let policy = policy();
        let check = |from: &str, called: &str, expected: bool| {
            let peer = policy.peer(from.parse().unwrap(), Some(called.parse().unwrap()));
            assert_eq!(peer.is_local(), expected, "{from} → {called}");
        };
        check("127.0.0.1", "127.0.0.1", true);
        check("::ffff:127.0.0.1", "::ffff:127.0.0.1", true);
        check("169.254.169.254", "169.254.169.254", true);
        check("10.0.0.4", "169.254.169.254", false);
        check("169.254.7.7", "169.254.169.254", false);
        check("10.0.0.1", "10.0.0.1", false);
    }
}
