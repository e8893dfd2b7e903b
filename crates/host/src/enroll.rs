//! Enrollment: how a host gets its certificate, where it keeps it, and how it renews it.
//!
//! The key never leaves the host. Key and certificate are in one private file, so that they always match.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use forewarn_access::tls::now;
use forewarn_access::{HOST_CERTIFICATE_SECS, HostKey, LINK_NAME, secret_file};
use forewarn_api_types::{ErrorBody, JoinResponse, NewJoin, PREFIX};
use forewarn_connect::{Trust, is_private};
use http::StatusCode;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde::{Deserialize, Serialize};

use crate::copy_file::CopyFile;
use crate::servers;

/// Its name in the data directory.
const FILE: &str = "identity.json";

/// Two certificates and a key take about 3 KB.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// A host and how it proves to be that host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    pub host: String,
    /// Address of the listener for hosts of the server to connect to first, with a port.
    pub server: String,
    /// PEM.
    pub certificate: String,
    pub key: String,
    /// The authority of the listener for hosts, PEM.
    pub authority: String,
    /// When the certificate was issued, in Unix time.
    pub issued: i64,
}

impl Identity {
    /// Reads the identity of a host that has joined.
    pub fn read(dir: &Path) -> anyhow::Result<Identity> {
        let path = path(dir);
        let found = secret_file::read(&path, FILE_BYTES_MAX)?;
        let (text, _) = found.ok_or_else(|| {
            anyhow!(
                "this host has not joined a server: {} does not exist. Run `forewarn host token NAME` on the server and \
                 `forewarn host join URL --token TOKEN` here",
                path.display()
            )
        })?;
        serde_json::from_str(&text).with_context(|| format!("{} is invalid. Remove it and join again", path.display()))
    }

    pub fn write(&self, dir: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        let created = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
        created.with_context(|| format!("cannot create {}", dir.display()))?;
        Ok(secret_file::replace(&path(dir), &text)?)
    }

    /// TLS 1.3 with this certificate, and the name that the server must prove.
    pub fn client_config(&self) -> anyhow::Result<(ClientConfig, ServerName<'static>)> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.as_bytes())?)?;
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes())?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes())?;
        let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![certificate], key)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok((config, ServerName::try_from(LINK_NAME)?))
    }

    /// Whether half of the certificate's life is over.
    pub fn wants_renewal(&self, now: i64) -> bool {
        now >= self.issued + HOST_CERTIFICATE_SECS / 2
    }

    pub fn has_expired(&self, now: i64) -> bool {
        now >= self.expires_at()
    }

    pub fn expires_at(&self) -> i64 {
        self.issued + HOST_CERTIFICATE_SECS
    }
}

/// The reason why a host could not join.
#[derive(Debug)]
pub enum JoinError {
    /// The server cannot be reached, or has no leader. Another server may work.
    Unavailable(anyhow::Error),
    Failed(anyhow::Error),
}

impl std::fmt::Display for JoinError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            JoinError::Unavailable(error) | JoinError::Failed(error) => write!(f, "{error:#}"),
        }
    }
}

impl std::error::Error for JoinError {}

impl From<anyhow::Error> for JoinError {
    fn from(error: anyhow::Error) -> JoinError {
        JoinError::Failed(error)
    }
}

/// Joins a server: makes a key, has it certified, and stores both. Blocking.
///
/// `url`: the management API. The listener of a single server for hosts is on the same computer.
pub fn join(dir: &Path, url: &str, trust: &Trust, token: &str) -> Result<Identity, JoinError> {
    let key = HostKey::generate()?;
    let body = NewJoin { token: token.trim().to_owned(), request: key.request()? };
    let joined = request_certificate(url, trust, &body)?;
    let identity = Identity {
        server: choose_server(url, &joined)?,
        host: joined.host,
        certificate: joined.certificate,
        key: key.secret(),
        authority: joined.authority,
        issued: now(),
    };
    identity.write(dir)?;
    servers::store(dir, &joined.servers)?;
    CopyFile::in_directory(dir).remove().context("cannot remove the old copy")?;
    Ok(identity)
}

