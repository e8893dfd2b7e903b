//! Locks that make read, merge and write of a resource one step for concurrent requests.
//!
//! A deployment is locked while its resources are locked one after the other, and a machine while its network interfaces are
//! locked together. Each of the three has its own locks, and they are always taken in this order, so no deadlock is possible:
//!
//! ```text
//!  deployments ─▶ resources ─▶ network, in the order of their stripe numbers
//! ```

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use forewarn_wire::arm::id::ResourceId;
use tokio::sync::{Mutex, MutexGuard};

/// Locks of each kind. Resources that share a lock wait for each other needlessly, which is rare with this many.
const STRIPES: usize = 64;

pub struct Locks {
    deployments: Vec<Mutex<()>>,
    resources: Vec<Mutex<()>>,
    network: Vec<Mutex<()>>,
}

impl Default for Locks {
    fn default() -> Self {
        let stripes = || (0..STRIPES).map(|_| Mutex::new(())).collect();
        Locks { deployments: stripes(), resources: stripes(), network: stripes() }
    }
}

impl Locks {
    pub async fn lock(&self, id: &ResourceId) -> MutexGuard<'_, ()> {
        self.stripe(id).lock().await
    }

    /// Locks all of these network interfaces, whatever type their IDs claim.
    pub async fn lock_interfaces(&self, ids: &[ResourceId]) -> Vec<MutexGuard<'_, ()>> {
        let numbers: BTreeSet<usize> = ids.iter().map(number).collect();
        let mut held = Vec::with_capacity(numbers.len());
        for number in numbers {
            held.push(self.network[number].lock().await);
        }
        held
    }

    fn stripe(&self, id: &ResourceId) -> &Mutex<()> {
        let namespace = id.provider.as_ref().map(|provider| provider.namespace.as_str()).unwrap_or_default();
        let is_deployment = id.kind().is_some_and(|kind| kind == "Microsoft.Resources/deployments");
        let stripes = match is_deployment {
            true => &self.deployments,
            false if namespace.eq_ignore_ascii_case("Microsoft.Network") => &self.network,
            false => &self.resources,
        };
        &stripes[number(id)]
    }
}

fn number(id: &ResourceId) -> usize {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    (hasher.finish() % STRIPES as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(below: &str) -> ResourceId {
        ResourceId::parse(&format!("/subscriptions/s/resourceGroups/g/providers/{below}")).unwrap()
    }

    #[test]
    fn a_deployment_never_waits_for_itself() {
        let locks = Locks::default();
        let _held = locks.stripe(&id("microsoft.resources/DEPLOYMENTS/d")).try_lock().unwrap();
        for n in 0..10 * STRIPES {
            for kind in ["Microsoft.Network/virtualNetworks", "Microsoft.Compute/virtualMachines"] {
                let resource = id(&format!("{kind}/r{n}"));
                assert!(locks.stripe(&resource).try_lock().is_ok(), "{resource}");
            }
        }
    }

    #[tokio::test]
    async fn a_machine_never_waits_for_its_interfaces_nor_an_interface_for_another() {
        let locks = Locks::default();
        let machine = id("Microsoft.Compute/virtualMachines/vm");
        let _held = locks.lock(&machine).await;
        let interface = |n: usize| id(&format!("Microsoft.Network/networkInterfaces/card{n}"));
        let mut interfaces: Vec<ResourceId> = (0..10 * STRIPES).map(interface).collect();
        // A body can list any ID as a network interface.
        interfaces.push(machine);
        let held = locks.lock_interfaces(&interfaces).await;
        assert_eq!(held.len(), STRIPES);
        assert!(locks.stripe(&id("microsoft.network/NETWORKINTERFACES/Card7")).try_lock().is_err());
    }

    #[test]
    fn a_resource_has_one_lock_in_any_spelling() {
        let locks = Locks::default();
        let _held = locks.stripe(&id("Microsoft.Compute/virtualMachines/vm")).try_lock().unwrap();
        assert!(locks.stripe(&id("microsoft.compute/virtualmachines/VM")).try_lock().is_err());
    }
}
