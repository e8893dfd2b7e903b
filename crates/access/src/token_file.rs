//! The bearer token: made at first start, kept in a file that only its owner can read, replaced by
//! `rotate_token` while the server runs. It is never shown, logged or put into an error.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{fs, io};

use subtle::ConstantTimeEq;

use crate::digest::digest_of;
use crate::secret_file::{self, SecretFileError};

/// Its name in the data directory.
pub const TOKEN_FILE: &str = "token";

/// Random bytes of a token; it is shown as twice as many hexadecimal digits.
const RANDOM_BYTES: usize = 32;

/// A token that somebody wrote by hand is at least this long.
const LENGTH_MIN: usize = 32;
const LENGTH_MAX: usize = 1024;

#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("the token file {path} cannot be read or written")]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "the token file {path} can be read by others (mode {mode:o}). Make a new one with `forewarn token rotate --data DIR`"
    )]
    Exposed { path: PathBuf, mode: u32 },
    #[error(
        "the token in {path} has less than {LENGTH_MIN} or more than {LENGTH_MAX} characters, or blanks in it. Make a new one with `forewarn token rotate --data DIR`"
    )]
    Malformed { path: PathBuf },
}

impl From<SecretFileError> for TokenError {
    fn from(error: SecretFileError) -> TokenError {
        match error {
            SecretFileError::Io { path, source } => TokenError::Io { path, source },
            SecretFileError::Exposed { path, mode } => TokenError::Exposed { path, mode },
            SecretFileError::Strange { path, .. } => TokenError::Malformed { path },
        }
    }
}

/// Makes a new token. A server that runs takes it from the next request on, and no longer the old one.
pub fn rotate_token(dir: &Path) -> Result<(), TokenError> {
    Ok(secret_file::replace(&dir.join(TOKEN_FILE), &format!("{}\n", random_token()))?)
}

/// A token as hexadecimal digits.
pub fn random_token() -> String {
    let mut bytes = [0u8; RANDOM_BYTES];
    getrandom::fill(&mut bytes).expect("the system gives random bytes");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What presented tokens are compared with.
pub enum Keeper {
    /// For a server that keeps nothing on disk.
    Memory(String),
    File(TokenFile),
}

pub struct TokenFile {
    path: PathBuf,
    known: Mutex<Known>,
}

struct Known {
    token: String,
    stamp: Stamp,
}

/// Differs whenever the file was written anew or replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Keeper {
    /// Reads the token of this directory, or makes both.
    pub fn in_directory(dir: &Path) -> Result<Keeper, TokenError> {
        let path = dir.join(TOKEN_FILE);
        secret_file::create(&path, &format!("{}\n", random_token()))?;
        let known = read(&path)?;
        Ok(Keeper::File(TokenFile { path, known: Mutex::new(known) }))
    }

    /// Takes as long for a token that is nearly right as for any other.
    pub fn accepts(&self, presented: &[u8]) -> bool {
        self.with_token(|token| token.as_bytes().ct_eq(presented).into())
    }

    /// Another one whenever the token is another one.
    pub fn digest(&self) -> String {
        self.with_token(|token| digest_of("token", token))
    }

    fn with_token<R>(&self, look: impl FnOnce(&str) -> R) -> R {
        match self {
            Keeper::Memory(token) => look(token),
            Keeper::File(file) => file.with_token(look),
        }
    }
}

impl TokenFile {
    /// Looks at the file each time, so that a token that was replaced is worth nothing from then on. A
    /// file that cannot be read leaves the token that is known.
    fn with_token<R>(&self, look: impl FnOnce(&str) -> R) -> R {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = fs::metadata(&self.path).ok().map(|metadata| Stamp::of(&metadata));
        if stamp.is_some_and(|stamp| stamp != known.stamp) {
            match read(&self.path) {
                Ok(newer) => *known = newer,
                Err(error) => tracing::warn!(%error, "the token file has changed and is not taken"),
            }
        }
        look(&known.token)
    }
}

impl Stamp {
    fn of(metadata: &fs::Metadata) -> Stamp {
        Stamp {
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

fn read(path: &Path) -> Result<Known, TokenError> {
    let found = secret_file::read(path, 2 * LENGTH_MAX as u64)?;
    let (text, metadata) =
        found.ok_or_else(|| TokenError::Io { path: path.to_owned(), source: io::ErrorKind::NotFound.into() })?;
    let token = text.trim_end();
    let fits = (LENGTH_MIN..=LENGTH_MAX).contains(&token.len());
    if !fits || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(TokenError::Malformed { path: path.to_owned() });
    }
    Ok(Known { token: token.to_owned(), stamp: Stamp::of(&metadata) })
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
        let keeper = Keeper::in_directory(&dir).unwrap();
        let token = token_in(&dir);
        assert_eq!(token.len(), 2 * RANDOM_BYTES);
        assert!(keeper.accepts(token.as_bytes()));
        assert!(!keeper.accepts(b""));
        assert!(!keeper.accepts(&token.as_bytes()[1..]));
        assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(dir.join(TOKEN_FILE)).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn the_second_start_keeps_it() {
        let dir = tempfile::tempdir().unwrap();
        Keeper::in_directory(dir.path()).unwrap();
        let token = token_in(dir.path());
        assert!(Keeper::in_directory(dir.path()).unwrap().accepts(token.as_bytes()));
    }

    #[test]
    fn a_token_that_was_rotated_counts_at_once_and_the_old_one_no_longer() {
        let dir = tempfile::tempdir().unwrap();
        let keeper = Keeper::in_directory(dir.path()).unwrap();
        let old = token_in(dir.path());
        rotate_token(dir.path()).unwrap();
        assert!(!keeper.accepts(old.as_bytes()));
        assert!(keeper.accepts(token_in(dir.path()).as_bytes()));
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        Keeper::in_directory(dir.path()).unwrap();
        fs::set_permissions(dir.path().join(TOKEN_FILE), fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(Keeper::in_directory(dir.path()), Err(TokenError::Exposed { mode: 0o644, .. })));
    }

    #[test]
    fn a_token_that_is_too_short_is_refused_and_never_shown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(TOKEN_FILE);
        fs::write(&path, "hunter2").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let Err(error) = Keeper::in_directory(dir.path()) else { panic!("a short token was taken") };
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}
