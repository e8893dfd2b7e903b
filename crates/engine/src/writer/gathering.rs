//! Decides how long the writer waits for more commands before a commit.
//!
//! A commit costs as much as dozens of commands: a disk flush, or a round trip to the log of a cluster. Clients that have just been
//! answered send their next command a moment later, too late for the commit that starts at once. Without a wait, they would
//! be in every second commit only.

use std::time::{Duration, Instant};

/// Fewer commands never wait for others.
const COMPANY_MIN: usize = 8;

/// The longest wait, however slow commits are.
const WAIT_MAX: Duration = Duration::from_millis(50);

/// The last two commits.
#[derive(Default)]
pub struct Gathering {
    sizes: [usize; 2],
    took: Duration,
}

impl Gathering {
    pub fn record_commit(&mut self, size: usize, took: Duration) {
        self.sizes = [size, self.sizes[0]];
        self.took = took;
    }

    /// Until when a batch of this size waits for the next command. None: it is committed at once.
    ///
    /// The clients of the last two commits are those that are active. A wait of half a commit is short enough for the commands
    /// that are here, and usually long enough for the others.
    pub fn wait_until(&self, size: usize, begun: Instant) -> Option<Instant> {
        let is_incomplete = size < self.sizes.iter().sum();
        (size >= COMPANY_MIN && is_incomplete).then(|| begun + (self.took / 2).min(WAIT_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_waits_for_the_clients_of_the_last_two_commits() {
        let begun = Instant::now();
        let wait = |gathering: &Gathering, size| gathering.wait_until(size, begun).map(|until| until - begun);
        let mut gathering = Gathering::default();
        assert_eq!(wait(&gathering, 30), None, "nothing is known yet");
        gathering.record_commit(40, Duration::from_millis(90));
        gathering.record_commit(24, Duration::from_millis(6));
        assert_eq!(wait(&gathering, 7), None, "few clients");
        assert_eq!(wait(&gathering, 8), Some(Duration::from_millis(3)));
        assert_eq!(wait(&gathering, 63), Some(Duration::from_millis(3)));
        assert_eq!(wait(&gathering, 64), None, "all are here");
        gathering.record_commit(64, Duration::from_secs(1));
        assert_eq!(wait(&gathering, 64), Some(WAIT_MAX));
    }
}
