//! The secrets created at the first start: three clients, one per role, and the key that signs tokens. Two private files in the
//! data directory.

use std::path::Path;

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use super::role::Role;
use super::token_file::random_token;
use crate::random::random_guid;
use crate::secret_file::{self, SecretFileError};

/// Clients and their secrets.
pub const CLIENTS_FILE: &str = "clients.json";

/// Removing it and restarting the server revokes every token issued before.
pub const SIGNING_KEY_FILE: &str = "signing.key";

const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The shortest secret in a file that was edited by hand.
const SECRET_MIN: usize = 16;

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Secrets {
    pub tenant: String,
    pub clients: Vec<Client>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Client {
    pub client_id: String,
    pub object_id: String,
    pub role: Role,
    pub secret: String,
}

impl Secrets {
    pub fn random() -> Secrets {
        let client = |role: Role| Client {
            client_id: role.as_str().to_owned(),
            object_id: random_guid().to_string(),
            role,
            secret: random_secret(),
        };
        Secrets { tenant: random_guid().to_string(), clients: Role::ALL.map(client).to_vec() }
    }

    /// Compares every secret, so that timing does not reveal which IDs exist.
    pub fn client(&self, id: &str, secret: &str) -> Option<&Client> {
        self.clients.iter().fold(None, |found, client| {
            let same_id = client.client_id.as_bytes().ct_eq(id.as_bytes());
            let same_secret = client.secret.as_bytes().ct_eq(secret.as_bytes());
            if bool::from(same_id & same_secret) { Some(client) } else { found }
        })
    }

    fn check(&self) -> Result<(), String> {
        if self.tenant.is_empty() || !self.tenant.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err("the tenant is not a GUID".into());
        }
        for (index, client) in self.clients.iter().enumerate() {
            let id = &client.client_id;
            if id.is_empty() || self.clients[..index].iter().any(|earlier| earlier.client_id == *id) {
                return Err(format!("the client id '{id}' is empty or listed twice"));
            }
            if id.contains(char::is_control) {
                return Err(format!("the client id {id:?} contains control characters"));
            }
            if client.secret.len() < SECRET_MIN {
                return Err(format!("the secret of '{id}' has fewer than {SECRET_MIN} characters"));
            }
        }
        Ok(())
    }
}

pub fn random_secret() -> String {
    random_token()
}

/// The first client with this role, and the tenant. None: no server was started in this directory.
pub fn client_in(dir: &Path, role: Role) -> Result<Option<(String, Client)>, SecretFileError> {
    let path = dir.join(CLIENTS_FILE);
    let Some((text, _)) = secret_file::read(&path, FILE_BYTES_MAX)? else { return Ok(None) };
    let Secrets { tenant, clients } = parsed(&path, &text)?;
    Ok(clients.into_iter().find(|client| client.role == role).map(|client| (tenant, client)))
}

/// The clients and the signing key of this directory.
pub fn in_directory(dir: &Path) -> Result<(Secrets, Vec<u8>), SecretFileError> {
    let clients = dir.join(CLIENTS_FILE);
    let fresh = serde_json::to_string_pretty(&Secrets::random()).expect("strings serialize to JSON");
    let secrets = parsed(&clients, &read_or_create(&clients, &format!("{fresh}\n"))?)?;
    let path = dir.join(SIGNING_KEY_FILE);
    let key = read_or_create(&path, &format!("{}\n", random_secret()))?.trim().as_bytes().to_vec();
    if key.len() < SECRET_MIN {
        let what = format!("it has fewer than {SECRET_MIN} characters");
        return Err(SecretFileError::Invalid { path, what });
    }
    Ok((secrets, key))
}

fn parsed(path: &Path, text: &str) -> Result<Secrets, SecretFileError> {
    let read = serde_json::from_str(text).map_err(|error| error.to_string());
    let checked = read.and_then(|secrets: Secrets| secrets.check().map(|()| secrets));
    checked.map_err(|what| SecretFileError::Invalid { path: path.to_owned(), what })
}

fn read_or_create(path: &Path, fresh: &str) -> Result<String, SecretFileError> {
    secret_file::create(path, fresh)?;
    let found = secret_file::read(path, FILE_BYTES_MAX)?;
    found.map(|(text, _)| text).ok_or_else(|| SecretFileError::io(path)(std::io::ErrorKind::NotFound.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_start_makes_a_client_for_each_role_and_the_second_keeps_them() {
        let dir = tempfile::tempdir().unwrap();
        let (made, key) = in_directory(dir.path()).unwrap();
        let (again, same_key) = in_directory(dir.path()).unwrap();
        assert_eq!((&made.tenant, &key), (&again.tenant, &same_key));
        let shown = |secrets: &Secrets| {
            secrets.clients.iter().map(|c| (c.client_id.clone(), c.role, c.secret.clone())).collect::<Vec<_>>()
        };
        assert_eq!(shown(&made), shown(&again));
        let ids: Vec<_> = made.clients.iter().map(|client| (client.client_id.as_str(), client.role)).collect();
        assert_eq!(ids, [("reader", Role::Reader), ("operator", Role::Operator), ("owner", Role::Owner)]);
        assert!(made.clients.iter().all(|client| client.secret.len() == 64));
    }

    #[test]
    fn a_client_is_known_by_id_and_secret_together() {
        let secrets = Secrets::random();
        let [reader, owner] = [&secrets.clients[0], &secrets.clients[2]];
        assert_eq!(secrets.client("reader", &reader.secret).map(|client| client.role), Some(Role::Reader));
        assert!(secrets.client("owner", &reader.secret).is_none());
        assert!(secrets.client("unknown", &owner.secret).is_none());
        assert!(secrets.client("owner", "").is_none());
    }

    #[test]
    fn files_that_are_not_understood_are_refused_without_showing_secrets() {
        for (text, what) in [
            ("{", "EOF"),
            (
                r#"{"tenant":"t","clients":[{"clientId":"a","objectId":"o","role":"king","secret":"hunter2hunter2hunter2"}]}"#,
                "king",
            ),
            (
                r#"{"tenant":"t","clients":[{"clientId":"a","objectId":"o","role":"reader","secret":"hunter2"}]}"#,
                "secret of 'a'",
            ),
            (r#"{"tenant":"","clients":[]}"#, "tenant"),
            (
                r#"{"tenant":"t","clients":[{"clientId":"a\nb","objectId":"o","role":"reader","secret":"hunter2hunter2hunter2"}]}"#,
                r#""a\nb" contains control characters"#,
            ),
        ] {
            let dir = tempfile::tempdir().unwrap();
            secret_file::create(&dir.path().join(CLIENTS_FILE), text).unwrap();
            let Err(error) = in_directory(dir.path()) else { panic!("{text} was taken") };
            let error = error.to_string();
            assert!(error.contains(what) && !error.contains("hunter2"), "{error}");
        }
    }
}
