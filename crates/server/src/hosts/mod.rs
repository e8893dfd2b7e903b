//! The server's side of the host agents: the listener for hosts, the stream of each agent, and the monitor of their beats.
//!
//! ```text
//!  agent ──mutual TLS──▶ listener ─▶ routes ─▶ engine (approvals, first GETs, beats, reports)
//!                                      └─▶ stream: the host's part of the region, then its changes, and orders
//!  beats ─▶ ConfirmHost when it matters; silence ─▶ LoseHost
//! ```

mod beats;
mod links;
mod listener;
mod part;
mod routes;
mod stream;

pub use beats::Beats;
pub use links::{LinkOptions, Links};
pub use listener::{HostListener, serve};
