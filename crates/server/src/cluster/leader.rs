//! Requests of this server to the leader.

use std::time::Duration;

use axum::body::Bytes;
use forewarn_engine::ClusterRole;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Request, Response, StatusCode};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::connections::IDLE_CONNECTIONS_MAX;
use super::peer::PeerError;
use super::{Cluster, LEADER_POLL, LEADER_WAIT_MAX, LeaderLocation};

/// How long a leader can take to answer a request that can be repeated. Then another server may lead.
const ATTEMPT_MAX: Duration = Duration::from_millis(1500);

/// Requests at the same time, as many as connections are kept: the leader limits connections per source, and after a takeover
/// all agents of this server send heartbeats at once.
static REQUESTS: Semaphore = Semaphore::const_new(IDLE_CONNECTIONS_MAX);

/// Orders are given only while the leader's last sign of life is at most this old.
const CURRENT_MAX: Duration = Duration::from_secs(1);

/// A request to the leader, whichever server that is.
pub struct LeaderRequest {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Whether carrying it out twice has the effect of carrying it out once.
    pub is_repeatable: bool,
}

pub enum LeaderResponse {
    By(Response<Bytes>),
    /// This server leads.
    Here,
    /// Nothing has happened.
    NoLeader,
    /// The leader may have carried out the request.
    Unknown,
}

impl Cluster {
    /// Sends a request to the leader, and waits for one if there is none.
    pub async fn send_to_leader(&self, request: &LeaderRequest) -> LeaderResponse {
        let until = Instant::now() + LEADER_WAIT_MAX;
        let mut is_unknown = false;
        while let Some(leading) = self.find_leader(until).await {
            let LeaderLocation::At(leader) = leading else { return LeaderResponse::Here };
            let mut sent = Request::new(request.body.clone());
            *sent.method_mut() = http::Method::POST;
            let Ok(uri) = request.path.parse() else { return LeaderResponse::NoLeader };
            *sent.uri_mut() = uri;
            *sent.headers_mut() = request.headers.clone();
            let Ok(_slot) = timeout_at(until, REQUESTS.acquire()).await else { break };
            let limit = if request.is_repeatable { until.min(Instant::now() + ATTEMPT_MAX) } else { until };
            match timeout_at(limit, self.peers.send(&leader.address, sent)).await {
                Ok(Ok(answer)) if answer.status() == StatusCode::MISDIRECTED_REQUEST => {}
                Ok(Ok(answer)) => return LeaderResponse::By(answer),
                Ok(Err(PeerError::Connect(..))) => {}
                Ok(Err(PeerError::Broken(..))) | Err(_) if request.is_repeatable => is_unknown = true,
                Ok(Err(PeerError::Broken(..))) | Err(_) => return LeaderResponse::Unknown,
            }
            if Instant::now() >= until {
                break;
            }
            tokio::time::sleep(LEADER_POLL).await;
        }
        if is_unknown { LeaderResponse::Unknown } else { LeaderResponse::NoLeader }
    }

    /// Sends a request of this server that must not be carried out twice.
    pub async fn post_to_leader(&self, path: &str, body: Bytes) -> LeaderResponse {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        self.send_to_leader(&LeaderRequest { path: path.to_owned(), headers, body, is_repeatable: false }).await
    }

    /// Whether the local copy is up to date and a leader is alive, which may be this server.
    pub fn is_current(&self) -> bool {
        let is_caught_up = match self.monitor.status().role {
            ClusterRole::Leader => self.engine.accepts_commands(),
            ClusterRole::Follower => true,
            ClusterRole::CatchingUp => false,
        };
        is_caught_up && self.monitor.heartbeat_age().is_some_and(|age| age <= CURRENT_MAX)
    }
}
