//! Errors of client calls.

use std::io;
use std::time::Duration;

use crate::document::DocumentError;
use crate::endpoint::Endpoint;
use crate::http::HttpError;

/// Error of a call, after all retries that the policy allows.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot reach {endpoint}")]
    Unreachable { endpoint: Endpoint, source: io::Error },
    #[error("{endpoint} did not respond within {timeout:?}")]
    TimedOut { endpoint: Endpoint, timeout: Duration },
    #[error("invalid response from {endpoint}")]
    InvalidResponse { endpoint: Endpoint, source: HttpError },
    /// The service kept responding with 408, 410, 429 or 5xx.
    #[error("service unavailable (status {status}): {message}")]
    Unavailable { status: u16, message: String },
    /// The service rejected the request; retrying does not help.
    #[error("request refused (status {status}): {message}")]
    Refused { status: u16, message: String },
    /// The service supports none of this client's API versions. Status and message are the response to the newest
    /// version.
    #[error("no supported API version (status {status}): {message}")]
    UnsupportedVersion { status: u16, message: String },
    #[error("invalid response")]
    InvalidDocument(#[from] DocumentError),
}

impl Error {
    /// Whether the same call may succeed later.
    pub fn is_temporary(&self) -> bool {
        match self {
            Error::Unreachable { .. }
            | Error::TimedOut { .. }
            | Error::InvalidResponse { .. }
            | Error::Unavailable { .. } => true,
            Error::Refused { .. } | Error::UnsupportedVersion { .. } | Error::InvalidDocument(_) => false,
        }
    }

    /// Formats the error and its causes as one line, for logs.
    pub fn to_line(&self) -> String {
        join_causes(self)
    }
}

/// Formats an error and its causes as one line.
pub(crate) fn join_causes(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line = format!("{line}: {error}");
        cause = error.source();
    }
    line
}
