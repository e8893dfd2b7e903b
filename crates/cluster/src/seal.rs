//! Seals the secrets of a region (CA key, signing key, owner token) and the payloads of its log with a key file that every server
//! is given.
//!
//! AES-256-GCM with a random nonce per value. The name of a secret is authenticated with it, so that one sealed secret
//! cannot be passed off as another.

use std::fmt;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use lz4_flex::block::{self, DecompressError};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::encoding::PAYLOAD_BYTES_MAX;
use crate::hex;

/// First byte of a sealed value: the version of this format.
const FORMAT: u8 = 1;

/// The name under which all payloads of the log are sealed.
const PAYLOAD: &str = "log payload";

/// First line of a key file, so that another file is not taken for one.
const TITLE: &str = "forewarn-cluster-key-1";

const KEY_BYTES: usize = 32;

/// The key that all servers of a region share.
pub struct Key(LessSafeKey);

#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error("cannot read the cluster key {0}")]
    Read(PathBuf, #[source] std::io::Error),
    #[error("cannot create the cluster key {0}")]
    Create(PathBuf, #[source] std::io::Error),
    #[error("{0} is not a cluster key: copy the file that 'forewarn cluster key' created")]
    NotAKey(PathBuf),
    #[error("{path} can be read by other users (mode {mode:o}): run 'chmod 600 {path}'", path = .0.display(), mode = .1)]
    Exposed(PathBuf, u32),
    #[error("the secret '{0}' was sealed with another cluster key or is damaged: use the key file of this region")]
    WrongKey(String),
    #[error("the secret '{0}' has format {1}, but this program reads format {FORMAT}: upgrade this server")]
    NewerFormat(String, u8),
    #[error("a payload of {0} bytes is over {PAYLOAD_BYTES_MAX}")]
    TooLarge(usize),
    #[error("the system cannot provide random bytes")]
    NoRandomness,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// Creates a new key in a file that only its owner can read. Fails if the file exists.
    pub fn create(path: &Path) -> Result<Key, SealError> {
        let mut bytes = [0; KEY_BYTES];
        SystemRandom::new().fill(&mut bytes).map_err(|_| SealError::NoRandomness)?;
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let write = || {
            let mut file = fs::File::options().write(true).create_new(true).mode(0o600).open(path)?;
            file.write_all(format!("{TITLE}\n{text}\n").as_bytes())?;
            file.sync_all()
        };
        write().map_err(|error| SealError::Create(path.to_owned(), error))?;
        Key::from_bytes(&bytes).ok_or_else(|| SealError::NotAKey(path.to_owned()))
    }

    /// Reads a key file. Refuses a file that other users can read.
    pub fn read(path: &Path) -> Result<Key, SealError> {
        let failed = |error| SealError::Read(path.to_owned(), error);
        let mode = fs::metadata(path).map_err(failed)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(SealError::Exposed(path.to_owned(), mode));
        }
        let text = fs::read_to_string(path).map_err(failed)?;
        parse(&text).and_then(|bytes| Key::from_bytes(&bytes)).ok_or_else(|| SealError::NotAKey(path.to_owned()))
    }

    fn from_bytes(bytes: &[u8; KEY_BYTES]) -> Option<Key> {
        UnboundKey::new(&AES_256_GCM, bytes).ok().map(|key| Key(LessSafeKey::new(key)))
    }

    /// Encrypts a secret for storage under this name.
    pub fn seal(&self, name: &str, secret: &[u8]) -> Result<Vec<u8>, SealError> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| SealError::NoRandomness)?;
        let mut sealed = [&[FORMAT][..], &nonce].concat();
        let mut body = secret.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self.0.seal_in_place_separate_tag(nonce, Aad::from(name.as_bytes()), &mut body);
        let tag = tag.map_err(|_| SealError::WrongKey(name.to_owned()))?;
        sealed.extend(body);
        sealed.extend(tag.as_ref());
        Ok(sealed)
    }

    /// Compresses and encrypts a payload of the log. Once encrypted, it can no longer be compressed.
    pub fn seal_payload(&self, payload: &[u8]) -> Result<Vec<u8>, SealError> {
        check_size(payload.len())?;
        self.seal(PAYLOAD, &block::compress_prepend_size(payload))
    }

    /// Decrypts a payload of the log.
    pub fn open_payload(&self, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        let compressed = self.open(PAYLOAD, sealed)?;
        let wrong = |_: DecompressError| SealError::WrongKey(PAYLOAD.to_owned());
        // The memory is allocated before the size turns out to be false.
        let (size, body) = block::uncompressed_size(&compressed).map_err(wrong)?;
        check_size(size)?;
        block::decompress(body, size).map_err(wrong)
    }

    /// Decrypts a secret that was sealed under this name.
    pub fn open(&self, name: &str, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        let wrong = || SealError::WrongKey(name.to_owned());
        let (format, rest) = sealed.split_first().ok_or_else(wrong)?;
        if *format != FORMAT {
            return Err(SealError::NewerFormat(name.to_owned(), *format));
        }
        let (nonce, body) = rest.split_first_chunk::<NONCE_LEN>().ok_or_else(wrong)?;
        let mut body = body.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let secret = self.0.open_in_place(nonce, Aad::from(name.as_bytes()), &mut body).map_err(|_| wrong())?;
        Ok(secret.to_vec())
    }
}

