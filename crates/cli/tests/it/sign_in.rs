//! Signing in from the command line: `forewarn az`, `forewarn ca` and `forewarn token issue`. No secret is ever logged.

use std::fs::{self, File};
use std::io::BufReader;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::support;
use crate::support::{clean_command, read_until, text};
use forewarn_test_support::{Need, can_run};
use serde_json::Value;

/// A server with a data directory, HTTPS, and a trace log in a file.
struct Guarded {
    child: Child,
    dir: tempfile::TempDir,
    management: String,
    https: String,
    metadata: String,
}

impl Guarded {
    fn start() -> Guarded {
        let dir = tempfile::tempdir().unwrap();
        let mut child = clean_command()
            .args(["serve", "--metadata", "127.0.0.1:0", "--management", "127.0.0.1:0"])
            .args(["--management-tls", "127.0.0.1:0", "--log-level", "trace", "--data"])
            .arg(dir.path().join("data"))
            .stdout(Stdio::piped())
            .stderr(File::create(dir.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        let announced = read_until(&mut BufReader::new(child.stdout.take().unwrap()), "try ");
        let found = |beginning: &str| {
            let line = announced.iter().find(|line| line.starts_with(beginning)).unwrap();
            line.split_whitespace().nth(1).unwrap().to_owned()
        };
        let (management, https) = (found("management  http:"), found("management  https:"));
        Guarded { child, management, https, metadata: found("metadata"), dir }
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = clean_command();
        command.env("FOREWARN_SERVER", &self.management).env("FOREWARN_DATA", self.data()).args(words);
        command.env_remove("REQUESTS_CA_BUNDLE").env_remove("HTTPS_PROXY").env_remove("https_proxy");
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    fn secrets(&self) -> Vec<String> {
        let clients: Value = serde_json::from_str(&self.read("clients.json")).unwrap();
        let clients = clients["clients"].as_array().unwrap().iter();
        let mut secrets: Vec<_> = clients.map(|client| client["secret"].as_str().unwrap().to_owned()).collect();
        secrets.extend(["token", "signing.key"].map(|name| self.read(name).trim().to_owned()));
        let keys: Value = serde_json::from_str(&self.read("tls.json")).unwrap();
        for pair in ["authority", "leaf"] {
            let lines = keys[pair]["key"].as_str().unwrap().lines().map(str::to_owned);
            secrets.extend(lines.filter(|line| !line.starts_with('-')));
        }
        secrets
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.data().join(name)).unwrap()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn done(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

#[test]
fn the_portal_link_is_printed_and_works_once() {
    let server = Guarded::start();
    let printed = server.run(&["portal", "--print"]);
    assert!(printed.status.success() && printed.stderr.is_empty(), "{printed:?}");
    let lines: Vec<String> = text(&printed.stdout).lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with(&format!("{}/portal/sign-in?code=", server.management)), "{lines:?}");
    assert_eq!(ureq::get(&lines[0]).call().unwrap().status(), 200);
    assert!(matches!(ureq::get(&lines[0]).call(), Err(ureq::Error::StatusCode(401))));
    let stranger = server.command(&["portal", "--print"]).env("FOREWARN_TOKEN", "x".repeat(64)).output().unwrap();
    assert!(stranger.status.code() == Some(1) && stranger.stdout.is_empty(), "{stranger:?}");
}

#[test]
fn az_gets_its_own_directory_and_two_lines_for_the_shell() {
    let server = Guarded::start();
    let dir = server.dir.path().join("it's $(here)");
    let dir_text = dir.to_str().unwrap();
    let lines = done(&server.run(&["az", "--dir", dir_text]));
    assert_eq!(lines.lines().count(), 2, "{lines}");
    let shown = Command::new("sh")
        .args(["-c", &format!("{lines}\nprintf '%s\\n%s' \"$AZURE_CONFIG_DIR\" \"$REQUESTS_CA_BUNDLE\"")])
        .output()
        .unwrap();
    assert_eq!(done(&shown), format!("{dir_text}\n{dir_text}/ca-bundle.pem"));

    assert_eq!(mode(&dir), 0o700);
    for name in ["config", "clouds.config", "azureProfile.json", "service_principal_entries.json", "ca-bundle.pem"] {
        assert_eq!(mode(&dir.join(name)), 0o600, "{name}");
    }
    let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
    let cloud = read("clouds.config");
    assert!(cloud.contains(&format!("endpoint_resource_manager = {}\n", server.https)), "{cloud}");
    assert!(read("ca-bundle.pem").ends_with(&server.read("ca.pem")));
    let entries: Value = serde_json::from_str(&read("service_principal_entries.json")).unwrap();
    let clients: Value = serde_json::from_str(&server.read("clients.json")).unwrap();
    assert_eq!(entries[0]["tenant"], clients["tenant"]);
    assert_eq!(entries[0]["client_secret"], clients["clients"][2]["secret"]);

    // Manual settings are kept; the account is replaced.
    fs::write(dir.join("config"), "[core]\noutput = table\n").unwrap();
    fs::write(dir.join("msal_token_cache.json"), "{}").unwrap();
    done(&server.run(&["az", "--dir", dir_text]));
    assert!(dir.join("msal_token_cache.json").exists(), "the same client keeps its tokens");
    done(&server.run(&["az", "--dir", dir_text, "--role", "reader"]));
    let entries: Value = serde_json::from_str(&read("service_principal_entries.json")).unwrap();
    assert_eq!(entries[0]["client_id"], "reader");
    assert!(!dir.join("msal_token_cache.json").exists(), "another client has other tokens");
    assert_eq!(read("config"), "[core]\noutput = table\n");
}

#[test]
fn az_is_run_with_its_arguments_input_and_exit_code() {
    let server = Guarded::start();
    let bin = server.dir.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let script = "#!/bin/sh\nread line\necho \"$# $1 $2 $line $AZURE_CONFIG_DIR\"\nexit 7\n";
    fs::write(bin.join("az"), script).unwrap();
    fs::set_permissions(bin.join("az"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let mut command = server.command(&["az", "--", "vmss", "list all"]);
    let mut child = command.env("PATH", path).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"typed\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    let dir = server.data().join("azure");
    assert_eq!(text(&output.stdout), format!("2 vmss list all typed {}\n", dir.display()));

    let without = server.command(&["az", "--", "group", "list"]).env("PATH", "/nonexistent").output().unwrap();
    assert_eq!(without.status.code(), Some(1));
    assert!(text(&without.stderr).starts_with("forewarn: az not found in PATH: install the Azure CLI"), "{without:?}");
}

#[test]
fn az_reports_missing_requirements() {
    let server = Guarded::start();
    let empty = server.dir.path().join("elsewhere");
    let other = server.run(&["az", "--data", empty.to_str().unwrap()]);
    assert_eq!(other.status.code(), Some(1));
    assert!(text(&other.stderr).contains("set --data to the server's data directory"), "{other:?}");

    let plain = support::Server::start();
    let no_https = plain.run(&format!("az --dir {}", empty.display()));
    assert_eq!(no_https.status.code(), Some(1));
    assert!(text(&no_https.stderr).contains("requires an HTTPS listener"), "{no_https:?}");
    assert_eq!(plain.run("ca show").status.code(), Some(1));

    let thrown_away = support::Server::start_with(&format!("{} --management-tls 127.0.0.1:0", support::THROW_AWAY));
    let mut az = thrown_away.command(&format!("az --data {}", empty.display()));
    let prepared = az.env("XDG_RUNTIME_DIR", server.dir.path()).output().unwrap();
    assert!(prepared.status.success(), "any secret will do there: {prepared:?}");
    assert!(!empty.exists(), "the directory is another server's");
    let said = text(&prepared.stderr);
    let dir = said.split(" is in ").nth(1).unwrap().split(". Delete").next().unwrap();
    assert!(Path::new(dir).starts_with(server.dir.path().join("forewarn")), "{said}");
    assert_eq!(fs::metadata(dir).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(text(&prepared.stdout).contains(&format!("export AZURE_CONFIG_DIR='{dir}'")), "{prepared:?}");
}

#[test]
fn an_eval_of_a_failure_fails_and_disables_az() {
    for words in ["az --server 127.0.0.1:1", "az --rol reader"] {
        let script = format!("eval \"$({} {words})\"; echo \"$? $AZURE_CONFIG_DIR\"", support::FOREWARN);
        let shell = Command::new("sh").args(["-c", &script]).env("HOME", "/nonexistent").output().unwrap();
        assert_eq!(text(&shell.stdout), "1 /dev/null/forewarn-az-has-failed\n", "{shell:?}");
        assert!(!shell.stderr.is_empty());
    }
    let help = support::clean_command().args(["az", "--help"]).output().unwrap();
    assert!(!text(&help.stdout).contains("has-failed"));
}

#[test]
fn the_authority_is_printed() {
    let server = Guarded::start();
    assert_eq!(done(&server.run(&["ca", "show"])), server.read("ca.pem"));
}

#[test]
fn an_identity_is_assigned_and_removed() {
    let server = Guarded::start();
    done(&server.run(&["vm", "register", "web", "--no-address"]));
    let none = server.run(&["vm", "identity", "show", "web"]);
    assert!(text(&none.stderr).contains("has no identity. Assign one with `forewarn vm identity assign`"), "{none:?}");
    let given = done(&server.run(&["vm", "identity", "assign", "web", "--role", "operator"]));
    assert_eq!(given, "Assigned an identity with the role operator to web\n");
    let shown: Value =
        serde_json::from_str(&done(&server.run(&["vm", "identity", "show", "web", "-o", "json"]))).unwrap();
    assert_eq!(shown["role"], "operator");
    assert_eq!(done(&server.run(&["vm", "identity", "remove", "web"])), "Removed the identity of web\n");
    assert_eq!(server.run(&["vm", "identity", "show", "web"]).status.code(), Some(1));
}

#[test]
fn tokens_are_issued_for_a_role_and_a_name() {
    let server = Guarded::start();
    let issued = done(&server.run(&["token", "issue", "--role", "reader", "--name", "ann", "--hours", "1"]));
    let with = |words: &[&str]| server.command(words).env("FOREWARN_TOKEN", issued.trim()).output().unwrap();
    assert!(with(&["vm", "list"]).status.success());
    let refused = with(&["vm", "register", "web"]);
    let message = "forewarn: This action requires the role owner, but 'ann' has the role reader. ";
    assert!(refused.status.code() == Some(1) && text(&refused.stderr).starts_with(message), "{refused:?}");

    let owner = done(&server.run(&["token", "issue", "--role", "owner"]));
    let registered = server.command(&["vm", "register", "web"]).env("FOREWARN_TOKEN", owner.trim()).output().unwrap();
    assert!(registered.status.success(), "{registered:?}");

    for (words, code, part) in [
        (["--role", "king"].as_slice(), 2, "possible values: reader, operator, owner"),
        (&["--role", "reader", "--hours", "169"], 2, "a whole number from 1 to 168"),
        (&["--role", "reader", "--name", "a b"], 2, "invalid name \"a b\": use"),
        (&["--role", "reader", "--data", "/nonexistent"], 1, "/nonexistent/signing.key not found: "),
    ] {
        let output = server.run(&[&["token", "issue"], words].concat());
        assert_eq!(output.status.code(), Some(code), "{words:?}");
        assert!(text(&output.stderr).contains(part), "{words:?}: {output:?}");
    }
    assert!(!Path::new("/nonexistent").exists());
}

#[test]
fn no_secret_is_ever_logged() {
    if !can_run(&[Need::Program("curl")]) {
        return;
    }
    let mut server = Guarded::start();
    let mut secrets = server.secrets();
    assert!(secrets.len() > 6 && secrets.iter().all(|secret| secret.len() > 8), "{}", secrets.len());
    done(&server.run(&["az"]));
    done(&server.run(&["vm", "register", "web"]));
    let post = |path: &str, form: &str| {
        let request = ureq::post(format!("{}{path}", server.management));
        request.config().http_status_as_error(false).build().send(form.to_owned()).unwrap()
    };
    let form = |id: &str, secret: &str| format!("grant_type=client_credentials&client_id={id}&client_secret={secret}");
    let mut answer = post("/common/oauth2/token", &form("reader", &secrets[0]));
    let token: Value = serde_json::from_str(&answer.body_mut().read_to_string().unwrap()).unwrap();
    secrets.push(token["access_token"].as_str().unwrap().to_owned());
    // Swapped fields, the secret of another client, a truncated token.
    assert_eq!(post("/common/oauth2/token", &form(&secrets[1], "owner")).status(), 401);
    assert_eq!(post("/common/oauth2/token", &form("owner", &secrets[1])).status(), 401);
    let cut = &secrets.last().unwrap()[..100];
    let refused = server.command(&["vm", "list"]).env("FOREWARN_TOKEN", cut).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let put = ureq::put(format!("{}/api/v1/machines/web/identity", server.management))
        .header("Authorization", format!("Bearer {}", server.read("token").trim()))
        .send_empty()
        .unwrap();
    assert_eq!(put.status(), 200);
    let path = "/vm/web/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https://management.azure.com/";
    let mut answer = ureq::get(format!("{}{path}", server.metadata)).header("Metadata", "true").call().unwrap();
    let token: Value = serde_json::from_str(&answer.body_mut().read_to_string().unwrap()).unwrap();
    secrets.push(token["access_token"].as_str().unwrap().to_owned());
    let printed = server.run(&["portal", "--print"]);
    let link = text(&printed.stdout).trim().to_owned();
    secrets.push(link.split_once("code=").unwrap().1.to_owned());
    let mut followed = ureq::get(&link).call().unwrap();
    assert!(followed.body_mut().read_to_string().unwrap().contains("Signed in"));
    let cookie = followed.headers()["set-cookie"].to_str().unwrap();
    secrets.push(cookie.split(['=', ';']).nth(1).unwrap().to_owned());
    // Over HTTPS.
    let curl = Command::new("curl")
        .args(["-s", "--cacert"])
        .arg(server.data().join("ca.pem"))
        .args(["-H", &format!("Authorization: Bearer {}", secrets[0]), &format!("{}/api/v1/machines", server.https)])
        .output()
        .unwrap();
    assert!(text(&curl.stdout).contains("Unauthorized"), "{curl:?}");

    let _ = server.child.kill();
    let _ = server.child.wait();
    let log = fs::read_to_string(server.dir.path().join("log")).unwrap();
    assert!(log.contains("client signed in") && log.contains("client failed to sign in"), "{log}");
    for secret in &secrets {
        let parts = [secret.as_str(), secret.rsplit('.').next().unwrap(), &secret[..secret.len().min(100)]];
        assert!(!parts.iter().any(|part| log.contains(part)), "a secret is in the log");
    }
}
