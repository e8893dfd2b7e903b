//! Our own authority and its certificate, with their keys, as they are stored.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints,
};
use serde::{Deserialize, Serialize};

use super::plan::{
    AUTHORITY_SECS, CurrentCertificates, LEAF_SECS, RenewalPlan, SIGNER_SECS, Validity, WantedNames, plan,
};
use crate::secret_file::{self, SecretFileError};
use crate::signed_data::DocumentSigner;

/// Keys and certificates: a private file in the data directory.
pub const TLS_FILE: &str = "tls.json";

/// The authority's certificate, for clients.
pub const AUTHORITY_FILE: &str = "ca.pem";

/// Two certificates and two keys take about 3 KB.
const FILE_BYTES_MAX: u64 = 64 * 1024;

#[derive(Clone, Serialize, Deserialize)]
pub struct IssuedCertificates {
    pub authority: CertificateAndKey,
    pub leaf: CertificateAndKey,
    pub names: Vec<String>,
    /// The names that the authority can sign. None: an older version created it without name constraints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permitted: Option<Vec<String>>,
}

/// A certificate and its key in PEM, with its validity.
#[derive(Clone, Serialize, Deserialize)]
pub struct CertificateAndKey {
    pub certificate: String,
    pub key: String,
    from: i64,
    until: i64,
}

impl CertificateAndKey {
    fn span(&self) -> Validity {
        Validity { from: self.from, until: self.until }
    }
}

/// Renews what must be renewed. `before`: None creates everything.
pub fn renew(
    before: Option<IssuedCertificates>,
    wanted: &WantedNames,
    now: i64,
) -> Result<(IssuedCertificates, RenewalPlan), rcgen::Error> {
    let have = before.as_ref().map(|made| CurrentCertificates {
        authority: made.authority.span(),
        leaf: made.leaf.span(),
        names: &made.names,
        permitted: made.permitted.as_deref(),
    });
    match (plan(have, wanted, now), before) {
        (RenewalPlan::Keep, Some(before)) => Ok((before, RenewalPlan::Keep)),
        (RenewalPlan::Leaf, Some(before)) => {
            let names = wanted.names_for(before.permitted.as_deref()).unwrap_or_default();
            let leaf = renew_leaf(&before, &names, now)?;
            Ok((IssuedCertificates { leaf, names, ..before }, RenewalPlan::Leaf))
        }
        (RenewalPlan::All, _) | (_, None) => {
            let names = &wanted.all;
            let authority = authority(names, now)?;
            let leaf = sign(&authority, Some(names), names, now)?;
            Ok((
                IssuedCertificates { authority, leaf, names: names.clone(), permitted: Some(names.clone()) },
                RenewalPlan::All,
            ))
        }
    }
}

pub fn read(dir: &Path) -> Result<Option<IssuedCertificates>, SecretFileError> {
    let path = dir.join(TLS_FILE);
    let Some((text, _)) = secret_file::read(&path, FILE_BYTES_MAX)? else { return Ok(None) };
    let made = serde_json::from_str(&text);
    made.map(Some).map_err(|error| SecretFileError::Invalid { path, what: error.to_string() })
}

pub fn write(dir: &Path, made: &IssuedCertificates) -> Result<(), SecretFileError> {
    let text = serde_json::to_string_pretty(made).expect("texts and numbers can be written as JSON");
    secret_file::replace(&dir.join(TLS_FILE), &text)?;
    let public = dir.join(AUTHORITY_FILE);
    fs::write(&public, &made.authority.certificate).map_err(SecretFileError::io(&public))
}

/// An authority that can sign only these names, so that clients that trust it are safe from certificates for other sites.
fn authority(names: &[String], now: i64) -> Result<CertificateAndKey, rcgen::Error> {
    let key = KeyPair::generate()?;
    // The number distinguishes the authority from an earlier one that a client may still trust.
    let span = Validity::starting(now, AUTHORITY_SECS);
    let certificate = authority_params(span, Some(names))?.self_signed(&key)?;
    Ok(pair(certificate.pem(), &key, span))
}

/// The file of an authority that several servers share: it can sign any name, because servers join later.
pub fn shared_authority_file(now: i64) -> Result<String, rcgen::Error> {
    let key = KeyPair::generate()?;
    let span = Validity::starting(now, AUTHORITY_SECS);
    let authority = pair(authority_params(span, None)?.self_signed(&key)?.pem(), &key, span);
    let names = vec!["localhost".to_owned()];
    let leaf = sign(&authority, None, &names, now)?;
    let made = IssuedCertificates { authority, leaf, names, permitted: None };
    Ok(serde_json::to_string_pretty(&made).expect("texts and numbers can be written as JSON"))
}

