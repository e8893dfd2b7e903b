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

/// The last commit.
#[derive(Default)]
pub struct Gathering {
    /// The number of its commands, and of those that arrived meanwhile.
    active: usize,
    took: Duration,
}

impl Gathering {
    /// `waiting`: the commands that have arrived during the commit.
    pub fn record_commit(&mut self, size: usize, waiting: usize, took: Duration) {
        self.active = size + waiting;
        self.took = took;
    }

    /// Until when a batch of this size waits for the next command. None: it is committed at once.
    ///
    /// The clients of the last commit and those that waited for its end are those that are active. A wait of half a commit is short
    /// enough for the commands that are here, and usually long enough for the others.
    pub fn wait_until(&self, size: usize, begun: Instant) -> Option<Instant> {
        (size >= COMPANY_MIN && size < self.active).then(|| begun + (self.took / 2).min(WAIT_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_waits_for_the_clients_of_the_last_commit_and_those_that_arrived_meanwhile() {
        let begun = Instant::now();
        let wait = |gathering: &Gathering, size| gathering.wait_until(size, begun).map(|until| until - begun);
        let mut gathering = Gathering::default();
        assert_eq!(wait(&gathering, 30), None, "nothing is known yet");
        gathering.record_commit(24, 40, Duration::from_millis(6));
        assert_eq!(wait(&gathering, 7), None, "few clients");
        assert_eq!(wait(&gathering, 8), Some(Duration::from_millis(3)));
        assert_eq!(wait(&gathering, 63), Some(Duration::from_millis(3)));
        assert_eq!(wait(&gathering, 64), None, "all are here");
        gathering.record_commit(64, 0, Duration::from_secs(1));
        assert_eq!(wait(&gathering, 63), Some(WAIT_MAX));
        assert_eq!(wait(&gathering, 64), None, "no other client is active");
    }
}
