//! Passwords, TLS and client certificates.

use std::process::Command;

use forewarn_cluster::{Created, EtcdLog, EtcdOptions, EtcdTls, EtcdUser, Log as _, LogError, Position};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};

use super::members::Members;
use super::{has_etcd, poll_until};

fn etcdctl(members: &Members, words: &[&str]) {
    let endpoint = format!("--endpoints=http://{}", members.options.endpoints[0]);
    let output = Command::new("etcdctl").arg(endpoint).args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The reason why a new region is refused. A busy server may time out first.
fn refusal(mut log: EtcdLog) -> String {
    poll_until("refusal", || match log.create(&Position::START) {
        Err(LogError::Refused(why)) => Some(why),
        Err(LogError::Unavailable(_)) => None,
        other => panic!("expected a refusal, not {other:?}"),
    })
}

#[test]
fn users_are_restricted_to_their_region() {
    if !has_etcd() {
        return;
    }
    let members = Members::start(1);
    for words in [
        &["user", "add", "root:root-password"][..],
        &["user", "grant-role", "root", "root"],
        &["user", "add", "forewarn:secret"],
        &["role", "add", "forewarn"],
        &["role", "grant-permission", "forewarn", "readwrite", "/forewarn/north/", "--prefix=true"],
        &["user", "grant-role", "forewarn", "forewarn"],
        &["auth", "enable"],
    ] {
        etcdctl(&members, words);
    }
    let open = |region: &str, password: Option<&str>| {
        let user = password.map(|password| EtcdUser { name: "forewarn".into(), password: password.into() });
        EtcdLog::new(EtcdOptions { region: region.into(), user, ..members.options.clone() }).unwrap()
    };
    let mut log = open("north", Some("secret"));
    assert_eq!(poll_until("etcd", || log.create(&Position::START).ok()), Created::New);
    assert_eq!(log.read(1).unwrap().view.head, Some(Position::START));
    let wait = std::time::Duration::from_millis(20);
    assert!(log.follow(1, wait).is_ok());
    let wrong = refusal(open("north", Some("wrong")));
    assert!(wrong.contains("forewarn") && wrong.contains("authentication failed"), "{wrong}");
    refusal(open("north", None));
    let other = refusal(open("south", Some("secret")));
    assert!(other.contains("permission denied"), "{other}");
}

/// A CA with certificates in PEM.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate for a server on loopback that is also a client.
    fn issue(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["127.0.0.1".into(), "localhost".into()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }
}

#[test]
fn tls_requires_the_right_certificates_on_both_sides() {
    if !has_etcd() {
        return;
    }
    let (authority, other) = (Authority::new(), Authority::new());
    let files = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = files.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (certificate, key) = authority.issue();
    let extra = [
        format!("--cert-file={}", write("cert.pem", &certificate)),
        format!("--key-file={}", write("key.pem", &key)),
        format!("--trusted-ca-file={}", write("ca.pem", &authority.0.pem())),
        "--client-cert-auth=true".into(),
    ];
    let members = Members::start_with(1, "https", &extra);
    let open = |ca: &Authority, identity: Option<(String, String)>| {
        let identity = identity.map(|(certificate, key)| (certificate.into(), key.into()));
        let tls = Some(EtcdTls { ca: Some(ca.0.pem().into()), identity, domain: None });
        EtcdLog::new(EtcdOptions { tls, ..members.options.clone() }).unwrap()
    };
    let mut log = open(&authority, Some(authority.issue()));
    assert_eq!(poll_until("etcd", || log.create(&Position::START).ok()), Created::New);
    assert!(open(&authority, None).read(1).is_err(), "no client certificate");
    assert!(open(&authority, Some(other.issue())).read(1).is_err(), "a client certificate of another CA");
    let error = open(&other, Some(authority.issue())).read(1).unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
    let mut plain = EtcdLog::new(members.options.clone()).unwrap();
    assert!(plain.read(1).is_err(), "without TLS");
}
