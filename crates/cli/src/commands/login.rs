//! `forewarn login`: checks the certificate of a server and a token, and saves both as a context.
//!
//! ```text
//!  --ca FILE ───────────────────────────────────────────────▶ trusted
//!  the system knows the authority ──────────────────────────▶ trusted
//!  the server's own authority (/ca.pem) ─▶ its fingerprint ─┬─ equals --fingerprint ─▶ trusted
//!                                                           └─ confirmed on a terminal ─▶ trusted
//! ```
//!
//! Whatever is trusted, the server must then prove it: the token is sent only after a verified request.

use std::fs;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use forewarn_connect::{Context, Contexts, Trust, fingerprint, is_same_fingerprint, parse_server};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use ureq::http::Uri;

use crate::args::LoginArgs;
use crate::client::{Api, Call};
use crate::failure::Failure;
use crate::output;

pub fn run(args: &LoginArgs) -> Result<(), Failure> {
    let mut contexts = Contexts::load()?;
    let server = parse_server(&args.server)?;
    let authority = find_authority(&server, args)?;
    let trust = authority.clone().map_or(Trust::System(None), Trust::Only);
    Api::without_token(&server, &trust)?.get(&Call::path("/healthz"))?;
    let token = find_token(&server, &trust, args)?;
    let name = args.name.clone().unwrap_or_else(|| host(&server));
    contexts.put(Context { name: name.clone(), server: server.clone(), authority, token });
    contexts.save()?;
    output::print_line(&output::escape(&format!("Logged in to {server} as context {name}")))
}

/// The authority to keep in the context; None if the system knows it or nothing is encrypted.
pub fn find_authority(server: &str, args: &LoginArgs) -> Result<Option<String>, Failure> {
    if let Some(file) = &args.ca {
        let read = fs::read_to_string(file);
        let pem = read.map_err(|error| Failure::Usage(format!("cannot read {}: {error}", file.display())))?;
        fingerprint(&pem).map_err(|_| Failure::Usage(format!("{} is not a PEM certificate", file.display())))?;
        return Ok(Some(pem));
    }
    let is_known = || Api::without_token(server, &Trust::System(None))?.is_trusted();
    if !server.starts_with("https://") || (args.fingerprint.is_none() && is_known()?) {
        return Ok(None);
    }
    let offered = Api::without_token(server, &Trust::Anyone)?.text(&Call::path("/ca.pem"))?;
    let offered = offered.ok_or_else(|| {
        Failure::Refused(format!(
            "the certificate of {server} is not trusted, and the server has no authority of its own; pass the certificate of its authority with --ca"
        ))
    })?;
    confirm(server, &fingerprint(&offered)?, args.fingerprint.as_deref())?;
    Ok(Some(offered))
}

/// Asks whether the authority with this fingerprint is the server's.
fn confirm(server: &str, found: &str, expected: Option<&str>) -> Result<(), Failure> {
    if let Some(expected) = expected {
        return match is_same_fingerprint(found, expected) {
            true => Ok(()),
            false => Err(Failure::Refused(format!(
                "the authority of {server} has the fingerprint {found}, not the expected one; someone may be intercepting the connection"
            ))),
        };
    }
    let check = "run `forewarn ca fingerprint` on the server to compare";
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::Usage(format!(
            "the authority of {server} is not trusted; its fingerprint is {found}; {check}, then pass it with --fingerprint"
        )));
    }
    output::print_stderr(&format!(
        "{server} uses its own certificate authority. SHA-256 fingerprint:\n  {found}\nTo verify it, {check}."
    ));
    match ask("Trust this server? [y/N] ")?.to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::Refused(format!("{server} was not trusted; nothing was saved"))),
    }
}

/// The token, checked; None if the server requires none.
fn find_token(server: &str, trust: &Trust, args: &LoginArgs) -> Result<Option<String>, Failure> {
    let clock = Call::api(&["clock"]);
    if args.token.is_none() && Api::without_token(server, trust)?.get(&clock).is_ok() {
        return Ok(None);
    }
    let token = match &args.token {
        Some(token) => token.clone(),
        None => ask_secretly("Token: ")?,
    };
    let token = token.trim().to_owned();
    if token.is_empty() {
        return Err(Failure::Usage(format!(
            "{server} requires a token: pass it with --token or on standard input; `forewarn token show` on the server prints it"
        )));
    }
    Api::with_token(server, trust, &token)?.get(&clock)?;
    Ok(Some(token))
}

fn ask(question: &str) -> Result<String, Failure> {
    let failed = |error: io::Error| Failure::Refused(format!("cannot read the answer: {error}"));
    let mut stderr = io::stderr();
    stderr.write_all(question.as_bytes()).and_then(|()| stderr.flush()).map_err(failed)?;
    read_line().map(|line| line.trim().to_owned())
}

/// Reads a line from standard input; on a terminal, with a prompt and without showing what is typed.
fn ask_secretly(question: &str) -> Result<String, Failure> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return read_line();
    }
    let failed = |error: rustix::io::Errno| Failure::Refused(format!("cannot set up the terminal: {error}"));
    let before = tcgetattr(&stdin).map_err(failed)?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&stdin, OptionalActions::Now, &silent).map_err(failed)?;
    let answer = ask(question);
    tcsetattr(&stdin, OptionalActions::Now, &before).map_err(failed)?;
    output::print_stderr("");
    answer
}

fn read_line() -> Result<String, Failure> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.map_err(|error| Failure::Refused(format!("cannot read standard input: {error}")))?;
    Ok(line)
}

/// The host name or address in a URL.
fn host(server: &str) -> String {
    let uri = server.parse::<Uri>().ok();
    uri.as_ref().and_then(Uri::host).unwrap_or("default").trim_matches(['[', ']']).to_owned()
}
