//! The authority that signs the certificates of host agents, and the certificate of the listener for them.
//!
//! It is separate from the authority of the https listener: a certificate from here opens the hosts' listener and nothing
//! else. A certificate is identified by its fingerprint, so nothing is read out of it.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use serde::{Deserialize, Serialize};

use crate::digest::hex;
use crate::secret_file::{self, SecretFileError};
use crate::tls::plan::{AUTHORITY_SECS, Validity};
use crate::tls::{build_distinguished_name, leaf_params, now, set_span};

/// The name in the certificate of the hosts' listener. Agents trust only this authority, so the name need not be the address.
pub const LINK_NAME: &str = "forewarn-hosts";

/// The validity of a host's certificate. Agents renew it halfway.
pub const CERTIFICATE_SECS: i64 = 30 * 24 * 3600;

/// The name of the authority's file in the data directory. The servers of a cluster share it.
pub const HOSTS_TLS_FILE: &str = "hosts-tls.json";

/// A certificate and a key take about 2 KB.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// A request for a certificate takes about 400 bytes.
const REQUEST_BYTES_MAX: usize = 8 * 1024;

/// The application protocol of the link.
const HTTP2: &[u8] = b"h2";

/// The content of a file with a new authority.
pub fn new_hosts_authority() -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(&create(now())?)?)
}

pub struct HostAuthority {
    stored: Stored,
}

#[derive(Clone, Serialize, Deserialize)]
struct Stored {
    certificate: String,
    key: String,
    until: i64,
}

impl HostAuthority {
    pub fn in_directory(dir: &Path) -> anyhow::Result<HostAuthority> {
        let path = dir.join(HOSTS_TLS_FILE);
        if secret_file::read(&path, FILE_BYTES_MAX)?.is_none() {
            secret_file::create(&path, &new_hosts_authority()?)?;
        }
        let (text, _) = secret_file::read(&path, FILE_BYTES_MAX)?.context("the authority for hosts is missing")?;
        let stored = serde_json::from_str(&text);
        let stored = stored.map_err(|error| SecretFileError::Invalid { path, what: error.to_string() })?;
        Ok(HostAuthority { stored })
    }

    pub fn in_memory() -> anyhow::Result<HostAuthority> {
        Ok(HostAuthority { stored: create(now())? })
    }

    /// The authority's certificate, PEM.
    pub fn certificate(&self) -> &str {
        &self.stored.certificate
    }

    /// Signs a request for a certificate, PEM. Only its key counts: the name is the given one.
    pub fn sign(&self, request: &str, host: &str, now: i64) -> anyhow::Result<String> {
        anyhow::ensure!(request.len() <= REQUEST_BYTES_MAX, "the request has more than {REQUEST_BYTES_MAX} bytes");
        let mut request = CertificateSigningRequestParams::from_pem(request).context("not a certificate request")?;
        let span = Validity::starting(now, CERTIFICATE_SECS);
        request.params = leaf_params(host, &[], span, ExtendedKeyUsagePurpose::ClientAuth)?;
        Ok(request.signed_by(&self.issuer()?)?.pem())
    }

    /// TLS 1.3 with HTTP/2, only for clients with a certificate of this authority.
    pub fn server_config(&self) -> anyhow::Result<ServerConfig> {
        let key = KeyPair::generate()?;
        let span = Validity::starting(now(), AUTHORITY_SECS).within(self.stored.until);
        let params = leaf_params(LINK_NAME, &[LINK_NAME.to_owned()], span, ExtendedKeyUsagePurpose::ServerAuth)?;
        let certificate = params.signed_by(&key, &self.issuer()?)?;
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.stored.certificate.as_bytes())?)?;
        let provider = Arc::new(default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build()?;
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes())?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certificate.der().clone()], key)?;
        config.alpn_protocols = vec![HTTP2.to_vec()];
        Ok(config)
    }

    fn issuer(&self) -> anyhow::Result<Issuer<'static, KeyPair>> {
        Ok(Issuer::new(authority_params(self.stored.until)?, KeyPair::from_pem(&self.stored.key)?))
    }
}

/// A key of a host agent that has no certificate yet.
pub struct HostKey(KeyPair);

impl HostKey {
    pub fn generate() -> anyhow::Result<HostKey> {
        Ok(HostKey(KeyPair::generate()?))
    }

    /// PEM.
    pub fn secret(&self) -> String {
        self.0.serialize_pem()
    }

    /// The request for a certificate, PEM. It proves that the caller has the key.
    pub fn request(&self) -> anyhow::Result<String> {
        Ok(CertificateParams::new(Vec::new())?.serialize_request(&self.0)?.pem()?)
    }
}

/// The SHA-256 of a certificate in DER.
pub fn fingerprint_of(certificate: &[u8]) -> String {
    hex(ring::digest::digest(&ring::digest::SHA256, certificate).as_ref())
}

fn create(now: i64) -> anyhow::Result<Stored> {
    let key = KeyPair::generate()?;
    let until = now + AUTHORITY_SECS;
    let certificate = authority_params(until)?.self_signed(&key)?;
    Ok(Stored { certificate: certificate.pem(), key: key.serialize_pem(), until })
}

/// The same for the same end, so that later certificates name their authority correctly.
fn authority_params(until: i64) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = build_distinguished_name(&format!("Forewarn hosts authority {until}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    set_span(&mut params, Validity::starting(until - AUTHORITY_SECS, AUTHORITY_SECS));
    Ok(params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_authority_stays_the_same_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let first = HostAuthority::in_directory(dir.path()).unwrap();
        let again = HostAuthority::in_directory(dir.path()).unwrap();
        assert_eq!(first.certificate(), again.certificate());
        again.server_config().unwrap();
    }

    #[test]
    fn only_requests_are_signed() {
        let authority = HostAuthority::in_memory().unwrap();
        let key = HostKey::generate().unwrap();
        let request = key.request().unwrap();
        let certificate = authority.sign(&request, "node1", now()).unwrap();
        assert!(certificate.contains("BEGIN CERTIFICATE"));
        let mut lines: Vec<String> = request.lines().map(str::to_owned).collect();
        let digit = if &lines[2][10..11] == "A" { "B" } else { "A" };
        lines[2].replace_range(10..11, digit);
        let tampered = lines.join("\n");
        for bad in ["", "hello", &certificate, &tampered, &"x".repeat(REQUEST_BYTES_MAX + 1)] {
            assert!(authority.sign(bad, "node1", now()).is_err(), "{bad}");
        }
    }
}
