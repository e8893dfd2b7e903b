//! An unfinished sign-in, as the value of a cookie that only this process can write.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use crate::random::random_bytes;

/// Time to sign in at the provider, with a second factor.
pub const ATTEMPT_SECS: i64 = 600;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignInAttempt {
    /// Ties the callback to this browser.
    pub state: String,
    /// Ties the ID token to this attempt.
    pub nonce: String,
    /// The PKCE secret, which proves at the token endpoint that the code was issued for this attempt.
    pub verifier: String,
    pub redirect: String,
    /// The path to show after signing in.
    pub back: String,
    /// Seconds since 1970.
    pub until: i64,
}

impl SignInAttempt {
    pub fn has_state(&self, state: &str) -> bool {
        self.state.as_bytes().ct_eq(state.as_bytes()).into()
    }
}

/// Signs attempts with a key that ends with the process.
pub struct Sealer(hmac::Key);

impl Sealer {
    pub fn random() -> Sealer {
        Sealer(hmac::Key::new(hmac::HMAC_SHA256, &random_bytes::<32>()))
    }

    pub fn seal(&self, attempt: &SignInAttempt) -> String {
        let text = serde_json::to_vec(attempt).expect("an attempt consists of strings and a number");
        let tag = hmac::sign(&self.0, &text);
        format!("{}.{}", URL_SAFE_NO_PAD.encode(&text), URL_SAFE_NO_PAD.encode(tag.as_ref()))
    }

    /// None: another process wrote it, it was changed, or it is too old.
    pub fn open(&self, sealed: &str, now: i64) -> Option<SignInAttempt> {
        let (text, tag) = sealed.split_once('.')?;
        let (text, tag) = (URL_SAFE_NO_PAD.decode(text).ok()?, URL_SAFE_NO_PAD.decode(tag).ok()?);
        hmac::verify(&self.0, &text, &tag).ok()?;
        serde_json::from_slice::<SignInAttempt>(&text).ok().filter(|attempt| now < attempt.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_opened_unchanged_in_time_and_by_its_own_process_only() {
        let attempt = SignInAttempt {
            state: "s".into(),
            nonce: "n".into(),
            verifier: "v".into(),
            redirect: "https://here/callback".into(),
            back: "/hosts".into(),
            until: 100,
        };
        let sealer = Sealer::random();
        let sealed = sealer.seal(&attempt);
        assert_eq!(sealer.open(&sealed, 99), Some(attempt.clone()));
        assert_eq!(sealer.open(&sealed, 100), None);
        assert_eq!(Sealer::random().open(&sealed, 99), None);
        let other = sealer.seal(&SignInAttempt { back: "/x".into(), ..attempt.clone() });
        let mixed = format!("{}.{}", other.split_once('.').unwrap().0, sealed.split_once('.').unwrap().1);
        assert_eq!(sealer.open(&mixed, 99), None);
        for wrong in ["", ".", "x.y", &sealed[1..]] {
            assert_eq!(sealer.open(wrong, 99), None, "{wrong}");
        }
        assert!(attempt.has_state("s") && !attempt.has_state("") && !attempt.has_state("S"));
    }
}
