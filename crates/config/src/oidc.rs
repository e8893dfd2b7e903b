//! The settings of the identity provider.

use std::path::PathBuf;

use forewarn_access::secret_file;
use forewarn_server::{OidcConfig, OidcSecret, RoleRule};

use crate::error::ConfigError;

/// Size of a client secret; providers use up to about 100 bytes.
const SECRET_BYTES_MAX: u64 = 4096;

#[derive(Clone, Debug)]
pub struct OidcChoices {
    pub issuer: Option<String>,
    pub client_id: Option<String>,
    pub client_secret_file: Option<PathBuf>,
    pub roles: Vec<RoleRule>,
    pub groups_claim: String,
    pub redirect_url: Option<String>,
}

impl Default for OidcChoices {
    fn default() -> Self {
        OidcChoices {
            issuer: None,
            client_id: None,
            client_secret_file: None,
            roles: Vec::new(),
            groups_claim: "groups".into(),
            redirect_url: None,
        }
    }
}

impl OidcChoices {
    pub fn to_config(&self, no_auth: bool) -> Result<Option<OidcConfig>, ConfigError> {
        let Some(issuer) = self.issuer.clone() else {
            return match (&self.client_id, self.roles.is_empty()) {
                (None, true) => Ok(None),
                (Some(_), _) | (None, false) => {
                    Err(ConfigError("oidc.issuer is missing: set it to the URL of the provider".into()))
                }
            };
        };
        if no_auth {
            return Err(ConfigError("no_auth and oidc.issuer contradict each other: remove one of them".into()));
        }
        let missing =
            || ConfigError("oidc.client_id is missing: set it to the ID of this server at the provider".into());
        let config = OidcConfig {
            issuer,
            client_id: self.client_id.clone().ok_or_else(missing)?,
            client_secret: self.read_secret()?,
            roles: self.roles.clone(),
            groups_claim: self.groups_claim.clone(),
            redirect_url: self.redirect_url.clone(),
        };
        config.check().map_err(|error| ConfigError(format!("oidc: {error}")))?;
        Ok(Some(config))
    }

    fn read_secret(&self) -> Result<Option<OidcSecret>, ConfigError> {
        let Some(path) = &self.client_secret_file else { return Ok(None) };
        let fail = |why: String| ConfigError(format!("oidc.client_secret_file: {why}"));
        let found = secret_file::read(path, SECRET_BYTES_MAX).map_err(|error| fail(error.to_string()))?;
        let (text, _) = found.ok_or_else(|| fail(format!("{} does not exist", path.display())))?;
        Ok(Some(OidcSecret::new(&text)))
    }
}

pub fn parse_roles(texts: &[String]) -> Result<Vec<RoleRule>, String> {
    texts.iter().map(|text| RoleRule::parse(text).map_err(|error| error.to_string())).collect()
}
