//! Sign-in with an OpenID Connect provider: authorization code flow with PKCE, and groups mapped to roles.
//!
//! ```text
//!  begin ─▶ authorization URL + sealed attempt (cookie) ─▶ browser ─▶ provider ─▶ browser
//!  finish(code, state, attempt) ─▶ token endpoint ─▶ ID token: signature, audience, nonce ─▶ groups ─▶ role ─▶ Holder
//! ```
//!
//! The attempt is kept by the browser that started it, signed by this process, so that strangers cannot fill the server's
//! memory with unfinished sign-ins. Sessions begun this way end when the configuration of the provider changes.

mod attempt;
mod config;
mod http;
mod provider;

use std::sync::Arc;

pub use attempt::ATTEMPT_SECS;
use attempt::{Sealer, SignInAttempt};
pub use config::{OidcConfig, OidcConfigError, OidcSecret, RoleRule};
use provider::Provider;

use forewarn_api_types::join_first;

use crate::credential::{Credential, Holder};
use crate::principal::Principal;
use crate::tls::now;

/// Path of the page to which the provider sends the browser back.
pub const CALLBACK_PATH: &str = "/portal/sign-in/oidc/callback";

/// Names that other principals have. A user with one of these names gets a prefix.
const RESERVED_NAMES: [&str; 3] = ["owner", "anonymous", "policy"];

/// Maximum length of a name in history, in characters.
const NAME_CHARS_MAX: usize = 128;

/// Why a sign-in failed, as a message for the user.
#[derive(Debug, thiserror::Error)]
pub enum OidcError {
    #[error(
        "The identity provider cannot be used: {0}. Try again later, or ask an owner of this server to check its settings."
    )]
    Provider(String),
    #[error("This sign-in was not started in this browser, or it took longer than {} minutes. Sign in again.", ATTEMPT_SECS / 60)]
    NotStarted,
    #[error("The identity provider refused the sign-in: {0}. Sign in again, or ask the administrator of the provider.")]
    Refused(String),
    #[error("The response from the identity provider is not valid: {0}. Sign in again.")]
    Invalid(String),
    #[error(
        "'{name}' has no role on this server: {}. Ask an owner of this server to assign a role to one of your groups with --oidc-role.",
        describe_groups(.groups)
    )]
    NoRole { name: String, groups: Vec<String> },
}

fn describe_groups(groups: &[String]) -> String {
    /// Groups in one sentence; large organizations have hundreds.
    const NAMED_MAX: usize = 10;
    match groups {
        [] => "the identity provider reports no groups".to_owned(),
        groups => format!("none of these groups has a role: {}", join_first(groups, groups.len(), NAMED_MAX)),
    }
}

/// A started sign-in.
pub struct SignInStart {
    /// Where to send the browser.
    pub url: String,
    /// The value of the cookie that the browser must bring back.
    pub cookie: String,
}

/// The query with which the provider sends the browser back.
#[derive(Clone, Debug, Default)]
pub struct Callback {
    pub code: Option<String>,
    pub state: Option<String>,
    pub error: Option<String>,
    pub error_description: Option<String>,
}

/// A finished sign-in.
#[derive(Debug)]
pub struct SignInResult {
    pub holder: Holder,
    /// The path that the browser came from.
    pub back: String,
}

pub struct Oidc {
    config: OidcConfig,
    provider: Provider,
    sealer: Sealer,
    fingerprint: String,
}

impl Oidc {
    pub fn new(config: OidcConfig) -> Arc<Oidc> {
        let (fingerprint, provider) = (config.fingerprint(), Provider::new(&config));
        Arc::new(Oidc { config, provider, sealer: Sealer::random(), fingerprint })
    }

    /// The host of the provider, for the button.
    pub fn provider_name(&self) -> &str {
        self.config.issuer_host()
    }

    /// Whether sessions with this credential are still valid.
    pub fn is_valid(&self, fingerprint: &str) -> bool {
        self.fingerprint == fingerprint
    }

    /// Starts a sign-in. `base`: scheme and host at which the browser reached this server.
    pub async fn begin(&self, base: &str, back: &str) -> Result<SignInStart, OidcError> {
        let request = self.provider.authorize(&self.redirect_url(base)).await?;
        let attempt = SignInAttempt {
            state: request.state,
            nonce: request.nonce,
            verifier: request.verifier,
            redirect: self.redirect_url(base),
            back: back.to_owned(),
            until: now() + ATTEMPT_SECS,
        };
        Ok(SignInStart { url: request.url, cookie: self.sealer.seal(&attempt) })
    }

    /// Finishes a sign-in that this browser started.
    pub async fn finish(&self, cookie: Option<&str>, callback: Callback) -> Result<SignInResult, OidcError> {
        let attempt = cookie.and_then(|cookie| self.sealer.open(cookie, now())).ok_or(OidcError::NotStarted)?;
        if !callback.state.as_deref().is_some_and(|state| attempt.has_state(state)) {
            return Err(OidcError::NotStarted);
        }
        if let Some(error) = callback.error {
            let detail = callback.error_description.map_or(String::new(), |text| format!(" ({text})"));
            return Err(OidcError::Refused(printable(&format!("{error}{detail}"), 300)));
        }
        let code = callback.code.ok_or_else(|| OidcError::Invalid("it has no code".into()))?;
        let user = self.provider.exchange(code, &attempt, &self.config.groups_claim).await?;
        let name = principal_name(&user.name);
        let Some(role) = self.config.role_of(&user.groups) else {
            return Err(OidcError::NoRole { name, groups: user.groups });
        };
        let credential = Credential::Oidc { provider: self.fingerprint.clone() };
        Ok(SignInResult {
            holder: Holder { principal: Principal { name: name.as_str().into(), role }, credential },
            back: attempt.back,
        })
    }

    fn redirect_url(&self, base: &str) -> String {
        self.config.redirect_url.clone().unwrap_or_else(|| format!("{base}{CALLBACK_PATH}"))
    }
}

/// The name in history: printable, of limited length, and not that of another principal.
fn principal_name(claimed: &str) -> String {
    let name = printable(claimed, NAME_CHARS_MAX);
    if RESERVED_NAMES.contains(&name.to_ascii_lowercase().as_str()) { format!("oidc:{name}") } else { name }
}

fn printable(text: &str, chars_max: usize) -> String {
    text.chars().filter(|char| !char.is_control()).take(chars_max).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_printable_and_never_those_of_other_principals() {
        assert_eq!(principal_name("ann@example.com"), "ann@example.com");
        assert_eq!(principal_name("Owner"), "oidc:Owner");
        assert_eq!(principal_name("a\nb\u{7}"), "ab");
        assert_eq!(principal_name(&"x".repeat(500)).chars().count(), NAME_CHARS_MAX);
    }

    #[test]
    fn a_user_without_a_role_is_told_which_groups_were_reported() {
        let error = |groups: &[&str]| {
            let groups = groups.iter().map(|group| (*group).to_owned()).collect();
            OidcError::NoRole { name: "ann".into(), groups }.to_string()
        };
        assert!(error(&[]).starts_with("'ann' has no role on this server: the identity provider reports no groups. "));
        assert!(error(&["a", "b"]).contains("none of these groups has a role: a and b"));
        assert!(error(&["g"; 12]).contains("g, g and 2 more."));
    }
}
