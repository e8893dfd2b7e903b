//! Signed tokens: JSON Web Tokens with HMAC-SHA256. `SignIn::check` decides what their claims allow.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde::{Deserialize, Serialize};

use crate::digest::hex;

/// Tolerated difference between clocks.
pub const SKEW_SECS: i64 = 60;

/// Our tokens have about 600 bytes.
const TOKEN_BYTES_MAX: usize = 4096;

/// `{"alg":"HS256","typ":"JWT"}`. No other header is read, so that no token can choose how it is checked.
const HEADER: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    pub aud: String,
    pub iss: String,
    pub iat: i64,
    pub nbf: i64,
    pub exp: i64,
    pub tid: String,
    pub oid: String,
    pub appid: String,
    pub name: String,
    pub roles: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefusal {
    #[error("The token is malformed.")]
    Malformed,
    #[error("The token was not signed by this server, or the signing key was replaced since.")]
    Forged,
    #[error("The token was issued by another server.")]
    Issuer,
    #[error("The token has expired, or is not valid yet.")]
    Expired,
    #[error("The token is for another service.")]
    Audience,
    #[error("The token names no known role.")]
    Role,
}

#[derive(Clone)]
pub struct SigningKey(hmac::Key);

impl SigningKey {
    pub fn new(secret: &[u8]) -> SigningKey {
        SigningKey(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// Distinguishes this key from others and reveals nothing about it.
    pub fn fingerprint(&self) -> String {
        hex(hmac::sign(&self.0, b"mark").as_ref())
    }

    pub fn sign(&self, claims: &Claims) -> String {
        let claims = serde_json::to_vec(claims).expect("strings and numbers serialize to JSON");
        let signed = format!("{HEADER}.{}", URL_SAFE_NO_PAD.encode(claims));
        let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&self.0, signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    /// The claims of a token signed with this key. The comparison takes constant time.
    pub fn open(&self, token: &str) -> Result<Claims, TokenRefusal> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenRefusal::Malformed);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenRefusal::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(TokenRefusal::Malformed)?;
        if header != HEADER {
            return Err(TokenRefusal::Malformed);
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenRefusal::Malformed)?;
        hmac::verify(&self.0, signed.as_bytes(), &signature).map_err(|_| TokenRefusal::Forged)?;
        let claims = URL_SAFE_NO_PAD.decode(claims).map_err(|_| TokenRefusal::Malformed)?;
        serde_json::from_slice(&claims).map_err(|_| TokenRefusal::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        let text = |text: &str| text.to_owned();
        Claims {
            aud: text("a"),
            iss: text("i"),
            iat: 1,
            nbf: 1,
            exp: 2,
            tid: text("t"),
            oid: text("o"),
            appid: text("c"),
            name: text("n"),
            roles: vec![text("owner")],
        }
    }

    /// The example of RFC 7515, A.1, has the same algorithm and another header; this is our own.
    #[test]
    fn the_header_names_the_algorithm() {
        let header = URL_SAFE_NO_PAD.decode(HEADER).unwrap();
        assert_eq!(header, br#"{"alg":"HS256","typ":"JWT"}"#);
    }

    #[test]
    fn what_was_signed_opens_and_nothing_else_does() {
        let key = SigningKey::new(b"secret");
        let token = key.sign(&claims());
        assert_eq!(key.open(&token), Ok(claims()));
        assert_eq!(SigningKey::new(b"other").open(&token), Err(TokenRefusal::Forged));

        let parts: Vec<&str> = token.split('.').collect();
        let owner = URL_SAFE_NO_PAD.encode(r#"{"aud":"a"}"#);
        let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none","typ":"JWT"}"#);
        for (forged, refusal) in [
            (format!("{}.{owner}.{}", parts[0], parts[2]), TokenRefusal::Forged),
            (format!("{}.{}.", parts[0], parts[1]), TokenRefusal::Forged),
            (format!("{none}.{}.", parts[1]), TokenRefusal::Malformed),
            (format!("{none}.{}.{}", parts[1], parts[2]), TokenRefusal::Malformed),
            (parts[..2].join("."), TokenRefusal::Malformed),
            (String::new(), TokenRefusal::Malformed),
            ("..".into(), TokenRefusal::Malformed),
            ("x".repeat(TOKEN_BYTES_MAX + 1), TokenRefusal::Malformed),
        ] {
            assert_eq!(key.open(&forged), Err(refusal), "{forged}");
        }
    }
}
