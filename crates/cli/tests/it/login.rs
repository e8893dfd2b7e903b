//! `forewarn login` and `forewarn context`: https with the server's own authority, trusted by its fingerprint at the first use.

use std::fs::{self, File};
use std::io::{BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use crate::support::{clean_command, expect, read_until, text};
use crate::terminal::Terminal;

/// A server with a token and https, and a user on another computer: the user has no data directory.
struct Remote {
    child: Child,
    dir: tempfile::TempDir,
    http: String,
    https: String,
}

impl Remote {
    fn start() -> Remote {
        Remote::start_with(&[])
    }

    fn start_with(flags: &[&str]) -> Remote {
        let dir = tempfile::tempdir().unwrap();
        let (child, http, https) = Remote::spawn(&dir, flags);
        Remote { child, dir, http, https }
    }

    fn spawn(dir: &tempfile::TempDir, flags: &[&str]) -> (Child, String, String) {
        let mut child = clean_command()
            .args(["serve", "--metadata", "127.0.0.1:0", "--management", "127.0.0.1:0"])
            .args(["--management-tls", "127.0.0.1:0", "--data"])
            .arg(dir.path().join("data"))
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(File::create(dir.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        let announced = read_until(&mut BufReader::new(child.stdout.take().unwrap()), "try ");
        let found = |beginning: &str| {
            let line = announced.iter().find(|line| line.starts_with(beginning)).unwrap();
            line.split_whitespace().nth(1).unwrap().to_owned()
        };
        (child, found("management  http:"), found("management  https:"))
    }

    fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts the server again with its data.
    fn restart(&mut self, flags: &[&str]) {
        self.stop();
        (self.child, self.http, self.https) = Remote::spawn(&self.dir, flags);
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    /// A command of the user.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = clean_command();
        command.env("XDG_CONFIG_HOME", self.dir.path().join("config")).args(words).stdin(Stdio::null());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    #[track_caller]
    fn check(&self, words: &[&str], code: i32, stdout: &str, stderr: &str) {
        expect(&words.join(" "), &self.run(words), code, stdout, stderr);
    }

    fn token(&self) -> String {
        fs::read_to_string(self.dir.path().join("data/token")).unwrap().trim().to_owned()
    }

    fn contexts(&self) -> PathBuf {
        self.dir.path().join("config/forewarn/contexts.json")
    }

    /// The fingerprint, as the operator of the server sees it.
    fn fingerprint(&self) -> String {
        let data = self.dir.path().join("data");
        let output = self.command(&["ca", "fingerprint", "--server", &self.http]).env("FOREWARN_DATA", data).output();
        text(&output.unwrap().stdout).trim().to_owned()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.stop();
    }
}

#[test]
fn a_script_logs_in_with_a_fingerprint_and_commands_use_the_context() {
    let remote = Remote::start();
    let (https, token, fingerprint) = (&remote.https, remote.token(), remote.fingerprint());
    assert_eq!(fingerprint.len(), 32 * 3 - 1, "{fingerprint}");
    remote.check(&["context", "list"], 0, "There are no contexts. Create one with `forewarn login URL`.", "");
    let login = ["login", https, "--name", "build", "--fingerprint", &fingerprint, "--token", &token];
    remote.check(&login, 0, &format!("Logged in to {https} as context build"), "");
    assert_eq!(fs::metadata(remote.contexts()).unwrap().permissions().mode() & 0o777, 0o600);
    remote.check(&["vm", "create", "web_0", "--no-address"], 0, "Created machine web_0", "");
    remote.check(&["vm", "list", "--server", https, "-o", "tsv"], 0, "[..]\nweb_0[..]", "");
    let list = remote.run(&["context", "list", "-o", "json"]);
    let list = text(&list.stdout);
    assert!(list.contains("\"current\": true") && !list.contains(&token), "{list}");
}

#[test]
fn the_token_can_come_from_standard_input_and_the_authority_from_a_file() {
    let remote = Remote::start();
    let authority = remote.dir.path().join("data/ca.pem");
    let mut login = remote.command(&["login", &remote.https, "--ca", authority.to_str().unwrap()]);
    let mut child = login.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{}", remote.token()).unwrap();
    let said = format!("Logged in to {} as context 127.0.0.1", remote.https);
    expect("login --ca", &child.wait_with_output().unwrap(), 0, &said, "");
    assert!(remote.run(&["vm", "list"]).status.success());
}

#[test]
fn nothing_is_saved_unless_server_and_token_are_good() {
    let (remote, other) = (Remote::start(), Remote::start());
    let (https, token) = (&remote.https, remote.token());
    let unknown = "forewarn: the authority of [..] is not trusted; its fingerprint is [..]; run `forewarn ca fingerprint` on the server to compare, then pass it with --fingerprint";
    remote.check(&["login", https, "--token", &token], 2, "", unknown);
    let wrong = other.fingerprint();
    let refused = "forewarn: the authority of [..] has the fingerprint [..], not the expected one; someone may be intercepting the connection";
    remote.check(&["login", https, "--token", &token, "--fingerprint", &wrong], 1, "", refused);
    let authority = other.dir.path().join("data/ca.pem");
    let untrusted = "forewarn: the certificate of [..] is not trusted: [..]; to trust it, run: forewarn login [..]";
    remote.check(&["login", https, "--token", &token, "--ca", authority.to_str().unwrap()], 3, "", untrusted);
    let fingerprint = remote.fingerprint();
    let rejected = "forewarn: the server at [..] rejected the token from --token[..]";
    remote.check(&["login", https, "--token", "wrong", "--fingerprint", &fingerprint], 1, "", rejected);
    let missing = "forewarn: [..] requires a token: pass it with --token or on standard input; [..]";
    remote.check(&["login", https, "--fingerprint", &fingerprint], 2, "", missing);
    assert!(!remote.contexts().exists());
    remote.check(&["vm", "list", "--server", https, "--token", &token], 3, "", untrusted);
}

/// A name of 127.0.0.1 that needs no DNS: the C library reads it as a number, TLS as a name.
const NAME: &str = "0x7f000001";

#[test]
fn a_server_gets_further_names_and_a_trusted_certificate_without_the_name_says_how() {
    let mut remote = Remote::start();
    let (token, first) = (remote.token(), remote.fingerprint());
    let by_name = |remote: &Remote| remote.https.replace("127.0.0.1", NAME);
    let other_name = format!(
        "forewarn: the certificate of https://{NAME}:[..] is trusted, but not valid for the name {NAME}; use a name in the \
         certificate, or add this one on the server with --management-tls-name {NAME}"
    );
    let url = by_name(&remote);
    let authority = remote.dir.path().join("data/ca.pem").display().to_string();
    remote.check(&["login", &url, "--ca", &authority, "--token", &token], 3, "", &other_name);
    let unknown_name = "forewarn: The Host header must be [..]: add them with --management-tls-name.";
    remote.check(&["login", &url, "--fingerprint", &first, "--token", &token], 1, "", unknown_name);
    remote.restart(&["--management-tls-name", NAME]);
    assert!(remote.log().contains("created a new authority"), "{}", remote.log());
    let second = remote.fingerprint();
    assert_ne!(second, first, "the first authority cannot sign the name");
    let url = by_name(&remote);
    remote.check(&["login", &url, "--fingerprint", &second, "--token", &token], 0, "Logged in to [..]", "");
    assert!(remote.run(&["vm", "list"]).status.success());
    remote.restart(&[]);
    assert_eq!(remote.fingerprint(), second, "removing a name needs no new authority");
    let url = by_name(&remote);
    remote.check(&["login", &url, "--ca", &authority, "--token", &token], 3, "", &other_name);
}

/// As a container that is created again on the same volume.
#[test]
fn a_changed_host_name_does_not_change_the_authority() {
    let mut remote = Remote::start();
    let (fingerprint, file) = (remote.fingerprint(), remote.dir.path().join("data/tls.json"));
    remote.stop();
    let host = rustix::system::uname().nodename().to_str().unwrap().to_owned();
    let stored = fs::read_to_string(&file).unwrap();
    let other = stored.replace(&format!("\"{host}\""), "\"earlier-name\"");
    assert_ne!(other, stored);
    fs::write(&file, other).unwrap();
    remote.restart(&[]);
    let warning = format!("the https certificate is not valid for {host}: this computer has a new name");
    assert!(remote.log().contains(&warning), "{}", remote.log());
    assert_eq!(remote.fingerprint(), fingerprint);
    let login = ["login", &remote.https, "--fingerprint", &fingerprint, "--token", &remote.token()];
    remote.check(&login, 0, "Logged in to [..]", "");
}

#[test]
fn a_token_is_never_sent_over_the_network_in_clear_text() {
    let remote = Remote::start();
    let refused = "forewarn: refusing to send a token to http://192.0.2.1:8170 without encryption: use the https address of the server";
    for words in [
        &["vm", "list", "--server", "http://192.0.2.1:8170", "--token", "x"],
        &["clock", "show", "--server", "192.0.2.1:8170", "--token", "x"],
    ] {
        remote.check(words, 2, "", refused);
    }
    let join = ["host", "join", "http://192.0.2.1:8170", "--token", "x", "--data", "/nonexistent"];
    remote.check(&join, 1, "", refused);
}

#[test]
fn contexts_are_selected_and_deleted() {
    let (remote, other) = (Remote::start(), Remote::start_with(&["--no-auth"]));
    remote.check(&["login", &other.http, "--name", "test"], 0, "Logged in to [..] as context test", "");
    let fingerprint = remote.fingerprint();
    let login = ["login", &remote.https, "--fingerprint", &fingerprint, "--token", &remote.token(), "--name", "build"];
    assert!(remote.run(&login).status.success());
    let table = |current: &str| {
        let mark = |name: &str| if name == current { "*" } else { " " };
        format!(
            "CURRENT  NAME   SERVER[..]AUTHORITY\n{}        build  https:[..]own\n{}        test   http:[..]system",
            mark("build"),
            mark("test")
        )
    };
    remote.check(&["context", "list"], 0, &table("build"), "");
    remote.check(&["context", "use", "test"], 0, "Using context test", "");
    remote.check(&["context", "list"], 0, &table("test"), "");
    remote.check(&["vm", "create", "only-there", "--no-address"], 0, "Created machine only-there", "");
    remote.check(&["vm", "show", "only-there", "--server", &remote.https], 1, "", "…");
    remote.check(&["context", "use", "prod"], 2, "", "forewarn: unknown context 'prod': use one of build, test");
    remote.check(&["context", "delete", "test"], 0, "Deleted context test", "");
    remote.check(&["context", "list", "-o", "tsv"], 0, "\tbuild\t[..]", "");
}

#[test]
fn a_list_of_contexts_fits_80_columns() {
    const COLUMNS: u16 = 80;
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("forewarn")).unwrap();
    let context = |name: &str| {
        serde_json::json!({ "name": format!("{name}-region-of-the-shop-in-northern-europe"),
            "server": format!("https://{name}.forewarn.internal.shop.example.com:8171,https://b.{name}.example.com:8171") })
    };
    let contexts = serde_json::json!({ "current": null, "contexts": [context("production"), context("staging")] });
    let file = dir.path().join("forewarn/contexts.json");
    fs::write(&file, contexts.to_string()).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let mut command = clean_command();
    command.env("XDG_CONFIG_HOME", dir.path()).env("NO_COLOR", "1").args(["context", "list"]);
    let (code, shown) = Terminal::with_columns(command, COLUMNS).rest();
    assert!(code == Some(0) && shown.contains("SERVER") && shown.contains("produc"), "{shown}");
    for line in shown.lines() {
        assert!(line.trim_end().chars().count() <= usize::from(COLUMNS), "{line:?}");
    }
}

#[test]
fn a_terminal_shows_the_fingerprint_and_asks() {
    let remote = Remote::start();
    let mut terminal = Terminal::start(remote.command(&["login", &remote.https]));
    terminal.until(&remote.fingerprint());
    terminal.until("[y/N] ");
    terminal.press("n\n");
    terminal.until("was not trusted; nothing was saved");
    assert_eq!(terminal.exit_code(), Some(1));
    assert!(!remote.contexts().exists());
    let mut terminal = Terminal::start(remote.command(&["login", &remote.https]));
    terminal.until("[y/N] ");
    terminal.press("y\n");
    terminal.until("Token: ");
    let token = remote.token();
    terminal.press(&format!("{token}\n"));
    let shown = terminal.until("Logged in to");
    assert!(!shown.contains(&token), "the token was shown");
    assert_eq!(terminal.exit_code(), Some(0));
    assert!(remote.run(&["vm", "list"]).status.success());
}
