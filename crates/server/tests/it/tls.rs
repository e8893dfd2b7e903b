//! The HTTPS listener: its certificate, the hosts and origins that it accepts, and its files.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;

use crate::api_support::{Answer, Client, Server, open};
use crate::https;
use crate::https::authority_in;
use forewarn_server::{Certificate, Config, ManagementTls, StoreChoice, start};

/// Sends a request over https, trusting this authority and using this name of the server.
fn ask(server: &Server, authority: &str, name: &str, client: &Client, line: &str) -> Result<Answer, String> {
    ask_at(server.https.unwrap(), authority, name, client, line)
}

fn ask_at(address: SocketAddr, authority: &str, name: &str, client: &Client, line: &str) -> Result<Answer, String> {
    Ok(client.send_over(https::connect(address, authority, name)?, line, b""))
}

const HEALTH: &str = "GET /healthz";

#[test]
fn the_certificate_covers_exactly_the_names_of_this_host() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::secured(dir.path());
    let authority = authority_in(dir.path());
    let client = Client::to(server.https.unwrap());
    for name in ["127.0.0.1", "::1", "localhost"] {
        assert_eq!(ask(&server, &authority, name, &client, HEALTH).unwrap().status, 200, "{name}");
    }
    let error = ask(&server, &authority, "evil.example", &client, HEALTH).err().unwrap();
    assert!(error.contains("not valid for name"), "{error}");
    let published = Client::to(server.management).send(server.management, "GET /ca.pem", b"");
    assert_eq!((published.status, published.text()), (200, authority));
}

#[test]
fn a_restart_keeps_authority_and_leaf_and_keys_are_private() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::secured(dir.path());
    server.stop();
    let (authority, kept) = (authority_in(dir.path()), fs::read(dir.path().join("tls.json")).unwrap());
    let server = Server::secured(dir.path());
    assert_eq!(authority_in(dir.path()), authority);
    assert_eq!(fs::read(dir.path().join("tls.json")).unwrap(), kept);
    for name in ["tls.json", "clients.json", "signing.key", "token"] {
        assert_eq!(fs::metadata(dir.path().join(name)).unwrap().mode() & 0o777, 0o600, "{name}");
    }
    let client = Client::to(server.https.unwrap());
    assert_eq!(ask(&server, &authority, "localhost", &client, HEALTH).unwrap().status, 200);
}

#[test]
fn in_memory_the_authority_is_served_but_not_written() {
    let tls = ManagementTls::At("127.0.0.1:0".parse().unwrap());
    let server = Server::new(Config { management_tls: tls, ..open() });
    let plain = Client::to(server.management);
    let authority = plain.send(server.management, "GET /ca.pem", b"").text();
    let client = Client::to(server.https.unwrap());
    assert_eq!(ask(&server, &authority, "127.0.0.1", &client, HEALTH).unwrap().status, 200);
}

#[test]
fn foreign_hosts_and_origins_are_refused_over_https() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::secured(dir.path());
    let authority = authority_in(dir.path());
    let check = |client: Client, status: u16, code: &str| {
        let answer = ask(&server, &authority, "127.0.0.1", &client, HEALTH).unwrap();
        assert_eq!((answer.status, answer.code().as_str()), (status, code));
    };
    let here = server.https.unwrap().to_string();
    check(Client::with_host("evil.example"), 403, "ForeignHost");
    check(Client::with_host("10.0.0.1"), 403, "ForeignHost");
    check(Client::with_host(&here).header("Origin", "https://evil.example"), 403, "ForeignOrigin");
    check(Client::with_host(&here).header("Origin", &format!("https://{here}")), 200, "");
    // The certificate has this machine's name, so a client that uses the name has verified the server.
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    check(Client::with_host(&name), 200, "");
    let plain = Client::with_host(&name).send(server.management, HEALTH, b"");
    assert_eq!(plain.code(), if name == "localhost" { "" } else { "ForeignHost" });
}

