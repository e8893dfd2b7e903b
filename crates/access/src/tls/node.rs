//! Mutual TLS between the servers of a cluster. The region's authority signs a client certificate for each of them, and nothing
//! else that is good for clients, so a client with such a certificate is a server of the region.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{ClientConfig, RootCertStore};

use super::{issue, now};

/// How a server connects to the others: it trusts the authority in this data directory, and shows a certificate of it.
pub fn node_client_config(dir: &Path, node: &str) -> anyhow::Result<ClientConfig> {
    let made = issue::read(dir)?.context("the certificate authority of the region is missing")?;
    let own = issue::node_certificate(&made, node, now())?;
    let chain = vec![CertificateDer::from_pem_slice(own.certificate.as_bytes())?];
    let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes())?;
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots(&made.authority.certificate)?)
        .with_client_auth_cert(chain, key)?;
    Ok(config)
}

/// Accepts clients without a certificate, such as browsers, and those with one of this authority (PEM). Others fail to connect.
pub(super) fn node_verifier(authority: &str) -> anyhow::Result<Arc<dyn ClientCertVerifier>> {
    let provider = Arc::new(default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(authority)?), provider);
    // Browsers would otherwise offer their users a choice of certificates.
    Ok(builder.allow_unauthenticated().clear_root_hint_subjects().build()?)
}

fn roots(authority: &str) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes())?)?;
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustls::pki_types::UnixTime;

    use super::*;
    use crate::tls::shared_authority_file;

    #[test]
    fn only_node_certificates_of_the_same_authority_are_accepted() {
        let authority =
            || -> issue::IssuedCertificates { serde_json::from_str(&shared_authority_file(now()).unwrap()).unwrap() };
        let (ours, theirs) = (authority(), authority());
        let verifier = node_verifier(&ours.authority.certificate).unwrap();
        let at = UnixTime::since_unix_epoch(Duration::from_secs(now() as u64));
        let is_accepted = |certificate: &str| {
            let der = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
            verifier.verify_client_cert(&der, &[], at).is_ok()
        };
        assert!(is_accepted(&issue::node_certificate(&ours, "n1", now()).unwrap().certificate));
        assert!(!is_accepted(&issue::node_certificate(&theirs, "n1", now()).unwrap().certificate));
        assert!(!is_accepted(&ours.leaf.certificate), "the certificate of a listener");
        assert!(!verifier.client_auth_mandatory());
    }
}
