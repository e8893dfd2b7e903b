//! The certificate of the https listener, renewed in time.
//!
//! ```text
//!  the operator's files ─┐                                    ┌─▶ every handshake
//!                        ├─▶ Resolver (certificate and key) ──┤
//!  issued by ourselves ──┘      ▲ checked each hour           └─▶ which Host names are ours
//! ```
//!
//! Our own authority issues one certificate. Clients get the authority's certificate (`ca.pem`, `GET /ca.pem`); its key never
//! leaves the data directory.

mod issue;
mod node;
pub(crate) mod plan;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::ring::{default_provider, sign::any_supported_type};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::signed_data::DocumentSigner;
use issue::IssuedCertificates;
pub use issue::{AUTHORITY_FILE, TLS_FILE, shared_authority_file};
pub(crate) use issue::{build_distinguished_name, leaf_params, set_span};
pub use node::node_client_config;
use plan::{RenewalPlan, WantedNames};

/// The certificate of the https listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// Issued by our own authority; both are created at the first start and kept in the data directory.
    Made {
        /// DNS names and addresses that clients use, besides those that the server finds itself.
        names: Vec<String>,
    },
    /// The operator's, PEM.
    Own { certificate: PathBuf, key: PathBuf },
}

/// How often certificates are checked for changed files and for expiry.
const CHECK_EVERY: Duration = Duration::from_secs(3600);

pub struct Tls {
    config: Arc<ServerConfig>,
    resolver: Arc<Resolver>,
    source: Source,
}

enum Source {
    Own { certificate: PathBuf, key: PathBuf },
    Directory { dir: PathBuf, names: WantedNames },
    Memory { made: Mutex<IssuedCertificates>, names: WantedNames },
}

/// Gives each handshake the current certificate.
#[derive(Debug)]
struct Resolver(ArcSwap<Current>);

#[derive(Debug)]
struct Current {
    key: Arc<CertifiedKey>,
    /// PEM, if it is our own.
    authority: Option<String>,
    /// Signs documents in the name of our own authority, with a key that is in memory only.
    signer: Option<DocumentSigner>,
}

impl Tls {
    /// `dir`: where an own authority is kept; None: in memory. `listened`: the address to issue a certificate for.
    pub fn new(certificate: &Certificate, dir: Option<&Path>, listened: IpAddr) -> anyhow::Result<Tls> {
        let source = match (certificate, dir) {
            (Certificate::Own { certificate, key }, _) => {
                Source::Own { certificate: certificate.clone(), key: key.clone() }
            }
            (Certificate::Made { names }, Some(dir)) => {
                Source::Directory { dir: dir.to_owned(), names: names_for(names, hostname(), listened) }
            }
            (Certificate::Made { names }, None) => {
                let names = names_for(names, hostname(), listened);
                let (made, _) = issue::renew(None, &names, now())?;
                Source::Memory { made: Mutex::new(made), names }
            }
        };
        let resolver = Arc::new(Resolver(ArcSwap::from_pointee(source.current()?)));
        source.warn_of_missing_name()?;
        Ok(Tls { config: Arc::new(server_config(resolver.clone(), None)?), resolver, source })
    }

    /// Also accepts the certificates of other servers that have the same authority.
    pub fn accept_nodes(mut self) -> anyhow::Result<Tls> {
        let authority =
            self.authority().context("a server in a cluster needs a certificate of the region's authority")?;
        self.config = Arc::new(server_config(self.resolver.clone(), Some(node::node_verifier(&authority)?))?);
        Ok(self)
    }

    pub fn acceptor(&self) -> TlsAcceptor {
        self.config.clone().into()
    }

    /// The certificate of our own authority; None with the operator's certificate.
    pub fn authority(&self) -> Option<String> {
        self.resolver.0.load().authority.clone()
    }

    /// Signs a document with a certificate of our own authority: PKCS#7 in DER. None with the operator's certificate.
    pub fn sign_document(&self, content: &[u8]) -> Option<Vec<u8>> {
        self.resolver.0.load().signer.as_ref()?.sign(content)
    }

    /// Whether the certificate is valid for this name, so that a client that used the name has verified us.
    pub fn is_valid_for(&self, name: &str) -> bool {
        let current = self.resolver.0.load();
        let Ok(name) = ServerName::try_from(name) else { return false };
        let parsed = current.key.end_entity_cert().and_then(ParsedCertificate::try_from);
        parsed.is_ok_and(|certificate| rustls::client::verify_server_name(&certificate, &name).is_ok())
    }

    /// Renews the certificate in time, until the server stops. If that fails, the current one stays.
    pub async fn renew_until(self: Arc<Self>, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(CHECK_EVERY)).await.is_some() {
            let tls = self.clone();
            let looked = tokio::task::spawn_blocking(move || tls.reload()).await;
            if let Ok(Err(error)) = looked {
                tracing::warn!(error = %format!("{error:#}"), "cannot renew the certificate");
            }
        }
    }

    fn reload(&self) -> anyhow::Result<()> {
        self.resolver.0.store(Arc::new(self.source.current()?));
        Ok(())
    }
}

