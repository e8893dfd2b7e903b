//! Issues and checks signed tokens.
//!
//! ```text
//!  client and secret ─┐
//!  machine identity  ─┼─▶ SignIn::issue ─▶ signed token ─▶ SignIn::check ─▶ Principal (name, role)
//!  forewarn token     ┘
//! ```
//!
//! Tokens expire in real time, whatever the program's clock shows, because clients decide by their own clocks when to fetch the
//! next one.

use std::path::Path;
use std::sync::Arc;

use crate::credential::{Credential, Holder};
use crate::principal::{Principal, Subject};
use crate::role::Role;
use crate::secret_file::SecretFileError;
use crate::secrets::{self, Client, Secrets};
use crate::token::{self, Claims, SigningKey, TokenRefusal};

/// The lifetime of a token for a client or machine.
pub const TOKEN_SECS: i64 = 3600;

/// The longest lifetime for `forewarn token issue`: a single token cannot be revoked.
pub const TOKEN_HOURS_MAX: i64 = 7 * 24;

/// The audience of tokens that name no address.
pub const AUDIENCE: &str = "urn:forewarn:management";

/// Azure's management API, for which this server stands in.
const AZURE_AUDIENCES: [&str; 2] = ["https://management.azure.com", "https://management.core.windows.net"];

/// A token, and the claims in it.
pub struct IssuedToken {
    pub token: String,
    pub claims: Claims,
}

pub struct SignIn {
    secrets: Secrets,
    key: SigningKey,
}

impl SignIn {
    /// Reads the secrets of this directory, or creates them.
    pub fn in_directory(dir: &Path) -> Result<SignIn, SecretFileError> {
        let (secrets, signing) = secrets::in_directory(dir)?;
        Ok(SignIn { secrets, key: SigningKey::new(&signing) })
    }

    /// Random secrets that are not stored.
    pub fn in_memory() -> SignIn {
        SignIn { secrets: Secrets::random(), key: SigningKey::new(secrets::random_secret().as_bytes()) }
    }

    pub fn tenant(&self) -> &str {
        &self.secrets.tenant
    }

    /// The client with this ID and secret. Takes the same time if there is none.
    pub fn client(&self, id: &str, secret: &str) -> Option<Subject> {
        self.secrets.client(id, secret).map(|client| self.subject_of(client))
    }

    pub fn issue(&self, subject: &Subject, audience: &str, now: i64, length_secs: i64) -> IssuedToken {
        let claims = Claims {
            aud: audience.to_owned(),
            iss: self.issuer(),
            iat: now,
            nbf: now,
            exp: now + length_secs,
            tid: self.secrets.tenant.clone(),
            oid: subject.object_id.clone(),
            appid: subject.client_id.clone(),
            name: subject.name.clone(),
            roles: vec![subject.role.as_str().to_owned()],
        };
        IssuedToken { token: self.key.sign(&claims), claims }
    }

    /// The holder of a token. `is_ours` decides whether an audience is an address of this server.
    pub fn check(&self, token: &str, now: i64, is_ours: impl Fn(&str) -> bool) -> Result<Holder, TokenRefusal> {
        let claims = self.key.open(token)?;
        if claims.iss != self.issuer() || claims.tid != self.secrets.tenant {
            return Err(TokenRefusal::Issuer);
        }
        if now >= claims.exp || now + token::SKEW_SECS < claims.nbf {
            return Err(TokenRefusal::Expired);
        }
        if !is_known_audience(&claims.aud) && !is_ours(&claims.aud) {
            return Err(TokenRefusal::Audience);
        }
        let role = claims.roles.iter().filter_map(|word| Role::parse(word)).max().ok_or(TokenRefusal::Role)?;
        let principal = Principal { name: claims.name.as_str().into(), role };
        let client = self.secrets.clients.iter().find(|client| client.object_id == claims.oid);
        let credential = Credential::Signed {
            key: self.key.fingerprint(),
            client: client.map(|client| client.client_id.clone()),
            until: claims.exp,
        };
        Ok(Holder { principal, credential })
    }

