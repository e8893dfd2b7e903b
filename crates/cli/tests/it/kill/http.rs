//! Requests to a server that is killed.

use std::net::SocketAddr;
use std::time::Duration;

pub use forewarn_test_support::http::HttpAnswer as Answer;

const TIMEOUT: Duration = Duration::from_secs(30);

/// Returns None if the server is gone or did not send a whole answer.
pub fn request(address: SocketAddr, method: &str, path: &str, body: &str) -> Option<Answer> {
    forewarn_test_support::http::request(address, TIMEOUT, method, path, body)
}