fn request_certificate(url: &str, trust: &Trust, body: &NewJoin) -> Result<JoinResponse, JoinError> {
    if !is_private(url) {
        // A stolen token would let another host join first.
        let error =
            anyhow!("refusing to send a token to {url} without encryption: use the https address of the server");
        return Err(JoinError::Failed(error));
    }
    let agent = forewarn_connect::agent(trust).map_err(anyhow::Error::from)?;
    let answer = agent.post(format!("{url}{PREFIX}/host-joins")).send_json(body);
    let mut answer = answer.map_err(|error| {
        let problem = forewarn_connect::certificate_problem(&error);
        let reason = problem.map_or_else(|| error.to_string(), |problem| problem.to_string());
        JoinError::Unavailable(anyhow!("cannot reach {url}: {reason}"))
    })?;
    if answer.status().is_success() {
        return Ok(answer.body_mut().read_json().context("the server sent an unknown answer")?);
    }
    let refusal = answer.body_mut().read_json::<ErrorBody>();
    let reason = refusal.map_or_else(|_| answer.status().to_string(), |refusal| refusal.error.message);
    let error = anyhow!("{url} refused the request: {reason}");
    let is_unavailable = answer.status() == StatusCode::SERVICE_UNAVAILABLE;
    Err(if is_unavailable { JoinError::Unavailable(error) } else { JoinError::Failed(error) })
}

/// The server to connect to first: of a cluster, the one that was joined, as far as its name tells.
fn choose_server(url: &str, joined: &JoinResponse) -> anyhow::Result<String> {
    let own = link_address(url, joined.port)?;
    let host_of = |address: &str| address.rsplit_once(':').map(|(host, _)| host.to_owned());
    let same_host = joined.servers.iter().find(|server| host_of(server) == host_of(&own));
    Ok(same_host.or(joined.servers.first()).cloned().unwrap_or(own))
}

/// The host of a URL, with another port.
fn link_address(url: &str, port: u16) -> anyhow::Result<String> {
    let uri: http::Uri = url.parse()?;
    let host = uri.host().with_context(|| format!("{url} has no host"))?;
    Ok(format!("{host}:{port}"))
}

fn path(dir: &Path) -> PathBuf {
    dir.join(FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listener_for_hosts_is_on_the_same_computer() {
        for (url, expected) in [
            ("https://forewarn.example:8171", "forewarn.example:8172"),
            ("http://127.0.0.1:8170", "127.0.0.1:8172"),
            ("https://[::1]:8171", "[::1]:8172"),
        ] {
            assert_eq!(link_address(url, 8172).unwrap(), expected);
        }
    }

    #[test]
    fn of_a_cluster_the_joined_server_is_tried_first() {
        let joined = |servers: &[&str]| JoinResponse {
            host: "node1".into(),
            certificate: String::new(),
            authority: String::new(),
            port: 8172,
            servers: servers.iter().map(|&server| server.to_owned()).collect(),
        };
        let choose = |servers: &[&str]| choose_server("https://b.example:8171", &joined(servers)).unwrap();
        assert_eq!(choose(&[]), "b.example:8172");
        assert_eq!(choose(&["a.example:1", "b.example:2"]), "b.example:2");
        assert_eq!(choose(&["a.example:1"]), "a.example:1", "behind a load balancer");
    }

    #[test]
    fn a_token_is_never_sent_over_the_network_in_clear_text() {
        let dir = tempfile::tempdir().unwrap();
        let join = |url: &str| join(dir.path(), url, &Trust::System(None), "secret").unwrap_err();
        for url in ["http://192.0.2.1:8170", "http://127.evil.example:8170"] {
            let error = join(url);
            assert!(matches!(error, JoinError::Failed(_)), "the next server is not tried: {error}");
            assert_eq!(
                error.to_string(),
                format!("refusing to send a token to {url} without encryption: use the https address of the server")
            );
        }
        let closed = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
        let error = join(&format!("http://{closed}"));
        assert!(matches!(error, JoinError::Unavailable(_)), "the request is sent: {error}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn certificates_are_renewed_halfway_and_expire_after_thirty_days() {
        let identity = Identity {
            host: "node1".into(),
            server: "x:1".into(),
            certificate: String::new(),
            key: String::new(),
            authority: String::new(),
            issued: 1_000,
        };
        assert!(!identity.wants_renewal(1_000 + 15 * 86_400 - 1));
        assert!(identity.wants_renewal(1_000 + 15 * 86_400));
        assert!(!identity.has_expired(1_000 + 30 * 86_400 - 1));
        assert!(identity.has_expired(1_000 + 30 * 86_400));
    }

    #[test]
    fn a_host_that_has_not_joined_is_told_how() {
        let dir = tempfile::tempdir().unwrap();
        let error = Identity::read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("forewarn host join URL --token TOKEN"), "{error}");
    }
}
