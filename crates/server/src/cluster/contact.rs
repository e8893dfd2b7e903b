//! Whether the leader reaches the other servers. If most servers are alive but out of its reach, they can forward nothing to
//! it, although etcd shows them a leader. It then resigns.
//!
//! A server that cannot be reached may be dead, and a leader that is left alone must stay. A server is alive if its progress
//! in etcd includes a commit that the leader made after it had lost the contact.

use std::sync::Arc;
use std::time::Duration;

use forewarn_cluster::{LogError, Member, MemberList};
use forewarn_core::Command;

use super::Cluster;

/// The pause between two checks.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// How long servers that are alive have to report a commit. They report their progress every second.
const PROGRESS_WAIT: Duration = Duration::from_secs(2);

/// Reports to the engine of a leader whether it reaches the other servers, until the leadership ends.
pub async fn watch_contact(cluster: &Arc<Cluster>) {
    loop {
        tokio::time::sleep(CHECK_EVERY).await;
        // An engine that does not answer is stopping, or too busy; the next check follows soon.
        let _ = cluster.engine.set_contact(cluster.has_contact().await);
    }
}

impl Cluster {
    /// While etcd or the engine cannot be asked, nothing is known, and other rules end the leadership.
    async fn has_contact(self: &Arc<Self>) -> bool {
        self.check_contact().await.unwrap_or(true)
    }

    async fn check_contact(self: &Arc<Self>) -> Result<bool, LogError> {
        let members = self.read_roster().await?.members;
        let sightings = self.ask_nodes(&members).await;
        let unreached: Vec<&Member> = members
            .iter()
            .zip(&sightings)
            .filter(|(_, sighting)| sighting.is_err())
            .map(|(member, _)| member)
            .collect();
        if !is_most(unreached.len(), members.len()) {
            return Ok(true);
        }
        let Ok(committed) = self.engine.submit(Command::Tick, None).await else { return Ok(true) };
        tokio::time::sleep(PROGRESS_WAIT).await;
        let alive = count_alive(&self.read_roster().await?, &unreached, committed.snapshot.revision);
        if is_most(alive, members.len()) {
            let names: Vec<&str> = unreached.iter().map(|member| member.name.as_str()).collect();
            tracing::warn!(nodes = names.join(", "), "this leader cannot reach a majority of the live servers");
            return Ok(false);
        }
        Ok(true)
    }

    async fn read_roster(self: &Arc<Self>) -> Result<MemberList, LogError> {
        self.with_log(|log| log.roster()).await
    }
}

/// How many of these servers have applied a revision.
fn count_alive(roster: &MemberList, unreached: &[&Member], revision: u64) -> usize {
    let is_unreached = |member: &Member| unreached.iter().any(|other| other.name == member.name);
    roster.members.iter().filter(|member| is_unreached(member) && member.applied >= revision).count()
}

fn is_most(servers: usize, all: usize) -> bool {
    2 * servers > all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, applied: u64) -> Member {
        Member { name: name.into(), applied, format: 1, content_format: 1, address: format!("http://{name}") }
    }

    #[test]
    fn only_servers_that_are_alive_and_out_of_reach_count() {
        let (b, c) = (member("b", 6), member("c", 6));
        let unreached = [&b, &c];
        for (applied, expected) in [([7, 7], 2), ([7, 6], 1), ([6, 6], 0)] {
            let members = vec![member("a", 7), member("b", applied[0]), member("c", applied[1])];
            assert_eq!(count_alive(&MemberList { members, log_bytes: 0 }, &unreached, 7), expected);
        }
    }

    #[test]
    fn half_of_the_servers_are_not_most() {
        assert!(is_most(2, 3) && is_most(3, 5));
        assert!(!is_most(1, 2) && !is_most(1, 3) && !is_most(2, 4));
    }
}
