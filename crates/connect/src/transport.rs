//! The HTTP agent, and the authorities that it trusts over https.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::CertificateError;
use rustls::crypto::ring::default_provider;
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};

use crate::error::ConnectError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Limit of an answer. The limits of the server are shorter.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// The authorities that may vouch for the server.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Those of the system, and these in PEM.
    System(Option<String>),
    /// Only these, in PEM.
    Only(String),
    /// Any: to fetch the certificate of an authority that the user then confirms. Never used with a token.
    Anyone,
}

pub fn agent(trust: &Trust) -> Result<Agent, ConnectError> {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_recv_response(Some(ANSWER_TIMEOUT))
        .max_redirects(0)
        .tls_config(tls_config(trust)?)
        .proxy(None);
    Ok(config.build().new_agent())
}

fn tls_config(trust: &Trust) -> Result<TlsConfig, ConnectError> {
    let config = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(default_provider()));
    let config = match trust {
        Trust::System(more) => {
            let mut roots = system_roots();
            roots.extend(more.as_deref().map(parse_authorities).transpose()?.into_iter().flatten());
            config.root_certs(RootCerts::new_with_certs(&roots))
        }
        Trust::Only(pem) => config.root_certs(RootCerts::new_with_certs(&parse_authorities(pem)?)),
        Trust::Anyone => config.disable_verification(true),
    };
    Ok(config.build())
}

/// The authorities of the system. Unreadable ones are left out, as other programs do.
fn system_roots() -> Vec<Certificate<'static>> {
    let found = rustls_native_certs::load_native_certs().certs;
    found.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect()
}

/// The certificates in a PEM text; at least one.
fn parse_authorities(pem: &str) -> Result<Vec<Certificate<'static>>, ConnectError> {
    let invalid = || ConnectError::Usage("the certificate authority is not a PEM certificate".into());
    let mut found = Vec::new();
    for item in parse_pem(pem.as_bytes()) {
        // A file may also contain keys.
        if let PemItem::Certificate(certificate) = item.map_err(|_| invalid())? {
            found.push(certificate);
        }
    }
    if found.is_empty() { Err(invalid()) } else { Ok(found) }
}

/// The SHA-256 of a certificate in PEM, as `openssl x509 -fingerprint -sha256` prints it.
pub fn fingerprint(pem: &str) -> Result<String, ConnectError> {
    let certificates = parse_authorities(pem)?;
    let digest = ring::digest::digest(&ring::digest::SHA256, certificates[0].der());
    let mut text = String::new();
    for (index, byte) in digest.as_ref().iter().enumerate() {
        let colon = if index == 0 { "" } else { ":" };
        let _ = write!(text, "{colon}{byte:02X}");
    }
    Ok(text)
}

/// Whether two fingerprints are the same, however they are written.
pub fn is_same_fingerprint(one: &str, other: &str) -> bool {
    let digits = |text: &str| {
        let text = text.trim().to_ascii_lowercase();
        let text = text.strip_prefix("sha256:").unwrap_or(&text).to_owned();
        text.chars().filter(|c| *c != ':' && *c != ' ').collect::<String>()
    };
    digits(one) == digits(other)
}

/// Why a certificate was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateProblem {
    /// With the reason.
    Untrusted(String),
    /// The authority is trusted, but the certificate is not valid for the name in the address.
    OtherName,
}

impl std::fmt::Display for CertificateProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CertificateProblem::Untrusted(reason) => write!(f, "its certificate is not trusted: {reason}"),
            CertificateProblem::OtherName => f.write_str(
                "its certificate is trusted, but not valid for this name: use a name in the certificate, or add this one on \
                 the server with --management-tls-name",
            ),
        }
    }
}

/// Why the certificate was refused, if that is the error.
pub fn certificate_problem(error: &ureq::Error) -> Option<CertificateProblem> {
    let error = match error {
        ureq::Error::Rustls(error) => error,
        ureq::Error::Io(error) => find_rustls(error)?,
        _ => return None,
    };
    Some(match error {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            CertificateProblem::Untrusted("its authority is not known".to_owned())
        }
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => CertificateProblem::OtherName,
        rustls::Error::InvalidCertificate(error) => CertificateProblem::Untrusted(error.to_string()),
        other => CertificateProblem::Untrusted(other.to_string()),
    })
}

/// Whether no connection could be opened, so that the server has certainly not seen the request.
pub fn is_connection_failure(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::Timeout(ureq::Timeout::Resolve | ureq::Timeout::Connect) => true,
        // Other I/O errors can also occur after the request was sent.
        ureq::Error::Io(error) => error.kind() == io::ErrorKind::ConnectionRefused,
        _ => false,
    }
}

fn find_rustls(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref::<rustls::Error>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_compared_without_regard_to_their_notation() {
        assert!(is_same_fingerprint("AB:0C:ff", "sha256:ab0cFF"));
        assert!(is_same_fingerprint(" ab 0c ff\n", "AB:0C:FF"));
        assert!(!is_same_fingerprint("AB:0C:FE", "AB:0C:FF"));
        assert!(!is_same_fingerprint("", "AB"));
    }

    #[test]
    fn only_errors_before_the_request_are_connection_failures() {
        let io = |kind| ureq::Error::Io(io::Error::from(kind));
        for error in [io(io::ErrorKind::ConnectionRefused), ureq::Error::Timeout(ureq::Timeout::Connect)] {
            assert!(is_connection_failure(&error), "{error}");
        }
        for error in [
            io(io::ErrorKind::ConnectionReset),
            io(io::ErrorKind::BrokenPipe),
            io(io::ErrorKind::UnexpectedEof),
            ureq::Error::Timeout(ureq::Timeout::RecvResponse),
        ] {
            assert!(!is_connection_failure(&error), "{error}");
        }
    }

    #[test]
    fn a_text_without_a_certificate_is_refused() {
        for pem in ["", "hello", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"] {
            assert!(matches!(fingerprint(pem), Err(ConnectError::Usage(_))), "{pem}");
        }
    }
}
