//! The metadata listeners, for tools that call the metadata endpoint on behalf of a machine. Read-only.

use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use super::Api;
use super::extract::{self, NoQuery, Params};
use forewarn_metadata::ListenerInfo;

/// The metadata listeners in the order of the configuration.
#[derive(Debug, Serialize, ToSchema)]
pub struct Listeners {
    pub value: Vec<Listener>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Listener {
    /// Address such as `127.0.0.1:8169`, or `unix:` and a path.
    pub address: String,
    /// Machine that all callers are treated as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Network in which source addresses are looked up.
    pub network: String,
    /// Whether a path prefix `/vm/NAME` selects the machine.
    pub prefix: bool,
}

pub async fn list(api: Api, Params(NoQuery {}): Params<NoQuery>) -> Response {
    extract::ok(Listeners { value: api.service().0.parts.metadata_listeners.iter().map(Listener::of).collect() })
}

impl Listener {
    fn of(listener: &ListenerInfo) -> Listener {
        Listener {
            address: listener.address.to_string(),
            machine: listener.machine.clone(),
            network: listener.network.clone(),
            prefix: listener.prefix,
        }
    }
}
