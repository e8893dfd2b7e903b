//! The three roles of callers.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Ordered by their permissions, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads.
    Reader,
    /// Also approves and cancels events, and restarts and maintains machines.
    Operator,
    /// Does everything.
    Owner,
}

impl Role {
    pub const ALL: [Role; 3] = [Role::Reader, Role::Operator, Role::Owner];

    pub fn as_str(self) -> &'static str {
        match self {
            Role::Reader => "reader",
            Role::Operator => "operator",
            Role::Owner => "owner",
        }
    }

    pub fn parse(word: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.as_str() == word)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
