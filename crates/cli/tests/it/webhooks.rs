//! `forewarn webhook`: the transcripts in docs/webhooks.md, errors, and HTTPS receivers.

use std::net::TcpListener;

use crate::support;
use crate::support::{Server, check, document, transcript};

#[test]
fn the_transcripts_in_webhooks_md_are_true() {
    let server = Server::start();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    // Columns are as wide as the port.
    let manual = document("docs/webhooks.md")
        .replace("8471", &port.to_string())
        .replace("NAME  URL                         STATE", "NAME  URL[..]STATE");
    transcript::run("docs/webhooks.md", &manual, &server);
}

#[test]
fn errors_and_changes_are_reported() {
    let server = Server::start();
    check(&server, "webhook list", 0, "There are no webhooks.", "");
    check(
        &server,
        "webhook show none",
        1,
        "",
        "forewarn: Webhook 'none' does not exist. List the webhooks to find the right name.",
    );
    check(
        &server,
        "webhook create a --url nowhere",
        1,
        "",
        "forewarn: --url: use a URL such as https://example.org/hook[..].",
    );
    let made = server.run("webhook create a --url http://127.0.0.1:9/ --disabled -o json");
    let made: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    assert!(made["secret"].as_str().unwrap().starts_with("whsec_"), "{made}");
    check(
        &server,
        "webhook update a",
        2,
        "",
        "forewarn: nothing to change: see `forewarn webhook update --help` for the options",
    );
    check(
        &server,
        "webhook create b --url http://a/ --secret-file /nonexistent",
        2,
        "",
        "forewarn: cannot read /nonexistent: No such file or directory",
    );
    check(
        &server,
        "webhook update a --type reboot --status Canceled --vm web_0 -g shop --retry-for 1h --new-secret",
        0,
        "Updated webhook a → http://127.0.0.1:9/\nSecret whsec_[..]\nStore the secret now; it is not shown again",
        "warning: no machine is named 'web_0' yet",
    );
    check(&server, "vm create web_0 --no-address", 0, "Created machine web_0", "");
    check(&server, "webhook update a --vm WEB_0", 0, "Updated webhook a → http://127.0.0.1:9/", "");
    check(&server, "webhook update a --vm web_0", 0, "Updated webhook a → http://127.0.0.1:9/", "");
    check(
        &server,
        "webhook update a --retry-for 30d",
        2,
        "",
        "error: invalid value '30d' for '--retry-for <DURATION>': at most 7d\n…",
    );
    check(
        &server,
        "webhook show a",
        0,
        "Name             a\nURL              http://127.0.0.1:9/\nTopics           Events\nTypes            Reboot\nStatuses         Canceled\n\
         Machines         web_0\nResource groups  shop\nRetry for        1h\nState            off\nDelivered        0\n\
         Behind           0\nUndelivered      0",
        "",
    );
}

/// The receivers are servers with certificates of their own authorities; they answer the POST with 405.
#[test]
fn an_https_receiver_needs_a_certificate_from_a_trusted_authority() {
    let directory = tempfile::tempdir().unwrap();
    let secure = || Server::start_with(&format!("{} --management-tls 127.0.0.1:0", support::THROW_AWAY));
    let (trusted, stranger) = (secure(), secure());
    let authority = directory.path().join("ca.pem");
    let shown = trusted.run("ca show");
    assert!(shown.status.success(), "{shown:?}");
    std::fs::write(&authority, &shown.stdout).unwrap();
    let server = Server::start_in(support::THROW_AWAY, &[("SSL_CERT_FILE", authority.to_str().unwrap())]);
    for (name, receiver) in [("trusted", &trusted), ("stranger", &stranger)] {
        let line = receiver.announced.iter().find(|line| line.contains("https://")).unwrap();
        let url = line.split_whitespace().nth(1).unwrap();
        let made = server.run(&format!("webhook create {name} --url {url}/healthz"));
        assert!(made.status.success(), "{made:?}");
    }
    check(&server, "webhook test trusted", 1, "", "forewarn: not delivered: The receiver responded with status 405.");
    let refusal =
        "forewarn: not delivered: The TLS handshake with the receiver failed: invalid peer certificate: [..].";
    check(&server, "webhook test stranger", 1, "", refusal);
}