/// The first byte of the response to a client whose newest version is this one. Its other parameters are valid for TLS 1.2.
fn answer_to_hello(address: SocketAddr, version: [u8; 2]) -> u8 {
    let mut body = version.to_vec();
    body.extend([7; 32]);
    // No session, one cipher suite (ECDHE, ECDSA, AES-128-GCM), no compression.
    body.extend([0, 0, 2, 0xc0, 0x2b, 1, 0]);
    // Groups: X25519. Formats of points: uncompressed. Signatures: ECDSA with P-256 and SHA-256.
    let extensions = [[0, 10, 0, 4, 0, 2, 0, 29].as_slice(), &[0, 11, 0, 2, 1, 0], &[0, 13, 0, 4, 0, 2, 4, 3]].concat();
    body.extend([0, extensions.len() as u8]);
    body.extend(extensions);
    let message = [[1, 0, 0, body.len() as u8].as_slice(), &body].concat();
    let record = [[22, 3, 1, 0, message.len() as u8].as_slice(), &message].concat();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&record).unwrap();
    let mut first = [0];
    stream.read_exact(&mut first).unwrap();
    first[0]
}

#[test]
fn tls_1_1_is_refused_and_tls_1_2_is_accepted() {
    const ALERT: u8 = 21;
    const HANDSHAKE: u8 = 22;
    let dir = tempfile::tempdir().unwrap();
    let server = Server::secured(dir.path());
    assert_eq!(answer_to_hello(server.https.unwrap(), [3, 3]), HANDSHAKE);
    assert_eq!(answer_to_hello(server.https.unwrap(), [3, 2]), ALERT);
    assert_eq!(answer_to_hello(server.https.unwrap(), [3, 1]), ALERT);
}

#[test]
fn an_occupied_default_address_is_skipped_and_an_occupied_requested_one_is_an_error() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let server = Server::new(Config { management_tls: ManagementTls::IfFree(address), ..open() });
    assert_eq!(server.https, None);
    let answer = Client::to(server.management).send(server.management, "GET /metadata/endpoints", b"");
    assert_eq!((answer.status, answer.code().as_str()), (409, "NoHttps"));
    let answer = Client::to(server.management).send(server.management, "GET /ca.pem", b"");
    assert_eq!(answer.status, 404);

    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let config = Config { management_tls: ManagementTls::At(address), ..open() };
    let error = runtime.block_on(start(config)).err().unwrap().to_string();
    assert!(error.contains("management https") && error.contains("Another program uses it"), "{error}");
}

#[test]
fn a_configured_certificate_is_used_and_its_names_are_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let own = rcgen::generate_simple_self_signed(vec!["forewarn.corp.example".to_owned()]).unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("cert.pem"), own.cert.pem()).unwrap();
    fs::write(path("key.pem"), own.signing_key.serialize_pem()).unwrap();
    let with = |key: &str| Config {
        store: StoreChoice::Memory,
        management_tls: ManagementTls::At("127.0.0.1:0".parse().unwrap()),
        certificate: Certificate::Own { certificate: path("cert.pem"), key: path(key) },
        ..open()
    };
    let server = Server::new(with("key.pem"));
    let client = Client::with_host("forewarn.corp.example");
    let answer = ask(&server, &own.cert.pem(), "forewarn.corp.example", &client, HEALTH).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let published = Client::to(server.management).send(server.management, "GET /ca.pem", b"");
    assert_eq!(published.status, 404);

    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let other = rcgen::KeyPair::generate().unwrap();
    fs::write(path("other.pem"), other.serialize_pem()).unwrap();
    for (key, words) in [("other.pem", "does not match the certificate"), ("none.pem", "check that the file exists")] {
        let error = format!("{:#}", runtime.block_on(start(with(key))).err().unwrap());
        assert!(error.contains(words), "{error}");
    }
}
