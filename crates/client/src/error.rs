//! What can go wrong between a client and its service.

use std::io;
use std::time::Duration;

use crate::document::DocumentError;
use crate::endpoint::Endpoint;
use crate::http::HttpError;

/// Why a call failed, after all retries that the policy allows.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{endpoint} cannot be reached")]
    Unreachable { endpoint: Endpoint, source: io::Error },
    #[error("{endpoint} did not answer within {} s", timeout.as_secs())]
    Slow { endpoint: Endpoint, timeout: Duration },
    #[error("{endpoint} does not answer as a metadata service does")]
    NotHttp { endpoint: Endpoint, source: HttpError },
    /// 410, 429 or 5xx for longer than we are prepared to wait.
    #[error("the service is not available, {status}: {message}")]
    Unavailable { status: u16, message: String },
    /// Asking again in the same way would not help.
    #[error("the service refuses, {status}: {message}")]
    Refused { status: u16, message: String },
    /// Each version that we know was refused; this is what was said to the newest.
    #[error("the service has none of the versions we know, {status}: {message}")]
    NoVersion { status: u16, message: String },
    #[error("the service answers nonsense")]
    Nonsense(#[from] DocumentError),
}

impl Error {
    /// Whether the same call may well succeed later, without anybody doing anything.
    pub fn is_temporary(&self) -> bool {
        match self {
            Error::Unreachable { .. } | Error::Slow { .. } | Error::NotHttp { .. } | Error::Unavailable { .. } => true,
            Error::Refused { .. } | Error::NoVersion { .. } | Error::Nonsense(_) => false,
        }
    }

    /// The error and its causes in one line, for logs.
    pub fn to_line(&self) -> String {
        with_causes(self)
    }
}

/// An error and its causes in one line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line = format!("{line}: {error}");
        cause = error.source();
    }
    line
}
