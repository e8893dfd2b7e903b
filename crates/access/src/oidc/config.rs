//! The configuration of an OpenID Connect provider, and the mapping of groups to roles. Pure.

use std::fmt;

use http::Uri;

use crate::digest::digest_of;
use crate::role::Role;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcConfig {
    /// The URL of the provider; discovery adds `/.well-known/openid-configuration`.
    pub issuer: String,
    pub client_id: String,
    /// None: a public client.
    pub client_secret: Option<OidcSecret>,
    pub roles: Vec<RoleRule>,
    pub groups_claim: String,
    /// The callback URL that the provider knows, for a server behind a proxy. None: the address that the browser used.
    pub redirect_url: Option<String>,
}

/// The role of the members of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleRule {
    pub group: String,
    pub role: Role,
}

#[derive(Clone, PartialEq, Eq)]
pub struct OidcSecret(String);

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum OidcConfigError {
    #[error("'{0}' is not an issuer: use the URL of the provider, such as https://login.example.com/realms/main")]
    Issuer(String),
    #[error("issuer '{0}' is not encrypted: use https, or a provider on this host")]
    Plain(String),
    #[error("'{0}' is not a URL to which the provider can send browsers: use one such as https://forewarn.example.com{path}", path = super::CALLBACK_PATH)]
    Redirect(String),
    #[error("'{0}' does not assign a role: use GROUP=ROLE with the role reader, operator or owner")]
    Rule(String),
    #[error("no group has a role, so no user could sign in: assign at least one, such as ops=operator")]
    NoRules,
}

impl OidcSecret {
    /// The first line of a secret file.
    pub fn new(text: &str) -> OidcSecret {
        OidcSecret(text.trim().to_owned())
    }

    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

/// Redacted, so that secrets do not get into logs.
impl fmt::Debug for OidcSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OidcSecret")
    }
}

impl RoleRule {
    /// Parses `GROUP=ROLE`. Groups can contain `=`, as distinguished names do.
    pub fn parse(text: &str) -> Result<RoleRule, OidcConfigError> {
        let (group, role) = text.rsplit_once('=').ok_or_else(|| OidcConfigError::Rule(text.into()))?;
        let role = Role::parse(role).filter(|_| !group.is_empty());
        let role = role.ok_or_else(|| OidcConfigError::Rule(text.into()))?;
        Ok(RoleRule { group: group.to_owned(), role })
    }
}

impl fmt::Display for RoleRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.group, self.role.as_str())
    }
}

impl OidcConfig {
    pub fn check(&self) -> Result<(), OidcConfigError> {
        let uri = self.issuer.parse::<Uri>().ok();
        let host = uri.as_ref().and_then(Uri::host).filter(|_| self.issuer.len() < 2048);
        match (uri.as_ref().and_then(Uri::scheme_str), host) {
            (Some("https"), Some(_)) => {}
            (Some("http"), Some(host)) if is_loopback(host) => {}
            (Some("http"), Some(_)) => return Err(OidcConfigError::Plain(self.issuer.clone())),
            (_, _) => return Err(OidcConfigError::Issuer(self.issuer.clone())),
        }
        let redirect = self.redirect_url.as_ref().filter(|url| !url.ends_with(super::CALLBACK_PATH));
        if let Some(redirect) = redirect {
            return Err(OidcConfigError::Redirect(redirect.clone()));
        }
        if self.roles.is_empty() { Err(OidcConfigError::NoRules) } else { Ok(()) }
    }

    /// The highest role of the groups. Groups are compared exactly, as providers do.
    pub fn role_of(&self, groups: &[String]) -> Option<Role> {
        self.roles.iter().filter(|rule| groups.contains(&rule.group)).map(|rule| rule.role).max()
    }

    pub fn issuer_host(&self) -> &str {
        let rest = self.issuer.split_once("://").map_or(self.issuer.as_str(), |(_, rest)| rest);
        rest.split(['/', ':']).next().unwrap_or(rest)
    }

    /// Changes when sessions that were begun with this configuration must end.
    pub fn fingerprint(&self) -> String {
        let mut rules: Vec<String> = self.roles.iter().map(ToString::to_string).collect();
        rules.sort();
        digest_of(
            "oidc",
            &[&self.issuer, &self.client_id, &self.groups_claim, &rules.join("\n")].map(String::as_str).join("\n"),
        )
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(issuer: &str, rules: &[&str]) -> OidcConfig {
        OidcConfig {
            issuer: issuer.into(),
            client_id: "forewarn".into(),
            client_secret: None,
            roles: rules.iter().map(|rule| RoleRule::parse(rule).unwrap()).collect(),
            groups_claim: "groups".into(),
            redirect_url: None,
        }
    }

    #[test]
    fn the_highest_role_of_the_groups_counts() {
        let config = config("https://id.example.com", &["staff=reader", "CN=Ops,DC=x=operator", "root=owner"]);
        let role =
            |groups: &[&str]| config.role_of(&groups.iter().map(|group| (*group).to_owned()).collect::<Vec<_>>());
        assert_eq!(role(&["staff"]), Some(Role::Reader));
        assert_eq!(role(&["staff", "CN=Ops,DC=x"]), Some(Role::Operator));
        assert_eq!(role(&["root", "staff"]), Some(Role::Owner));
        assert_eq!((role(&[]), role(&["Staff"]), role(&["other"])), (None, None, None));
    }

    #[test]
    fn rules_are_a_group_and_a_role() {
        for wrong in ["", "ops", "ops=", "=owner", "ops=root", "ops=Owner"] {
            assert_eq!(RoleRule::parse(wrong), Err(OidcConfigError::Rule(wrong.into())), "{wrong}");
        }
    }

    #[test]
    fn only_encrypted_or_local_issuers_are_allowed() {
        let check = |issuer: &str| config(issuer, &["a=reader"]).check();
        for good in
            ["https://id.example.com/realms/x", "http://127.0.0.1:9400", "http://localhost:1", "http://[::1]:5/"]
        {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        assert!(matches!(check("http://id.example.com"), Err(OidcConfigError::Plain(_))));
        for wrong in ["", "id.example.com", "ftp://x", "https://"] {
            assert!(matches!(check(wrong), Err(OidcConfigError::Issuer(_))), "{wrong}");
        }
        assert_eq!(config("https://x", &[]).check(), Err(OidcConfigError::NoRules));
    }

    #[test]
    fn a_change_of_provider_or_roles_ends_sessions() {
        let before = config("https://a", &["x=reader", "y=owner"]);
        assert_eq!(before.fingerprint(), config("https://a", &["y=owner", "x=reader"]).fingerprint());
        for after in [config("https://b", &["x=reader", "y=owner"]), config("https://a", &["x=reader"])] {
            assert_ne!(before.fingerprint(), after.fingerprint());
        }
    }
}
