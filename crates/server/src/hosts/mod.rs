//! The server's side of the host agents: the listener for hosts, the stream of each agent, and the monitor of their heartbeats.
//!
//! ```text
//!  agent ──mutual TLS──▶ listener ─▶ routes ─▶ engine (approvals, first GETs, heartbeats, reports)
//!                                      └─▶ stream: the host's part of the region, then its changes, and orders
//!                           relay: at a follower of a cluster, the leader carries out the requests
//!  heartbeats ─▶ ConfirmHost when it matters; silence ─▶ LoseHost
//! ```

mod guests;
mod heartbeats;
mod links;
mod listener;
mod part;
mod relay;
mod routes;
mod servers;
mod stream;

pub use guests::GuestServices;
pub use heartbeats::AgentMonitor;
pub use links::{LinkTable, Links};
pub use listener::{HostListener, serve};
pub use routes::peer_routes;
pub use servers::{Listener, ServerList, follow_region};
