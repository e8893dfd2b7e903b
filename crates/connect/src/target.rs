//! The server that a command talks to: its address, its trusted authority, and the token. The servers of a cluster share the
//! authority and the tokens, so a target can have several addresses.
//!
//! ```text
//!  --server or FOREWARN_SERVER ─▶ that server, with the context of the same address if there is one
//!  --data or FOREWARN_DATA ─────▶ the server on this computer with that data directory
//!  neither ─────────────────────▶ the current context, else the server on this computer
//! ```

use std::path::{Path, PathBuf};
use std::{fs, io};

use forewarn_access::{AUTHORITY_FILE, TOKEN_FILE};
use ureq::http::Uri;

use crate::contexts::{Context, Contexts};
use crate::error::ConnectError;
use crate::transport::Trust;

/// The server on this computer.
const SERVER_DEFAULT: &str = "http://127.0.0.1:8170";

/// The options of the user.
#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    /// One address, or those of the servers of a cluster, separated by commas.
    pub server: Option<String>,
    pub token: Option<String>,
    /// Data directory that the user named.
    pub data: Option<PathBuf>,
    /// Data directory of a server on this computer.
    pub data_default: Option<PathBuf>,
}

#[derive(Clone)]
pub struct Target {
    /// At least one. The next one is tried when one cannot be reached.
    pub servers: Vec<String>,
    pub trust: Trust,
    pub token: Option<String>,
    pub token_source: TokenSource,
}

/// The source of the token, or why there is none.
#[derive(Clone)]
pub enum TokenSource {
    /// `--token` or `FOREWARN_TOKEN`.
    Typed,
    /// A context, by name.
    Context(String),
    File(PathBuf),
    Unreadable(PathBuf, String),
    Nowhere,
}

impl Target {
    pub fn find(choice: &ServerOptions) -> Result<Target, ConnectError> {
        let contexts = Contexts::load()?;
        let typed = choice.server.as_deref().map(parse_servers).transpose()?;
        let context = match (&typed, &choice.data) {
            (Some(servers), _) => servers.iter().find_map(|server| contexts.find_server(server)),
            (None, Some(_)) => None,
            (None, None) => contexts.current(),
        };
        let servers = match (typed, context) {
            (Some(servers), _) => servers,
            (None, Some(context)) => parse_servers(&context.server)?,
            (None, None) => vec![SERVER_DEFAULT.to_owned()],
        };
        let target = build(servers, context, choice);
        target.check_privacy()?;
        Ok(target)
    }

    /// A token is never sent over the network in clear text.
    pub fn check_privacy(&self) -> Result<(), ConnectError> {
        let exposed = self.servers.iter().find(|server| !is_private(server));
        match (&self.token, exposed) {
            (Some(_), Some(server)) => Err(ConnectError::Usage(format!(
                "refusing to send a token to {server} without encryption: use the https address of the server"
            ))),
            (None, _) | (_, None) => Ok(()),
        }
    }
}

fn build(servers: Vec<String>, context: Option<&Context>, choice: &ServerOptions) -> Target {
    let trimmed = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    // The data directory of this computer says nothing about a server elsewhere, unless the user says so.
    let is_ours = servers.iter().all(|server| is_loopback(server)) || choice.data.is_some();
    let directory = choice.data.as_ref().or(choice.data_default.as_ref()).filter(|_| is_ours);
    let trust = match context.and_then(|context| context.authority.clone()) {
        Some(authority) => Trust::Only(authority),
        None => Trust::System(directory.and_then(|directory| read_authority(directory))),
    };
    let (token, token_source) = match (choice.token.as_deref().and_then(trimmed), context) {
        (Some(typed), _) => (Some(typed), TokenSource::Typed),
        (None, Some(context)) if context.token.is_some() && choice.data.is_none() => {
            (context.token.clone(), TokenSource::Context(context.name.clone()))
        }
        (None, _) => read_token(directory.map(PathBuf::as_path)),
    };
    Target { servers, trust, token, token_source }
}

/// An unreadable token file matters only if the server requires a token.
fn read_token(directory: Option<&Path>) -> (Option<String>, TokenSource) {
    let Some(directory) = directory else { return (None, TokenSource::Nowhere) };
    let file = directory.join(TOKEN_FILE);
    match fs::read_to_string(&file) {
        Ok(text) => (Some(text.trim().to_owned()).filter(|text| !text.is_empty()), TokenSource::File(file)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            (None, TokenSource::File(file))
        }
        Err(error) => (None, TokenSource::Unreadable(file, error.to_string())),
    }
}

