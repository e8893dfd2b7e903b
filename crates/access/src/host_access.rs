//! Enrollment of hosts: join tokens, and which certificate belongs to which host.
//!
//! ```text
//!  token (one host, one use, one hour) ─▶ join: request signed, earlier certificates revoked ─▶ renewals
//! ```
//!
//! Both are stored as attachments of the region, which the caller commits; of a token only its digest is stored. The certificates
//! are also in memory, because every connection of an agent is checked against them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forewarn_core::Timestamp;
use forewarn_store::{ATTACHMENTS_PAGE_MAX, Attachment, Owner, Reader, StoreError};
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;
use tokio::sync::watch;

use crate::digest::digest_of;
use crate::host_certificate::{HostAuthority, fingerprint_of};
use crate::tls::now;
use crate::token_file::random_token;

/// How long a join token is valid.
pub const JOIN_TOKEN_LIFE: Duration = Duration::from_secs(3600);

const TOKEN_PREFIX: &str = "host-token/";
const CERTIFICATE_PREFIX: &str = "host-certificate/";

pub struct HostAccess {
    authority: HostAuthority,
    certificates: Mutex<BTreeMap<String, Fingerprints>>,
    changes: watch::Sender<u64>,
    /// Held while a token is checked and used, so that it works once.
    pub joining: tokio::sync::Mutex<()>,
}

