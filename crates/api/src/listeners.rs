//! Where machines ask. Told to tools that speak to the metadata endpoint in a machine's place; nothing
//! here can be changed while the server runs.

use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use super::Api;
use super::extract::{self, NoQuery, Params};
use forewarn_metadata::ListenerInfo;

/// All of them: a server has as many as its configuration names.
#[derive(Debug, Serialize, ToSchema)]
pub struct Listeners {
    pub value: Vec<Listener>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Listener {
    /// `127.0.0.1:8169`, or `unix:` and a path.
    pub address: String,
    /// Every caller is this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Source addresses are looked up on this network.
    pub network: String,
    /// Whether a path `/vm/NAME/…` may say who asks.
    pub prefix: bool,
}

pub async fn list(api: Api, Params(NoQuery {}): Params<NoQuery>) -> Response {
    extract::ok(Listeners { value: api.0.parts.machine_doors.iter().map(shown).collect() })
}

fn shown(door: &ListenerInfo) -> Listener {
    Listener {
        address: door.address.to_string(),
        machine: door.machine.clone(),
        network: door.network.clone(),
        prefix: door.prefix,
    }
}