/// The log has the same limit for payloads that are not compressed.
fn check_size(bytes: usize) -> Result<(), SealError> {
    if bytes > PAYLOAD_BYTES_MAX { Err(SealError::TooLarge(bytes)) } else { Ok(()) }
}

fn parse(text: &str) -> Option<[u8; KEY_BYTES]> {
    let mut lines = text.lines();
    let (title, digits) = (lines.next()?, lines.next()?.trim());
    if title == TITLE { hex::decode(digits) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cluster.key");
        (dir, path)
    }

    #[test]
    fn every_server_with_the_key_file_opens_a_secret() {
        let (_dir, path) = file();
        let sealed = Key::create(&path).unwrap().seal("ca-key", b"secret").unwrap();
        assert!(!sealed.windows(6).any(|window| window == b"secret"));
        assert_eq!(Key::read(&path).unwrap().open("ca-key", &sealed).unwrap(), b"secret");
    }

    #[test]
    fn a_secret_opens_only_under_its_own_name_and_key() {
        let (_dir, path) = file();
        let key = Key::create(&path).unwrap();
        let sealed = key.seal("ca-key", b"secret").unwrap();
        assert!(matches!(key.open("token", &sealed), Err(SealError::WrongKey(_))));
        let (_dir, other) = file();
        assert!(matches!(Key::create(&other).unwrap().open("ca-key", &sealed), Err(SealError::WrongKey(_))));
    }

    #[test]
    fn a_damaged_secret_is_refused() {
        let (_dir, path) = file();
        let key = Key::create(&path).unwrap();
        let sealed = key.seal("ca-key", b"secret").unwrap();
        for place in 0..sealed.len() {
            let mut bad = sealed.clone();
            bad[place] ^= 1;
            assert!(key.open("ca-key", &bad).is_err(), "byte {place}");
            assert!(key.open("ca-key", &sealed[..place]).is_err(), "cut to {place} bytes");
        }
    }

    #[test]
    fn payloads_are_compressed_and_encrypted() {
        let (_dir, path) = file();
        let key = Key::create(&path).unwrap();
        let payload = b"secret".repeat(1000);
        let sealed = key.seal_payload(&payload).unwrap();
        assert!(sealed.len() < 500 && !sealed.windows(6).any(|window| window == b"secret"), "{}", sealed.len());
        assert_eq!(key.open_payload(&sealed).unwrap(), payload);
        assert!(key.open_payload(&sealed[1..]).is_err());
        assert_eq!(key.open_payload(&key.seal_payload(b"").unwrap()).unwrap(), b"");
    }

    #[test]
    fn payloads_that_are_too_large_are_neither_sealed_nor_opened() {
        let (_dir, path) = file();
        let key = Key::create(&path).unwrap();
        let size = PAYLOAD_BYTES_MAX + 1;
        assert!(matches!(key.seal_payload(&vec![0; size]), Err(SealError::TooLarge(bytes)) if bytes == size));
        let claim = u32::try_from(size).unwrap().to_le_bytes();
        let sealed = key.seal(PAYLOAD, &claim).unwrap();
        assert!(matches!(key.open_payload(&sealed), Err(SealError::TooLarge(bytes)) if bytes == size));
    }

    #[test]
    fn sealing_twice_gives_different_bytes() {
        let (_dir, path) = file();
        let key = Key::create(&path).unwrap();
        assert_ne!(key.seal("a", b"secret").unwrap(), key.seal("a", b"secret").unwrap());
    }

    #[test]
    fn a_key_file_is_private_and_never_overwritten() {
        let (_dir, path) = file();
        Key::create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(matches!(Key::create(&path), Err(SealError::Create(..))));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let message = Key::read(&path).unwrap_err().to_string();
        assert!(message.contains("mode 640") && message.contains("chmod 600"), "{message}");
    }

    #[test]
    fn other_files_are_no_keys() {
        let (_dir, path) = file();
        for text in ["", "hello\n", "forewarn-cluster-key-1\nabc\n", "forewarn-cluster-key-1\n"] {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            assert!(matches!(Key::read(&path), Err(SealError::NotAKey(_))), "{text:?}");
        }
    }
}
