//! Servers that require tokens: they share the region's secrets, reach each other with mutual TLS, and refuse strangers.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::has_etcd;
use super::nodes::{Cluster, forewarn, poll_until, request_with};
use super::portal::Browser;

/// A server with a data directory, a key and addresses of its own.
struct Guarded {
    child: Child,
    data: String,
    server: String,
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Guarded {
    fn start(dir: &Path, key: &Path, region: &str, number: u8) -> Guarded {
        let data = dir.join(format!("guarded{number}")).display().to_string();
        let ports = super::nodes::free_addresses(2);
        let (management, tls) = (ports[0], format!("127.0.0.{number}:{}", ports[1].port()));
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", env!("CARGO_BIN_EXE_forewarn"), "serve", "--metadata", "127.0.0.1:0"])
            .args(["--data", &data, "--management", &management.to_string(), "--management-tls", &tls])
            .args(["--cluster", region, "--node", &format!("g{number}"), "--advertise", &format!("https://{tls}")])
            .arg("--cluster-key")
            .arg(key)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("setpriv can be run");
        Guarded { child, data, server: format!("http://{management}") }
    }

    fn run(&self, arguments: &[&str]) -> Option<String> {
        let connection = ["--server", &self.server, "--data", &self.data];
        let output = Command::new(env!("CARGO_BIN_EXE_forewarn")).args(connection).args(arguments).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }
}

#[test]
fn servers_share_their_secrets_and_forward_with_mutual_tls() {
    if !has_etcd() {
        return;
    }
    let mut region = String::new();
    let cluster = Cluster::start_with(|_, address| region = address.replace("/north", "/guarded"));
    let dir = cluster.dir();
    let key = dir.join("cluster.key");
    forewarn(&["cluster", "key", key.to_str().unwrap()]);
    let first = Guarded::start(dir, &key, &region, 1);
    poll_until("the first server", || first.run(&["vm", "list"]).filter(|list| !list.contains("There are no")));
    let second = Guarded::start(dir, &key, &region, 2);
    poll_until("the second server", || second.run(&["vm", "create", "web"]));
    assert!(second.run(&["vm", "list"]).is_some_and(|list| list.contains("web")), "a server reads its own writes");
    poll_until("a copy", || first.run(&["vm", "list"]).filter(|list| list.contains("web")));
    let read = |server: &Guarded, name: &str| std::fs::read_to_string(Path::new(&server.data).join(name)).unwrap();
    for name in ["token", "signing.key", "clients.json", "ca.pem"] {
        assert_eq!(read(&first, name), read(&second, name), "{name}");
    }
    let address = second.server.trim_start_matches("http://").parse().unwrap();
    for path in ["/cluster/v1/snapshot", "/cluster/v1/guest", "/api/v1/cluster/step-down"] {
        let answer = super::nodes::request(address, "POST", path, "").expect("an answer");
        assert_eq!(answer.status, 401, "{path}: {}", answer.body);
    }
    let owner = format!("Authorization: Bearer {}", read(&second, "token").trim());
    for (path, headers) in [
        ("/cluster/v1/snapshot", owner.clone()),
        ("/cluster/v1/session", format!("{owner}\r\nContent-Type: application/json")),
        ("/api/v1/machines", format!("{owner}\r\nForewarn-Forwarded-By: g1")),
        ("/portal/act", "Forewarn-Forwarded-By: g1".to_owned()),
    ] {
        let answer = request_with(address, "POST", path, &headers, "{}").expect("an answer");
        assert_eq!(answer.status, 403, "without a certificate of the region: {path}: {}", answer.body);
    }
    check_etcd_is_encrypted(&cluster, &first, &second);
    rotate_everywhere(&first, &second);
    let other = dir.join("other.key");
    forewarn(&["cluster", "key", other.to_str().unwrap()]);
    let mut stranger = Guarded::start(dir, &other, &region, 3);
    let ended = poll_until("a server with another key stops", || stranger.child.try_wait().unwrap());
    assert!(!ended.success());
}

/// A signing secret of a webhook is an attachment in the log; the token is a secret of the region.
fn check_etcd_is_encrypted(cluster: &Cluster, first: &Guarded, second: &Guarded) {
    let file = cluster.dir().join("signing");
    std::fs::write(&file, format!("{SIGNING_SECRET}\n")).unwrap();
    let hook = ["webhook", "create", "ops", "--url", "http://127.0.0.1:9/", "--secret-file", file.to_str().unwrap()];
    assert!(second.run(&hook).is_some());
    poll_until("the webhook at the other server", || {
        first.run(&["webhook", "list"]).filter(|list| list.contains("ops"))
    });
    let all = cluster.etcd.all();
    assert!(all.iter().filter(|(key, _)| key.starts_with("/forewarn/guarded/log/")).count() > 2);
    let token = std::fs::read_to_string(Path::new(&first.data).join("token")).unwrap();
    for (key, value) in &all {
        for secret in [token.trim(), SIGNING_SECRET.trim_start_matches("whsec_")] {
            let is_there = value.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!is_there, "{key} contains a secret");
        }
    }
}

/// 24 bytes in Base64.
const SIGNING_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A token that is rotated at one server is the token of all, also after a restart, and ends sessions everywhere.
fn rotate_everywhere(first: &Guarded, second: &Guarded) {
    let token = |server: &Guarded| std::fs::read_to_string(Path::new(&server.data).join("token")).unwrap();
    let address = |server: &Guarded| server.server.trim_start_matches("http://").parse().unwrap();
    let before = token(first);
    let browser = Browser::sign_in(address(second), before.trim());
    let link = first.run(&["portal", "--print"]).expect("a link");
    let code = link.trim().split_once("/portal/").expect("a link").1;
    let answer = request_with(address(second), "GET", &format!("/portal/{code}"), "Accept: text/html", "").unwrap();
    let linked = Browser::with_cookie_of(address(second), &answer);
    poll_until("sessions at the other server", || {
        (browser.is_signed_in(address(first)) && linked.is_signed_in(address(first))).then_some(())
    });
    forewarn(&["token", "rotate", "--data", &second.data]);
    let after = token(second);
    assert_ne!(before, after);
    poll_until("the new token at the other server", || (token(first) == after).then_some(()));
    assert!(first.run(&["vm", "list"]).is_some() && second.run(&["vm", "list"]).is_some());
    let bearer = format!("Authorization: Bearer {}", before.trim());
    for server in [first, second] {
        let refused = request_with(address(server), "GET", "/api/v1/machines", &bearer, "").unwrap();
        assert_eq!(refused.status, 401, "the old token: {}", refused.body);
        assert!(!browser.is_signed_in(address(server)) && !linked.is_signed_in(address(server)));
    }
}
