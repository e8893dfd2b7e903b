//! Generated fleets of any size. The same size always gives the same fleet.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use forewarn_core::*;

const PER_HOST: u64 = 20;
const UPDATE_DOMAINS: u32 = 5;

/// Loopback addresses, so that a load generator can call from each of them.
const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 64, 0, 4);

/// Seed of the machine IDs.
const SEED: Guid = Guid(0x666f_7265_7761_726e);

#[derive(Clone, Copy)]
pub struct Fleet {
    pub machines: u64,
    pub shape: Shape,
    /// When the fleet was created and all its scopes were turned on.
    pub start: Timestamp,
}

#[derive(Clone, Copy)]
pub enum Shape {
    /// Availability sets of this size, with identical machines.
    Sets { size: u64 },
    /// Standalone machines, each with its own scope, name and MAC address.
    Alone,
}

impl Fleet {
    /// The entities of the fleet, generated lazily.
    pub fn entities(self) -> impl Iterator<Item = Entity> {
        let common = Common::new();
        let hosts = (0..self.machines.div_ceil(PER_HOST)).map(|n| Entity::Host(Arc::new(Host::new(host(n)))));
        let scopes = (0..self.scopes()).flat_map(move |n| self.scope(n));
        let machines = (0..self.machines).scan((u64::MAX, Name::from("")), move |last, n| {
            if last.0 != n / PER_HOST {
                *last = (n / PER_HOST, host(n / PER_HOST));
            }
            Some(Entity::Machine(Arc::new(self.machine(n, &common, last.1.clone()))))
        });
        std::iter::once(Entity::Meta(self.meta())).chain(hosts).chain(scopes).chain(machines)
    }

    pub fn scopes(self) -> u64 {
        match self.shape {
            Shape::Sets { size } => self.machines.div_ceil(size),
            Shape::Alone => self.machines,
        }
    }

    /// The ID of the `n`th machine. IDs of groups and scopes follow those of the machines.
    pub fn machine_id(self, n: u64) -> MachineId {
        MachineId(1 + n)
    }

    pub fn name(n: u64) -> String {
        format!("web-{n:07}")
    }

    fn scope_id(self, n: u64) -> ScopeId {
        ScopeId(1 + self.machines + n)
    }

    fn group_id(self, n: u64) -> GroupId {
        GroupId(1 + self.machines + self.scopes() + n)
    }

    fn meta(self) -> RegionMeta {
        let next_id = 1 + self.machines + 2 * self.scopes();
        RegionMeta { now: self.start, next_id, ..RegionMeta::default() }
    }

    fn scope(self, n: u64) -> Vec<Entity> {
        let scope = |owner| {
            let switch = EventsState::On { seen: self.start };
            Entity::Scope(Arc::new(Scope { id: self.scope_id(n), owner, switch, incarnation: 1, live: Vec::new() }))
        };
        match self.shape {
            Shape::Alone => vec![scope(ScopeOwner::Machine(self.machine_id(n)))],
            Shape::Sets { size } => {
                let group = Group {
                    id: self.group_id(n),
                    name: format!("set-{n:05}").into(),
                    home: Arc::new(home()),
                    kind: GroupKind::AvailabilitySet,
                    policy: EventsPolicy::default(),
                    scopes: vec![self.scope_id(n)],
                    update_domains: UPDATE_DOMAINS,
                    fault_domains: 2,
                    seats_given: u32::try_from(size).unwrap_or(u32::MAX),
                    leaving: false,
                };
                let owner = ScopeOwner::Group { group: group.id, part: 0 };
                vec![scope(owner), Entity::Group(Arc::new(group))]
            }
        }
    }

    fn machine(self, n: u64, common: &Common, host: Name) -> Machine {
        let name = Name::from(Fleet::name(n));
        let (scope, membership, details) = match self.shape {
            Shape::Alone => (self.scope_id(n), Membership::Standalone, Arc::new(common.own_details(n, &name))),
            Shape::Sets { size } => {
                let set = n / size;
                (self.scope_id(set), Membership::AvailabilitySet(self.group_id(set)), common.details.clone())
            }
        };
        let ip = IpAddr::V4(Ipv4Addr::from(u32::from(FIRST_ADDRESS) + n as u32));
        Machine {
            id: self.machine_id(n),
            vm_id: SEED.derive(n),
            name,
            home: common.home.clone(),
            scope,
            membership,
            host: Some(host),
            update_domain: (n % u64::from(UPDATE_DOMAINS)) as u32,
            fault_domain: (n % 2) as u32,
            zone: None,
            priority: Priority::Regular,
            eviction: EvictionPolicy::Deallocate,
            power: Power::Running,
            addresses: vec![Address { network: common.network.clone(), ip }].into(),
            terminate: None,
            model: 0,
            protected: false,
            memory_mib: 0,
            live_migratable: true,
            transfer: None,
            policy: None,
            details,
        }
    }
}

/// Text that all machines share, as after loading from a store.
struct Common {
    home: Arc<ResourceGroupRef>,
    network: SharedName,
    details: Arc<Details>,
}

impl Common {
    fn new() -> Common {
        Common { home: Arc::new(home()), network: "default".into(), details: Arc::new(details()) }
    }

    /// Details of one machine: its name, which it shares, and its own MAC address.
    fn own_details(&self, n: u64, name: &Name) -> Details {
        Details { computer_name: name.clone(), mac: format!("000D3A{n:06X}").into(), ..(*self.details).clone() }
    }
}

pub fn home() -> ResourceGroupRef {
    ResourceGroupRef { subscription: "00000000-0000-4000-8000-000000000001".into(), resource_group: "fleet".into() }
}

fn host(n: u64) -> Name {
    format!("host-{n:06}").into()
}

fn details() -> Details {
    let shared = SharedDetails {
        location: "westeurope".into(),
        size: "Standard_D2s_v5".into(),
        os_type: "Linux".into(),
        publisher: "Debian".into(),
        offer: "debian-12".into(),
        sku: "12".into(),
        image_version: "latest".into(),
        tags: [("team".into(), "web".into())].into(),
    };
    Details { shared: Arc::new(shared), ..Details::default() }
}

/// Settings without a limit on user operations, because all machines are in one subscription.
pub fn settings() -> Settings {
    Settings { user_operations_max: 0, ..Settings::default() }
}
