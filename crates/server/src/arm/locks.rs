//! Reading a resource, merging what is given into it and writing it back is one step for everybody else who wants to
//! change the same resource.

use std::hash::{DefaultHasher, Hash, Hasher};

use forewarn_wire::arm::id::ResourceId;
use tokio::sync::{Mutex, MutexGuard};

/// Locks at once. Resources that share one wait for each other without need, which at so many hardly ever happens.
const STRIPES: usize = 64;

pub struct Locks(Vec<Mutex<()>>);

impl Default for Locks {
    fn default() -> Self {
        Locks((0..STRIPES).map(|_| Mutex::new(())).collect())
    }
}

impl Locks {
    pub async fn of(&self, id: &ResourceId) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        let stripe = hasher.finish() % STRIPES as u64;
        self.0[stripe as usize].lock().await
    }
}
