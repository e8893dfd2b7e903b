//! The contexts file: servers that the user has logged in to, and the one that commands use by default.
//!
//! `$XDG_CONFIG_HOME/forewarn/contexts.json`. It contains tokens, so only its owner can read it.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use forewarn_access::secret_file;
use serde::{Deserialize, Serialize};

use crate::error::ConnectError;

/// A thousand contexts with a certificate and a token each.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contexts {
    pub current: Option<String>,
    pub contexts: Vec<Context>,
}

/// A server and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    pub name: String,
    /// URL of the management API.
    pub server: String,
    /// Certificate authority of the server, PEM; None if the system trusts its certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
    /// None if the server requires no token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

impl Contexts {
    /// Reads the file. There are no contexts if it does not exist.
    pub fn load() -> Result<Contexts, ConnectError> {
        match path() {
            Some(path) => Contexts::load_from(&path),
            None => Ok(Contexts::default()),
        }
    }

    fn load_from(path: &Path) -> Result<Contexts, ConnectError> {
        let found = secret_file::read(path, FILE_BYTES_MAX).map_err(|error| ConnectError::Usage(error.to_string()))?;
        let Some((text, _)) = found else { return Ok(Contexts::default()) };
        let invalid = |error| format!("{} is invalid: {error}; remove it and log in again", path.display());
        serde_json::from_str(&text).map_err(|error| ConnectError::Usage(invalid(error)))
    }

    pub fn save(&self) -> Result<(), ConnectError> {
        let path = path().ok_or_else(|| {
            ConnectError::Usage("cannot store contexts: set HOME or XDG_CONFIG_HOME to a directory".into())
        })?;
        self.save_to(&path)
    }

    fn save_to(&self, path: &Path) -> Result<(), ConnectError> {
        let refuse =
            |error: &dyn std::fmt::Display| ConnectError::Refused(format!("cannot write {}: {error}", path.display()));
        let text = serde_json::to_string_pretty(self).map_err(|error| refuse(&error))?;
        let dir = path.parent().unwrap_or(Path::new("."));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|error| refuse(&error))?;
        secret_file::replace(path, &(text + "\n")).map_err(|error| refuse(&error))
    }

    pub fn current(&self) -> Option<&Context> {
        self.current.as_deref().and_then(|name| self.find(name))
    }

    pub fn find(&self, name: &str) -> Option<&Context> {
        self.contexts.iter().find(|context| context.name == name)
    }

    /// The context of a server; the current one if several have the same address.
    pub fn find_server(&self, server: &str) -> Option<&Context> {
        let is_there = |context: &&Context| context.server == server;
        self.current().filter(is_there).or_else(|| self.contexts.iter().find(is_there))
    }

    /// Adds a context, or replaces the one with its name, and makes it the current one.
    pub fn put(&mut self, context: Context) {
        self.current = Some(context.name.clone());
        self.contexts.retain(|other| other.name != context.name);
        self.contexts.push(context);
        self.contexts.sort_by(|one, other| one.name.cmp(&other.name));
    }

    /// Removes a context. Afterward none is current if it was this one.
    pub fn remove(&mut self, name: &str) {
        self.contexts.retain(|context| context.name != name);
        if self.current.as_deref() == Some(name) {
            self.current = None;
        }
    }
}

fn path() -> Option<PathBuf> {
    path_in(std::env::var_os("XDG_CONFIG_HOME"), std::env::var_os("HOME"))
}

fn path_in(config: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |dir: OsString| Some(PathBuf::from(dir)).filter(|dir| dir.is_absolute());
    let base = config.and_then(absolute).or_else(|| home.and_then(absolute).map(|home| home.join(".config")))?;
    Some(base.join("forewarn/contexts.json"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn context(name: &str, server: &str) -> Context {
        Context { name: name.into(), server: server.into(), authority: None, token: Some("secret".into()) }
    }

    #[test]
    fn contexts_are_kept_in_a_private_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = path_in(Some(dir.path().into()), None).unwrap();
        assert_eq!(Contexts::load_from(&path).unwrap(), Contexts::default());
        let mut contexts = Contexts::default();
        contexts.put(context("build", "https://build:8171"));
        contexts.save_to(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Contexts::load_from(&path).unwrap(), contexts);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let refused = Contexts::load_from(&path).unwrap_err();
        assert!(refused.to_string().contains("chmod 600"), "{refused:?}");
    }

    #[test]
    fn the_last_login_is_current_until_it_is_removed() {
        let mut contexts = Contexts::default();
        contexts.put(context("b", "https://one"));
        contexts.put(context("a", "https://one"));
        assert_eq!(contexts.current().unwrap().name, "a");
        assert_eq!(contexts.find_server("https://one").unwrap().name, "a");
        contexts.remove("a");
        assert_eq!(contexts.current(), None);
        assert_eq!(contexts.find_server("https://one").unwrap().name, "b");
        assert_eq!(contexts.find_server("https://two"), None);
    }

    #[test]
    fn the_file_is_in_the_configuration_directory_of_the_user() {
        let path = |config: Option<&str>, home: Option<&str>| {
            path_in(config.map(Into::into), home.map(Into::into)).map(|path| path.display().to_string())
        };
        assert_eq!(path(Some("/c"), Some("/h")).as_deref(), Some("/c/forewarn/contexts.json"));
        assert_eq!(path(Some(""), Some("/h")).as_deref(), Some("/h/.config/forewarn/contexts.json"));
        assert_eq!(path(None, None), None);
    }
}
