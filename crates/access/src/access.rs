//! Decides who a caller is: by the owner's token, a signed token or a portal session.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use super::credential::{Credential, Holder};
use super::oidc::{Oidc, OidcConfig};
use super::session::{Session, Sessions};
use super::token_file::{OwnerToken, TokenError, random_token};
use super::{Principal, SignIn, TokenRefusal};
use crate::secret_file::SecretFileError;
use crate::tls::now;

/// Authenticates callers.
pub struct Access {
    protection: Protection,
    sign_in: Arc<SignIn>,
    sessions: Arc<Sessions>,
    oidc: Option<Arc<Oidc>>,
}

enum Protection {
    Open,
    Token(OwnerToken),
}

#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    #[error(
        "--no-auth requires a loopback management address, but {0} is not one. Remove --no-auth, or listen on 127.0.0.1"
    )]
    OpenToOthers(SocketAddr),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Secrets(#[from] SecretFileError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// A bearer token, created at the first start and kept with mode 0600 in the data directory.
    Token,
    /// No authentication; loopback only.
    Off,
}

/// A caller without a valid credential.
#[derive(Debug)]
pub enum AuthenticationError {
    NoToken,
    BadToken(TokenRefusal),
}

impl Access {
    /// Reads or creates tokens and secrets in `dir`, or keeps them in memory. `listened`: the management addresses.
    pub fn open(auth: Auth, dir: Option<&Path>, listened: &[SocketAddr]) -> Result<Access, AccessError> {
        let exposed = listened.iter().find(|address| !address.ip().is_loopback());
        let protection = match (auth, dir, exposed) {
            (Auth::Off, _, Some(address)) => return Err(AccessError::OpenToOthers(*address)),
            (Auth::Off, _, None) => Protection::Open,
            (Auth::Token, Some(dir), _) => Protection::Token(OwnerToken::in_directory(dir)?),
            (Auth::Token, None, _) => Protection::Token(OwnerToken::Memory(random_token())),
        };
        let (sign_in, sessions) = match dir {
            Some(dir) => (SignIn::in_directory(dir)?, Sessions::in_directory(dir)?),
            None => (SignIn::in_memory(), Sessions::in_memory()),
        };
        Ok(Access { protection, sign_in: Arc::new(sign_in), sessions: Arc::new(sessions), oidc: None })
    }

    /// Lets people sign in to the portal with an identity provider.
    #[must_use]
    pub fn with_oidc(mut self, config: OidcConfig) -> Access {
        self.oidc = Some(Oidc::new(config));
        self
    }

    pub fn oidc(&self) -> Option<&Arc<Oidc>> {
        self.oidc.as_ref()
    }

    pub fn sign_in(&self) -> &Arc<SignIn> {
        &self.sign_in
    }

    /// A link that signs one browser in to the portal as this holder.
    pub fn portal_link(&self, holder: &Holder) -> String {
        self.sessions.link(holder)
    }

    /// The owner, with the credential that authenticates one.
    pub fn owner(&self) -> Holder {
        let credential = match &self.protection {
            Protection::Open => Credential::Open,
            Protection::Token(token) => Credential::Token(token.digest()),
        };
        Holder { principal: Principal::owner(), credential }
    }

    /// The holder of a sign-in code, if it is still valid. A code works once.
    pub fn redeem_link(&self, code: &str) -> Option<Holder> {
        self.sessions.redeem(code)
    }

    /// The owner of a server without authentication.
    pub fn open_holder(&self) -> Option<Holder> {
        self.is_open().then(|| self.owner())
    }

    /// The holder of a token; None on a server without authentication.
    pub fn token_holder(&self, token: &str, is_audience: impl Fn(&str) -> bool) -> Option<Holder> {
        self.holder(Some(token.trim().as_bytes()), is_audience).ok().filter(|_| !self.is_open())
    }

    /// Starts a session and returns its cookie. None: the credential is not valid (any more).
    pub fn begin_session(&self, holder: &Holder) -> Option<String> {
        self.is_valid(holder).then(|| self.sessions.begin(holder))
    }

    /// The session of a cookie, as long as the credential it was started with is valid.
    pub fn session(&self, cookie: &str) -> Option<Session> {
        let session = self.sessions.find(cookie)?;
        if self.is_valid(&session.holder) {
            return Some(session);
        }
        self.sessions.end(cookie);
        None
    }

    pub fn end_session(&self, cookie: &str) {
        self.sessions.end(cookie);
    }

    /// Whether the credential of a holder is still valid.
    pub fn is_valid(&self, Holder { principal, credential }: &Holder) -> bool {
        match (credential, &self.protection) {
            (Credential::Open, Protection::Open) => true,
            (Credential::Token(digest), Protection::Token(token)) => token.digest() == *digest,
            (Credential::Signed { key, client, .. }, _) => {
                self.sign_in.is_valid(key, client.as_deref(), principal.role)
            }
            (Credential::Oidc { provider }, Protection::Token(_)) => {
                self.oidc.as_ref().is_some_and(|oidc| oidc.is_valid(provider))
            }
            (Credential::Oidc { .. }, Protection::Open) => false,
            (Credential::Unknown | Credential::Open | Credential::Token(_), _) => false,
        }
    }

    /// Whether authentication is off.
    pub fn is_open(&self) -> bool {
        matches!(self.protection, Protection::Open)
    }

    /// Identifies a caller by its bearer token. `is_audience` decides whether an audience is an address of this server.
    pub fn holder(
        &self,
        token: Option<&[u8]>,
        is_audience: impl Fn(&str) -> bool,
    ) -> Result<Holder, AuthenticationError> {
        let owner_token = match &self.protection {
            Protection::Open => return Ok(self.owner()),
            Protection::Token(owner_token) => owner_token,
        };
        let token = token.ok_or(AuthenticationError::NoToken)?;
        if owner_token.accepts(token) {
            return Ok(self.owner());
        }
        let token = std::str::from_utf8(token).map_err(|_| AuthenticationError::BadToken(TokenRefusal::Malformed))?;
        self.sign_in.check(token, now(), is_audience).map_err(AuthenticationError::BadToken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_token_only_loopback_addresses_are_allowed() {
        let open = |addresses: &[&str]| {
            let addresses: Vec<SocketAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
            Access::open(Auth::Off, None, &addresses)
        };
        assert!(open(&["127.0.0.1:8170"]).is_ok());
        assert!(open(&["[::1]:8170"]).is_ok());
        assert!(matches!(open(&["0.0.0.0:8170"]), Err(AccessError::OpenToOthers(_))));
        assert!(matches!(open(&["10.0.0.1:8170"]), Err(AccessError::OpenToOthers(_))));
        assert!(open(&["127.0.0.1:8170", "127.0.0.1:8171"]).is_ok());
        assert!(matches!(open(&["127.0.0.1:8170", "0.0.0.0:8171"]), Err(AccessError::OpenToOthers(_))));
    }
}
