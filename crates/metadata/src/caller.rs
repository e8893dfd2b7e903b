//! Who is asking: the listener says it, the source address, the path, or the configuration, in this order.

use std::net::IpAddr;
use std::sync::Arc;

use forewarn_core::{Address, Found, Guid, Machine, MachineId, Name, Region, ScopeId, Seat, Snapshot};
use forewarn_wire::error::Refusal;
use forewarn_wire::guid;

use super::memo::Memo;
use super::route::Named;

/// What a listener says about its callers.
#[derive(Debug)]
pub struct Door {
    /// Every caller is this machine.
    pub machine: Option<String>,
    /// Source addresses are looked up on this network.
    pub network: Name,
    pub prefix_allowed: bool,
    /// Whom callers on this computer are when nothing else says it.
    pub default: DefaultMachine,
}

#[derive(Clone, Debug)]
pub enum DefaultMachine {
    Named(String),
    /// The one that an empty store starts with.
    First,
}

/// Where a connection comes from.
#[derive(Debug)]
pub enum Peer {
    Address {
        address: Address,
        place: Place,
    },
    /// A Unix socket.
    Local,
}

/// On which side of the network a caller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On this computer: it came by loopback, or from the very link-local address that it called, as with
    /// `serve --link-local`.
    Here,
    Elsewhere,
}

impl Peer {
    fn is_here(&self) -> bool {
        match self {
            Peer::Address { place, .. } => *place == Place::Here,
            Peer::Local => true,
        }
    }

    fn has_address_of_a_machine(&self, region: &Region) -> bool {
        match self {
            Peer::Address { address, .. } => region.machine_by_address(address).is_some(),
            Peer::Local => false,
        }
    }

    fn text(&self) -> String {
        match self {
            Peer::Address { address, .. } => address.ip.to_string(),
            Peer::Local => "of this Unix socket".to_owned(),
        }
    }
}

impl Door {
    /// Who comes from `ip` and has called `called`.
    pub fn peer(&self, ip: IpAddr, called: Option<IpAddr>) -> Peer {
        let from = ip.to_canonical();
        let is_link_local = matches!(from, IpAddr::V4(v4) if v4.is_link_local());
        let here = from.is_loopback() || is_link_local && called == Some(ip);
        let address = Address { network: self.network.clone(), ip: from };
        Peer::Address { address, place: if here { Place::Here } else { Place::Elsewhere } }
    }

    /// The same as `who` for those who poll: only the numbers of machine and scope, from memory where the
    /// path names the machine.
    pub fn who_polls(
        &self,
        snapshot: &Snapshot,
        peer: &Peer,
        named: Option<&Named<'_>>,
        memo: &Memo,
    ) -> Result<(MachineId, ScopeId), Refusal> {
        let search = || self.who(&snapshot.region, peer, named).map(|machine| (machine.id, machine.scope));
        match named {
            Some(named) if self.machine.is_none() && !peer.has_address_of_a_machine(&snapshot.region) => {
                memo.get(snapshot.roster, named, search)
            }
            Some(_) | None => search(),
        }
    }

    pub fn who<'r>(
        &self,
        region: &'r Region,
        peer: &Peer,
        named: Option<&Named<'_>>,
    ) -> Result<&'r Arc<Machine>, Refusal> {
        if let Some(machine) = &self.machine {
            return find(region, &Named::plain(machine));
        }
        if let Peer::Address { address, .. } = peer
            && let Some(machine) = region.machine_by_address(address).and_then(|id| region.machine(id))
        {
            return Ok(machine);
        }
        if let Some(named) = named {
            return find(region, named);
        }
        let default = match &self.default {
            _ if !peer.is_here() => None,
            DefaultMachine::Named(name) => Some(find(region, &Named::plain(name))?),
            DefaultMachine::First => region.machine(FIRST_MACHINE).filter(|machine| is_first(machine)),
        };
        default.ok_or_else(|| Refusal::UnknownCaller { address: peer.text() })
    }
}

/// The number of the machine that the server registers in an empty store, before anything else.
pub const FIRST_MACHINE: MachineId = MachineId(1);

/// A store that was begun otherwise may have given the number to a machine of the fleet.
fn is_first(machine: &Machine) -> bool {
    machine.seat == Seat::Standalone && machine.addresses.is_empty()
}

fn find<'r>(region: &'r Region, named: &Named<'_>) -> Result<&'r Arc<Machine>, Refusal> {
    let unknown = || Refusal::UnknownMachine { name: named.to_string() };
    if named.group.is_none()
        && let Some(vm_id) = guid::parse(&named.name)
        && let Some(machine) = region.machine_by_vm_id(Guid(vm_id)).and_then(|id| region.machine(id))
    {
        return Ok(machine);
    }
    match region.machine_by_name(&named.name, named.group.as_deref()) {
        Found::One(id) => region.machine(id).ok_or_else(unknown),
        Found::Nothing => Err(unknown()),
        Found::Many(ids) => Err(Refusal::AmbiguousName {
            name: named.to_string(),
            candidates: ids.iter().filter_map(|id| region.machine(*id)).map(|m| full_name(region, m)).collect(),
        }),
    }
}

/// A path to this machine and no other; the vmId where group and name do not tell.
fn full_name(region: &Region, machine: &Machine) -> String {
    let service = match &machine.seat {
        Seat::RoleInstance { service, .. } => region.group(*service).map(|group| &group.name),
        Seat::Standalone | Seat::AvailabilitySet(_) | Seat::Instance { .. } => None,
    };
    let within = service.unwrap_or(&machine.home.resource_group);
    match region.machine_by_name(&machine.name, Some(within)) {
        Found::One(_) => format!("/vm/{within}/{}", machine.name),
        Found::Many(_) | Found::Nothing => format!("/vm/{}", machine.vm_id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_on_this_computer_comes_by_loopback_or_from_the_link_local_address_that_was_called() {
        let door =
            Door { machine: None, network: "default".into(), prefix_allowed: false, default: DefaultMachine::First };
        let check = |from: &str, called: &str, expected: bool| {
            let peer = door.peer(from.parse().unwrap(), Some(called.parse().unwrap()));
            assert_eq!(peer.is_here(), expected, "{from} → {called}");
        };
        check("127.0.0.1", "127.0.0.1", true);
        check("::ffff:127.0.0.1", "::ffff:127.0.0.1", true);
        check("169.254.169.254", "169.254.169.254", true);
        check("10.0.0.4", "169.254.169.254", false);
        check("169.254.7.7", "169.254.169.254", false);
        check("10.0.0.1", "10.0.0.1", false);
    }
}
