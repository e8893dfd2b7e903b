//! Discovery of the metadata endpoint.
//!
//! Sources in order of preference: an explicit endpoint, environment variables, the link-local address, DHCP option 245
//! in lease files and, only if enabled, a DHCP query. An endpoint that a person configured is used as it is. Every
//! other candidate is probed, and the first one that returns a document is used. All of it blocks: use `spawn_blocking`
//! on tokio.

mod dhcp;
mod lease;

use std::fmt;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use dhcp::{DhcpQuery, NetworkInterface};

use crate::blocking::Client;
use crate::endpoint::{Endpoint, EndpointError};
use crate::error::join_causes;
use crate::options::Options;
use crate::retry::RetryPolicy;

/// Ports to try at an address from DHCP. The published samples disagree, so both are tried.
pub const DHCP_PORTS: [u16; 2] = [80, 8080];

/// Environment variable with the base URL of the service.
pub const ENDPOINT_VARIABLE: &str = "FOREWARN_METADATA";

/// Environment variable in which the published samples store the address from DHCP.
pub const SAMPLES_ADDRESS_VARIABLE: &str = "SCHEDULEDEVENTSIP";

/// Function that checks whether the service is at an endpoint. The error says why not.
pub type Probe<'a> = &'a mut dyn FnMut(&Endpoint) -> Result<(), String>;

/// Finds the metadata endpoint.
///
/// ```no_run
/// use forewarn_client::{Client, Discovery};
///
/// let found = Discovery::default().find()?;
/// println!("using {found}");
/// let client = Client::new(found.endpoint);
/// # drop(client);
/// # Ok::<(), forewarn_client::DiscoveryError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Discovery {
    endpoint: Option<Endpoint>,
    environment: fn(&str) -> Option<String>,
    link_local: bool,
    ports: Vec<u16>,
    root: PathBuf,
    dhcp: Option<DhcpQuery>,
}

impl Default for Discovery {
    fn default() -> Discovery {
        Discovery {
            endpoint: None,
            environment: |name| std::env::var(name).ok(),
            link_local: true,
            ports: DHCP_PORTS.to_vec(),
            root: "/".into(),
            dhcp: None,
        }
    }
}

impl Discovery {
    /// Uses this endpoint without probing it.
    pub fn endpoint(self, endpoint: Endpoint) -> Discovery {
        Discovery { endpoint: Some(endpoint), ..self }
    }

    /// Reads environment variables with this function.
    pub fn environment(self, environment: fn(&str) -> Option<String>) -> Discovery {
        Discovery { environment, ..self }
    }

    /// Sets whether to try 169.254.169.254. The default is true.
    pub fn link_local(self, link_local: bool) -> Discovery {
        Discovery { link_local, ..self }
    }

    /// Sets the ports to try at addresses from DHCP and from [`SAMPLES_ADDRESS_VARIABLE`]. The default is
    /// [`DHCP_PORTS`].
    pub fn ports(self, ports: &[u16]) -> Discovery {
        Discovery { ports: ports.to_vec(), ..self }
    }

    /// Sets the directory below which lease files are read. The default is `/`.
    pub fn root(self, root: impl Into<PathBuf>) -> Discovery {
        Discovery { root: root.into(), ..self }
    }

    /// Sends a DHCP query if nothing else was found. This requires the privilege to bind UDP port 68 and takes up to
    /// half a minute per network interface. Disabled by default.
    pub fn dhcp(self, query: DhcpQuery) -> Discovery {
        Discovery { dhcp: Some(query), ..self }
    }

    /// Finds the service. Probes each candidate by requesting its document.
    pub fn find(&self) -> Result<Candidate, DiscoveryError> {
        self.find_with(&mut probe)
    }

    /// Finds the service with another probe.
    pub fn find_with(&self, probe: Probe<'_>) -> Result<Candidate, DiscoveryError> {
        let mut tried = Vec::new();
        for candidate in self.candidates()? {
            if candidate.origin.is_trusted() {
                return Ok(candidate);
            }
            match probe(&candidate.endpoint) {
                Ok(()) => return Ok(candidate),
                Err(problem) => tried.push((candidate, problem)),
            }
        }
        if let Some(query) = &self.dhcp {
            let address = query.run().map_err(|source| DiscoveryError::Dhcp { tried: tried.clone(), source })?;
            for candidate in self.candidates_at(address, &Origin::Dhcp) {
                match probe(&candidate.endpoint) {
                    Ok(()) => return Ok(candidate),
                    Err(problem) => tried.push((candidate, problem)),
                }
            }
        }
        Err(DiscoveryError::NotFound { tried })
    }

