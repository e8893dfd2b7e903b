//! Settings that the blocking and the async client share.

use std::time::Duration;

use forewarn_wire::version::Version;

use crate::endpoint::Endpoint;
use crate::retry::RetryPolicy;

/// Default time limit for a response. Slow services have taken up to 5 s; Pacemaker's agents wait 15 s.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(15);

/// Default time limit until the first response. Azure documents up to two minutes; the rest is for the network.
pub const FIRST_TIMEOUT_DEFAULT: Duration = Duration::from_secs(130);

/// Default time limit for connecting. The endpoint is on the same link or the same host.
pub const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// Settings of a client.
///
/// ```
/// use std::time::Duration;
/// use forewarn_client::{Client, Endpoint, Options, RetryPolicy};
///
/// let options = Options::new(Endpoint::link_local()).timeout(Duration::from_secs(5)).retry(RetryPolicy::never());
/// let client = Client::with_options(options);
/// # drop(client);
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) endpoint: Endpoint,
    pub(crate) version: Option<Version>,
    pub(crate) retry: RetryPolicy,
    pub(crate) timeout: Duration,
    pub(crate) first_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) jitter_seed: Option<u64>,
}

impl Options {
    /// Default settings for the service at `endpoint`.
    pub fn new(endpoint: Endpoint) -> Options {
        Options {
            endpoint,
            version: None,
            retry: RetryPolicy::default(),
            timeout: TIMEOUT_DEFAULT,
            first_timeout: FIRST_TIMEOUT_DEFAULT,
            connect_timeout: CONNECT_TIMEOUT_DEFAULT,
            jitter_seed: None,
        }
    }

    /// Requests only this API version. By default the client uses the newest version that the service supports.
    pub fn version(self, version: Version) -> Options {
        Options { version: Some(version), ..self }
    }

    /// Sets the retry policy.
    pub fn retry(self, retry: RetryPolicy) -> Options {
        Options { retry, ..self }
    }

    /// Sets the time limit for a response. A value above [`FIRST_TIMEOUT_DEFAULT`] also applies to the first response.
    pub fn timeout(self, timeout: Duration) -> Options {
        Options { timeout, ..self }
    }

    /// Sets the time limit for responses until the first one has arrived.
    pub fn first_timeout(self, first_timeout: Duration) -> Options {
        Options { first_timeout, ..self }
    }

    /// Sets the time limit for opening a connection.
    pub fn connect_timeout(self, connect_timeout: Duration) -> Options {
        Options { connect_timeout, ..self }
    }

    /// Seeds the random part of retry delays, so that each run has the same delays.
    pub fn jitter_seed(self, seed: u64) -> Options {
        Options { jitter_seed: Some(seed), ..self }
    }
}
