//! How a client reaches the management API of a server: the contexts file, the trusted certificate authority, the token, and
//! an HTTP agent with both. Requests themselves are in `api-client`.
//!
//! ```text
//!  options, contexts file, data directory ─▶ Target (addresses, trust, token) ─▶ agent
//! ```

mod contexts;
mod error;
mod target;
mod transport;

pub use contexts::{Context, Contexts};
pub use error::ConnectError;
pub use target::{ServerOptions, Target, TokenSource, is_private, parse_server, parse_servers};
pub use transport::{
    CertificateProblem, Trust, agent, certificate_problem, fingerprint, is_connection_failure, is_same_fingerprint,
};
