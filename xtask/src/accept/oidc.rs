//! Signing in to the portal with an OpenID Connect provider: the whole code flow as a browser walks it, with the groups of
//! the user as roles, and every way in which it can fail.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tempfile::TempDir;

use super::daemon::Daemon;
use super::server::{Answer, Server, curl};
use super::wait;
use crate::needs::Needs;
use crate::setup::Download;

/// Pinned, so that every run meets the same provider.
const PROVIDER: Download = Download::Python(&["oidc-provider-mock==0.3.4"]);

const CALLBACK: &str = "/portal/sign-in/oidc/callback";

pub const NEEDS: Needs = Needs {
    root: false,
    packages: &[("curl", "curl"), ("python3", "python3"), ("util-linux", "setpriv")],
    downloads: &[PROVIDER],
};

pub fn run() -> Result<()> {
    let dir = tempfile::Builder::new().prefix("forewarn-oidc-").tempdir()?;
    let (mut provider, issuer) = start_provider(dir.path())?;
    let secret = dir.path().join("secret");
    write_secret(&secret)?;
    let secret = secret.to_str().context("path")?;
    let flags = ["--oidc-issuer", &issuer, "--oidc-client-id", "forewarn", "--oidc-client-secret-file", secret];
    let roles = ["--oidc-role", "ops=operator", "--oidc-role", "staff=reader"];
    let server = Server::start(&[&flags[..], &roles[..]].concat())?;
    operators_sign_in_and_return_to_their_page(&server, &dir)?;
    readers_may_only_read(&server, &dir)?;
    users_without_a_role_are_told_why(&server, &dir)?;
    foreign_and_forged_callbacks_are_refused(&server, &dir)?;
    provider.check_runs()?;
    drop(provider);
    server.stop()?;
    a_provider_that_is_down_is_reported(&issuer, secret, &dir)
}

fn start_provider(dir: &Path) -> Result<(Daemon, String)> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let user =
        |sub: &str, groups: &[&str]| json!({ "sub": sub, "preferred_username": sub, "groups": groups }).to_string();
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(PROVIDER.path()?.join("bin/oidc-provider-mock"));
    command.args(["--port", &port.to_string(), "--require-nonce", "true"]);
    for (sub, groups) in
        [("ann", &["staff", "ops"][..]), ("bob", &["staff"]), ("eve", &["guests"]), ("owner", &["ops"])]
    {
        command.args(["--user-claims", &user(sub, groups)]);
    }
    let mut provider = Daemon::start(command, &dir.join("provider.log"))?;
    let issuer = format!("http://127.0.0.1:{port}");
    let discovery = format!("{issuer}/.well-known/openid-configuration");
    wait::until("the provider", || {
        provider.check_runs()?;
        Ok(curl(Command::new("curl"), &[&discovery]).ok().filter(|answer| answer.status == 200))
    })?;
    Ok((provider, issuer))
}

fn write_secret(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, "a secret\n")?;
    Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?)
}

/// A browser: a jar of cookies.
struct Browser<'s> {
    server: &'s Server<'s>,
    jar: PathBuf,
}

impl<'s> Browser<'s> {
    fn new(server: &'s Server<'s>, dir: &TempDir, name: &str) -> Browser<'s> {
        Browser { server, jar: dir.path().join(format!("{name}.cookies")) }
    }

    fn get(&self, path: &str) -> Result<Answer> {
        self.request(&[&format!("{}{path}", self.server.management)])
    }

    fn request(&self, arguments: &[&str]) -> Result<Answer> {
        let jar = self.jar.to_str().context("path")?;
        curl(Command::new("curl"), &[&["-c", jar, "-b", jar, "-H", "Accept: text/html"], arguments].concat())
    }

    /// Starts at a page, follows its link to the provider, and signs in there. Returns the callback URL.
    fn sign_in_at_provider(&self, page: &str, user: &str) -> Result<String> {
        let shown = self.get(page)?;
        ensure!(shown.status == 401, "{shown:?}");
        let link = format!("/portal/sign-in/oidc?back={}", page.replace('/', "%2F"));
        ensure!(shown.body.contains(&format!("href=\"{link}\"")), "no link to the provider: {}", shown.body);
        let sent = self.get(&link)?;
        ensure!(sent.status == 303, "{sent:?}");
        let target = sent.header("location").context("no location")?;
        for part in ["code_challenge_method=S256", "code_challenge=", "nonce=", "state=", "response_type=code"] {
            ensure!(target.contains(part), "{target} has no {part}");
        }
        let cookie = sent.header("set-cookie").context("no cookie")?;
        ensure!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax"), "{cookie}");
        let back = self.request(&["--data", &format!("sub={user}"), target])?;
        ensure!((300..400).contains(&back.status), "{back:?}");
        back.header("location").map(str::to_owned).context("the provider does not send the browser back")
    }

    fn follow(&self, url: &str) -> Result<Answer> {
        self.request(&[url])
    }
}

