//! Where the service is: `http://host[:port][/prefix]`, without `/metadata`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// The base of all addresses of a metadata service.
///
/// Only `http`: that is all the service speaks. A prefix such as `/vm/web-1` names the machine on
/// listeners of Forewarn that allow it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// A name or an address; one of IPv6 without its brackets.
    host: String,
    port: u16,
    /// Empty, or begins with a slash and does not end with one.
    prefix: String,
}

impl Endpoint {
    /// The address that machines in a virtual network use: `http://169.254.169.254`.
    pub fn link_local() -> Endpoint {
        Endpoint::from((Ipv4Addr::new(169, 254, 169, 254), 80))
    }

    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Host and port as the `Host` header has them.
    pub(crate) fn authority(&self) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        match self.port {
            80 => host,
            port => format!("{host}:{port}"),
        }
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }
}

impl<I: Into<IpAddr>> From<(I, u16)> for Endpoint {
    fn from((ip, port): (I, u16)) -> Endpoint {
        Endpoint { host: ip.into().to_string(), port, prefix: String::new() }
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Endpoint {
        Endpoint::from((address.ip(), address.port()))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority(), self.prefix)
    }
}

/// Why a text is not the base of a metadata service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    #[error("{0:?} does not begin with http://, which is all that metadata services speak")]
    NotHttp(String),
    #[error("{0:?} has no host")]
    NoHost(String),
    #[error("{0:?} has a port that is not a number from 1 to 65535")]
    BadPort(String),
    #[error("{0:?} has more than host, port and path: leave out user, query and fragment")]
    TooMuch(String),
    #[error("{0:?} has /metadata in its path: give the address without it")]
    WithMetadata(String),
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Endpoint, EndpointError> {
        let wrong = |error: fn(String) -> EndpointError| error(text.to_owned());
        let scheme = text.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://"));
        let rest = scheme.map(|_| &text[7..]).ok_or_else(|| wrong(EndpointError::NotHttp))?;
        if rest.contains(['@', '?', '#', '\\']) || !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong(EndpointError::TooMuch));
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = host_and_port(authority).ok_or_else(|| wrong(EndpointError::NoHost))?;
        let port = match port {
            None => 80,
            Some(digits) => {
                digits.parse().ok().filter(|&port| port > 0).ok_or_else(|| wrong(EndpointError::BadPort))?
            }
        };
        let prefix = path.trim_end_matches('/');
        if format!("{prefix}/").to_ascii_lowercase().contains("/metadata/") {
            return Err(wrong(EndpointError::WithMetadata));
        }
        Ok(Endpoint { host: host.to_owned(), port, prefix: prefix.to_owned() })
    }
}

fn host_and_port(authority: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        host.parse::<std::net::Ipv6Addr>().ok()?;
        return match after {
            "" => Some((host, None)),
            port => Some((host, Some(port.strip_prefix(':')?))),
        };
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    (!host.is_empty()).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let shown = match text.parse::<Endpoint>() {
            Ok(endpoint) => endpoint.to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected, "{text:?}");
    }

    #[test]
    fn addresses_read_back_in_their_shortest_form() {
        check("http://169.254.169.254", "http://169.254.169.254");
        check("HTTP://169.254.169.254:80/", "http://169.254.169.254");
        check("http://127.0.0.1:8080", "http://127.0.0.1:8080");
        check("http://localhost:8080/vm/web-1/", "http://localhost:8080/vm/web-1");
        check("http://[fe80::1]:8080", "http://[fe80::1]:8080");
        check("http://[::1]", "http://[::1]");
    }

    #[test]
    fn what_is_wrong_with_an_address_is_said() {
        let said = |rest: &str, text: &str| check(text, &format!("{text:?} {rest}"));
        let not_http = "does not begin with http://, which is all that metadata services speak";
        said(not_http, "https://169.254.169.254");
        said(not_http, "169.254.169.254");
        said(not_http, "");
        said("has no host", "http://");
        said("has no host", "http://:80");
        said("has no host", "http://[::1");
        said("has a port that is not a number from 1 to 65535", "http://x:0");
        said("has a port that is not a number from 1 to 65535", "http://x:65536");
        said("has a port that is not a number from 1 to 65535", "http://x:");
        let too_much = "has more than host, port and path: leave out user, query and fragment";
        said(too_much, "http://me@x");
        said(too_much, "http://x/?a=b");
        said(too_much, "http://x/a b");
        said("has /metadata in its path: give the address without it", "http://x/metadata/");
    }
}
