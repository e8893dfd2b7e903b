//! The key that a web hook's deliveries are signed with, in the form of the Standard Webhooks specification.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

const PREFIX: &str = "whsec_";

/// As the specification wants it.
const BYTES_MIN: usize = 24;
const BYTES_MAX: usize = 64;

/// How long one is that we make.
const BYTES_MADE: usize = 32;

#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// What [`Secret::parse`] takes, for the OpenAPI document; it takes padding as well.
    pub const PATTERN: &'static str = "^whsec_([A-Za-z0-9+/]{4}){8,21}$";

    pub fn random() -> Secret {
        let mut bytes = vec![0; BYTES_MADE];
        getrandom::fill(&mut bytes).expect("the system gives random bytes");
        Secret(bytes)
    }

    /// The complaint does not repeat what was given.
    pub fn parse(text: &str) -> Result<Secret, String> {
        let bytes = text.strip_prefix(PREFIX).and_then(|code| STANDARD.decode(code).ok());
        bytes.filter(|bytes| (BYTES_MIN..=BYTES_MAX).contains(&bytes.len())).map(Secret).ok_or_else(|| {
            format!(
                "a secret is '{PREFIX}' and the Base64 of {BYTES_MIN} to {BYTES_MAX} bytes. Leave it out to get one"
            )
        })
    }

    /// For whoever may know it.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(&self.0))
    }

    pub fn sign(&self, content: &[u8]) -> [u8; 32] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        hmac::sign(&key, content).as_ref().try_into().expect("SHA-256 has 32 bytes")
    }
}

/// Nothing of it, so that it gets into no log.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_the_specification() {
        let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let content = br#"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{"test": 2432232314}"#;
        assert_eq!(STANDARD.encode(secret.sign(content)), "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn what_is_made_can_be_read_and_is_not_shown_by_accident() {
        let secret = Secret::random();
        assert_eq!(Secret::parse(&secret.reveal()).unwrap(), secret);
        assert_eq!(format!("{secret:?}"), "Secret");
    }

    #[test]
    fn short_ones_and_those_without_prefix_are_refused_without_being_repeated() {
        for text in ["", "whsec_", "whsec_c2hvcnQ=", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_!!!"] {
            let why = Secret::parse(text).unwrap_err();
            assert!(text.len() < 8 || !why.contains(text), "{why}");
        }
    }
}