fn read_authority(directory: &Path) -> Option<String> {
    fs::read_to_string(directory.join(AUTHORITY_FILE)).ok()
}

/// The addresses of a server, or of the servers of a cluster, separated by commas.
pub fn parse_servers(text: &str) -> Result<Vec<String>, ConnectError> {
    text.split(',').map(|server| parse_server(server.trim())).collect()
}

/// An address with its scheme, without a slash at the end.
pub fn parse_server(text: &str) -> Result<String, ConnectError> {
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let uri = with_scheme.parse::<Uri>().ok();
    let is_good = |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
    if !uri.as_ref().is_some_and(is_good) {
        let expected = "use an address such as https://forewarn.example:8171 or http://127.0.0.1:8170";
        return Err(ConnectError::Usage(format!("invalid server address {text:?}: {expected}")));
    }
    Ok(with_scheme.trim_end_matches('/').to_owned())
}

/// Whether requests to this address cannot be read on the network.
pub fn is_private(server: &str) -> bool {
    server.starts_with("https://") || is_loopback(server)
}

fn is_loopback(server: &str) -> bool {
    let uri = server.parse::<Uri>().ok();
    let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(server: Option<&str>, token: Option<&str>) -> ServerOptions {
        let data_default = Some("/no/such/directory".into());
        ServerOptions { server: server.map(Into::into), token: token.map(Into::into), data: None, data_default }
    }

    fn context(authority: Option<&str>) -> Context {
        Context {
            name: "build".into(),
            server: "https://build:8171".into(),
            authority: authority.map(Into::into),
            token: Some("of-context".into()),
        }
    }

    #[test]
    fn server_addresses_have_an_optional_scheme() {
        assert_eq!(parse_server("127.0.0.1:1").unwrap(), "http://127.0.0.1:1");
        assert_eq!(parse_server("http://h:1/").unwrap(), "http://h:1");
        assert_eq!(parse_server("https://h").unwrap(), "https://h");
        for bad in ["ftp://h", "https://", "http://a b"] {
            assert!(matches!(parse_server(bad), Err(ConnectError::Usage(_))), "{bad}");
        }
    }

    #[test]
    fn the_servers_of_a_cluster_are_separated_by_commas() {
        assert_eq!(parse_servers("https://a:1/, b:2").unwrap(), ["https://a:1", "http://b:2"]);
        for bad in ["", "https://a,", ",https://a", "https://a,ftp://b"] {
            assert!(matches!(parse_servers(bad), Err(ConnectError::Usage(_))), "{bad}");
        }
    }

    #[test]
    fn a_token_is_sent_to_none_of_several_servers_if_one_is_not_private() {
        let servers = parse_servers("https://a:8171,http://b:8170").unwrap();
        let target = build(servers, None, &choice(None, Some("secret")));
        let error = target.check_privacy().unwrap_err().to_string();
        assert!(error.contains("http://b:8170 without encryption"), "{error}");
    }

    #[test]
    fn tokens_are_sent_over_https_or_on_this_computer() {
        for (server, token, is_good) in [
            ("https://build:8171", true, true),
            ("http://127.0.0.1:8170", true, true),
            ("http://[::1]:8170", true, true),
            ("http://localhost:8170", true, true),
            ("http://build:8170", true, false),
            ("http://build:8170", false, true),
            ("http://127.example.com", true, false),
        ] {
            let choice = choice(Some(server), token.then_some("secret"));
            let target = build(vec![server.to_owned()], None, &choice);
            assert_eq!(target.check_privacy().is_ok(), is_good, "{server}");
        }
    }

    #[test]
    fn the_token_of_this_computer_is_not_sent_elsewhere() {
        for servers in ["https://build:8171", "http://127.0.0.1:8170,https://build:8171"] {
            let target = build(parse_servers(servers).unwrap(), None, &choice(None, None));
            assert!(matches!(target.token_source, TokenSource::Nowhere), "{servers}");
        }
    }

    #[test]
    fn a_context_has_a_token_and_an_authority_and_a_typed_token_comes_first() {
        let known = context(Some("PEM"));
        let target = build(vec![known.server.clone()], Some(&known), &choice(None, None));
        assert_eq!(target.token.as_deref(), Some("of-context"));
        assert!(matches!(target.trust, Trust::Only(_)));
        let target = build(vec![known.server.clone()], Some(&known), &choice(None, Some("typed")));
        assert_eq!(target.token.as_deref(), Some("typed"));
        assert!(matches!(target.trust, Trust::Only(_)));
    }
}
