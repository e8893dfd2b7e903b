//! The addresses of the management listeners: which `Host` headers and token audiences name this server.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use forewarn_access::tls::{Tls, base_url};
use forewarn_access::{Access, TokenIssuer, is_known_audience};

/// The bound addresses of the management listeners.
pub struct ManagementAddresses {
    pub http: SocketAddr,
    pub https: Option<(SocketAddr, Arc<Tls>)>,
}

/// Issues tokens for this API to machines.
pub fn token_issuer(access: &Access, addresses: &Arc<ManagementAddresses>) -> TokenIssuer {
    let addresses = addresses.clone();
    TokenIssuer {
        sign_in: access.sign_in().clone(),
        is_audience: Arc::new(move |audience| addresses.is_audience(audience)),
    }
}

impl ManagementAddresses {
    /// The URL of the HTTPS listener.
    pub fn https_url(&self) -> Option<String> {
        self.https.as_ref().map(|(bound, _)| base_url(*bound))
    }

    /// Whether a token audience is the address of the HTTPS listener.
    pub fn is_audience(&self, audience: &str) -> bool {
        let Some((bound, tls)) = &self.https else { return false };
        let Some(host) = audience.trim_end_matches('/').strip_prefix("https://") else { return false };
        let port = host.parse::<http::uri::Authority>().ok().and_then(|authority| authority.port_u16());
        port.unwrap_or(443) == bound.port() && is_own_host(host, *bound, Some(tls))
    }

    /// Whether this server accepts tokens for an audience.
    pub fn accepts_audience(&self, audience: &str) -> bool {
        is_known_audience(audience) || self.is_audience(audience)
    }
}

/// Whether a `Host` header names a listener.
///
/// A name that an attacker's DNS server resolves to our address is not one of ours. Over HTTPS, a name that our certificate
/// covers is: the client has verified it.
pub fn is_own_host(host: &str, bound: SocketAddr, tls: Option<&Arc<Tls>>) -> bool {
    let is_certified = || tls.is_some_and(|tls| bare_host(host).is_some_and(|name| tls.is_valid_for(&name)));
    is_bound_host(host, bound) || is_certified()
}

fn is_bound_host(host: &str, bound: SocketAddr) -> bool {
    let Some(bare) = bare_host(host) else { return false };
    match bare.parse::<IpAddr>() {
        // A listener on all addresses is reached by any of them, and an address cannot be rebound by DNS.
        Ok(ip) => ip.is_loopback() || bound.ip().is_unspecified() || ip == bound.ip(),
        Err(_) => bare.eq_ignore_ascii_case("localhost"),
    }
}

/// A host name or address without port and brackets.
fn bare_host(host: &str) -> Option<String> {
    let authority = host.parse::<http::uri::Authority>().ok().filter(|authority| !authority.as_str().contains('@'))?;
    let name = authority.host();
    Some(name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_and_the_bound_address_are_own_hosts() {
        let cases: [(&str, &str, bool); 16] = [
            ("127.0.0.1:8170", "127.0.0.1:8170", true),
            ("127.0.0.1:8170", "127.0.0.1", true),
            ("127.0.0.1:8170", "127.8.7.6:1", true),
            ("127.0.0.1:8170", "localhost:8170", true),
            ("127.0.0.1:8170", "LOCALHOST", true),
            ("127.0.0.1:8170", "[::1]:8170", true),
            ("127.0.0.1:8170", "10.0.0.1:8170", false),
            ("127.0.0.1:8170", "evil.example:8170", false),
            ("127.0.0.1:8170", "localhost.evil.example", false),
            ("127.0.0.1:8170", "127.0.0.1.evil.example", false),
            ("127.0.0.1:8170", "x@localhost", false),
            ("127.0.0.1:8170", "", false),
            ("10.0.0.1:8170", "10.0.0.1:8170", true),
            ("10.0.0.1:8170", "10.0.0.2:8170", false),
            ("0.0.0.0:8170", "10.0.0.2:8170", true),
            ("0.0.0.0:8170", "evil.example", false),
        ];
        for (bound, host, own) in cases {
            assert_eq!(is_own_host(host, bound.parse().unwrap(), None), own, "{host} at {bound}");
        }
    }
}
