//! Digests of secrets: what may be kept and compared where the secret itself must not be.

use std::fmt::Write as _;

use ring::digest::{SHA256, digest};

/// `purpose` keeps a digest that is shown in one place from being one that counts in another.
pub fn digest_of(purpose: &str, secret: &str) -> String {
    hex(digest(&SHA256, format!("{purpose}:{secret}").as_bytes()).as_ref())
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
