//! Helpers that clients and servers of the native API share: durations, suggestions for misspelled words, and readable
//! error messages.

pub mod nearest;
pub mod plain;
pub mod span;
