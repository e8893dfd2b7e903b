//! The servers that can answer a request, and the one in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One server, or the servers of a cluster. Clones use the same server.
#[derive(Clone)]
pub struct Servers {
    /// At least one.
    addresses: Vec<String>,
    current: Arc<AtomicUsize>,
}

impl Servers {
    pub fn new(addresses: Vec<String>) -> Servers {
        Servers { addresses, current: Arc::default() }
    }

    pub fn current(&self) -> &str {
        self.in_order().next().unwrap_or_default()
    }

    /// All servers, the one in use first.
    pub fn in_order(&self) -> impl Iterator<Item = &str> {
        let current = self.current.load(Ordering::Relaxed);
        let (before, after) = self.addresses.split_at(current.min(self.addresses.len()));
        after.iter().chain(before).map(String::as_str)
    }

    pub fn set_current(&self, server: &str) {
        if let Some(index) = self.addresses.iter().position(|address| address == server) {
            self.current.store(index, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_in_use_comes_first() {
        let servers = Servers::new(["a", "b", "c"].map(String::from).into());
        assert_eq!(servers.current(), "a");
        servers.clone().set_current("b");
        assert_eq!(servers.in_order().collect::<Vec<_>>(), ["b", "c", "a"]);
        assert_eq!(servers.current(), "b");
    }
}
