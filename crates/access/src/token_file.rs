//! The owner's bearer token: created at the first start, kept in a private file, replaced by `rotate_token` while the server
//! runs. It is never logged or put into an error.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{fs, io};

use subtle::ConstantTimeEq;

use crate::digest::{digest_of, hex};
use crate::random::random_bytes;
use crate::secret_file::{self, SecretFileError};

/// Its name in the data directory.
pub const TOKEN_FILE: &str = "token";

/// Random bytes of a token, written as twice as many hexadecimal digits.
const RANDOM_BYTES: usize = 32;

/// The shortest token in a file that was edited by hand.
const LENGTH_MIN: usize = 32;
const LENGTH_MAX: usize = 1024;

#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("cannot read or write the token file {path}")]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "the token file {path} is readable by others (mode {mode:o}). Create a new token with `forewarn token rotate --data DIR`"
    )]
    Exposed { path: PathBuf, mode: u32 },
    #[error(
        "the token in {path} must have {LENGTH_MIN} to {LENGTH_MAX} characters and no spaces. Create a new one with `forewarn token rotate --data DIR`"
    )]
    Malformed { path: PathBuf },
}

impl From<SecretFileError> for TokenError {
    fn from(error: SecretFileError) -> TokenError {
        match error {
            SecretFileError::Io { path, source } => TokenError::Io { path, source },
            SecretFileError::Exposed { path, mode } => TokenError::Exposed { path, mode },
            SecretFileError::Invalid { path, .. } => TokenError::Malformed { path },
        }
    }
}

/// Replaces the token. A running server accepts the new one from the next request on, and the old one no longer.
pub fn rotate_token(dir: &Path) -> Result<(), TokenError> {
    Ok(secret_file::replace(&dir.join(TOKEN_FILE), &format!("{}\n", random_token()))?)
}

/// A random token as hexadecimal digits.
pub fn random_token() -> String {
    hex(&random_bytes::<RANDOM_BYTES>())
}

/// The token to compare with.
pub enum OwnerToken {
    /// For a server without a data directory.
    Memory(String),
    File(TokenFile),
}

pub struct TokenFile {
    path: PathBuf,
    known: Mutex<CachedTokens>,
}

struct CachedTokens {
    token: String,
    stamp: FileStamp,
}

/// Changes whenever the file is written or replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl OwnerToken {
    /// Reads the token of this directory, or creates directory and token.
    pub fn in_directory(dir: &Path) -> Result<OwnerToken, TokenError> {
        let path = dir.join(TOKEN_FILE);
        secret_file::create(&path, &format!("{}\n", random_token()))?;
        let known = read(&path)?;
        Ok(OwnerToken::File(TokenFile { path, known: Mutex::new(known) }))
    }

    /// Compares in constant time.
    pub fn accepts(&self, presented: &[u8]) -> bool {
        self.with_token(|token| token.as_bytes().ct_eq(presented).into())
    }

    /// Changes whenever the token does.
    pub fn digest(&self) -> String {
        self.with_token(|token| digest_of("token", token))
    }

    fn with_token<R>(&self, look: impl FnOnce(&str) -> R) -> R {
        match self {
            OwnerToken::Memory(token) => look(token),
            OwnerToken::File(file) => file.with_token(look),
        }
    }
}

impl TokenFile {
    /// Checks the file each time, so that a replaced token is invalid from then on. If the file cannot be read, the known
    /// token stays valid.
    fn with_token<R>(&self, look: impl FnOnce(&str) -> R) -> R {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = fs::metadata(&self.path).ok().map(|metadata| FileStamp::of(&metadata));
        if stamp.is_some_and(|stamp| stamp != known.stamp) {
            match read(&self.path) {
                Ok(newer) => *known = newer,
                Err(error) => tracing::warn!(%error, "the token file changed but cannot be used"),
            }
        }
        look(&known.token)
    }
}

impl FileStamp {
    fn of(metadata: &fs::Metadata) -> FileStamp {
        FileStamp {
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

fn read(path: &Path) -> Result<CachedTokens, TokenError> {
    let found = secret_file::read(path, 2 * LENGTH_MAX as u64)?;
    let (text, metadata) =
        found.ok_or_else(|| TokenError::Io { path: path.to_owned(), source: io::ErrorKind::NotFound.into() })?;
    let token = text.trim_end();
    let fits = (LENGTH_MIN..=LENGTH_MAX).contains(&token.len());
    if !fits || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(TokenError::Malformed { path: path.to_owned() });
    }
    Ok(CachedTokens { token: token.to_owned(), stamp: FileStamp::of(&metadata) })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn token_in(dir: &Path) -> String {
        fs::read_to_string(dir.join(TOKEN_FILE)).unwrap().trim().to_owned()
    }

    #[test]
    fn the_first_start_makes_a_token_that_only_its_owner_can_read() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("data");
        let owner = OwnerToken::in_directory(&dir).unwrap();
        let token = token_in(&dir);
        assert_eq!(token.len(), 2 * RANDOM_BYTES);
        assert!(owner.accepts(token.as_bytes()));
        assert!(!owner.accepts(b""));
        assert!(!owner.accepts(&token.as_bytes()[1..]));
        assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(dir.join(TOKEN_FILE)).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn the_second_start_keeps_it() {
        let dir = tempfile::tempdir().unwrap();
        OwnerToken::in_directory(dir.path()).unwrap();
        let token = token_in(dir.path());
        assert!(OwnerToken::in_directory(dir.path()).unwrap().accepts(token.as_bytes()));
    }

    #[test]
    fn a_rotated_token_works_at_once_and_the_old_one_no_longer() {
        let dir = tempfile::tempdir().unwrap();
        let owner = OwnerToken::in_directory(dir.path()).unwrap();
        let old = token_in(dir.path());
        rotate_token(dir.path()).unwrap();
        assert!(!owner.accepts(old.as_bytes()));
        assert!(owner.accepts(token_in(dir.path()).as_bytes()));
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        OwnerToken::in_directory(dir.path()).unwrap();
        fs::set_permissions(dir.path().join(TOKEN_FILE), fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(OwnerToken::in_directory(dir.path()), Err(TokenError::Exposed { mode: 0o644, .. })));
    }

    #[test]
    fn a_token_that_is_too_short_is_refused_and_never_shown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(TOKEN_FILE);
        fs::write(&path, "hunter2").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let Err(error) = OwnerToken::in_directory(dir.path()) else { panic!("a short token was taken") };
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}