impl Source {
    fn current(&self) -> anyhow::Result<Current> {
        match self {
            Source::Own { certificate, key } => {
                Ok(Current { key: Arc::new(own_key(certificate, key)?), authority: None, signer: None })
            }
            Source::Directory { dir, names } => {
                let before = issue::read(dir)?;
                let is_first = before.is_none();
                let (made, plan) = issue::renew(before, names, now())?;
                if plan != RenewalPlan::Keep {
                    issue::write(dir, &made)?;
                }
                match plan {
                    RenewalPlan::Keep => {}
                    RenewalPlan::Leaf => tracing::info!("issued a new https certificate"),
                    RenewalPlan::All if is_first => tracing::info!("created an authority and an https certificate"),
                    RenewalPlan::All => tracing::warn!(
                        "created a new authority, because the previous one has expired or cannot certify the names of this \
                         server: to trust it, clients must run `forewarn login` or use the new ca.pem"
                    ),
                }
                made_current(&made)
            }
            Source::Memory { made, names } => {
                let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
                *made = issue::renew(Some(made.clone()), names, now())?.0;
                made_current(&made)
            }
        }
    }
}

impl Source {
    /// Warns once, at the start, about a host name that the existing authority cannot sign.
    fn warn_of_missing_name(&self) -> anyhow::Result<()> {
        let Source::Directory { dir, names } = self else { return Ok(()) };
        let signed = issue::read(dir)?.map(|made| made.names).unwrap_or_default();
        if let Some(name) = names.optional.as_ref().filter(|name| !signed.contains(name)) {
            tracing::warn!(
                "the https certificate is not valid for {name}: this computer has a new name, and the authority in {} cannot \
                 certify it. To use the name, set management_tls_name to it; this creates a new authority, which clients must trust",
                dir.display()
            );
        }
        Ok(())
    }
}

fn made_current(made: &IssuedCertificates) -> anyhow::Result<Current> {
    let chain = vec![CertificateDer::from_pem_slice(made.leaf.certificate.as_bytes())?];
    let key = PrivateKeyDer::from_pem_slice(made.leaf.key.as_bytes())?;
    let key = CertifiedKey::new(chain, any_supported_type(&key)?);
    let signer = Some(issue::document_signer(made, now())?);
    Ok(Current { key: Arc::new(key), authority: Some(made.authority.certificate.clone()), signer })
}

fn own_key(certificate: &Path, key: &Path) -> anyhow::Result<CertifiedKey> {
    let unread =
        |path: &Path| format!("cannot use {} for https: check that the file exists and is PEM", path.display());
    let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.with_context(|| unread(certificate))?;
    if chain.is_empty() {
        bail!("{} contains no certificate: set management_tls_cert to a PEM file", certificate.display());
    }
    let private = PrivateKeyDer::from_pem_file(key).with_context(|| unread(key))?;
    let signing = any_supported_type(&private).with_context(|| unread(key))?;
    let found = CertifiedKey::new(chain, signing);
    found.keys_match().with_context(|| {
        format!("the key in {} does not match the certificate in {}", key.display(), certificate.display())
    })?;
    Ok(found)
}

/// TLS 1.2 and 1.3, HTTP/1.1. `nodes`: which client certificates are accepted; None: no certificate is asked for.
fn server_config(resolver: Arc<Resolver>, nodes: Option<Arc<dyn ClientCertVerifier>>) -> anyhow::Result<ServerConfig> {
    let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?;
    let builder = match nodes {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(resolver);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load().key.clone())
    }
}

/// The names in the server's own certificate: localhost, the host name, loopback, the listening address and the configured names.
fn names_for(configured: &[String], host: String, listened: IpAddr) -> WantedNames {
    let mut all: Vec<String> = vec!["localhost".into()];
    let optional = ServerName::try_from(host.as_str()).is_ok_and(|_| !all.contains(&host)).then_some(host);
    all.extend(optional.clone());
    let addresses = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into(), listened];
    let addresses = addresses.iter().filter(|ip| !ip.is_unspecified()).map(IpAddr::to_string);
    for name in addresses.chain(configured.iter().cloned()) {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    let optional = optional.filter(|host| !configured.iter().any(|name| name.eq_ignore_ascii_case(host)));
    WantedNames { all, optional }
}

/// A DNS name or an address as it is written in certificates; None if it is neither.
pub fn certificate_name(text: &str) -> Option<String> {
    match ServerName::try_from(text).ok()? {
        ServerName::IpAddress(_) => text.parse().ok().map(|ip: IpAddr| ip.to_string()),
        _ => Some(text.trim_end_matches('.').to_ascii_lowercase()),
    }
}

/// The name of this computer.
pub fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The current real time in seconds: certificates and tokens do not follow the program's clock.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// The https URL of a bound address, as seen from this computer.
pub fn base_url(bound: SocketAddr) -> String {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("https://{}", SocketAddr::new(ip, bound.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_host_name_that_is_not_configured_is_optional() {
        let listened = Ipv4Addr::UNSPECIFIED.into();
        let names = |configured: &[&str]| {
            let configured: Vec<String> = configured.iter().map(|name| (*name).to_owned()).collect();
            names_for(&configured, "box".into(), listened)
        };
        assert_eq!(names(&[]).all, ["localhost", "box", "127.0.0.1", "::1"]);
        assert_eq!(names(&[]).optional.as_deref(), Some("box"));
        let more = names(&["box", "127.0.0.1", "forewarn.example"]);
        assert_eq!(more.all, ["localhost", "box", "127.0.0.1", "::1", "forewarn.example"]);
        assert_eq!(more.optional, None);
    }

    #[test]
    fn names_are_dns_names_or_addresses() {
        assert_eq!(certificate_name("Forewarn.Example").as_deref(), Some("forewarn.example"));
        assert_eq!(certificate_name("2001:DB8::1").as_deref(), Some("2001:db8::1"));
        for wrong in ["", "a b", "https://forewarn.example", "forewarn.example:8171", "*.example"] {
            assert_eq!(certificate_name(wrong), None, "{wrong}");
        }
    }
}
