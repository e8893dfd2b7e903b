//! Hosts, on which machines run.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Host {
    pub name: String,
    /// Names of its machines, at most 1,000.
    pub machines: Vec<String>,
}