#[derive(Debug, thiserror::Error)]
pub enum HostAccessError {
    #[error("invalid certificate request: {0}")]
    Request(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A new token for one host.
pub struct JoinToken {
    pub token: String,
    pub until: Timestamp,
    /// To be stored.
    pub attachment: Attachment,
}

#[derive(Serialize, Deserialize)]
struct StoredToken {
    digest: String,
    until_ms: i64,
}

/// The valid certificates of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Fingerprints {
    current: String,
    /// Issued by a renewal and not used yet. The current one stays valid until then, because the answer can get lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// A signed certificate that becomes valid once its attachment is stored.
pub struct Signed {
    /// PEM.
    pub certificate: String,
    pub attachment: Attachment,
    host: String,
    fingerprints: Fingerprints,
}

impl HostAccess {
    /// `dir`: where the authority is kept; None: in memory.
    pub fn open(dir: Option<&Path>) -> anyhow::Result<HostAccess> {
        let authority = match dir {
            Some(dir) => HostAuthority::in_directory(dir)?,
            None => HostAuthority::in_memory()?,
        };
        let (certificates, joining) = (Mutex::default(), tokio::sync::Mutex::default());
        Ok(HostAccess { authority, certificates, changes: watch::Sender::new(0), joining })
    }

    /// Reads the certificates from the store. Blocking.
    pub fn load(&self, reader: &dyn Reader) -> Result<(), StoreError> {
        let mut after: Option<String> = None;
        loop {
            let page = reader.attachments(Owner::Region, CERTIFICATE_PREFIX, after.as_deref(), ATTACHMENTS_PAGE_MAX)?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = Some(last.clone());
            let mut certificates = self.lock();
            for (name, value) in page {
                let host = name.trim_start_matches(CERTIFICATE_PREFIX).to_owned();
                if let Ok(fingerprints) = serde_json::from_str(&value) {
                    certificates.insert(host, fingerprints);
                }
            }
        }
    }

    /// The authority that agents trust, PEM.
    pub fn authority(&self) -> &str {
        self.authority.certificate()
    }

    pub fn server_config(&self) -> anyhow::Result<ServerConfig> {
        self.authority.server_config()
    }

    /// Changes whenever a certificate is issued or revoked.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub fn new_token(&self, host: &str, now: Timestamp) -> JoinToken {
        let (token, until) = (random_token(), now + JOIN_TOKEN_LIFE);
        let stored = StoredToken { digest: digest_of("join", &token), until_ms: until.0 };
        let text = serde_json::to_string(&stored).expect("texts and numbers can be written as JSON");
        JoinToken { attachment: Attachment::put(Owner::Region, format!("{TOKEN_PREFIX}{host}"), text), token, until }
    }

    /// Whether this is the unused and valid token of a host. Blocking.
    pub fn is_token(&self, reader: &dyn Reader, host: &str, token: &str, now: Timestamp) -> Result<bool, StoreError> {
        let stored = reader.attachment(Owner::Region, &format!("{TOKEN_PREFIX}{host}"))?;
        let Some(stored) = stored.and_then(|text| serde_json::from_str::<StoredToken>(&text).ok()) else {
            return Ok(false);
        };
        let is_same: bool = stored.digest.as_bytes().ct_eq(digest_of("join", token).as_bytes()).into();
        Ok(is_same && now.0 < stored.until_ms)
    }

    /// Removes the token and the certificate of a host.
    pub fn removals(host: &str) -> Vec<Attachment> {
        [TOKEN_PREFIX, CERTIFICATE_PREFIX]
            .map(|prefix| Attachment::remove(Owner::Region, format!("{prefix}{host}")))
            .into()
    }

    /// Uses up the token of a host.
    pub fn used_token(host: &str) -> Attachment {
        Attachment::remove(Owner::Region, format!("{TOKEN_PREFIX}{host}"))
    }

    /// Signs the request of a host that joins. All its earlier certificates become invalid.
    pub fn sign_join(&self, request: &str, host: &str) -> Result<Signed, HostAccessError> {
        self.sign(request, host, |fresh| Fingerprints { current: fresh, next: None })
    }

    /// Signs the request of a host that renews its certificate.
    pub fn sign_renewal(&self, request: &str, host: &str) -> Result<Signed, HostAccessError> {
        let current = self.lock().get(host).map(|found| found.current.clone()).unwrap_or_default();
        self.sign(request, host, |fresh| Fingerprints { current, next: Some(fresh) })
    }

    fn sign(
        &self,
        request: &str,
        host: &str,
        combine: impl FnOnce(String) -> Fingerprints,
    ) -> Result<Signed, HostAccessError> {
        let invalid = |error: anyhow::Error| HostAccessError::Request(format!("{error:#}"));
        let certificate = self.authority.sign(request, host, now()).map_err(invalid)?;
        let der = CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(|error| invalid(error.into()))?;
        let fingerprints = combine(fingerprint_of(&der));
        let attachment = attachment(host, &fingerprints);
        Ok(Signed { certificate, attachment, host: host.to_owned(), fingerprints })
    }

    /// The attachment of this certificate is stored: it is valid from now on. Returns the certificate, PEM.
    pub fn accept(&self, signed: Signed) -> String {
        self.lock().insert(signed.host, signed.fingerprints);
        self.changes.send_modify(|count| *count += 1);
        signed.certificate
    }

    /// The host was removed.
    pub fn forget(&self, host: &str) {
        self.lock().remove(host);
        self.changes.send_modify(|count| *count += 1);
    }

    /// The host with this certificate.
    pub fn host_of(&self, fingerprint: &str) -> Option<String> {
        let certificates = self.lock();
        let is_valid =
            |found: &Fingerprints| found.current == fingerprint || found.next.as_deref() == Some(fingerprint);
        certificates.iter().find(|(_, found)| is_valid(found)).map(|(host, _)| host.clone())
    }

    /// A host uses a renewed certificate for the first time: returns what to store so that only this one is valid.
    pub fn promote(&self, host: &str, fingerprint: &str) -> Option<Attachment> {
        let mut certificates = self.lock();
        let found = certificates.get_mut(host).filter(|found| found.next.as_deref() == Some(fingerprint))?;
        *found = Fingerprints { current: fingerprint.to_owned(), next: None };
        Some(attachment(host, found))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Fingerprints>> {
        self.certificates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn attachment(host: &str, fingerprints: &Fingerprints) -> Attachment {
    let text = serde_json::to_string(fingerprints).expect("texts can be written as JSON");
    Attachment::put(Owner::Region, format!("{CERTIFICATE_PREFIX}{host}"), text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_certificate::HostKey;

    fn fingerprint(pem: &str) -> String {
        fingerprint_of(&CertificateDer::from_pem_slice(pem.as_bytes()).unwrap())
    }

    fn join(access: &HostAccess, host: &str) -> String {
        let request = HostKey::generate().unwrap().request().unwrap();
        let signed = access.sign_join(&request, host).unwrap();
        fingerprint(&access.accept(signed))
    }

    #[test]
    fn joining_again_revokes_the_earlier_certificate() {
        let access = HostAccess::open(None).unwrap();
        let first = join(&access, "node1");
        let other = join(&access, "node2");
        assert_eq!(access.host_of(&first).as_deref(), Some("node1"));
        let second = join(&access, "node1");
        assert_eq!(access.host_of(&first), None);
        assert_eq!(access.host_of(&second).as_deref(), Some("node1"));
        assert_eq!(access.host_of(&other).as_deref(), Some("node2"));
        access.forget("node1");
        assert_eq!(access.host_of(&second), None);
    }

    #[test]
    fn a_renewal_replaces_the_certificate_when_it_is_first_used() {
        let access = HostAccess::open(None).unwrap();
        let old = join(&access, "node1");
        let request = HostKey::generate().unwrap().request().unwrap();
        let signed = access.sign_renewal(&request, "node1").unwrap();
        let new = fingerprint(&access.accept(signed));
        assert_eq!((access.host_of(&old).is_some(), access.host_of(&new).is_some()), (true, true));
        assert_eq!(access.promote("node1", &old), None);
        assert!(access.promote("node1", &new).is_some());
        assert_eq!((access.host_of(&old).is_some(), access.host_of(&new).is_some()), (false, true));
    }
}
