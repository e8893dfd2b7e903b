//! Who is calling, and what a token says about its holder.

use forewarn_core::Name;

use crate::role::Role;

/// Whoever has been let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// In history and in the audit trail.
    pub name: Name,
    pub role: Role,
}

impl Principal {
    /// The holder of the token file, and anybody where no token is asked for.
    pub fn owner() -> Principal {
        Principal { name: "owner".into(), role: Role::Owner }
    }

    /// Somebody at a path that is open to all.
    pub fn nobody() -> Principal {
        Principal { name: "nobody".into(), role: Role::Reader }
    }
}

/// Whom a token is made for.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The principal's name later.
    pub name: String,
    pub client_id: String,
    pub object_id: String,
    pub role: Role,
}