    /// Candidates that are known without network traffic, best first.
    pub fn candidates(&self) -> Result<Vec<Candidate>, DiscoveryError> {
        if let Some(endpoint) = &self.endpoint {
            return Ok(vec![Candidate { endpoint: endpoint.clone(), origin: Origin::Explicit }]);
        }
        if let Some(text) = self.read_variable(ENDPOINT_VARIABLE) {
            let endpoint = text.parse().map_err(DiscoveryError::Environment)?;
            return Ok(vec![Candidate { endpoint, origin: Origin::Environment(ENDPOINT_VARIABLE) }]);
        }
        let mut found = Vec::new();
        if let Some(address) = self.read_variable(SAMPLES_ADDRESS_VARIABLE).and_then(|text| text.trim().parse().ok()) {
            found.extend(self.candidates_at(address, &Origin::Environment(SAMPLES_ADDRESS_VARIABLE)));
        }
        if self.link_local {
            found.push(Candidate { endpoint: Endpoint::link_local(), origin: Origin::LinkLocal });
        }
        for (path, address) in lease::find(&self.root) {
            found.extend(self.candidates_at(address, &Origin::Lease(path)));
        }
        let mut unique: Vec<Candidate> = Vec::new();
        for candidate in found {
            if !unique.iter().any(|known| known.endpoint == candidate.endpoint) {
                unique.push(candidate);
            }
        }
        Ok(unique)
    }

    fn read_variable(&self, name: &str) -> Option<String> {
        (self.environment)(name).filter(|text| !text.trim().is_empty())
    }

    fn candidates_at(&self, address: Ipv4Addr, origin: &Origin) -> Vec<Candidate> {
        let candidate = |&port: &u16| Candidate { endpoint: Endpoint::from((address, port)), origin: origin.clone() };
        self.ports.iter().map(candidate).collect()
    }
}

/// Possible endpoint of the service, and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub endpoint: Endpoint,
    pub origin: Origin,
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.endpoint, self.origin)
    }
}

/// Origin of a [`Candidate`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Set with [`Discovery::endpoint`].
    Explicit,
    /// Value of this environment variable.
    Environment(&'static str),
    /// 169.254.169.254
    LinkLocal,
    /// DHCP option 245 in this lease file.
    Lease(PathBuf),
    /// DHCP option 245 in the response to a query.
    Dhcp,
}

impl Origin {
    /// Whether a person configured the endpoint. If it does not respond now, it will later.
    fn is_trusted(&self) -> bool {
        matches!(self, Origin::Explicit | Origin::Environment(ENDPOINT_VARIABLE))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Explicit => write!(f, "as configured"),
            Origin::Environment(name) => write!(f, "from {name}"),
            Origin::LinkLocal => write!(f, "link-local address"),
            Origin::Lease(path) => write!(f, "from {}", Path::display(path)),
            Origin::Dhcp => write!(f, "from DHCP"),
        }
    }
}

/// Error of a discovery.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    #[error("invalid environment variable {ENDPOINT_VARIABLE}")]
    Environment(#[source] EndpointError),
    #[error("no metadata service found.{}", render_attempts(tried))]
    NotFound { tried: Vec<(Candidate, String)> },
    #[error("no metadata service found.{} The DHCP query failed", render_attempts(tried))]
    Dhcp { tried: Vec<(Candidate, String)>, source: std::io::Error },
}

impl DiscoveryError {
    /// Formats the error and its causes as one line, for logs.
    pub fn to_line(&self) -> String {
        join_causes(self)
    }
}

fn render_attempts(tried: &[(Candidate, String)]) -> String {
    tried.iter().map(|(candidate, problem)| format!(" {candidate}: {problem}.")).collect()
}

/// The endpoint is on the same link or the same host.
const PROBE_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Requests the document. Once connected, the time limit for a first response applies.
fn probe(endpoint: &Endpoint) -> Result<(), String> {
    let retry = RetryPolicy { total_max: Duration::ZERO, ..RetryPolicy::default() };
    let options = Options::new(endpoint.clone()).connect_timeout(PROBE_CONNECT_TIMEOUT).retry(retry);
    Client::with_options(options).document().map(|_| ()).map_err(|error| error.to_line())
}
