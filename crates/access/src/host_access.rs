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
    certificates: Mutex<BTreeMap<String, HostRecord>>,
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

/// The valid certificates of a host, and its agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct HostRecord {
    current: String,
    /// Issued by a renewal and not used yet. The current one stays valid until then, because the answer can get lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// The process that was last connected as this host. Only servers of a cluster store it, because a new leader does not know
    /// which agents the one before has heard from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
}

/// A signed certificate that becomes valid once its attachment is stored.
pub struct SignedCertificate {
    /// PEM.
    pub certificate: String,
    pub attachment: Attachment,
    host: String,
    record: HostRecord,
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

    /// Reads the certificates from the store, in place of those in memory. Blocking.
    pub fn load(&self, reader: &dyn Reader) -> Result<(), StoreError> {
        loop {
            let count = *self.changes.borrow();
            let stored = read_records(reader)?;
            let mut certificates = self.lock();
            // A certificate that was accepted meanwhile may not be in what was read.
            if *self.changes.borrow() != count {
                continue;
            }
            *certificates = stored;
            self.changes.send_modify(|count| *count += 1);
            return Ok(());
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
    pub fn remove_host(host: &str) -> Vec<Attachment> {
        [TOKEN_PREFIX, CERTIFICATE_PREFIX]
            .map(|prefix| Attachment::remove(Owner::Region, format!("{prefix}{host}")))
            .into()
    }

    /// Uses up the token of a host.
    pub fn remove_token(host: &str) -> Attachment {
        Attachment::remove(Owner::Region, format!("{TOKEN_PREFIX}{host}"))
    }

    /// Signs the request of a host that joins. All its earlier certificates become invalid.
    pub fn sign_join(&self, request: &str, host: &str) -> Result<SignedCertificate, HostAccessError> {
        self.sign(request, host, |fresh| HostRecord { current: fresh, ..HostRecord::default() })
    }

    /// Signs the request of a host that renews its certificate.
    pub fn sign_renewal(&self, request: &str, host: &str) -> Result<SignedCertificate, HostAccessError> {
        let before = self.lock().get(host).cloned().unwrap_or_default();
        self.sign(request, host, |fresh| HostRecord { next: Some(fresh), ..before })
    }

    fn sign(
        &self,
        request: &str,
        host: &str,
        combine: impl FnOnce(String) -> HostRecord,
    ) -> Result<SignedCertificate, HostAccessError> {
        let invalid = |error: anyhow::Error| HostAccessError::Request(format!("{error:#}"));
        let certificate = self.authority.sign(request, host, now()).map_err(invalid)?;
        let der = CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(|error| invalid(error.into()))?;
        let record = combine(fingerprint_of(&der));
        let attachment = attachment(host, &record);
        Ok(SignedCertificate { certificate, attachment, host: host.to_owned(), record })
    }

    /// The attachment of this certificate is stored: it is valid from now on. Returns the certificate, PEM.
    pub fn accept(&self, signed: SignedCertificate) -> String {
        let mut certificates = self.lock();
        certificates.insert(signed.host, signed.record);
        self.changes.send_modify(|count| *count += 1);
        signed.certificate
    }

    /// The host was removed.
    pub fn forget(&self, host: &str) {
        let mut certificates = self.lock();
        certificates.remove(host);
        self.changes.send_modify(|count| *count += 1);
    }

    /// The host with this certificate.
    pub fn host_of(&self, fingerprint: &str) -> Option<String> {
        let certificates = self.lock();
        let is_valid = |found: &HostRecord| found.current == fingerprint || found.next.as_deref() == Some(fingerprint);
        certificates.iter().find(|(_, found)| is_valid(found)).map(|(host, _)| host.clone())
    }

    /// A host uses a renewed certificate for the first time: returns what to store so that only this one is valid.
    pub fn promote(&self, host: &str, fingerprint: &str) -> Option<Attachment> {
        let mut certificates = self.lock();
        let found = certificates.get_mut(host).filter(|found| found.next.as_deref() == Some(fingerprint))?;
        *found = HostRecord { current: fingerprint.to_owned(), next: None, instance: found.instance.take() };
        Some(attachment(host, found))
    }

    /// The process that was last connected as this host, if servers of a cluster have stored it.
    pub fn instance_of(&self, host: &str) -> Option<String> {
        self.lock().get(host)?.instance.clone()
    }

    /// A process is connected as this host: returns what to store. None: it is stored already, or the host has not joined.
    pub fn record_instance(&self, host: &str, instance: &str) -> Option<Attachment> {
        let certificates = self.lock();
        let found = certificates.get(host).filter(|found| found.instance.as_deref() != Some(instance))?;
        Some(attachment(host, &HostRecord { instance: Some(instance.to_owned()), ..found.clone() }))
    }

    /// The process that is connected as this host is stored.
    pub fn set_instance(&self, host: &str, instance: &str) {
        if let Some(found) = self.lock().get_mut(host) {
            found.instance = Some(instance.to_owned());
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, HostRecord>> {
        self.certificates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_records(reader: &dyn Reader) -> Result<BTreeMap<String, HostRecord>, StoreError> {
    let mut records = BTreeMap::new();
    let mut after: Option<String> = None;
    loop {
        let page = reader.attachments(Owner::Region, CERTIFICATE_PREFIX, after.as_deref(), ATTACHMENTS_PAGE_MAX)?;
        let Some((last, _)) = page.last() else { return Ok(records) };
        after = Some(last.clone());
        let parsed = page.into_iter().filter_map(|(name, value)| {
            let host = name.strip_prefix(CERTIFICATE_PREFIX)?.to_owned();
            Some((host, serde_json::from_str(&value).ok()?))
        });
        records.extend(parsed);
    }
}

fn attachment(host: &str, record: &HostRecord) -> Attachment {
    let text = serde_json::to_string(record).expect("texts can be written as JSON");
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

    #[test]
    fn the_stored_certificates_replace_those_in_memory_and_old_records_are_read() {
        use forewarn_store::{Batch, MemoryStore, Store as _};

        let (here, there) = (HostAccess::open(None).unwrap(), HostAccess::open(None).unwrap());
        let gone = join(&there, "node2");
        let request = HostKey::generate().unwrap().request().unwrap();
        let signed = here.sign_join(&request, "node1").unwrap();
        let attachments = vec![
            signed.attachment.clone(),
            Attachment::put(Owner::Region, format!("{CERTIFICATE_PREFIX}node3"), r#"{"current":"abc"}"#.to_owned()),
        ];
        let mut store = MemoryStore::new();
        let revision = store.load().unwrap().revision;
        store.commit(revision, &Batch { attachments, ..Batch::default() }).unwrap();
        there.load(&*store.reader()).unwrap();
        assert_eq!(there.host_of(&fingerprint(&here.accept(signed))).as_deref(), Some("node1"));
        assert_eq!(there.host_of("abc").as_deref(), Some("node3"));
        assert_eq!(there.host_of(&gone), None, "another server has removed it");
    }

    #[test]
    fn the_agent_of_a_host_is_stored_once_and_survives_a_renewal() {
        let access = HostAccess::open(None).unwrap();
        assert!(access.record_instance("node1", "a").is_none(), "the host has not joined");
        join(&access, "node1");
        assert!(access.record_instance("node1", "a").is_some());
        access.set_instance("node1", "a");
        assert!(access.record_instance("node1", "a").is_none());
        let request = HostKey::generate().unwrap().request().unwrap();
        let signed = access.sign_renewal(&request, "node1").unwrap();
        let renewed = fingerprint(&access.accept(signed));
        access.promote("node1", &renewed);
        assert_eq!(access.instance_of("node1").as_deref(), Some("a"));
        join(&access, "node1");
        assert_eq!(access.instance_of("node1"), None, "a host that joins again has a new agent");
    }
}
