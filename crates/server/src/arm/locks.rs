//! Reading a resource, merging what is given into it and writing it back is one step for everybody else who wants to
//! change the same resource.
//!
//! A deployment is locked while its resources are, one after the other, so the two have locks of their own. Nothing else
//! holds one lock and asks for another.

use std::hash::{DefaultHasher, Hash, Hasher};

use forewarn_wire::arm::id::ResourceId;
use tokio::sync::{Mutex, MutexGuard};

/// Locks of each kind. Resources that share one wait for each other without need, which at so many hardly ever happens.
const STRIPES: usize = 64;

pub struct Locks {
    resources: Vec<Mutex<()>>,
    deployments: Vec<Mutex<()>>,
}

impl Default for Locks {
    fn default() -> Self {
        let stripes = || (0..STRIPES).map(|_| Mutex::new(())).collect();
        Locks { resources: stripes(), deployments: stripes() }
    }
}

impl Locks {
    pub async fn of(&self, id: &ResourceId) -> MutexGuard<'_, ()> {
        self.stripe(id).lock().await
    }

    fn stripe(&self, id: &ResourceId) -> &Mutex<()> {
        let is_deployment = id.kind().is_some_and(|kind| kind == "Microsoft.Resources/deployments");
        let stripes = if is_deployment { &self.deployments } else { &self.resources };
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        &stripes[(hasher.finish() % STRIPES as u64) as usize]
    }
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
            let resource = id(&format!("Microsoft.Network/virtualNetworks/net{n}"));
            assert!(locks.stripe(&resource).try_lock().is_ok(), "{resource}");
        }
    }

    #[test]
    fn a_resource_has_one_lock_in_any_spelling() {
        let locks = Locks::default();
        let _held = locks.stripe(&id("Microsoft.Compute/virtualMachines/vm")).try_lock().unwrap();
        assert!(locks.stripe(&id("microsoft.compute/virtualmachines/VM")).try_lock().is_err());
    }
}
