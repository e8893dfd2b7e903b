//! Managed identities of machines.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Role;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// ID of the principal in its tokens.
    pub principal_id: String,
    pub tenant_id: String,
    /// Role of its tokens.
    pub role: Role,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewIdentity {
    /// Default: reader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
}
