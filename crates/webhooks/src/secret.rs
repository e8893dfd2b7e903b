//! The secret for signing deliveries, in the format of the Standard Webhooks specification.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

const PREFIX: &str = "whsec_";

/// Length limits of the specification.
const BYTES_MIN: usize = 24;
const BYTES_MAX: usize = 64;

/// Length of generated secrets.
const BYTES_GENERATED: usize = 32;

#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecret(Vec<u8>);

impl SigningSecret {
    pub fn random() -> SigningSecret {
        SigningSecret(forewarn_access::random_bytes::<BYTES_GENERATED>().to_vec())
    }

    /// Errors do not repeat the input.
    pub fn parse(text: &str) -> Result<SigningSecret, String> {
        let bytes = text.strip_prefix(PREFIX).and_then(|code| STANDARD.decode(code).ok());
        bytes.filter(|bytes| (BYTES_MIN..=BYTES_MAX).contains(&bytes.len())).map(SigningSecret).ok_or_else(|| {
            format!(
                "the secret must be '{PREFIX}' followed by {BYTES_MIN} to {BYTES_MAX} bytes in Base64. Omit it to generate one"
            )
        })
    }

    /// The secret as text.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(&self.0))
    }

    pub fn sign(&self, content: &[u8]) -> [u8; 32] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        hmac::sign(&key, content).as_ref().try_into().expect("SHA-256 has 32 bytes")
    }
}

/// Redacted, so that secrets do not get into logs.
impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_match_the_specification() {
        let secret = SigningSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let content = br#"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{"test": 2432232314}"#;
        assert_eq!(STANDARD.encode(secret.sign(content)), "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_generated_secret_round_trips_and_its_debug_output_is_redacted() {
        let secret = SigningSecret::random();
        assert_eq!(SigningSecret::parse(&secret.reveal()).unwrap(), secret);
        assert_eq!(format!("{secret:?}"), "SigningSecret");
    }

    #[test]
    fn invalid_secrets_are_refused_without_repeating_them() {
        for text in ["", "whsec_", "whsec_c2hvcnQ=", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_!!!"] {
            let error = SigningSecret::parse(text).unwrap_err();
            assert!(text.len() < 8 || !error.contains(text), "{error}");
        }
    }
}
