//! The report of each server to the one that an operator asks: its progress, its wall clock, and rules that differ.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use forewarn_cluster::Member;
use http::{Request, StatusCode};
use serde::{Deserialize, Serialize};

use super::Cluster;

const PATH: &str = "/cluster/v1/report";

/// A server that takes longer is shown as unreachable.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1500);

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReport {
    pub role: String,
    pub revision: u64,
    pub version: String,
    /// Milliseconds since 1970.
    pub wall_ms: i64,
    /// In which rules the configuration differs from the region.
    pub rule_differences: Vec<String>,
}

/// A report, and how far the clock of that server is ahead of this one's.
#[derive(Debug)]
pub struct ReceivedReport {
    pub report: NodeReport,
    pub clock_difference_ms: i64,
}

pub fn routes() -> Router<Arc<Cluster>> {
    Router::new().route(PATH, get(answer))
}

async fn answer(State(cluster): State<Arc<Cluster>>) -> Json<NodeReport> {
    Json(cluster.report())
}

impl Cluster {
    fn report(&self) -> NodeReport {
        let status = self.monitor.status();
        NodeReport {
            role: status.role.as_str().to_owned(),
            revision: self.engine.snapshot().revision,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            wall_ms: wall_ms(),
            rule_differences: status.rule_differences.clone(),
        }
    }

    /// Asks these servers for their reports, at the same time.
    pub(super) async fn ask_nodes(self: &Arc<Self>, members: &[Member]) -> Vec<Result<ReceivedReport, String>> {
        let ask = |member: Member| {
            let cluster = self.clone();
            tokio::spawn(async move { cluster.ask_node(&member).await })
        };
        let asked: Vec<_> = members.iter().cloned().map(ask).collect();
        let mut sightings = Vec::with_capacity(asked.len());
        for answer in asked {
            sightings.push(answer.await.unwrap_or_else(|error| Err(error.to_string())));
        }
        sightings
    }

    /// Asks a server for its report.
    async fn ask_node(&self, member: &Member) -> Result<ReceivedReport, String> {
        if member.name == self.node {
            return Ok(ReceivedReport { report: self.report(), clock_difference_ms: 0 });
        }
        let request = Request::get(PATH).body(Bytes::new()).map_err(|error| error.to_string())?;
        let asked_ms = wall_ms();
        let response = tokio::time::timeout(ANSWER_TIMEOUT, self.peers.send(&member.address, request)).await;
        let response = response.map_err(|_| "timed out".to_owned())?.map_err(|error| error.to_string())?;
        if response.status() != StatusCode::OK {
            return Err(format!("answered {}", response.status()));
        }
        let report: NodeReport = serde_json::from_slice(response.body()).map_err(|error| error.to_string())?;
        let clock_difference_ms = compare_clocks(asked_ms, report.wall_ms, wall_ms());
        Ok(ReceivedReport { report, clock_difference_ms })
    }
}

/// The lead of a remote clock that was read between two local readings. Zero if the network delay explains the difference.
fn compare_clocks(before_ms: i64, other_ms: i64, after_ms: i64) -> i64 {
    (other_ms - after_ms).max(0) + (other_ms - before_ms).min(0)
}

fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_differ_by_more_than_the_time_of_the_answer() {
        assert_eq!(compare_clocks(100, 105, 110), 0);
        assert_eq!(compare_clocks(100, 150, 110), 40);
        assert_eq!(compare_clocks(100, 60, 110), -40);
    }
}
