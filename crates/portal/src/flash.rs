//! Confirmations: after an action, the next page of the session says what was done, with a link to what it created. Kept on the
//! server, so that addresses stay clean and confirmations appear without JavaScript too.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde_json::json;

/// Confirmations that no page has shown yet. Sessions that never load another page leave theirs behind.
const FLASHES_MAX: usize = 1000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flash {
    pub text: String,
    /// Address and label of what was created or changed; the address may be empty.
    pub link: (String, String),
}

/// The next confirmation of each session.
#[derive(Debug, Default)]
pub struct Flashes(Mutex<HashMap<String, Flash>>);

impl Flash {
    pub fn new(text: impl Into<String>) -> Flash {
        Flash { text: text.into(), link: (String::new(), String::new()) }
    }

    /// One line, for a header.
    pub fn encode(&self) -> Vec<u8> {
        json!([self.text, self.link.0, self.link.1]).to_string().into_bytes()
    }

    pub fn decode(bytes: &[u8]) -> Option<Flash> {
        let (text, href, label): (String, String, String) = serde_json::from_slice(bytes).ok()?;
        Some(Flash { text, link: (href, label) })
    }

    pub fn with_link(self, href: impl Into<String>, label: impl Into<String>) -> Flash {
        Flash { link: (href.into(), label.into()), ..self }
    }
}

impl Flashes {
    pub fn set(&self, cookie: &str, flash: Flash) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= FLASHES_MAX {
            all.clear();
        }
        all.insert(cookie.to_owned(), flash);
    }

    pub fn take(&self, cookie: &str) -> Option<Flash> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(cookie)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confirmation_survives_the_way_from_the_leader() {
        let flash = Flash::new("Restarting 'wéb'\nnow").with_link("/operations/7", "Operation 7");
        let header = http::HeaderValue::from_bytes(&flash.encode()).unwrap();
        assert_eq!(Flash::decode(header.as_bytes()), Some(flash));
        assert_eq!(Flash::decode(b"{}"), None);
    }
}
