//! What somebody showed to be let in. Whatever is given in exchange for it, such as a session at the portal, is worth
//! nothing when it no longer counts.

use serde::{Deserialize, Serialize};

use super::Principal;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Credential {
    /// Nothing that is known: of a file that an older program wrote.
    #[default]
    Unknown,
    /// Nothing: the server asks nobody.
    Open,
    /// What is in the token file, as a digest.
    Token(String),
    /// A token that was signed here.
    Signed {
        /// Which key it was signed with.
        key: String,
        /// Whose it is, of those in the file of clients.
        client: Option<String>,
        /// Seconds since 1970.
        until: i64,
    },
}

/// Somebody, and why we believe it.
#[derive(Clone, Debug)]
pub struct Holder {
    pub principal: Principal,
    pub credential: Credential,
}

impl Credential {
    /// When it stops to count by itself, in seconds since 1970.
    pub fn until(&self) -> Option<i64> {
        match self {
            Credential::Signed { until, .. } => Some(*until),
            Credential::Unknown | Credential::Open | Credential::Token(_) => None,
        }
    }
}
