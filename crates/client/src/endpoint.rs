//! Base URL of a metadata service: `http://host[:port][/prefix]`, without `/metadata`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// Base URL of a metadata service.
///
/// The scheme is always `http`. On Forewarn listeners that allow it, a prefix such as `/vm/web-1` selects the machine.
///
/// ```
/// use forewarn_client::Endpoint;
///
/// let endpoint: Endpoint = "http://127.0.0.1:8169/vm/web-1".parse()?;
/// assert_eq!(endpoint.port(), 8169);
/// # Ok::<(), forewarn_client::EndpointError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Host name or IP address; an IPv6 address without brackets.
    host: String,
    port: u16,
    /// Empty, or starts with a slash and does not end with one.
    prefix: String,
}

impl Endpoint {
    /// Link-local address of the service, `http://169.254.169.254`.
    pub fn link_local() -> Endpoint {
        Endpoint::from((Ipv4Addr::new(169, 254, 169, 254), 80))
    }

    /// Host name or IP address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// TCP port; 80 if the URL has none.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Host and port in the format of the `Host` header.
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

/// Error in the URL of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    #[error("invalid endpoint {0:?}: must start with http://")]
    NotHttp(String),
    #[error("invalid endpoint {0:?}: no host")]
    NoHost(String),
    #[error("invalid endpoint {0:?}: the port must be a number from 1 to 65535")]
    BadPort(String),
    #[error("invalid endpoint {0:?}: remove the user, query or fragment")]
    UnsupportedPart(String),
    #[error("invalid endpoint {0:?}: remove /metadata from the path")]
    MetadataPath(String),
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Endpoint, EndpointError> {
        let fail = |error: fn(String) -> EndpointError| error(text.to_owned());
        let scheme = text.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://"));
        let rest = scheme.map(|_| &text[7..]).ok_or_else(|| fail(EndpointError::NotHttp))?;
        if rest.contains(['@', '?', '#', '\\']) || !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(fail(EndpointError::UnsupportedPart));
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = split_host_and_port(authority).ok_or_else(|| fail(EndpointError::NoHost))?;
        let port = match port {
            None => 80,
            Some(digits) => digits.parse().ok().filter(|&port| port > 0).ok_or_else(|| fail(EndpointError::BadPort))?,
        };
        let prefix = path.trim_end_matches('/');
        if format!("{prefix}/").to_ascii_lowercase().contains("/metadata/") {
            return Err(fail(EndpointError::MetadataPath));
        }
        Ok(Endpoint { host: host.to_owned(), port, prefix: prefix.to_owned() })
    }
}

fn split_host_and_port(authority: &str) -> Option<(&str, Option<&str>)> {
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
        let found = match text.parse::<Endpoint>() {
            Ok(endpoint) => endpoint.to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn urls_are_formatted_in_their_shortest_form() {
        check("http://169.254.169.254", "http://169.254.169.254");
        check("HTTP://169.254.169.254:80/", "http://169.254.169.254");
        check("http://127.0.0.1:8080", "http://127.0.0.1:8080");
        check("http://localhost:8080/vm/web-1/", "http://localhost:8080/vm/web-1");
        check("http://[fe80::1]:8080", "http://[fe80::1]:8080");
        check("http://[::1]", "http://[::1]");
    }

    #[test]
    fn errors_name_the_problem() {
        let check_problem = |problem: &str, text: &str| check(text, &format!("invalid endpoint {text:?}: {problem}"));
        let not_http = "must start with http://";
        check_problem(not_http, "https://169.254.169.254");
        check_problem(not_http, "169.254.169.254");
        check_problem(not_http, "");
        check_problem("no host", "http://");
        check_problem("no host", "http://:80");
        check_problem("no host", "http://[::1");
        check_problem("the port must be a number from 1 to 65535", "http://x:0");
        check_problem("the port must be a number from 1 to 65535", "http://x:65536");
        check_problem("the port must be a number from 1 to 65535", "http://x:");
        let too_much = "remove the user, query or fragment";
        check_problem(too_much, "http://me@x");
        check_problem(too_much, "http://x/?a=b");
        check_problem(too_much, "http://x/a b");
        check_problem("remove /metadata from the path", "http://x/metadata/");
    }
}
