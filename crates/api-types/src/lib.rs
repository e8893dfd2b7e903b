//! Requests and responses of the native API, and the helpers that clients and servers share: spans of time, suggestions for
//! misspelled words, and error messages for people.

pub mod nearest;
pub mod plain;
pub mod span;
