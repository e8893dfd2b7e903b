//! Reading a resource, merging what is given into it and writing it back is one step for everybody else who wants to
//! change the same resource.
//!
//! A deployment is locked while its resources are, one after the other, and a machine while its network cards are, all
//! together. So each of the three has locks of its own, and nobody waits in a circle:
//!
//! ```text
//!  deployments ─▶ resources ─▶ network, in the order of their numbers
//! ```

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use forewarn_wire::arm::id::ResourceId;
use tokio::sync::{Mutex, MutexGuard};

/// Locks of each kind. Resources that share one wait for each other without need, which at so many hardly ever happens.
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
    pub async fn of(&self, id: &ResourceId) -> MutexGuard<'_, ()> {
        self.stripe(id).lock().await
    }

    /// All of these network cards, whatever their ids say that they are.
    pub async fn of_cards(&self, ids: &[ResourceId]) -> Vec<MutexGuard<'_, ()>> {
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
    async fn a_machine_never_waits_for_its_cards_nor_a_card_for_another() {
        let locks = Locks::default();
        let machine = id("Microsoft.Compute/virtualMachines/vm");
        let _held = locks.of(&machine).await;
        let card = |n: usize| id(&format!("Microsoft.Network/networkInterfaces/card{n}"));
        let mut cards: Vec<ResourceId> = (0..10 * STRIPES).map(card).collect();
        // Somebody may write anything there.
        cards.push(machine);
        let held = locks.of_cards(&cards).await;
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
