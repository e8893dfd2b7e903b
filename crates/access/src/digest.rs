//! Digests of secrets, for places that must not hold the secret itself.

use std::fmt::Write as _;

use ring::digest::{SHA256, digest};

/// `purpose` makes digests for different uses differ.
pub fn digest_of(purpose: &str, secret: &str) -> String {
    hex(digest(&SHA256, format!("{purpose}:{secret}").as_bytes()).as_ref())
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