fn renew_leaf(made: &IssuedCertificates, names: &[String], now: i64) -> Result<CertificateAndKey, rcgen::Error> {
    sign(&made.authority, made.permitted.as_deref(), names, now)
}

fn sign(
    authority: &CertificateAndKey,
    permitted: Option<&[String]>,
    names: &[String],
    now: i64,
) -> Result<CertificateAndKey, rcgen::Error> {
    let span = Validity::starting(now, LEAF_SECS);
    let params = leaf_params("forewarn", names, span, ExtendedKeyUsagePurpose::ServerAuth)?;
    sign_params(authority, permitted, params, span)
}

/// A certificate for one purpose that cannot sign others. `names` are the hosts it is good for.
pub(crate) fn leaf_params(
    name: &str,
    names: &[String],
    span: Validity,
    usage: ExtendedKeyUsagePurpose,
) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = build_distinguished_name(name);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    set_span(&mut params, span);
    Ok(params)
}

fn sign_params(
    authority: &CertificateAndKey,
    permitted: Option<&[String]>,
    params: CertificateParams,
    span: Validity,
) -> Result<CertificateAndKey, rcgen::Error> {
    let issuer = Issuer::new(authority_params(authority.span(), permitted)?, KeyPair::from_pem(&authority.key)?);
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;
    Ok(pair(certificate.pem(), &key, span))
}

/// A certificate with which a server of a cluster identifies itself to the others. It lasts as long as the authority, because it
/// lives in memory and is issued anew at every start.
pub fn node_certificate(made: &IssuedCertificates, node: &str, now: i64) -> Result<CertificateAndKey, rcgen::Error> {
    let span = Validity::starting(now, AUTHORITY_SECS).within(made.authority.until);
    let params = leaf_params(&format!("node:{node}"), &[], span, ExtendedKeyUsagePurpose::ClientAuth)?;
    sign_params(&made.authority, made.permitted.as_deref(), params, span)
}

/// A signer of documents with a new key. It has no name, because only a name makes a certificate good for a website.
pub fn document_signer(made: &IssuedCertificates, now: i64) -> anyhow::Result<DocumentSigner> {
    let span = Validity::starting(now, SIGNER_SECS).within(made.authority.until);
    // The purpose that `openssl smime -verify` asks for.
    let params = leaf_params("Forewarn attested documents", &[], span, ExtendedKeyUsagePurpose::EmailProtection)?;
    let authority = authority_params(made.authority.span(), made.permitted.as_deref())?;
    let issuer = Issuer::new(authority, KeyPair::from_pem(&made.authority.key)?);
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;
    DocumentSigner::new(certificate.der(), &key)
}

/// The same for the same validity, so that a certificate issued years later names its authority correctly.
fn authority_params(span: Validity, permitted: Option<&[String]>) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = build_distinguished_name(&format!("Forewarn local authority {}", span.until));
    // The authority cannot sign other authorities.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.name_constraints = permitted.map(|names| NameConstraints {
        permitted_subtrees: names.iter().map(|name| subtree(name)).collect(),
        excluded_subtrees: Vec::new(),
    });
    set_span(&mut params, span);
    Ok(params)
}

/// The subtree with exactly this address, or with this name and the names below it.
fn subtree(name: &str) -> GeneralSubtree {
    match name.parse() {
        Ok(IpAddr::V4(ip)) => GeneralSubtree::IpAddress(CidrSubnet::V4(ip.octets(), [0xff; 4])),
        Ok(IpAddr::V6(ip)) => GeneralSubtree::IpAddress(CidrSubnet::V6(ip.octets(), [0xff; 16])),
        Err(_) => GeneralSubtree::DnsName(name.to_owned()),
    }
}

