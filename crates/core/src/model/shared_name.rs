//! A text that many machines have in common.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::Name;

/// A pointer to a shared text. A machine has several of them, so it matters that they take 8 bytes, also as an `Option`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharedName(Arc<Name>);

impl Deref for SharedName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for SharedName {
    fn borrow(&self) -> &str {
        self
    }
}

impl From<&str> for SharedName {
    fn from(text: &str) -> SharedName {
        SharedName(Arc::new(text.into()))
    }
}

impl From<Name> for SharedName {
    fn from(text: Name) -> SharedName {
        SharedName(Arc::new(text))
    }
}

impl From<String> for SharedName {
    fn from(text: String) -> SharedName {
        SharedName(Arc::new(text.into()))
    }
}

impl fmt::Display for SharedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}
