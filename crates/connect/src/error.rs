//! Errors before a server is reached.

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The options or the contexts file are invalid.
    #[error("{0}")]
    Usage(String),
    /// The contexts file cannot be written.
    #[error("{0}")]
    Refused(String),
}
