//! The servers that the agent can connect to: the one that the host joined, and those that heartbeats have named. The list is on
//! disk, so that a restarted agent finds a server although the first one is gone.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use forewarn_access::secret_file;

/// The name of the list in the data directory.
const FILE: &str = "servers.json";

/// A cluster has a handful of servers.
const FILE_BYTES_MAX: u64 = 64 * 1024;

pub struct Servers {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    /// The server that the host joined is the first one.
    addresses: Vec<String>,
    current: usize,
}

impl Servers {
    /// `joined`: the server that the host joined.
    pub fn open(dir: &Path, joined: &str) -> Servers {
        let path = dir.join(FILE);
        let stored = read(&path).unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot read the list of servers; starting with the one that this host joined");
            Vec::new()
        });
        Servers { path, state: Mutex::new(State { addresses: with_joined(joined, &stored), current: 0 }) }
    }

    /// The server to connect to.
    pub fn current(&self) -> String {
        let state = self.lock();
        state.addresses[state.current].clone()
    }

    /// Chooses the next server. Returns whether all were tried since the last contact with `first`.
    pub fn advance(&self, first: &str) -> bool {
        let mut state = self.lock();
        state.current = (state.current + 1) % state.addresses.len();
        state.addresses[state.current] == first || !state.addresses.iter().any(|address| address == first)
    }

    /// Takes the list that a server has sent. An empty one comes from a single server and changes nothing.
    pub fn learn(&self, sent: &[String]) {
        let mut state = self.lock();
        let addresses = with_joined(&state.addresses[0], sent);
        if sent.is_empty() || addresses == state.addresses {
            return;
        }
        if let Err(error) = write(&self.path, sent) {
            tracing::warn!(error = format!("{error:#}"), "cannot store the list of servers");
        }
        let current = &state.addresses[state.current];
        state.current = addresses.iter().position(|address| address == current).unwrap_or(0);
        state.addresses = addresses;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stores the servers of a host that joins, in place of earlier ones.
pub fn store(dir: &Path, addresses: &[String]) -> anyhow::Result<()> {
    write(&dir.join(FILE), addresses)
}

fn read(path: &Path) -> anyhow::Result<Vec<String>> {
    let Some((text, _)) = secret_file::read(path, FILE_BYTES_MAX)? else { return Ok(Vec::new()) };
    Ok(serde_json::from_str(&text)?)
}

fn write(path: &Path, addresses: &[String]) -> anyhow::Result<()> {
    Ok(secret_file::replace(path, &serde_json::to_string_pretty(addresses)?)?)
}

fn with_joined(joined: &str, others: &[String]) -> Vec<String> {
    let others = others.iter().filter(|address| *address != joined).cloned();
    std::iter::once(joined.to_owned()).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn all_servers_are_tried_in_turn_and_survive_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let servers = Servers::open(dir.path(), "a:1");
        assert_eq!(servers.current(), "a:1");
        assert!(servers.advance("a:1"), "there is one server");
        servers.learn(&texts(&["a:1", "b:1", "c:1"]));
        assert!(!servers.advance("a:1"));
        assert_eq!(servers.current(), "b:1");
        servers.learn(&texts(&["b:1", "d:1"]));
        assert_eq!(servers.current(), "b:1", "a new list does not change the server");
        let restarted = Servers::open(dir.path(), "a:1");
        let tried: Vec<_> =
            std::iter::repeat_with(|| (restarted.current(), restarted.advance("a:1"))).take(3).collect();
        assert_eq!(tried, [("a:1".into(), false), ("b:1".into(), false), ("d:1".into(), true)]);
        restarted.learn(&[]);
        assert_eq!(restarted.lock().addresses.len(), 3, "a server that names none changes nothing");
    }

    #[test]
    fn a_damaged_list_does_not_keep_the_agent_from_its_server() {
        let dir = tempfile::tempdir().unwrap();
        store(dir.path(), &texts(&["b:1"])).unwrap();
        std::fs::write(dir.path().join(FILE), "[").unwrap();
        assert_eq!(Servers::open(dir.path(), "a:1").lock().addresses, ["a:1"]);
    }
}
