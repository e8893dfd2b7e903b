//! Configuration and startup: puts the engine, the metadata endpoint, the drivers, the APIs and the portal together into a
//! running server.

mod adapters;
mod config;
mod start;

pub use config::*;
pub use forewarn_api::{AddFaultError, FaultKeeper};
pub use forewarn_engine::Engine;
pub use forewarn_metadata::{BoundAddress, EndpointState};
pub use start::{Running, start, start_with};
