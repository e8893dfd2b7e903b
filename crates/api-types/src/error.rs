//! The body of every error response.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    pub error: ErrorDetail,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorDetail {
    /// Error code for programs.
    pub code: String,
    /// Description of the error and how to resolve it.
    pub message: String,
    /// Field, parameter or resource that the error concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}
