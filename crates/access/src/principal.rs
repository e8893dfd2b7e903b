//! Authenticated callers, and the subjects of tokens.

use forewarn_core::Name;

use crate::role::Role;

/// An authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The name in history and in the audit trail.
    pub name: Name,
    pub role: Role,
}

impl Principal {
    /// The holder of the token file, or any caller of a server without authentication.
    pub fn owner() -> Principal {
        Principal { name: "owner".into(), role: Role::Owner }
    }

    /// An unauthenticated caller of a public path.
    pub fn anonymous() -> Principal {
        Principal { name: "anonymous".into(), role: Role::Reader }
    }
}

/// The subject of a token.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Becomes the principal's name.
    pub name: String,
    pub client_id: String,
    pub object_id: String,
    pub role: Role,
}
