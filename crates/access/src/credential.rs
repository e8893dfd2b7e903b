//! Credentials. Anything given in exchange for one, such as a portal session, is valid only while the credential is.

use serde::{Deserialize, Serialize};

use super::Principal;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Credential {
    /// Unknown: from a file that an older version wrote.
    #[default]
    Unknown,
    /// None: the server runs without authentication.
    Open,
    /// The digest of the token in the token file.
    Token(String),
    /// A token signed by this server.
    Signed {
        /// The fingerprint of the signing key.
        key: String,
        /// The client ID, for clients in the clients file.
        client: Option<String>,
        /// Seconds since 1970.
        until: i64,
    },
    /// An identity provider.
    Oidc {
        /// The fingerprint of its configuration, roles included.
        provider: String,
    },
}

/// A principal with the credential that authenticated it.
#[derive(Clone, Debug)]
pub struct Holder {
    pub principal: Principal,
    pub credential: Credential,
}

impl Credential {
    /// When it expires, in seconds since 1970.
    pub fn expires_at(&self) -> Option<i64> {
        match self {
            Credential::Signed { until, .. } => Some(*until),
            Credential::Unknown | Credential::Open | Credential::Token(_) | Credential::Oidc { .. } => None,
        }
    }
}
