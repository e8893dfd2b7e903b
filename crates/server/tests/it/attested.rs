//! Attested documents, verified with OpenSSL as a program that receives one would.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::api_support::{Server, open};
use crate::https::authority_in;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use forewarn_server::{Certificate, Config, ManagementTls};
use forewarn_test_support::{Need, can_run};
use serde_json::{Value, json};

const PATH: &str = "/vm/web_0/metadata/attested/document";

/// The signed document that a machine gets, in DER.
fn fetch(server: &Server, query: &str) -> Vec<u8> {
    let answer = server.metadata(&format!("GET {PATH}?api-version=2025-04-07{query}"), "");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["encoding"], "pkcs7");
    STANDARD.decode(answer.json()["signature"].as_str().unwrap()).unwrap()
}

/// The content of a signed document, if this command of OpenSSL trusts it.
fn verify(command: &str, signed: &[u8], authority: &str) -> Result<Vec<u8>, String> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("signed"), signed).unwrap();
    fs::write(dir.path().join("ca.pem"), authority).unwrap();
    let verify = ["-verify", "-inform", "DER", "-in", "signed", "-CAfile", "ca.pem", "-binary"];
    let output = Command::new("openssl").arg(command).args(verify).current_dir(&dir).output().unwrap();
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn secured(dir: &Path) -> Server {
    let server = Server::secured(dir);
    let machine = json!({ "name": "web_0", "subscription": "11111111-2222-3333-4444-555555555555", "details": { "sku": "12-gen2" } });
    let answer = server.call("POST /machines", &machine);
    assert_eq!(answer.status, 201, "{}", answer.text());
    server
}

#[test]
fn openssl_verifies_an_attested_document_with_the_authority() {
    if !can_run(&[Need::Program("openssl")]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = secured(dir.path());
    let signed = fetch(&server, "&nonce=1234567890");
    let authority = authority_in(dir.path());
    for command in ["smime", "cms"] {
        let content = verify(command, &signed, &authority).unwrap();
        let document: Value = serde_json::from_slice(&content).unwrap();
        assert_eq!(document["nonce"], "1234567890");
        assert_eq!(document["vmId"], server.instance("web_0", "/compute")["vmId"]);
        assert_eq!(document["subscriptionId"], "11111111-2222-3333-4444-555555555555");
        assert_eq!(document["sku"], "12-gen2");
        assert_eq!(document["licenseType"], "");
        assert_ne!(document["timeStamp"]["createdOn"], document["timeStamp"]["expiresOn"]);
    }
}

#[test]
fn openssl_refuses_changed_documents_and_other_authorities() {
    if !can_run(&[Need::Program("openssl")]) {
        return;
    }
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = secured(dir.path());
    let signed = fetch(&server, "&nonce=1234567890");
    let at = signed.windows(10).position(|part| part == b"1234567890").unwrap();
    let mut changed = signed.clone();
    changed[at] = b'9';
    let error = verify("smime", &changed, &authority_in(dir.path())).unwrap_err();
    assert!(error.contains("signature"), "{error}");
    Server::secured(other.path());
    let error = verify("smime", &signed, &authority_in(other.path())).unwrap_err();
    assert!(error.contains("certificate"), "{error}");
}

#[test]
fn each_machine_is_attested_as_itself() {
    let dir = tempfile::tempdir().unwrap();
    let server = secured(dir.path());
    assert_eq!(server.call("POST /machines", &json!({ "name": "web_1" })).status, 201);
    let id = server.instance("web_1", "/compute")["vmId"].as_str().unwrap().to_owned();
    assert!(!fetch(&server, "").windows(36).any(|part| part == id.as_bytes()));
}

#[test]
fn malformed_requests_for_attested_documents_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = secured(dir.path());
    for (query, status, words) in [
        ("", 400, "api-version"),
        ("?api-version=2018-04-02", 400, "2018-04-02 is not supported on this path"),
        ("?api-version=2025-04-07&nonce=a%20b", 400, "nonce 'a b' is invalid"),
        ("?api-version=2025-04-07&nonce=1&nonce=2", 400, "more than once"),
    ] {
        let answer = server.metadata(&format!("GET {PATH}{query}"), "");
        assert_eq!(answer.status, status, "{query}");
        assert!(answer.text().contains(words), "{query}: {}", answer.text());
    }
    assert_eq!(server.metadata(&format!("POST {PATH}?api-version=2025-04-07"), "").status, 405);
}

#[test]
fn without_an_authority_there_are_no_attested_documents() {
    let dir = tempfile::tempdir().unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let own = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let (certificate, key_file) = (dir.path().join("own.pem"), dir.path().join("own.key"));
    fs::write(&certificate, own.pem()).unwrap();
    fs::write(&key_file, key.serialize_pem()).unwrap();
    let tls = ManagementTls::At("127.0.0.1:0".parse().unwrap());
    let certificate = Certificate::Own { certificate, key: key_file };
    for config in [Config { certificate, management_tls: tls, ..open() }, open()] {
        let server = Server::new(config);
        assert_eq!(server.call("POST /machines", &json!({ "name": "web_0" })).status, 201);
        let answer = server.metadata(&format!("GET {PATH}?api-version=2025-04-07"), "");
        assert_eq!(answer.status, 404);
        assert!(answer.text().contains("no certificate authority"), "{}", answer.text());
    }
}
