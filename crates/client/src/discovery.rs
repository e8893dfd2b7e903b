//! Where the service is, for machines that nobody told.
//!
//! In this order: what the caller says, what the environment says, the address of virtual networks,
//! what DHCP left in lease files (option 245), and, only when allowed, DHCP itself. What a person
//! wrote down is taken as it is; everything else is tried, and the first that answers with a document
//! is it. All of it blocks: a program on tokio looks in `spawn_blocking`.

mod dhcp;
mod lease;

use std::fmt;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use dhcp::{Asking, Card};

use crate::blocking::Client;
use crate::endpoint::{Endpoint, EndpointError};
use crate::error::with_causes;
use crate::options::Options;
use crate::retry::Retry;

/// The ports behind an address from DHCP: the published samples disagree, so both are tried.
pub const PORTS: [u16; 2] = [80, 8080];

/// The base URL, as for [`Discovery::endpoint`].
pub const ENVIRONMENT: &str = "FOREWARN_METADATA";

/// An address that the published samples find by DHCP and leave here.
pub const ENVIRONMENT_OF_SAMPLES: &str = "SCHEDULEDEVENTSIP";

/// What tells whether the service is at an endpoint; the error says what is there instead.
pub type Probe<'a> = &'a mut dyn FnMut(&Endpoint) -> Result<(), String>;

/// Where to look.
#[derive(Debug, Clone)]
pub struct Discovery {
    endpoint: Option<Endpoint>,
    environment: fn(&str) -> Option<String>,
    link_local: bool,
    ports: Vec<u16>,
    root: PathBuf,
    asking: Option<Asking>,
}

impl Default for Discovery {
    fn default() -> Discovery {
        Discovery {
            endpoint: None,
            environment: |name| std::env::var(name).ok(),
            link_local: true,
            ports: PORTS.to_vec(),
            root: "/".into(),
            asking: None,
        }
    }
}

impl Discovery {
    /// Here and nowhere else; it is not even tried.
    pub fn endpoint(self, endpoint: Endpoint) -> Discovery {
        Discovery { endpoint: Some(endpoint), ..self }
    }

    /// Another environment than the process's.
    pub fn environment(self, environment: fn(&str) -> Option<String>) -> Discovery {
        Discovery { environment, ..self }
    }

    /// Whether 169.254.169.254 is tried. It is, unless this says otherwise.
    pub fn link_local(self, link_local: bool) -> Discovery {
        Discovery { link_local, ..self }
    }

    /// Other ports than [`PORTS`] behind addresses from DHCP and the samples' environment.
    pub fn ports(self, ports: &[u16]) -> Discovery {
        Discovery { ports: ports.to_vec(), ..self }
    }

    /// Lease files are looked for below this directory instead of `/`.
    pub fn root(self, root: impl Into<PathBuf>) -> Discovery {
        Discovery { root: root.into(), ..self }
    }

    /// Allows to ask the network by DHCP when nothing else helped. Takes the right to use UDP port 68
    /// and up to half a minute for each network card, and does not happen unless this is called.
    pub fn asking(self, asking: Asking) -> Discovery {
        Discovery { asking: Some(asking), ..self }
    }

    /// Finds the service, trying each candidate with a request for its document.
    pub fn find(&self) -> Result<Candidate, DiscoveryError> {
        self.find_with(&mut probe)
    }

    /// Like [`Discovery::find`], with another way to try.
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
        if let Some(asking) = &self.asking {
            let address = asking.ask().map_err(|source| DiscoveryError::Dhcp { tried: tried.clone(), source })?;
            for candidate in self.behind(address, &Origin::Dhcp) {
                match probe(&candidate.endpoint) {
                    Ok(()) => return Ok(candidate),
                    Err(problem) => tried.push((candidate, problem)),
                }
            }
        }
        Err(DiscoveryError::Nowhere { tried })
    }

    /// Everything that can be known without asking anybody, the best first.
    pub fn candidates(&self) -> Result<Vec<Candidate>, DiscoveryError> {
        if let Some(endpoint) = &self.endpoint {
            return Ok(vec![Candidate { endpoint: endpoint.clone(), origin: Origin::Given }]);
        }
        if let Some(text) = self.variable(ENVIRONMENT) {
            let endpoint = text.parse().map_err(DiscoveryError::Environment)?;
            return Ok(vec![Candidate { endpoint, origin: Origin::Environment(ENVIRONMENT) }]);
        }
        let mut found = Vec::new();
        if let Some(address) = self.variable(ENVIRONMENT_OF_SAMPLES).and_then(|text| text.trim().parse().ok()) {
            found.extend(self.behind(address, &Origin::Environment(ENVIRONMENT_OF_SAMPLES)));
        }
        if self.link_local {
            found.push(Candidate { endpoint: Endpoint::link_local(), origin: Origin::LinkLocal });
        }
        for (path, address) in lease::find(&self.root) {
            found.extend(self.behind(address, &Origin::Lease(path)));
        }
        let mut once: Vec<Candidate> = Vec::new();
        for candidate in found {
            if !once.iter().any(|known| known.endpoint == candidate.endpoint) {
                once.push(candidate);
            }
        }
        Ok(once)
    }

    fn variable(&self, name: &str) -> Option<String> {
        (self.environment)(name).filter(|text| !text.trim().is_empty())
    }

    fn behind(&self, address: Ipv4Addr, origin: &Origin) -> Vec<Candidate> {
        let candidate = |&port: &u16| Candidate { endpoint: Endpoint::from((address, port)), origin: origin.clone() };
        self.ports.iter().map(candidate).collect()
    }
}

/// A place where the service may be, and who says so.
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Given,
    Environment(&'static str),
    /// 169.254.169.254
    LinkLocal,
    /// Option 245 in this file.
    Lease(PathBuf),
    /// Option 245, asked for.
    Dhcp,
}

impl Origin {
    /// A person wrote it down: if nothing answers there, it will later.
    fn is_trusted(&self) -> bool {
        matches!(self, Origin::Given | Origin::Environment(ENVIRONMENT))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Given => write!(f, "given"),
            Origin::Environment(name) => write!(f, "from {name}"),
            Origin::LinkLocal => write!(f, "the address of virtual networks"),
            Origin::Lease(path) => write!(f, "from {}", Path::display(path)),
            Origin::Dhcp => write!(f, "from DHCP"),
        }
    }
}

/// Why the service was not found.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    #[error("{ENVIRONMENT} in the environment is not the address of a service")]
    Environment(#[source] EndpointError),
    #[error("nothing that answers as a metadata service was found.{}", shown(tried))]
    Nowhere { tried: Vec<(Candidate, String)> },
    #[error("nothing was found without DHCP.{} Asking by DHCP failed", shown(tried))]
    Dhcp { tried: Vec<(Candidate, String)>, source: std::io::Error },
}

impl DiscoveryError {
    /// The error and its causes in one line, for logs.
    pub fn to_line(&self) -> String {
        with_causes(self)
    }
}

fn shown(tried: &[(Candidate, String)]) -> String {
    tried.iter().map(|(candidate, problem)| format!(" {candidate}: {problem}.")).collect()
}

/// Long enough for a neighbour; where nobody is, nobody answers.
const PROBE_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Asks for a document. Whoever listens gets the time that a first answer may take.
fn probe(endpoint: &Endpoint) -> Result<(), String> {
    let retry = Retry { total_max: Duration::ZERO, ..Retry::default() };
    let options = Options::new(endpoint.clone()).connect_timeout(PROBE_CONNECT_TIMEOUT).retry(retry);
    Client::with(options).document().map(|_| ()).map_err(|error| error.to_line())
}
