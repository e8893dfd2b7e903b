//! One-time links that sign a browser in to the portal.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PortalLink {
    /// Path and query of the link. It works once.
    pub path: String,
    /// Seconds until the link expires.
    pub expires_in_seconds: u64,
}