    /// Whether a token signed with this key for this client and role is still valid. `client`: None for subjects outside the
    /// clients file.
    pub fn is_valid(&self, key: &str, client: Option<&str>, role: Role) -> bool {
        let has_role = |id: &str| self.secrets.clients.iter().any(|one| one.client_id == id && one.role == role);
        key == self.key.fingerprint() && client.is_none_or(has_role)
    }

    fn subject_of(&self, client: &Client) -> Subject {
        Subject {
            name: client.client_id.clone(),
            client_id: client.client_id.clone(),
            object_id: client.object_id.clone(),
            role: client.role,
        }
    }

    /// The issuer: the tenant, because addresses change.
    fn issuer(&self) -> String {
        format!("urn:forewarn:{}", self.secrets.tenant)
    }
}

/// Whether an audience means this server at any address.
pub fn is_known_audience(audience: &str) -> bool {
    audience == AUDIENCE || AZURE_AUDIENCES.contains(&audience.trim_end_matches('/'))
}

/// Issues tokens to machines.
#[derive(Clone)]
pub struct TokenIssuer {
    pub sign_in: Arc<SignIn>,
    /// Whether tokens for this audience are accepted by this server.
    pub is_audience: Arc<dyn Fn(&str) -> bool + Send + Sync>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;
    const HERE: &str = "https://127.0.0.1:8171";

    fn subject(role: Role) -> Subject {
        Subject { name: "ann".into(), client_id: "c".into(), object_id: "o".into(), role }
    }

    #[track_caller]
    fn check(sign_in: &SignIn, token: &str, now: i64) -> Result<Principal, TokenRefusal> {
        sign_in.check(token, now, |audience| audience == HERE).map(|holder| holder.principal)
    }

    #[test]
    fn a_token_says_who_holds_it_until_it_expires() {
        let sign_in = SignIn::in_memory();
        for role in [Role::Reader, Role::Operator, Role::Owner] {
            let token = sign_in.issue(&subject(role), HERE, NOW, TOKEN_SECS).token;
            assert_eq!(check(&sign_in, &token, NOW), Ok(Principal { name: "ann".into(), role }));
            assert!(check(&sign_in, &token, NOW + TOKEN_SECS - 1).is_ok());
            assert_eq!(check(&sign_in, &token, NOW + TOKEN_SECS), Err(TokenRefusal::Expired));
            assert!(check(&sign_in, &token, NOW - token::SKEW_SECS).is_ok());
            assert_eq!(check(&sign_in, &token, NOW - token::SKEW_SECS - 1), Err(TokenRefusal::Expired));
        }
    }

    #[test]
    fn tokens_for_another_audience_are_refused() {
        let sign_in = SignIn::in_memory();
        let with = |audience: &str| sign_in.issue(&subject(Role::Owner), audience, NOW, TOKEN_SECS).token;
        for ours in [HERE, AUDIENCE, "https://management.azure.com/", "https://management.core.windows.net"] {
            assert!(check(&sign_in, &with(ours), NOW).is_ok(), "{ours}");
        }
        for other in ["", "https://vault.azure.net", "https://127.0.0.1:8172", "https://management.azure.com.evil"] {
            assert_eq!(check(&sign_in, &with(other), NOW), Err(TokenRefusal::Audience), "{other}");
        }
    }

    #[test]
    fn tokens_of_another_server_are_refused() {
        let (ours, theirs) = (SignIn::in_memory(), SignIn::in_memory());
        let token = theirs.issue(&subject(Role::Owner), HERE, NOW, TOKEN_SECS).token;
        assert_eq!(check(&ours, &token, NOW), Err(TokenRefusal::Forged));
        let same_key = SignIn { secrets: Secrets::random(), key: ours.key.clone() };
        let token = same_key.issue(&subject(Role::Owner), HERE, NOW, TOKEN_SECS).token;
        assert_eq!(check(&ours, &token, NOW), Err(TokenRefusal::Issuer));
    }

    #[test]
    fn a_token_without_a_role_that_exists_is_refused() {
        let sign_in = SignIn::in_memory();
        let mut claims = sign_in.issue(&subject(Role::Reader), HERE, NOW, TOKEN_SECS).claims;
        claims.roles = vec!["root".into()];
        assert_eq!(check(&sign_in, &sign_in.key.sign(&claims), NOW), Err(TokenRefusal::Role));
    }
}
