//! `forewarn webhook`, as its manual has it, and over https.

mod support;

use std::net::TcpListener;

use support::{Server, check, document, transcript};

#[test]
fn the_transcripts_about_web_hooks_are_true() {
    let server = Server::start();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    // Columns are as wide as the port.
    let manual = document("docs/webhooks.md")
        .replace("8471", &port.to_string())
        .replace("NAME  URL                         STATE", "NAME  URL[..]STATE");
    transcript::run("docs/webhooks.md", &manual, &server);
}

#[test]
fn what_is_wrong_on_the_command_line_is_said_there() {
    let server = Server::start();
    check(&server, "webhook list", 0, "There are no web hooks.", "");
    check(
        &server,
        "webhook show none",
        1,
        "",
        "forewarn: There is no web hook 'none'. List the web hooks to see which there are.",
    );
    check(
        &server,
        "webhook create a --url nowhere",
        1,
        "",
        "forewarn: The field 'url': write a URL like https://example.org/hook[..].",
    );
    let made = server.run("webhook create a --url http://127.0.0.1:9/ --disabled -o json");
    let made: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    assert!(made["secret"].as_str().unwrap().starts_with("whsec_"), "{made}");
    check(
        &server,
        "webhook update a",
        2,
        "",
        "forewarn: Nothing to change is given. See `forewarn webhook update --help` for what can be.",
    );
    check(
        &server,
        "webhook create b --url http://a/ --secret-file /nonexistent",
        2,
        "",
        "forewarn: /nonexistent cannot be read: [..].",
    );
    check(
        &server,
        "webhook update a --type reboot --status Canceled --vm web_0 -g shop --retry-for 1h --new-secret",
        0,
        "Web hook a: http://127.0.0.1:9/ is changed.\nSecret whsec_[..]\nGive it to the receiver now: it is not shown again.",
        "There is no machine named 'web_0'. Nothing is told of it until there is one.",
    );
    check(&server, "vm create web_0 --no-address", 0, "web_0 is registered.", "");
    check(&server, "webhook update a --vm WEB_0", 0, "Web hook a: http://127.0.0.1:9/ is changed.", "");
    check(&server, "webhook update a --vm web_0", 0, "Web hook a: http://127.0.0.1:9/ is changed.", "");
    check(
        &server,
        "webhook update a --retry-for 30d",
        2,
        "",
        "error: invalid value '30d' for '--retry-for <SPAN>': at most 7d\n…",
    );
    check(
        &server,
        "webhook show a",
        0,
        "Name             a\nURL              http://127.0.0.1:9/\nTypes            Reboot\nStatuses         Canceled\n\
         Machines         web_0\nResource groups  shop\nGiven up after   1h\nState            off\nDelivered        0\n\
         Behind           0\nGiven up         0",
        "",
    );
}

/// The receivers are servers of ours with certificates of their own authorities: they refuse the POST, which is an answer.
#[test]
fn a_receiver_with_https_must_have_a_certificate_from_an_authority_that_is_trusted() {
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
    check(&server, "webhook test trusted", 1, "", "forewarn: Not delivered. The receiver answered 405.");
    let refusal = "forewarn: Not delivered. The receiver's certificate is not accepted, or it does not speak TLS: invalid peer certificate: [..].";
    check(&server, "webhook test stranger", 1, "", refusal);
}
