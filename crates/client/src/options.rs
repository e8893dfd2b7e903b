//! How a client behaves, blocking or async.

use std::time::Duration;

use forewarn_wire::version::Version;

use crate::endpoint::Endpoint;
use crate::retry::Retry;

/// How long an answer may take. Slow services took up to 5 s, and Pacemaker's agents wait 15.
pub const TIMEOUT: Duration = Duration::from_secs(15);

/// The first answer may take two minutes, says the service; and a little for the way.
pub const FIRST_TIMEOUT: Duration = Duration::from_secs(130);

/// The endpoint is on the same link, or on the same host.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Made with [`Options::new`] and changed with the methods; every default is right for most.
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) endpoint: Endpoint,
    pub(crate) version: Option<Version>,
    pub(crate) retry: Retry,
    pub(crate) timeout: Duration,
    pub(crate) first_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) jitter_seed: Option<u64>,
}

impl Options {
    pub fn new(endpoint: Endpoint) -> Options {
        Options {
            endpoint,
            version: None,
            retry: Retry::default(),
            timeout: TIMEOUT,
            first_timeout: FIRST_TIMEOUT,
            connect_timeout: CONNECT_TIMEOUT,
            jitter_seed: None,
        }
    }

    /// Asks for this version and no other, instead of the newest that the service has.
    pub fn version(self, version: Version) -> Options {
        Options { version: Some(version), ..self }
    }

    pub fn retry(self, retry: Retry) -> Options {
        Options { retry, ..self }
    }

    /// How long an answer may take; also the first, when this is longer than [`FIRST_TIMEOUT`].
    pub fn timeout(self, timeout: Duration) -> Options {
        Options { timeout, ..self }
    }

    /// How long answers may take until the first one has come.
    pub fn first_timeout(self, first_timeout: Duration) -> Options {
        Options { first_timeout, ..self }
    }

    pub fn connect_timeout(self, connect_timeout: Duration) -> Options {
        Options { connect_timeout, ..self }
    }

    /// Makes the pauses between retries the same in each run.
    pub fn jitter_seed(self, seed: u64) -> Options {
        Options { jitter_seed: Some(seed), ..self }
    }
}
