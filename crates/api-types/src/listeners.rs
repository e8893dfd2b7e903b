//! The metadata listeners.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The metadata listeners in the order of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Listeners {
    pub value: Vec<Listener>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