fn operators_sign_in_and_return_to_their_page(server: &Server<'_>, dir: &TempDir) -> Result<()> {
    let browser = Browser::new(server, dir, "ann");
    let callback = browser.sign_in_at_provider("/hosts", "ann")?;
    let signed_in = browser.follow(&callback)?;
    ensure!(signed_in.status == 200 && signed_in.body.contains("0;url=/hosts"), "{signed_in:?}");
    let page = browser.get("/hosts")?;
    ensure!(page.status == 200 && page.body.contains("ann"), "{page:?}");
    ensure!(server.log().contains("signed in to the portal name=ann role=\"operator\""), "{}", server.log());
    let again = browser.follow(&callback)?;
    ensure!(again.status == 401 && again.body.contains("role=\"alert\""), "a callback works twice: {again:?}");
    let impostor = Browser::new(server, dir, "owner");
    impostor.follow(&impostor.sign_in_at_provider("/hosts", "owner")?)?;
    ensure!(server.log().contains("name=oidc:owner"), "{}", server.log());
    Ok(())
}

fn readers_may_only_read(server: &Server<'_>, dir: &TempDir) -> Result<()> {
    let browser = Browser::new(server, dir, "bob");
    let callback = browser.sign_in_at_provider("/", "bob")?;
    ensure!(browser.follow(&callback)?.status == 200);
    ensure!(server.log().contains("name=bob role=\"reader\""), "{}", server.log());
    Ok(())
}

fn users_without_a_role_are_told_why(server: &Server<'_>, dir: &TempDir) -> Result<()> {
    let browser = Browser::new(server, dir, "eve");
    let refused = browser.follow(&browser.sign_in_at_provider("/hosts", "eve")?)?;
    ensure!(refused.status == 403, "{refused:?}");
    ensure!(refused.body.contains("none of these groups has a role: guests"), "{}", refused.body);
    ensure!(browser.get("/hosts")?.status == 401, "eve is signed in");
    Ok(())
}

/// Callbacks that another browser started, or whose state was changed.
fn foreign_and_forged_callbacks_are_refused(server: &Server<'_>, dir: &TempDir) -> Result<()> {
    let (ann, victim) = (Browser::new(server, dir, "ann-2"), Browser::new(server, dir, "victim"));
    let callback = ann.sign_in_at_provider("/hosts", "ann")?;
    let foreign = victim.follow(&callback)?;
    ensure!(foreign.status == 401 && foreign.body.contains("was not started in this browser"), "{foreign:?}");
    ensure!(victim.get("/hosts")?.status == 401, "the victim is signed in as ann");
    let forged = ann.follow(&callback.replace("state=", "state=x"))?;
    ensure!(forged.status == 401 && forged.body.contains("was not started in this browser"), "{forged:?}");
    let wrong = callback.replace("code=", "code=x");
    let refused = ann.follow(&wrong)?;
    ensure!(refused.status == 401 && refused.body.contains("refused the sign-in"), "{refused:?}");
    let denied = ann.get(&format!("{CALLBACK}?error=access_denied"))?;
    ensure!(denied.status == 401 && denied.body.contains("role=\"alert\""), "{denied:?}");
    Ok(())
}

fn a_provider_that_is_down_is_reported(issuer: &str, secret: &str, dir: &TempDir) -> Result<()> {
    let flags = ["--oidc-issuer", issuer, "--oidc-client-id", "forewarn", "--oidc-client-secret-file", secret];
    let server = Server::start(&[&flags[..], &["--oidc-role", "ops=operator"]].concat())?;
    let browser = Browser::new(&server, dir, "late");
    let failed = browser.get("/portal/sign-in/oidc?back=/hosts")?;
    ensure!(failed.status == 502 && failed.body.contains("cannot be reached"), "{failed:?}");
    ensure!(failed.body.contains("back=%2Fhosts"), "the page forgets where to return to: {}", failed.body);
    server.stop()
}
