//! Confirmations: after an action, the next page of the session says what was done, with a link to what it created. Kept on the
//! server, so that addresses stay clean and confirmations appear without JavaScript too.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

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