pub(crate) fn build_distinguished_name(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

pub(crate) fn set_span(params: &mut CertificateParams, span: Validity) {
    let at = |secs: i64| rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(secs.max(0).unsigned_abs());
    params.not_before = at(span.from);
    params.not_after = at(span.until);
}

fn pair(certificate: String, key: &KeyPair, span: Validity) -> CertificateAndKey {
    CertificateAndKey { certificate, key: key.serialize_pem(), from: span.from, until: span.until }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier as _;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn wanted(names: &[&str]) -> WantedNames {
        WantedNames { all: names.iter().map(|name| (*name).to_owned()).collect(), optional: None }
    }

    #[test]
    fn what_is_kept_is_taken_up_again_and_a_new_leaf_keeps_the_authority() {
        let dir = tempfile::tempdir().unwrap();
        let names = wanted(&["localhost", "127.0.0.1"]);
        let (made, plan) = renew(read(dir.path()).unwrap(), &names, NOW).unwrap();
        assert_eq!(plan, RenewalPlan::All);
        write(dir.path(), &made).unwrap();
        let (again, plan) = renew(read(dir.path()).unwrap(), &names, NOW + 1).unwrap();
        assert_eq!((plan, &again.leaf.certificate), (RenewalPlan::Keep, &made.leaf.certificate));
        let (later, plan) = renew(Some(again), &names, NOW + LEAF_SECS).unwrap();
        assert_eq!((plan, &later.authority.certificate), (RenewalPlan::Leaf, &made.authority.certificate));
        assert_ne!(later.leaf.certificate, made.leaf.certificate);
        assert_eq!(fs::read_to_string(dir.path().join(AUTHORITY_FILE)).unwrap(), made.authority.certificate);
    }

    /// Whether a client that trusts the authority accepts the leaf for this name.
    fn is_trusted(authority: &CertificateAndKey, leaf: &CertificateAndKey, name: &str) -> bool {
        let der = |pair: &CertificateAndKey| CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(der(authority)).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let (name, at) =
            (ServerName::try_from(name).unwrap(), UnixTime::since_unix_epoch(Duration::from_secs(NOW as u64)));
        verifier.verify_server_cert(&der(leaf), &[], &name, &[], at).is_ok()
    }

    #[test]
    fn the_authority_cannot_vouch_for_other_names() {
        let names = wanted(&["localhost", "host", "127.0.0.1", "::1"]);
        let (made, _) = renew(None, &names, NOW).unwrap();
        let names = names.all;
        for name in &names {
            assert!(is_trusted(&made.authority, &made.leaf, name), "{name}");
        }
        for other in ["bank.example", "10.0.0.1", "2001:db8::1"] {
            let forged = sign(&made.authority, Some(&names), &[other.to_owned()], NOW).unwrap();
            assert!(!is_trusted(&made.authority, &forged, other), "{other}");
        }
    }

    #[test]
    fn another_name_needs_another_authority_unless_the_authority_permits_all() {
        let (names, more) = (wanted(&["localhost"]), wanted(&["localhost", "10.0.0.1"]));
        let (made, _) = renew(None, &names, NOW).unwrap();
        let (again, plan) = renew(Some(made.clone()), &more, NOW + 1).unwrap();
        assert_eq!((plan, again.permitted.as_ref()), (RenewalPlan::All, Some(&more.all)));
        let (fewer, plan) = renew(Some(again), &names, NOW + 1).unwrap();
        assert_eq!((plan, fewer.permitted.as_ref()), (RenewalPlan::Leaf, Some(&more.all)));
        let (_, plan) = renew(Some(IssuedCertificates { permitted: None, ..made }), &more, NOW + 1).unwrap();
        assert_eq!(plan, RenewalPlan::Leaf);
    }

    #[test]
    fn another_host_name_keeps_the_authority_and_is_left_out() {
        let of_host =
            |host: &str| WantedNames { optional: Some(host.to_owned()), ..wanted(&["localhost", host, "127.0.0.1"]) };
        let (made, _) = renew(None, &of_host("one"), NOW).unwrap();
        let (again, plan) = renew(Some(made.clone()), &of_host("two"), NOW + 1).unwrap();
        assert_eq!((plan, &again.authority.certificate), (RenewalPlan::Leaf, &made.authority.certificate));
        assert!(is_trusted(&made.authority, &again.leaf, "localhost"));
        assert!(!is_trusted(&made.authority, &again.leaf, "two") && !is_trusted(&made.authority, &again.leaf, "one"));
        let (same, plan) = renew(Some(again), &of_host("two"), NOW + 2).unwrap();
        assert_eq!(plan, RenewalPlan::Keep, "the certificate is issued once");
        let (back, plan) = renew(Some(same), &of_host("one"), NOW + 3).unwrap();
        assert_eq!(plan, RenewalPlan::Leaf);
        assert!(is_trusted(&made.authority, &back.leaf, "one"));
    }

    #[test]
    fn a_file_that_is_not_understood_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        secret_file::create(&dir.path().join(TLS_FILE), "{").unwrap();
        assert!(matches!(read(dir.path()), Err(SecretFileError::Invalid { .. })));
    }
}
